"""A `headwater.Loader` as a dataset of PyTorch.

    from headwater.torch import IterableDataset
    from torch.utils.data import DataLoader

    batches = DataLoader(IterableDataset(loader), batch_size=None, num_workers=0)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

from torch.utils import data
from torch.utils.data._utils.collate import default_collate_fn_map

from . import Batch, Loader
from .errors import ConfigError, ForkError
from .sampling import BatchIterator, LoaderWrapper
from .torch_batch import TorchBatch

__all__ = ["IterableDataset"]

_IN_WORKER = (
    "a headwater.Loader cannot be used in the workers of a DataLoader: its threads and its memory are this "
    "process's, and have batches ready without them; set num_workers=0"
)
# Accelerate's classes that cut batches along the first axis, on which crop-major tensors have different lengths.
_DIVIDERS = ("DataLoaderDispatcher", "IterableDatasetShard")
_DIVIDED = (
    "Accelerate would divide batches that are this rank's already, and cut off views: leave the DataLoader out of "
    "accelerator.prepare() and use batch.to(accelerator.device); in a single process "
    "DataLoaderConfiguration(dispatch_batches=False) will do"
)
_NOT_FOLLOWED = (
    "transformers' Trainer resumes a run, and does not set the epoch of a DataLoader over an iterable dataset: give it "
    "`callbacks=[headwater.integrations.transformers.ResumeCallback()]`"
)


class IterableDataset(LoaderWrapper, data.IterableDataset):
    """Whole batches of a loader, as `headwater.TorchBatch`.

    Use it in `DataLoader(dataset, batch_size=None, num_workers=0)`, or in torchdata's `StatefulDataLoader` with the
    same arguments. Lightning accepts these, and the dataset itself. Epochs and states are the loader's.

    An iteration raises `ForkError` in a DataLoader's worker, and `ConfigError` if Accelerate would divide batches, or if
    transformers' Trainer resumes and nothing has set its epoch.
    """

    def __init__(self, loader: Loader):
        if not isinstance(loader, Loader):
            raise TypeError(f"IterableDataset(loader): give a headwater.Loader, not {type(loader).__name__}")
        super().__init__(loader)
        # Batches of the next iteration that Accelerate drops, because they were trained on.
        self._dropped = 0
        self._is_followed = False
        # Whether the epoch of the next iteration was set here.
        self._is_placed = False
        # State of the Trainer that has begun with the right epoch.
        self._begun: Any = None

    def __iter__(self) -> Iterator[TorchBatch]:
        if data.get_worker_info() is not None:
            raise ForkError(_IN_WORKER)
        if any(type(one).__name__ in _DIVIDERS for one in _accelerators()):
            raise ConfigError(_DIVIDED)
        skippers = [one for one in _accelerators() if getattr(one, "skip_batches", 0)]
        if not self._is_followed:
            self._check_trainer(skippers)
        self._is_placed = False
        dropped, self._dropped = self._dropped, 0
        return _Batches(self.loader, min([dropped, *(one.skip_batches for one in skippers)]) if skippers else 0)

    def _check_trainer(self, skippers: list[Any]) -> None:
        """That a Trainer which resumes begins with its own epoch."""
        trainer = _trainer()
        if trainer is None or trainer.state is self._begun:
            return
        drops = any(not hasattr(one, "set_epoch") for one in skippers)
        if drops or (self._is_trained_by(trainer) and not self._is_at(trainer)):
            raise ConfigError(_NOT_FOLLOWED)
        self._begun = trainer.state

    def _is_trained_by(self, trainer: Any) -> bool:
        """Whether these are the data of its training; it evaluates on others meanwhile."""
        training = getattr(getattr(trainer, "callback_handler", None), "train_dataloader", None)
        return getattr(training, "dataset", None) is self

    def _is_at(self, trainer: Any) -> bool:
        """Whether the next iteration is over the epoch that it begins with."""
        # A run that begins anew takes any epoch.
        if self._is_placed or trainer.state.global_step == 0:
            return True
        # It needs this module, and transformers, which are both there by now.
        from .integrations.transformers import trained

        epoch, _ = trained(trainer.args, trainer.state, len(self))
        return self.loader.epoch == epoch

    def _follow(self, epoch: int, step: int) -> None:
        """Goes where a framework goes that drops the first batches of an epoch by itself."""
        self._is_followed = True
        self._dropped = step
        self.loader.seek(epoch, step)

    def set_epoch(self, epoch: int) -> None:
        """As in `headwater.sampling.LoaderWrapper`."""
        super().set_epoch(epoch)
        self._is_placed = True

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next iteration continue where the state was taken."""
        super().load_state_dict(state_dict)
        self._is_placed = True

    def __reduce__(self) -> NoReturn:
        # If workers are not forked, the dataset is sent to them.
        raise ForkError(_IN_WORKER)


class _Batches(BatchIterator):
    """An iteration whose first batch also stands for those that Accelerate drops: nothing is read for them."""

    def __init__(self, loader: Loader, dropped: int):
        super().__init__(loader, self._to_torch)
        self._dropped = dropped

    def _to_torch(self, batch: Batch) -> TorchBatch:
        tensors = batch.torch()
        if self._dropped > 0:
            self._dropped -= 1
            self._kept.append(batch)
        return tensors


def _frames() -> Iterator[FrameType]:
    """The calls that have led here."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _accelerators() -> list[Any]:
    """The data loaders of Accelerate that request the batches."""
    frames = [frame for frame in _frames() if frame.f_globals.get("__name__") == "accelerate.data_loader"]
    return [frame.f_locals.get("self") for frame in frames]


def _trainer() -> Any:
    """The Trainer of transformers that requests the batches."""
    frames = [frame for frame in _frames() if frame.f_globals.get("__name__") == "transformers.trainer"]
    callers = (frame.f_locals.get("self") for frame in frames)
    return next((caller for caller in callers if hasattr(caller, "state")), None)


def _refuse_to_collate(batches: list[TorchBatch], **_: Any) -> NoReturn:
    raise ConfigError("headwater's batches are whole already: give the DataLoader batch_size=None")


default_collate_fn_map[TorchBatch] = _refuse_to_collate
