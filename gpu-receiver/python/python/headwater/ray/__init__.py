"""Storage nodes and augment workers on a Ray cluster, for loaders on its nodes.

    import headwater

    with headwater.ray.start({"photos": "/data/photos-*.tar"}, workers=8, worker_options={"num_cpus": 4}):
        loader = headwater.Loader(ray="headwater", datasets="photos", recipe="dinov2", batch_size=64)

Ray is imported only when a function is called.
"""

from ._service import Addresses, Service, get, services, start

__all__ = ["Addresses", "Service", "get", "services", "start"]
