"""The loaders of DINOv2 and DINOv3, whose code for data is nearly the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

import torch

from .. import Loader
from ..distributed import process_group
from ..sampling import BatchIterator, DataLoaderWrapper
from ._dino_recipe import gram_tensor, masks, recipe, settings_of
from ._opening import refuse, source

__all__ = ["DINOBatches", "Images", "collated", "images", "open_batches"]

_INFINITE = ("INFINITE", "SHARDED_INFINITE", "SHARDED_INFINITE_NEW")
_OF_EPOCHS = ("EPOCH", "DISTRIBUTED")
# Classes of upstream that read files of their own, with a folder of each split or without.
_FOLDERS, _OTHERS = ("ImageNet",), ("ImageNet22k", "ADE20K", "CocoCaptions", "NYU")
# Names of a batch's tensors, there and here.
_TENSORS = {
    "collated_global_crops": "global_crops",
    "collated_local_crops": "local_crops",
    "collated_masks": "masks",
    "mask_indices_list": "mask_indices",
    "masks_weight": "masks_weight",
}


@dataclass(frozen=True)
class Images:
    """What a dataset's text and transform say: nothing is read yet."""

    path: Any
    transform: Any


def images(dataset_str: Any, transform: Any) -> Images:
    """The images of `cfg.train.dataset_path`: a path, a pattern, a URL, or upstream's text for ImageNet."""
    name, _, rest = dataset_str.partition(":") if isinstance(dataset_str, str) else ("", "", "")
    if name in _OTHERS:
        refuse(f"dataset_path={dataset_str}", "make_dataset", "it is not a folder of images: give a path, a pattern or a URL")
    if name not in _FOLDERS:
        return Images(dataset_str, transform)
    given = dict(part.partition("=")[::2] for part in rest.split(":") if part)
    if not given.get("root"):
        refuse(f"dataset_path={dataset_str}", "make_dataset", "give its folder as `root=`, or the path in place of all of it")
    return Images(os.path.join(given["root"], given.get("split", "TRAIN").lower()), transform)


def open_batches(style: str, dataset: Any, given: dict[str, Any], options: dict[str, Any]) -> DINOBatches:
    """A loader with masks of a style, "dinov2" or "dinov3"."""
    settings = settings_of(given["collate_fn"])
    described = dataset if isinstance(dataset, Images) else Images(dataset, None)
    sampler = getattr(given["sampler_type"], "name", given["sampler_type"])
    if sampler not in (*_INFINITE, *_OF_EPOCHS):
        refuse(f"sampler_type={given['sampler_type']}", "make_data_loader", f"give one of {', '.join((*_INFINITE, *_OF_EPOCHS))}")
    if given["sampler_size"] > 0:
        refuse(f"sampler_size={given['sampler_size']}", "make_data_loader", 'leave it out, and give `epoch_end={"steps": N}`')
    keywords: dict[str, Any] = {"batch_size": given["batch_size"], "seed": given["seed"], **process_group.ranks()}
    gram = "gram_crops"
    if "recipe" not in options:
        gram = gram_tensor(described.transform)
        keywords["recipe"] = recipe(style, described.transform, settings["dtype"])
    if "masks" not in options:
        side = getattr(described.transform, "global_crops_size", None)
        if side is None:
            refuse("transform without global_crops_size", "make_data_loader", "give `masks={..}` as `receiver.masks` has them")
        keywords["masks"] = masks(style, settings, side)
    if not given["shuffle"]:
        keywords["shuffle_block"] = 0
    if sampler in _OF_EPOCHS:
        keywords["epoch_end"] = "drop_last" if given["drop_last"] else "short_last"
    loader = Loader(**{**source(described.path, given["num_workers"], options), **keywords, **options})
    return DINOBatches(loader, _first_step(given["sampler_advance"], given["batch_size"]), gram, is_infinite=sampler in _INFINITE)


def _first_step(advance: int, batch_size: int) -> int:
    if advance % batch_size:
        refuse(f"sampler_advance={advance}", "make_data_loader", f"give a multiple of the batch size, {batch_size}")
    return advance // batch_size


class DINOBatches(DataLoaderWrapper):
    """Batches of a loader as `collate_data_and_cast` makes them: dicts of tensors.

    An iteration goes on with the next epoch for ever; with a sampler of epochs it ends with one.
    """

    def __init__(self, loader: Loader, first_step: int, gram: str, is_infinite: bool) -> None:
        super().__init__(loader)
        #: Steps of the run before the first batch: `sampler_advance` in batches.
        self.first_step = first_step
        #: The tensor of a batch that has its Gram crops: `gram_crops`, or `global_crops` where they are the same.
        self.gram = gram
        self._is_infinite = is_infinite
        if first_step:
            loader.seek(*divmod(first_step, len(loader)))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return BatchIterator(self.loader, partial(collated, gram=self.gram), is_endless=self._is_infinite)


def collated(batch: Any, gram: str) -> dict[str, Any]:
    """A batch with upstream's names, and the tensor `gram` as Gram crops if it has one."""
    tensors = batch.torch()
    found = {theirs: tensors[ours] for theirs, ours in _TENSORS.items()}
    found["upperbound"] = batch.upperbound
    found["n_masked_patches"] = torch.full((1,), batch.n_masked_patches, dtype=torch.long)
    crops: Optional[torch.Tensor] = tensors.get(gram)
    return found if crops is None else {**found, "collated_gram_teacher_crops": crops}
