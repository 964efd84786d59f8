"""Ready batches for training, in order, as tensors that share the receiver's memory.

    import headwater

    loader = headwater.Loader("photos/", recipe="dinov2", batch_size=32)
    for batch in loader:
        crops = batch.global_crops.torch()
"""

from . import _scripts, errors, fp8  # noqa: F401: it looks where things are before there are threads
from ._native import (
    Batch,
    Iteration,
    Loader,
    Packed,
    Renderer,
    Sample,
    Tensor,
    Trace,
    __version__,
    decode,
    render,
)
from ._transforms import recipe_from
from .combined import CombinedLoader
from .errors import (
    BadSample,
    BusyError,
    ClosedError,
    ConfigError,
    DeviceError,
    ForkError,
    HeadwaterError,
    ImageError,
    LinkError,
    MessageError,
    SlotsError,
    StateError,
    StorageError,
    WorkerError,
)
from .notebook import Stats
from .torch_batch import TorchBatch

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
