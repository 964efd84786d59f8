"""The API of dino_loader: scripts for it run after changing one import.

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
