"""Recipe and masks from the objects that DINOv2 and DINOv3 train with, which are read and never called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .._transforms import recipe_from
from ..dino.augment import BLUR_FIRST, BLUR_LOCAL, BLUR_SECOND, distortions
from ..errors import ConfigError
from ._opening import refuse

__all__ = ["gram_tensor", "masks", "recipe", "settings_of"]

Entry = dict[str, Any]

_DTYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
_OWNER = "make_data_loader"
_PUBLISHED = "leave the augmentation as it is published, or give a recipe of your own, `recipe={..}`"
_SETTINGS = ("mask_ratio_tuple", "mask_probability", "dtype", "n_tokens", "mask_generator")
_SOLARIZE = 0.2
_RELEASED = "dinov3_vitl16_lvd1689m_distilled.yaml"
# What each attribute of `DataAugmentationDINO` does after a cut: blur and solarisation, by their probabilities.
_VIEWS = {
    "global_transfo1": ("geometric_augmentation_global", BLUR_FIRST, None),
    "global_transfo2": ("geometric_augmentation_global", BLUR_SECOND, _SOLARIZE),
    "local_transfo": ("geometric_augmentation_local", BLUR_LOCAL, None),
}


def settings_of(collate_fn: Any) -> Entry:
    """The keywords of `functools.partial(collate_data_and_cast, ..)`."""
    settings = getattr(collate_fn, "keywords", None)
    if not isinstance(settings, dict) or any(name not in settings for name in _SETTINGS):
        refuse("collate_fn", _OWNER, "batches come ready: give `partial(collate_data_and_cast, ..)`, whose settings are read")
    if settings.get("local_batch_size") is not None:
        refuse("local_batch_size", "collate_data_and_cast", "multi-distillation has smaller student batches: use upstream's loader")
    if settings["dtype"] not in _DTYPES:
        refuse(f"dtype={settings['dtype']}", "collate_data_and_cast", "give torch.half, torch.bfloat16 or torch.float32")
    return settings


def recipe(style: str, transform: Any, dtype: torch.dtype) -> Entry:
    """The preset of a `DataAugmentationDINO`, with its sizes."""
    views = [_view(transform, name) for name in _VIEWS]
    flips = {view["ops"][0]["p"] for view, _ in views}
    looks = [look for _, look in views]
    if any(look != looks[0] for look in looks):
        refuse("transform", _OWNER, _PUBLISHED)
    names = ("global_crops_size", "global_crops_scale", "local_crops_size", "local_crops_scale", "local_crops_number")
    sizes = {name: _plain(getattr(transform, name)) for name in names}
    mean, std, _ = looks[0]
    entry: Entry = {"preset": style, "dtype": _DTYPES[dtype], "mean": mean, "std": std}
    if style == "dinov2":
        if flips != {0.5}:
            refuse("transform", _OWNER, _PUBLISHED)
        return {**entry, **sizes}
    if transform.gram_teacher_crops_size is not None and gram_tensor(transform) == "gram_crops":
        entry["preset"] = "dinov3-gram"
        sizes["gram_crops_size"] = int(transform.gram_teacher_crops_size)
    options = {
        "share_color_jitter": bool(transform.share_color_jitter),
        "localcrops_subset_of_globalcrops": bool(transform.local_crops_subset_of_global_crops),
        "patch_size": int(transform.patch_size),
        "horizontal_flips": flips == {0.5},
    }
    return {**entry, "dinov3": {**sizes, **options}}


def gram_tensor(transform: Any) -> str:
    """The tensor that has a transform's Gram crops, if it makes any.

    With distortions, upstream resizes the normalised global crop. To its own size that changes nothing, so the crops are the same.
    """
    gram, side = getattr(transform, "gram_teacher_crops_size", None), getattr(transform, "global_crops_size", None)
    if gram is None or transform.gram_teacher_no_distortions:
        return "gram_crops"
    if gram != side:
        remedy = f"set it to True, or give them the {side} of global crops, as {_RELEASED} does"
        remedy = f"Gram crops of {gram} pixels have no distortions here: {remedy}"
        refuse("gram_teacher_no_distortions=False", "DataAugmentationDINO", remedy)
    return "global_crops"


def _view(transform: Any, name: str) -> tuple[Entry, tuple[Any, ...]]:
    """A view with the published operations, and what all views of a recipe share: mean, deviation and filter."""
    cut, blur_p, solarize_p = _VIEWS[name]
    try:
        jitter = transform.color_jittering if getattr(transform, "share_color_jitter", False) else []
        steps = [*_steps(getattr(transform, cut)), *_steps(jitter), *_steps(getattr(transform, name))]
        # What is resized to the global size after a larger cut, which the preset does itself.
        found = recipe_from([steps[0], *(step for step in steps[1:] if type(step).__name__ != "Resize")])
    except (AttributeError, IndexError) as error:
        raise ConfigError(f"`transform` is a {type(transform).__name__}: give `DataAugmentationDINO`, or `recipe={{..}}`") from error
    except ConfigError as error:
        raise ConfigError(f"`{name}` of DataAugmentationDINO: {error}; {_PUBLISHED}") from error
    (view,) = found["tensors"][0]["views"]
    flip, *others = distortions(blur_p, solarize_p)
    if view["ops"] not in ([flip, *others], [{**flip, "p": 0.0}, *others]):
        refuse(name, "DataAugmentationDINO", _PUBLISHED)
    return view, (found["mean"], found["std"], found["interpolation"])


def _steps(transform: Any) -> list[Any]:
    """The transforms one after the other, with torchvision's own in place of upstream's."""
    from torchvision.transforms import RandomApply

    if isinstance(transform, Sequence):
        return [step for one in transform for step in _steps(one)]
    if type(transform).__name__ == "Compose":
        return _steps(list(transform.transforms))
    if type(transform).__name__ == "GaussianBlur" and isinstance(getattr(transform, "transforms", None), Sequence):
        # A `RandomApply` by another name.
        return [RandomApply(list(transform.transforms), p=transform.p)]
    return [transform]


def _plain(value: Any) -> Any:
    return [float(one) for one in value] if isinstance(value, Sequence) else int(value)


def masks(style: str, settings: Entry, side: int) -> Entry:
    """`receiver.masks` of a `MaskingGenerator`, for global crops of `side` pixels."""
    generator = settings["mask_generator"]
    height, width = generator.get_shape()
    if height != width or side % height or settings["n_tokens"] != height * width:
        refuse(f"mask_generator of {height} x {width} patches", "make_data_loader", f"give a grid that divides the {side} pixels of global crops")
    patch = side // height
    most = 0.5 * side // patch * side // patch
    limits = (generator.min_num_patches, generator.max_num_patches, *generator.log_aspect_ratio)
    if not all(map(math.isclose, limits, (4, most, math.log(0.3), -math.log(0.3)))):
        remedy = "rectangles here have 4 patches to half of the grid, and sides up to 1 to 0.3: leave the others at their defaults"
        refuse("mask_generator", _OWNER, remedy)
    least, greatest = settings["mask_ratio_tuple"]
    shares = {"sample_probability": float(settings["mask_probability"]), "ratio_min": float(least), "ratio_max": float(greatest)}
    entry: Entry = {"style": style, "patch": patch, "tensor": "global_crops", **shares}
    return {**entry, "random_circular_shift": True} if settings.get("random_circular_shift") else entry
