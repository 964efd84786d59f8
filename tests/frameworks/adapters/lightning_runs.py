"""Lightning's Trainer, on the processor: with PyTorch's DataLoader, or with the lines of docs/integrations/lightning.md."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from . import classification
from .figures import BATCH, EPOCHS, SAVED_EVERY, Log

warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def create(kind: str, folder: Path, seed: int = 0):
    if kind == "upstream":
        return DataLoader(classification.dataset(folder), batch_size=BATCH, shuffle=True, drop_last=True)
    return classification.loader(folder, seed)


class Network(lightning.LightningModule):
    """A small network; `trained` takes the loss and the labels of each step, after its checkpoint is written."""

    def __init__(self, trained):
        super().__init__()
        first = (torch.nn.Conv2d(3, 16, 4, 4), torch.nn.BatchNorm2d(16), torch.nn.ReLU())
        second = (torch.nn.Conv2d(16, 32, 3, 2, 1), torch.nn.BatchNorm2d(32), torch.nn.ReLU())
        self.layers = torch.nn.Sequential(*first, *second, torch.nn.Flatten(), torch.nn.LazyLinear(classification.CLASSES))
        self.layers(torch.zeros(2, 3, classification.SIDE, classification.SIDE))
        self._trained = trained

    def training_step(self, batch, _):
        # As the page has it; PyTorch's DataLoader gives a pair.
        images, labels = (batch.images, batch.labels) if isinstance(batch, dict) else batch
        return torch.nn.functional.cross_entropy(self.layers(images), labels)

    def on_train_batch_end(self, outputs, batch, _):
        labels = batch.labels if isinstance(batch, dict) else batch[1]
        self._trained(self, outputs["loss"].item(), labels.tolist())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def fit(kind: str, folder: Path, trained, seed: int = 0, resume: Path | None = None, **options) -> Network:
    lightning.seed_everything(seed, verbose=False)
    network, batches = Network(trained), create(kind, folder, seed)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        enable_checkpointing="callbacks" in options,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(network, batches, ckpt_path=resume)
    close(batches)
    return network


def close(batches) -> None:
    if hasattr(batches, "close"):
        batches.close()


def losses(kind: str, folder: Path, seed: int, steps: int) -> list[float]:
    found: list[float] = []
    fit(kind, folder, lambda network, loss, labels: found.append(loss), seed, max_steps=steps, max_epochs=-1)
    return found


def train(kind: str, folder: str, out: Path, kill_after: int) -> None:
    """Two epochs; a class is a photograph. Checkpoints are Lightning's."""
    log = Log(out, kill_after)
    saver = ModelCheckpoint(out / "checkpoints", every_n_train_steps=SAVED_EVERY, save_top_k=-1)
    resume = None if kill_after else max((out / "checkpoints").glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns)

    def trained(network, _, labels):
        log.trained(network.current_epoch, labels, lambda: None)

    network = fit(kind, Path(folder), trained, resume=resume, max_epochs=EPOCHS, callbacks=[saver])
    torch.save(network.state_dict(), out / "weights.pt")


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
