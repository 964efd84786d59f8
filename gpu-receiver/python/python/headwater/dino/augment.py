"""The augmentation of a script for dino_loader, as a recipe."""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Optional, Union

_RATIO = (3 / 4, 4 / 3)
# The probabilities that DINOv2's released code really uses: docs/recipes.md says why they differ from the paper.
BLUR_FIRST, BLUR_SECOND, BLUR_LOCAL = 0.0, 0.9, 0.5

_Pair = tuple[float, float]
_Triple = tuple[float, float, float]


def _with_defaults_of_the_class(config: Any) -> Any:
    """Makes the constructor of a dataclass take defaults from the instance's class, not from the dataclass."""
    init, names = config.__init__, [one.name for one in dataclasses.fields(config)]

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        defaults = {name: getattr(type(self), name) for name in names[len(args) :]}
        init(self, *args, **{**defaults, **given})

    config.__init__ = __init__
    return config


@_with_defaults_of_the_class
@dataclass
class DINOAugConfig:
    """DINOv2's views: random crops, flip, colour jitter, grayscale, blur, solarisation.

    Its defaults are the preset `dinov2`. Subclass it, or use any object with these fields. A subclass changes a
    default with a plain attribute or as a dataclass. If it overrides `recipe`, it may use everything in
    docs/recipes.md.
    """

    n_global_crops: int = 2
    n_local_crops: int = 8
    global_crop_size: int = 224
    local_crop_size: int = 96
    global_crops_scale: _Pair = (0.32, 1.0)
    local_crops_scale: _Pair = (0.05, 0.32)
    #: For the second global crop; the other crops are never solarised.
    solarize_prob: float = 0.2
    mean: _Triple = (0.485, 0.456, 0.406)
    std: _Triple = (0.229, 0.224, 0.225)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__dataclass_fields__" in cls.__dict__:
            return  # made once more, by @dataclass(slots=True)
        # @dataclass on the subclass takes defaults from annotated attributes, and from dataclasses above it.
        changed = [one for one in dataclasses.fields(DINOAugConfig) if getattr(cls, one.name) is not one.default]
        for one in changed:
            setattr(cls, one.name, getattr(cls, one.name))
        # Before Python 3.10 a class without annotations gives those of the class above it.
        own = cls.__annotations__ if sys.version_info >= (3, 10) else cls.__dict__.get("__annotations__", {})
        cls.__annotations__ = {**{one.name: one.type for one in changed}, **own}

    def recipe(self, dtype: str) -> dict[str, Any]:
        """The table `[recipe]` with crops of a dtype: "bf16", "f32" or "fp8_e4m3"."""
        return recipe_of(self, dtype)


def recipe_of(aug_cfg: Any, dtype: str) -> dict[str, Any]:
    """The recipe of an object with the fields of DINOAugConfig."""
    tensors = [
        _tensor("global_crops", dtype, aug_cfg.global_crop_size, _global_views(aug_cfg)),
        _tensor("local_crops", dtype, aug_cfg.local_crop_size, _local_views(aug_cfg)),
    ]
    return {
        "preset": "custom",
        # As in the presets of dinov2, whose code ran with earlier releases of Pillow.
        "resize_passes": "horizontal-first",
        "mean": list(aug_cfg.mean),
        "std": list(aug_cfg.std),
        "tensors": [tensor for tensor in tensors if tensor["views"]],
    }


def recipe_for(aug_cfg: Any, dtype: str) -> dict[str, Any]:
    """The recipe that the object makes itself, or else the recipe of its fields."""
    own = getattr(aug_cfg, "recipe", None)
    return dict(own(dtype)) if callable(own) else recipe_of(aug_cfg, dtype)


def warn_of_unknown(aug_cfg: Any, stacklevel: int) -> None:
    """Warns of fields that a subclass has added: they change nothing by themselves."""
    if not isinstance(aug_cfg, DINOAugConfig) or type(aug_cfg).recipe is not DINOAugConfig.recipe:
        return
    known = {one.name for one in dataclasses.fields(DINOAugConfig)}
    for one in dataclasses.fields(aug_cfg):
        if one.name not in known:
            warnings.warn(
                f"{type(aug_cfg).__name__}.{one.name} changes nothing: override `recipe(dtype)` and use it there",
                stacklevel=stacklevel + 1,
            )


def _global_views(aug_cfg: Any) -> list[dict[str, Any]]:
    views = []
    for number in range(aug_cfg.n_global_crops):
        second = number == 1
        ops = distortions(BLUR_SECOND if second else BLUR_FIRST, aug_cfg.solarize_prob if second else None)
        views.append(_view(aug_cfg.global_crops_scale, ops))
    return views


def _local_views(aug_cfg: Any) -> list[dict[str, Any]]:
    return [_view(aug_cfg.local_crops_scale, distortions(BLUR_LOCAL))] * aug_cfg.n_local_crops


def distortions(blur_p: float, solarize_p: Optional[float] = None) -> list[dict[str, Any]]:
    """The operations of a view, which differ in blur and solarisation only."""
    jitter = {
        "op": "color_jitter",
        "p": 0.8,
        "brightness": [0.6, 1.4],
        "contrast": [0.6, 1.4],
        "saturation": [0.8, 1.2],
        "hue": [-0.1, 0.1],
    }
    blur = {"op": "gaussian_blur", "p": blur_p, "sigma": [0.1, 2.0]}
    ops = [{"op": "flip", "p": 0.5}, jitter, {"op": "grayscale", "p": 0.2}, blur]
    return ops if solarize_p is None else [*ops, {"op": "solarize", "p": solarize_p, "threshold": 128}]


def _view(scale: _Pair, ops: list[dict[str, Any]]) -> dict[str, Any]:
    crop = {"kind": "random_resized", "scale": list(scale), "ratio": list(_RATIO)}
    return {"crop": crop, "ops": ops}


def _tensor(name: str, dtype: str, size: int, views: list[dict[str, Any]]) -> dict[str, Union[str, int, list]]:
    return {"name": name, "dtype": dtype, "height": size, "width": size, "views": views}
