"""A loader in torchtnt's `train` and `fit`.

    from headwater.integrations.torchtnt import ResumeCallback

    train(unit, loader, max_epochs=epochs, callbacks=[ResumeCallback()])
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import ConfigError

try:
    from torchtnt.framework.callback import Callback
except ModuleNotFoundError:  # Tools that read every module, such as stubtest, do not need it.
    Callback = object

__all__ = ["ResumeCallback"]


class ResumeCallback(Callback):
    """Makes a unit's epochs the loader's, and begins with the batch after the last one that the unit was trained on.

    Torchtnt sets the epoch of a `DistributedSampler` only, and its checkpoints at an epoch's end do not have the loader's
    state. An `AutoUnit` takes a batch in advance, so that a loader's state in a checkpoint is one batch ahead of the training.
    This callback goes by the unit's progress, which torchtnt's checkpoints always have. After a checkpoint of an epoch's last
    step, torchtnt ends that epoch first: with its evaluation, and `on_train_epoch_end` of the unit and of all callbacks.

    Raises `ConfigError` if the training data are not a `headwater.Loader` or a `headwater.torch.IterableDataset`.
    """

    # The unit whose method is covered by `_nothing_left`.
    _shadowed: Any = None

    def on_train_start(self, state: Any, unit: Any) -> None:
        """Goes to the place that the unit begins with."""
        progress = unit.train_progress
        loader = _loader(state)
        loader.seek(progress.num_epochs_completed, 0)
        if 0 < progress.num_steps_completed_in_epoch < len(loader):
            loader.seek(progress.num_epochs_completed, progress.num_steps_completed_in_epoch)
        elif progress.num_steps_completed_in_epoch:
            # Written after an epoch's last step, and before its end: torchtnt ends it where it finds no batch.
            unit.get_next_train_batch = _nothing_left
            self._shadowed = unit

    def on_train_epoch_start(self, state: Any, unit: Any) -> None:
        """Sets the epoch that begins."""
        _loader(state).sampler.set_epoch(unit.train_progress.num_epochs_completed)

    def on_train_epoch_end(self, state: Any, unit: Any) -> None:
        """Gives the unit its batches back, if it was resumed at an epoch's last step."""
        self._uncover()

    def on_train_end(self, state: Any, unit: Any) -> None:
        """The same where no epoch was left to end."""
        self._uncover()

    def on_exception(self, state: Any, unit: Any, exc: BaseException) -> None:
        """The same where the run fails."""
        self._uncover()

    def _uncover(self) -> None:
        unit, self._shadowed = self._shadowed, None
        if unit is not None:
            del unit.get_next_train_batch


def _nothing_left(state: Any, data_iter: Any) -> NoReturn:
    raise StopIteration


def _loader(state: Any) -> Any:
    data = state.train_state.dataloader
    loader = getattr(data, "loader", data)
    if hasattr(loader, "seek"):
        return loader
    raise ConfigError(
        f"ResumeCallback finds no headwater.Loader in torchtnt's {type(data).__name__}: give `train` the loader itself, or a "
        "headwater.torch.IterableDataset"
    )
