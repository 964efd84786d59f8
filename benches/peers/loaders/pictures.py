"""Decoding and augmentation by torchvision on Pillow images: PyTorch's own random numbers."""

import io
import itertools

import torch
from PIL import Image
from torch.utils.data import default_collate
from torchvision import transforms

from loaders import Stateful


class Augment:
    """A JPEG to `u8[3, size, size]`: a random resized crop, and a flip for half of the images."""

    def __init__(self, size):
        self.transform = transforms.Compose([
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ])  # fmt: skip

    def __call__(self, jpeg):
        return self.transform(Image.open(io.BytesIO(jpeg)).convert("RGB"))


def collated(samples):
    """A batch of samples (id, image)."""
    return default_collate(samples)


def numpy(batch):
    ids, images = batch
    return ids.numpy(), images.numpy()


def join_group(rank, world):
    """Libraries that ask torch.distributed for the rank; its address comes from the environment."""
    if world > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", rank=rank, world_size=world)


class OnTorch(Stateful):
    """A loader whose `self.loader` is a DataLoader."""

    # Its set_epoch() learns the epoch, if it is not None.
    counts_epochs = None

    def batches(self):
        for epoch in itertools.count():
            if self.counts_epochs is not None:
                self.counts_epochs.set_epoch(epoch)
            yield from map(numpy, self.loader)
