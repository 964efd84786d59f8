"""A loader in torchtnt's `train` and `fit`.

    from headwater.integrations.torchtnt import ResumeCallback

    train(unit, loader, max_epochs=epochs, callbacks=[ResumeCallback()])
"""

from __future__ import annotations

from typing import Any

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
    This callback goes by the unit's progress, which torchtnt's checkpoints always have.

    Raises `ConfigError` if the training data are not a `headwater.Loader` or a `headwater.torch.IterableDataset`.
    """

    def on_train_start(self, state: Any, unit: Any) -> None:
        """Goes to the place that the unit begins with."""
        progress = unit.train_progress
        loader = _loader(state)
        loader.seek(progress.num_epochs_completed, 0)
        if 0 < progress.num_steps_completed_in_epoch < len(loader):
            loader.seek(progress.num_epochs_completed, progress.num_steps_completed_in_epoch)
        elif progress.num_steps_completed_in_epoch:
            # Written after an epoch's last step, and before its end: nothing of it is left.
            progress.increment_epoch()
            unit.on_train_epoch_end(state)
            loader.seek(progress.num_epochs_completed, 0)

    def on_train_epoch_start(self, state: Any, unit: Any) -> None:
        """Sets the epoch that begins."""
        _loader(state).sampler.set_epoch(unit.train_progress.num_epochs_completed)


def _loader(state: Any) -> Any:
    data = state.train_state.dataloader
    loader = getattr(data, "loader", data)
    if hasattr(loader, "seek"):
        return loader
    raise ConfigError(
        f"ResumeCallback finds no headwater.Loader in torchtnt's {type(data).__name__}: give `train` the loader itself, or a "
        "headwater.torch.IterableDataset"
    )
