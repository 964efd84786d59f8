from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Optional, Union

from .. import Batch, Loader
from ..distributed import slurm_init as slurm_init
from ..distributed import verify_interconnect as verify_interconnect

__all__ = [
    "DINOAugConfig",
    "DINOBatch",
    "DINODataLoader",
    "DatasetSpec",
    "LoaderConfig",
    "slurm_init",
    "verify_interconnect",
]

_Pair = tuple[float, float]
_Triple = tuple[float, float, float]
_Addresses = Union[str, Sequence[str], None]

@dataclass
class DatasetSpec:
    """A dataset: its shards and its share in the mix."""

    name: str
    shards: Sequence[str] = ...
    weight: float = 1.0

@dataclass
class LoaderConfig:
    """Settings of a `DINODataLoader`, with the names and defaults of dino_loader."""

    node_shm_gb: float = 128.0
    shard_prefetch_window: int = 64
    shard_timeout_s: float = 300.0
    shard_extraction_workers: int = 4
    dali_cpu_queue: int = 8
    dali_gpu_queue: int = 6
    dali_num_threads: int = 8
    hw_decoder_load: float = 0.9
    use_fp8_output: bool = True
    output_dtype: Literal["bf16", "fp32"] = "bf16"
    checkpoint_dir: str = "/checkpoint/dino/dl"
    checkpoint_every_steps: int = 500
    force_topology: Optional[Literal["nvl72", "pcie"]] = None
    seed: int = 0
    shuffle_buffer: int = 2000

@dataclass
class DINOAugConfig:
    """DINOv2's views; subclass it, or use any object with these fields."""

    n_global_crops: int = 2
    n_local_crops: int = 8
    global_crop_size: int = 224
    local_crop_size: int = 96
    global_crops_scale: _Pair = (0.32, 1.0)
    local_crops_scale: _Pair = (0.05, 0.32)
    solarize_prob: float = 0.2
    mean: _Triple = (0.485, 0.456, 0.406)
    std: _Triple = (0.229, 0.224, 0.225)

    def __init_subclass__(cls, **options: Any) -> None: ...
    def recipe(self, dtype: str) -> dict[str, Any]: ...

@dataclass(frozen=True)
class DINOBatch:
    """Crops of a batch, one `torch.Tensor` of shape [batch, 3, size, size] for each view."""

    global_crops: list[Any]
    local_crops: list[Any]
    labels: Any
    batch: Batch

class DINODataLoader:
    """Batches of crops for DINO training, in the form of dino_loader."""

    loader: Loader

    def __init__(
        self,
        specs: Iterable[DatasetSpec],
        batch_size: int,
        # Or any object with its fields.
        aug_cfg: Union[DINOAugConfig, Any, None] = None,
        config: Optional[LoaderConfig] = None,
        # A GPU's number, or a device by its name.
        device_id: Any = 0,
        steps_per_epoch: Optional[int] = None,
        resume: bool = False,
        *,
        storage: _Addresses = None,
        workers: _Addresses = None,
        # Other keywords of headwater.Loader.
        **options: Any,
    ) -> None: ...
    def __iter__(self) -> Iterator[DINOBatch]: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> DINODataLoader: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]] = None,
        error: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None: ...
    @property
    def epoch(self) -> int: ...
    def set_epoch(self, epoch: int) -> None: ...
    def checkpoint(self, step: int) -> None: ...
    def set_weights(self, weights: Sequence[float]) -> None: ...
    def set_weight_by_name(self, name: str, weight: float) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...
