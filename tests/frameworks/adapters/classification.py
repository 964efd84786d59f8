"""Classes of photographs for trainers that take any loader: torchvision's dataset for PyTorch's own, and Headwater's beside it."""

from __future__ import annotations

import warnings
from pathlib import Path

import headwater
import torch
from torchvision import datasets, transforms

from .figures import BATCH

SIDE = 32
#: As many as photographs, for runs in which each has its own.
CLASSES = 256
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)


def dataset(folder: Path) -> datasets.ImageFolder:
    """As examples of both trainers make it."""
    steps = [
        transforms.RandomResizedCrop(SIDE, interpolation=transforms.InterpolationMode.BICUBIC),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(_MEAN, _STD),
    ]
    return datasets.ImageFolder(str(folder), transform=transforms.Compose(steps))


def loader(folder: Path, seed: int) -> headwater.Loader:
    """The same crops, flips and colours by the preset."""
    recipe = {"preset": "imagenet-train", "image_size": SIDE, "dtype": "f32"}
    # It says that images are smaller than the published ones.
    warnings.filterwarnings("ignore", message="the recipe is `imagenet-train`")
    return headwater.Loader(folder, recipe=recipe, batch_size=BATCH, seed=seed, embedded="threads")
