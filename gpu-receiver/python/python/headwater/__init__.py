"""Ready batches for training, in order, as tensors that share the receiver's memory.

    import headwater

    loader = headwater.Loader("headwater.toml")
    for batch in loader:
        crops = batch.global_crops.torch()
"""

from . import errors, fp8
from ._native import Batch, Iteration, Loader, Tensor, __version__
from .errors import (
    BusyError,
    ClosedError,
    ConfigError,
    DeviceError,
    ForkError,
    HeadwaterError,
    LinkError,
    SlotsError,
    StateError,
    StorageError,
    WorkerError,
)

__all__ = [
    "Batch",
    "BusyError",
    "ClosedError",
    "ConfigError",
    "DeviceError",
    "ForkError",
    "HeadwaterError",
    "Iteration",
    "LinkError",
    "Loader",
    "SlotsError",
    "StateError",
    "StorageError",
    "Tensor",
    "WorkerError",
    "__version__",
    "errors",
    "fp8",
]
