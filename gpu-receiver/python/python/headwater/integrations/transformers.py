"""A loader in `transformers.Trainer`.

    from headwater.integrations.transformers import ResumeCallback
    from headwater.torch import IterableDataset
    from torch.utils.data import DataLoader

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return DataLoader(IterableDataset(loader), batch_size=None)

    trainer = Trainer(model, arguments, train_dataset=loader.dataset, callbacks=[ResumeCallback()])
    trainer.train(resume_from_checkpoint=True)
"""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError
from ..torch import IterableDataset

try:
    from transformers import TrainerCallback
except ModuleNotFoundError:  # Tools that read every module, such as stubtest, do not need it.
    TrainerCallback = object

__all__ = ["ResumeCallback"]


class ResumeCallback(TrainerCallback):
    """Makes a Trainer's epochs the loader's, and begins with the batch after a checkpoint's last one.

    The Trainer counts the batches of a resumed epoch and drops those that were trained on. It does not set the epoch of a
    DataLoader over an iterable dataset. This callback does, and hands out what is dropped without reading it. With
    `ignore_data_skip=True` a resumed epoch begins with its first batch again, as the Trainer's documentation says.

    Raises `ConfigError` if `get_train_dataloader` does not return a DataLoader over a `headwater.torch.IterableDataset`.
    """

    def __init__(self) -> None:
        self._dataset: IterableDataset | None = None
        self._epoch = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        """Goes to the place that the Trainer begins with."""
        dataset = getattr(train_dataloader, "dataset", None)
        if not isinstance(dataset, IterableDataset):
            raise ConfigError(
                "ResumeCallback finds no headwater.torch.IterableDataset in the Trainer's DataLoader: return "
                "`DataLoader(IterableDataset(loader), batch_size=None)` from `get_train_dataloader`"
            )
        self._dataset = dataset
        self._epoch, step = trained(args, state, len(dataset))
        dataset._follow(self._epoch, 0 if args.ignore_data_skip else step)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Sets the epoch that begins."""
        if self._dataset is not None:
            self._dataset.sampler.set_epoch(self._epoch)
            self._epoch += 1


def trained(args: Any, state: Any, steps: int) -> tuple[int, int]:
    """Epochs that a Trainer has trained, and batches of the next one, where an epoch has this number of steps."""
    accumulated = args.gradient_accumulation_steps
    # As the Trainer counts: the last update of an epoch may have fewer batches.
    updates = max(-(-steps // accumulated), 1)
    epoch, update = divmod(state.global_step, updates)
    return epoch, update * accumulated
