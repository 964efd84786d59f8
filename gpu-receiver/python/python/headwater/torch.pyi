from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from torch.utils import data

from . import Loader
from .sampling import LoaderWrapper
from .torch_batch import TorchBatch

__all__ = ["IterableDataset"]

class IterableDataset(LoaderWrapper, data.IterableDataset[TorchBatch]):
    """Whole batches of a loader, for a DataLoader with `batch_size=None` and `num_workers=0`."""

    def __init__(self, loader: Loader) -> None: ...
    def __iter__(self) -> Iterator[TorchBatch]: ...
    def set_epoch(self, epoch: int) -> None: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None: ...
    def __reduce__(self) -> NoReturn: ...
