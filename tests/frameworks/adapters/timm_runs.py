"""Training as in timm's train.py, which is not part of its package: with timm's loader, or with Headwater's."""

from __future__ import annotations

import sys
from pathlib import Path

import timm.data
import timm.utils
import torch
from timm.data import FastCollateMixup, Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models import resume_checkpoint

from .figures import BATCH, EPOCHS, Log

SIDE = 32
#: timm's own loader without its prefetcher, which erases a sample before it is mixed, as Headwater does.
ERASING_FIRST = "upstream, erasing first"
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)
CLASSES = 256
AUGMENTED = {
    # Not m9: Pillow 13 refuses what timm 1.0.31 then asks of it, to leave no bit.
    "auto_augment": "rand-m5-mstd0.5-inc1",
    "re_prob": 0.25,
    "re_mode": "pixel",
    "vflip": 0.1,
    "interpolation": "random",
}


def create(kind: str, folder: Path, seed: int = 0, **arguments):
    """The same call of either `create_loader`."""
    arguments = {"input_size": (3, SIDE, SIDE), "batch_size": BATCH, "device": torch.device("cpu"), "num_workers": 0, **arguments}
    if kind == ERASING_FIRST:
        arguments["use_prefetcher"] = False
    if kind in ("upstream", ERASING_FIRST):
        return timm.data.create_loader(timm.data.ImageDataset(str(folder)), **arguments)
    from headwater.integrations.timm import create_loader

    return create_loader(str(folder), **arguments, seed=seed, embedded="threads")


def close(loader) -> None:
    if hasattr(loader, "close"):
        loader.close()


def mixup(kind=FastCollateMixup):
    return kind(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=CLASSES)


def network():
    size = {"img_size": SIDE, "patch_size": 8, "embed_dim": 24, "depth": 1, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=CLASSES, **size)
    return model, torch.optim.AdamW(model.parameters(), lr=2e-3)


def losses(kind: str, folder: Path, seed: int, steps: int) -> list[float]:
    timm.utils.random_seed(seed)
    model, optimizer = network()
    erases_first = kind == ERASING_FIRST
    loader = create(kind, folder, seed, is_training=True, collate_fn=None if erases_first else mixup(), **AUGMENTED)
    mixup_fn, loss_fn, found = mixup(Mixup) if erases_first else None, SoftTargetCrossEntropy(), []
    while len(found) < steps:
        for images, targets in loader:
            if mixup_fn is not None:
                images, targets = mixup_fn(images, targets)
            loss = loss_fn(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    close(loader)
    return found[:steps]


def train(kind: str, folder: Path, out: Path, kill_after: int) -> None:
    """Two epochs; a class is a photograph. timm's recovery checkpoints, and next to them the loader's state."""
    timm.utils.random_seed(0)
    model, optimizer = network()
    loader, log = create(kind, folder, is_training=True), Log(out, kill_after)
    saver = timm.utils.CheckpointSaver(model, optimizer, checkpoint_dir=str(out), recovery_dir=str(out))
    first, state = 0, out / "loader.pt"
    if not kill_after:
        path = max(out.glob("recovery-*.pth.tar"), key=lambda path: path.stat().st_mtime_ns)
        first = resume_checkpoint(model, str(path), optimizer)
        if kind == "headwater":
            first = loader.resume(torch.load(state))

    def save():
        saver.save_recovery(epoch, batch_idx=number)
        if kind == "headwater":
            torch.save(loader.state_dict(), state)

    for epoch in range(first, EPOCHS):
        for number, (images, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.trained(epoch, labels.tolist(), save)
    close(loader)


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
