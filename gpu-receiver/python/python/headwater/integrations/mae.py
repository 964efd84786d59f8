"""A `DataLoader` for MAE's `main_pretrain.py`, over a `headwater.Loader`.

    from headwater.integrations.mae import DataLoader

    data_loader_train = DataLoader(dataset_train, sampler=sampler_train, batch_size=64, num_workers=10, drop_last=True)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch

from .. import Loader, recipe_from
from ..errors import ConfigError
from ..sampling import BatchIterator, DataLoaderWrapper
from ._opening import refuse, source

__all__ = ["DataLoader"]

_SAMPLERS = "give a DistributedSampler, a RandomSampler or a SequentialSampler, or the numbers of samples as `order=`"


class DataLoader(DataLoaderWrapper):
    """Batches `(samples, target)`: `float32[batch, 3, height, width]` and `int64[batch]`.

    Args:
        dataset: torchvision's `ImageFolder`. Its folder and its transform are read. Or a path, a pattern or a URL, as for
            `headwater.Loader`; with `storage`, `workers` or `ray`, the name of a dataset of the cluster.
        batch_size: samples in this rank's batch.
        sampler: torch's `DistributedSampler`, whose ranks, seed and `shuffle` are read, `RandomSampler` or `SequentialSampler`.
        shuffle: without a sampler, whether samples come in a new order in each epoch.
        num_workers: threads that render, if the loader has services of its own.
        drop_last: whether a last batch that is not full is left out.
        transform: the transform of images whose dataset is a path.
        options: further keywords of `headwater.Loader`, such as `seed`. They override what is read.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        sampler: Any = None,
        shuffle: bool = False,
        num_workers: int = 0,
        drop_last: bool = False,
        transform: Any = None,
        **options: Any,
    ) -> None:
        keywords: dict[str, Any] = {"batch_size": batch_size, "epoch_end": "drop_last" if drop_last else "short_last", **_order(sampler, shuffle)}
        folder = dataset if _is_folder(dataset) else None
        if folder is not None:
            _check_folder(folder, transform)
            transform = folder.transform
        if "recipe" not in options:
            if transform is None:
                raise ConfigError("`transform` is not given: give the dataset's own, or `recipe={..}`")
            keywords["recipe"] = recipe_from(transform)
        data = dataset if folder is None else os.fspath(folder.root)
        super().__init__(Loader(**{**source(data, num_workers, options), **keywords, **options}))
        if folder is not None:
            self._check_samples(folder, is_whole=not options.get("filters"))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return BatchIterator(self.loader, _pair)

    def _check_samples(self, folder: Any, is_whole: bool) -> None:
        """That images and the numbers of classes are those of the folder, as torchvision has read it; of a filtered one the classes."""
        classes = self.loader.classes
        for what, theirs, ours in (("images", len(folder), len(self.loader.dataset)), ("classes", list(folder.classes), classes)):
            is_known = is_whole if what == "images" else ours is not None
            if is_known and theirs != ours:
                self.close()
                raise ConfigError(f"`dataset` has the {what} {theirs}, and the loader {ours}: give the path of the images in place of it")


def _pair(batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    tensors = batch.torch()
    return tensors["images"], tensors["labels"]


def _is_folder(dataset: Any) -> bool:
    return any(one.__name__ == "ImageFolder" for one in type(dataset).__mro__)


def _check_folder(folder: Any, transform: Any) -> None:
    """That nothing in a dataset of torchvision would be left out."""
    kind = type(folder).__name__
    if transform is not None:
        raise ConfigError(f"`transform` and `dataset` are both given, and the {kind} has a transform of its own: leave one out")
    if getattr(folder, "target_transform", None) is not None:
        refuse("target_transform", kind, "labels are class numbers: change them in the training loop")
    if getattr(getattr(folder, "loader", None), "__name__", "default_loader") != "default_loader":
        refuse("loader", kind, "images are decoded as Pillow does: leave it out")


def _order(sampler: Any, shuffle: bool) -> dict[str, Any]:
    """Keywords of a sampler of torch."""
    if sampler is None:
        return {"rank": 0, "world_size": 1, **({} if shuffle else {"shuffle_block": 0})}
    if shuffle:
        raise ConfigError("`sampler` and `shuffle` are both given: leave one out")
    kind = type(sampler).__name__
    if kind == "DistributedSampler":
        ranks = {"rank": sampler.rank, "world_size": sampler.num_replicas, "seed": sampler.seed}
        return ranks if sampler.shuffle else {**ranks, "shuffle_block": 0}
    if kind in ("RandomSampler", "SequentialSampler"):
        if getattr(sampler, "replacement", False) or (kind == "RandomSampler" and sampler.num_samples != len(sampler.data_source)):
            refuse(f"sampler={kind} with `replacement` or `num_samples`", "DataLoader", _SAMPLERS)
        return {"rank": 0, "world_size": 1, **({} if kind == "RandomSampler" else {"shuffle_block": 0})}
    return refuse(f"sampler={kind}", "DataLoader", _SAMPLERS)

