"""The API of dino_loader: a script written for it runs with this one import changed.

    from headwater.dino import DatasetSpec, DINOAugConfig, DINODataLoader, LoaderConfig, slurm_init

    env = slurm_init()
    loader = DINODataLoader([DatasetSpec("photos", shards=["photos/*.tar"])], batch_size=64,
                            device_id=env.local_rank, resume=True)
"""

from ..distributed import slurm_init, verify_interconnect
from .augment import DINOAugConfig
from .batch import DINOBatch
from .loader import DINODataLoader
from .specs import DatasetSpec, LoaderConfig

__all__ = [
    "DINOAugConfig",
    "DINOBatch",
    "DINODataLoader",
    "DatasetSpec",
    "LoaderConfig",
    "slurm_init",
    "verify_interconnect",
]
