"""The Trainer of transformers, on the processor: with its own DataLoader, or with the lines of docs/integrations/transformers.md."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

# No hub is asked.
os.environ["HF_HUB_OFFLINE"] = "1"

import headwater.integrations.transformers
import torch
import transformers
from torch.utils.data import DataLoader
from transformers.utils import logging

from . import classification
from .figures import BATCH, EPOCHS, SAVED_EVERY, Log

logging.set_verbosity_error()


def stacked(examples):
    """As in the Trainer's example of image classification."""
    return {"pixel_values": torch.stack([image for image, _ in examples]), "labels": torch.tensor([label for _, label in examples])}


def collate(batch):
    """What takes its place on the page."""
    return {"pixel_values": batch.images, "labels": batch.labels}


def network() -> transformers.ResNetForImageClassification:
    """One whose checkpoints have the names of the model."""
    size = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}
    config = transformers.ResNetConfig(**size, num_labels=classification.CLASSES)
    return transformers.ResNetForImageClassification(config)


class Watcher(transformers.TrainerCallback):
    """Calls `trained` after each step, once its checkpoint is written."""

    def __init__(self, trained):
        self._trained = trained

    def on_step_end(self, args, state, control, **_):
        if not control.should_save:
            self._trained()

    def on_save(self, args, state, control, **_):
        self._trained()


class Noting(transformers.Trainer):
    """A Trainer that keeps the epoch, the loss and the labels of its last step."""

    last: tuple[int, float, list[int]]

    def training_step(self, model, inputs, *others, **options):
        # The state's epoch is a part of one, of the steps before.
        epoch = int(self.state.epoch or 0)
        loss = super().training_step(model, inputs, *others, **options)
        self.last = epoch, loss.item(), inputs["labels"].tolist()
        return loss


def trainer(kind: str, folder: Path, out: Path, trained, seed: int = 0, **settings) -> Noting:
    """`trained` takes the epoch, the loss and the labels of each step."""
    arguments = transformers.TrainingArguments(
        str(out),
        per_device_train_batch_size=BATCH,
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        seed=seed,
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
        **settings,
    )
    transformers.set_seed(seed)
    watcher = Watcher(lambda: trained(*made.last))
    if kind == "upstream":
        dataset = classification.dataset(folder)
    else:
        dataset = headwater.torch.IterableDataset(classification.loader(folder, seed))
    made = Noting(network(), arguments, train_dataset=dataset, data_collator=stacked)
    if kind == "headwater":
        made.get_train_dataloader = lambda: DataLoader(dataset, batch_size=None, collate_fn=collate)
        made.add_callback(headwater.integrations.transformers.ResumeCallback())
    made.add_callback(watcher)
    # It prints each training's times.
    made.remove_callback(transformers.PrinterCallback)
    return made


def close(made: Noting) -> None:
    if hasattr(made.train_dataset, "close"):
        made.train_dataset.close()


def losses(kind: str, folder: Path, seed: int, steps: int) -> list[float]:
    found: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        settings = {"max_steps": steps, "save_strategy": "no"}
        made = trainer(kind, folder, Path(scratch), lambda epoch, loss, labels: found.append(loss), seed, **settings)
        made.train()
        close(made)
    return found


def train(kind: str, folder: str, out: Path, kill_after: int) -> None:
    """Two epochs; a class is a photograph. Checkpoints are the Trainer's."""
    log = Log(out, kill_after)

    def trained(epoch, _, labels):
        log.trained(epoch, labels, lambda: None)

    settings = {"num_train_epochs": EPOCHS, "save_strategy": "steps", "save_steps": SAVED_EVERY}
    made = trainer(kind, Path(folder), out / "checkpoints", trained, **settings)
    made.train(resume_from_checkpoint=not kill_after)
    close(made)
    torch.save(made.model.state_dict(), out / "weights.pt")


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
