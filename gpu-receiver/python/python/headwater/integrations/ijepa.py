"""I-JEPA's `make_imagenet1k`, over a `headwater.Loader`.

    from headwater.integrations.ijepa import make_imagenet1k

    _, unsupervised_loader, unsupervised_sampler = make_imagenet1k(transform=transform, batch_size=128, collator=mask_collator, ..)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import torch

from .. import Loader, recipe_from
from ..sampling import BatchIterator, DataLoaderWrapper, Dataset, Sampler
from ._opening import is_on_cluster, refuse, source

__all__ = ["make_imagenet1k"]

# The attributes of `src.masks.multiblock.MaskCollator`, and their keys in `receiver.patches`.
_BLOCKS = {
    "enc_mask_scale": "enc_mask_scale",
    "pred_mask_scale": "pred_mask_scale",
    "aspect_ratio": "aspect_ratio",
    "nenc": "num_enc_masks",
    "npred": "num_pred_masks",
    "min_keep": "min_keep",
    "allow_overlap": "allow_overlap",
}
_OWNER = "make_imagenet1k"


def make_imagenet1k(
    transform: Any,
    batch_size: int,
    collator: Any = None,
    pin_mem: bool = True,
    num_workers: int = 8,
    world_size: int = 1,
    rank: int = 0,
    root_path: Optional[str] = None,
    image_folder: Optional[str] = None,
    training: bool = True,
    copy_data: bool = False,
    drop_last: bool = True,
    subset_file: Optional[str] = None,
    **options: Any,
) -> tuple[Dataset, IJEPALoader, Sampler]:
    """The dataset, loader and sampler of `src.datasets.imagenet1k.make_imagenet1k`, with its arguments.

    Args:
        transform: of `make_transforms`. It is read, and never called.
        collator: the multi-block `MaskCollator`, whose settings are read; the draws are the receiver's. Without one, batches are
            `[images, labels]`.
        num_workers: threads that render, if the loader has services of its own.
        root_path, image_folder: as upstream: the folder `root_path/image_folder/train`. Without `image_folder`, `root_path` is a
            path, a pattern or a URL, as for `headwater.Loader`; with `storage`, `workers` or `ray`, a dataset's name.
        pin_mem: has no effect.
        options: further keywords of `headwater.Loader`, such as `seed`. They override what is read.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """
    if copy_data:
        refuse("copy_data=True", _OWNER, "leave it False: a storage node keeps copies on the host, `storage.cache`")
    if subset_file is not None:
        refuse(f"subset_file={subset_file}", _OWNER, "give the numbers of its samples, `order=[..]` (docs/order.md)")
    recipe = options.get("recipe") or _recipe(transform)
    keywords: dict[str, Any] = {"recipe": recipe, "batch_size": batch_size, "rank": rank, "world_size": world_size}
    keywords["epoch_end"] = "drop_last" if drop_last else "short_last"
    if collator is not None:
        keywords["patches"] = _patches(collator, recipe)
    path: Any = root_path
    if image_folder is not None and not is_on_cluster(options):
        path = os.path.join(root_path or "", image_folder, "train" if training else "val")
    loader = IJEPALoader(Loader(**{**source(path, num_workers, options), **keywords, **options}), has_masks=collator is not None)
    return loader.dataset, loader, loader.sampler


class IJEPALoader(DataLoaderWrapper):
    """Batches `([images, labels], masks_enc, masks_pred)`, where masks are lists of `int64[batch, kept]`."""

    def __init__(self, loader: Loader, has_masks: bool) -> None:
        super().__init__(loader)
        self._has_masks = has_masks

    def __iter__(self) -> Iterator[Any]:
        return BatchIterator(self.loader, self._collated)

    def _collated(self, batch: Any) -> Any:
        tensors = batch.torch()
        data = [tensors["images"], tensors["labels"]]
        return (data, _apart(tensors["masks_enc"]), _apart(tensors["masks_pred"])) if self._has_masks else data


def _apart(masks: torch.Tensor) -> list[torch.Tensor]:
    return list(masks.unbind(0))


def _recipe(transform: Any) -> dict[str, Any]:
    """The recipe of upstream's transforms, whose blur is Pillow's."""
    steps = list(getattr(transform, "transforms", [transform]))
    blurs = [step for step in steps if type(step).__name__ == "GaussianBlur" and hasattr(step, "radius_max")]
    recipe = recipe_from([step for step in steps if step not in blurs])
    for blur in blurs:
        # It stands between the operations on colours and `ToTensor`.
        radius = [float(blur.radius_min), float(blur.radius_max)]
        recipe["tensors"][0]["views"][0]["ops"].append({"op": "pil_blur", "p": float(blur.prob), "radius": radius})
    return recipe


def _patches(collator: Any, recipe: Any) -> dict[str, Any]:
    """`receiver.patches` of a collator."""
    if any(not hasattr(collator, name) for name in ("patch_size", "height", "width", *_BLOCKS)):
        refuse(f"collator={type(collator).__name__}", _OWNER, "give the MaskCollator of src.masks.multiblock, or leave it out")
    images = next((one for one in recipe["tensors"] if one["name"] == "images"), None) if isinstance(recipe, dict) and "tensors" in recipe else None
    grid = (collator.height, collator.width)
    if images and grid != (images["height"] // collator.patch_size, images["width"] // collator.patch_size):
        remedy = f"images have {images['height']} x {images['width']} pixels: give it their `input_size`"
        refuse(f"collator of {collator.height} x {collator.width} patches", _OWNER, remedy)
    settings = {ours: _plain(getattr(collator, theirs)) for theirs, ours in _BLOCKS.items()}
    return {"kind": "ijepa", "patch": int(collator.patch_size), "tensor": "images", **settings}


def _plain(value: Any) -> Any:
    return [float(one) for one in value] if isinstance(value, Sequence) else value
