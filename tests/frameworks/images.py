"""A folder of images, and two loaders over it: Headwater's and PyTorch's.

Image i has the label i and one grey level that follows from i, so that a training step can tell which samples it got.
"""

from __future__ import annotations

import os
from pathlib import Path

import headwater
import torch
from PIL import Image
from torch import distributed
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SAMPLES = 64
BATCH = 4
SEED = 7
SIDE = 8


def write(folder: Path) -> Path:
    """A folder for each class, with one image in each."""
    for number in range(SAMPLES):
        of_class = folder / f"class-{number:03}"
        of_class.mkdir(parents=True)
        Image.new("RGB", (SIDE, SIDE), (grey(number),) * 3).save(of_class / "image.png")
    return folder


def grey(number: int) -> int:
    return 3 * number + 5


def recipe(views: int) -> dict:
    view = {"crop": {"kind": "center_after_resize", "resize": SIDE}}
    images = {"name": "images", "dtype": "f32", "height": SIDE, "width": SIDE, "views": [view] * views}
    return {"mean": [0.0] * 3, "std": [1.0] * 3, "tensors": [images]}


def loader(folder: Path, views: int = 1, **options) -> headwater.Loader:
    """Headwater's loader of this rank. Ranks share the process that renders, as those of a job do."""
    if ranks()[1] == 1:
        options["embedded"] = "threads"
    return headwater.Loader(folder, recipe=recipe(views), batch_size=BATCH, seed=SEED, augment_threads=1, **options)


class Images(Dataset):
    """The same images for PyTorch's loader."""

    def __init__(self, folder: Path):
        self.paths = sorted(folder.glob("*/*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        with Image.open(self.paths[number]) as image:
            level = image.getpixel((0, 0))[0] / 255
        return torch.full((3, SIDE, SIDE), level), number


class NamedImages(Images):
    """The same as dicts."""

    def __getitem__(self, number):
        images, labels = super().__getitem__(number)
        return {"images": images, "labels": labels}


def ranks() -> tuple[int, int]:
    """This rank, and how many there are."""
    if distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    # Lightning's own launcher makes the group with the first `fit`.
    return 0, int(os.environ.get("RANKS_OF_TEST", 1))


def dataloader(dataset: Dataset, kind: type = DataLoader, **options) -> DataLoader:
    """PyTorch's loader of this rank, as its documentation has it: a DistributedSampler where there are ranks."""
    rank, world_size = ranks()
    if world_size == 1:
        return kind(dataset, batch_size=BATCH, shuffle=True, drop_last=True, **options)
    sampler = DistributedSampler(dataset, world_size, rank, seed=SEED, drop_last=True)
    return kind(dataset, batch_size=BATCH, sampler=sampler, drop_last=True, **options)


def unpacked(batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels of a batch of either loader."""
    if isinstance(batch, headwater.Batch):
        batch = batch.torch()
    return (batch["images"], batch["labels"]) if isinstance(batch, dict) else tuple(batch[:2])


def identities(images: torch.Tensor, labels: torch.Tensor) -> list[int]:
    """Numbers of the samples of a batch. Each image must be that of its label."""
    levels = images.float().mean(dim=(1, 2, 3)) * 255
    seen = [round((level - 5) / 3) for level in levels.tolist()]
    views = len(seen) // len(labels)
    assert seen == labels.tolist() * views, "an image is not that of its label"
    return labels.tolist()
