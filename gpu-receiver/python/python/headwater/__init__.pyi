import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn, Optional, Union, final

from . import errors as errors
from . import fp8 as fp8
from .combined import CombinedLoader as CombinedLoader
from .errors import BadSample as BadSample
from .errors import BusyError as BusyError
from .errors import ClosedError as ClosedError
from .errors import ConfigError as ConfigError
from .errors import DeviceError as DeviceError
from .errors import ForkError as ForkError
from .errors import HeadwaterError as HeadwaterError
from .errors import ImageError as ImageError
from .errors import LinkError as LinkError
from .errors import MessageError as MessageError
from .errors import SlotsError as SlotsError
from .errors import StateError as StateError
from .errors import StorageError as StorageError
from .errors import WorkerError as WorkerError
from .notebook import Stats as Stats
from .sampling import BatchSampler, Dataset, Sampler
from .torch_batch import TorchBatch as TorchBatch

__all__ = [
    "BadSample",
    "Batch",
    "BusyError",
    "ClosedError",
    "CombinedLoader",
    "ConfigError",
    "DeviceError",
    "ForkError",
    "HeadwaterError",
    "ImageError",
    "Iteration",
    "LinkError",
    "Loader",
    "MessageError",
    "Packed",
    "Renderer",
    "Sample",
    "SlotsError",
    "StateError",
    "Stats",
    "StorageError",
    "Tensor",
    "TorchBatch",
    "Trace",
    "WorkerError",
    "__version__",
    "decode",
    "errors",
    "fp8",
    "recipe_from",
    "render",
]

__version__: str

_Dtype = Literal["bf16", "f16", "f32", "u8", "fp8_e4m3", "mxfp8_e4m3", "e8m0", "i64", "bool"]
_Path = Union[str, os.PathLike[str]]
_Term = Literal[
    "seed",
    "order",
    "order-list",
    "shuffle-block",
    "global-batch",
    "world-size",
    "epoch-end",
    "weights",
    "manifest",
    "recipe",
]
# Paths, patterns or URLs.
_Data = Union[_Path, Sequence[_Path]]
_Dataset = Union[str, Mapping[str, Any], tuple[str, float]]

@final
class Tensor:
    """A read-only tensor, in C order. It keeps its memory, on the receiver's host or GPU, while it lives."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> _Dtype: ...
    @property
    def device(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def scale(self) -> float: ...
    @property
    def scale_inv(self) -> float: ...
    @property
    def amax(self) -> Optional[float]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def numpy(self) -> Any: ...
    def torch(self) -> Any: ...

@final
class Packed:
    """The texts or the bytes of a batch's samples, as a list; each object is made on access."""

    def __new__(cls, name: str, is_text: bool, data: bytes, offsets: Sequence[int]) -> Packed: ...

    @property
    def data(self) -> Tensor: ...
    @property
    def offsets(self) -> Tensor: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, index: Any, /) -> Any: ...

@final
class Sample:
    """A sample of a batch: its source, key and label."""

    def __new__(
        cls,
        dataset: str,
        shard: str,
        index: int,
        id: int,
        pass_index: int,
        key: str,
        label: int,
        substituted: Optional[str],
    ) -> Sample: ...

    @property
    def dataset(self) -> str: ...
    @property
    def shard(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def pass_index(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def label(self) -> int: ...
    @property
    def substituted(self) -> Optional[str]: ...

@final
class Batch:
    """A ready batch; its tensors are attributes and items with the names of the recipe."""

    def __iter__(self) -> NoReturn: ...

    global_crops: Tensor
    local_crops: Tensor
    gram_crops: Tensor
    images: Tensor
    # With dtype `mxfp8_e4m3`.
    global_crops_scales: Tensor
    local_crops_scales: Tensor
    gram_crops_scales: Tensor
    images_scales: Tensor
    # With recipe `raw`.
    image_bytes: Tensor
    image_sizes: Tensor
    labels: Tensor
    # With `receiver.masks`.
    masks: Tensor
    mask_indices: Tensor
    masks_weight: Tensor
    # With `receiver.patches`.
    masks_enc: Tensor
    masks_pred: Tensor
    patches_keep: Tensor
    patches_restore: Tensor
    # With `receiver.mixing`.
    mixing_partner: Tensor
    mixing_lam: Tensor
    mixing_box: Tensor

    @property
    def epoch(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def group(self) -> Optional[int]: ...
    @property
    def keys(self) -> list[str]: ...
    @property
    def samples(self) -> list[Sample]: ...
    @property
    def substituted(self) -> dict[int, str]: ...
    @property
    def digest(self) -> str: ...
    def contact_sheet(self, samples: int = 8) -> bytes: ...
    def _repr_html_(self) -> str: ...
    @property
    def upperbound(self) -> int: ...
    @property
    def n_masked_patches(self) -> int: ...
    @property
    def tensors(self) -> dict[str, Tensor]: ...
    def items(self) -> list[tuple[str, Tensor]]: ...
    def torch(self) -> TorchBatch: ...
    def to(self, device: Any, non_blocking: bool = False) -> TorchBatch: ...
    # A `Tensor`, or a `Packed` field of texts or bytes.
    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __len__(self) -> int: ...

@final
class Iteration:
    """An iterator over the batches of one epoch, or over the rest of it."""

    def __iter__(self) -> Iteration: ...
    def __next__(self) -> Batch: ...
    def close(self) -> None: ...

@final
class Trace:
    """A trace of what a loader's threads and services do, between `start` and `stop`."""

    @property
    def path(self) -> pathlib.Path: ...
    @property
    def trouble(self) -> Optional[str]: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def __enter__(self) -> Trace: ...
    def __exit__(
        self,
        exception_type: Optional[type[BaseException]] = None,
        exception: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
        /,
    ) -> None: ...

@final
class Loader:
    """Batches of a training rank, in order."""

    def __new__(
        cls,
        # Or the path of a configuration file, which ends with `.toml`.
        data: Union[_Data, Mapping[str, _Data], None] = None,
        batch_size: Optional[int] = None,
        *,
        config: Optional[_Path] = None,
        datasets: Union[str, Sequence[_Dataset], None] = None,
        recipe: Union[_Path, Mapping[str, Any], None] = None,
        # Or PyTorch's own, such as `torch.bfloat16`.
        dtype: Union[_Dtype, Any, None] = None,
        # What is chosen of a preset: sizes in pixels, scales as shares of the image's area.
        image_size: Optional[int] = None,
        resize_size: Optional[int] = None,
        crop_scale: Optional[Sequence[float]] = None,
        global_crops_size: Optional[int] = None,
        global_crops_scale: Optional[Sequence[float]] = None,
        local_crops_number: Optional[int] = None,
        local_crops_size: Optional[int] = None,
        local_crops_scale: Optional[Sequence[float]] = None,
        interpolation: Optional[Literal["bicubic", "bilinear", "box", "nearest", "random"]] = None,
        mean: Optional[Sequence[float]] = None,
        std: Optional[Sequence[float]] = None,
        exif_orientation: Optional[Literal["ignore", "apply"]] = None,
        job: Optional[str] = None,
        storage: Union[str, Sequence[str], None] = None,
        workers: Union[str, Sequence[str], None] = None,
        # In place of these: a service started by `headwater.ray.start`.
        ray: Optional[str] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        seed: Optional[int] = None,
        # Or numbers of samples: an array with one axis, or with two for a row per epoch.
        order: Union[Literal["global", "per-rank", "list"], Sequence[int], Any, None] = None,
        # Files or arrays.
        order_list: Union[_Path, Sequence[int], Any, None] = None,
        order_groups: Union[_Path, Sequence[int], Any, None] = None,
        order_weights: Union[_Path, Sequence[float], Any, None] = None,
        device: Any = None,
        device_allocator: Union[str, Callable[[int], Any], None] = None,
        amax_reduce: Optional[Callable[[list[float]], Sequence[float]]] = None,
        # With `data`.
        embedded: Optional[Literal["threads"]] = None,
        augment_threads: Optional[int] = None,
        progress: Optional[Callable[[int, int], object]] = None,
        # Every other key of [receiver]; docs/configuration.md lists them.
        **options: Any,
    ) -> Loader: ...
    def __iter__(self) -> Iteration: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Loader: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]] = None,
        error: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None: ...
    @property
    def epoch(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def weights(self) -> dict[str, float]: ...
    @property
    def datasets(self) -> dict[str, int]: ...
    @property
    def config(self) -> dict[str, Any]: ...
    @property
    def recipe(self) -> dict[str, Any]: ...
    @property
    def metrics_address(self) -> Optional[str]: ...
    def tuples(self) -> Iterator[tuple[Any, ...]]: ...
    def __getitem__(self, number: Any, /) -> NoReturn: ...
    @property
    def batch_sampler(self) -> BatchSampler: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def dataset(self) -> Dataset: ...
    @property
    def classes(self) -> Optional[list[str]]: ...
    @property
    def drop_last(self) -> bool: ...
    @property
    def num_workers(self) -> int: ...
    @property
    def sampler(self) -> Sampler: ...
    def epochs(self, end: int) -> Iterator[int]: ...
    def set_epoch(self, epoch: int) -> None: ...
    def _follow_epoch(self, epoch: int) -> None: ...
    def seek(self, epoch: int, step: int) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(
        self, state_dict: Mapping[str, Any], *, allow: Optional[Iterable[_Term]] = None
    ) -> None: ...
    def checkpoint(self, step: int) -> None: ...
    def set_weights(self, weights: Sequence[float]) -> None: ...
    def set_weight_by_name(self, name: str, weight: float) -> None: ...
    def set_workers(self, workers: Sequence[str]) -> None: ...
    def stats(self) -> Stats: ...
    def trace(self, path: _Path, *, bytes_max: Optional[int] = None) -> Trace: ...
    def close(self) -> None: ...

_Encoded = Union[bytes, bytearray, memoryview, _Path, Any]

@final
class Renderer:
    """Applies a recipe to images: the work of a worker, as a function."""

    def __new__(
        cls,
        recipe: Union[None, _Path, Mapping[str, Any]] = None,
        *,
        dtype: Any = None,
        seed: int = 0,
        threads: int = 1,
        group: Optional[int] = None,
    ) -> Renderer: ...
    def __call__(
        self,
        images: Iterable[_Encoded],
        *,
        ids: Optional[Sequence[int]] = None,
        epoch: int = 0,
        passes: Optional[Sequence[int]] = None,
        labels: Optional[Sequence[int]] = None,
    ) -> dict[str, Tensor]: ...
    def __getnewargs_ex__(self) -> tuple[tuple[Any], dict[str, Any]]: ...

def recipe_from(transforms: Any, *, name: str = "images", dtype: str = "f32") -> dict[str, Any]: ...
def render(
    images: Iterable[_Encoded],
    recipe: Union[None, _Path, Mapping[str, Any]] = None,
    *,
    dtype: Any = None,
    seed: int = 0,
    ids: Optional[Sequence[int]] = None,
    epoch: int = 0,
    passes: Optional[Sequence[int]] = None,
    labels: Optional[Sequence[int]] = None,
    threads: int = 1,
    group: Optional[int] = None,
) -> dict[str, Tensor]:
    """Renders images with a recipe: ``Renderer(recipe, ..)(images, ..)``."""

def decode(images: Iterable[_Encoded], *, threads: int = 1) -> list[Tensor]:
    """Decodes images to ``u8[height, width, 3]``, R G B."""
