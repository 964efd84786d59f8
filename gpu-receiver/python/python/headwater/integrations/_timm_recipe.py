"""Recipes from the arguments of timm's `create_loader`, which are read and never applied here."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from . import _opening

__all__ = ["DTYPES", "MEAN", "STD", "check_unsupported", "eval_recipe", "refuse", "sides", "train_recipe"]

Entry = dict[str, Any]

# As recipes name them, and timm's defaults.
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

_FILTERS = ("bicubic", "bilinear", "box", "nearest", "random")
_ERASED = {"": "zero", "const": "zero", "rand": "color", "pixel": "noise"}
_OF_ONE_DRAW = "an augmented sample is drawn once a batch"
# Arguments without a counterpart, with the value that leaves them out, and what to do.
_UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "re_count": (1, "recipes erase one box: leave it at 1, or erase in the training loop with timm's `RandomErasing`"),
    "re_split": (False, "recipes erase in any sample: leave it out, or erase in the training loop with timm's `RandomErasing`"),
    "num_aug_repeats": (0, f"{_OF_ONE_DRAW}: leave it out, or repeat numbers of samples in a list (`order=`, docs/order.md)"),
    "num_aug_splits": (0, f"{_OF_ONE_DRAW}: leave it out, or give a `headwater.Loader` whose recipe has several views"),
    "crop_border_pixels": (None, "recipes trim no border: leave it out, or trim when you pack the images"),
    "tf_preprocessing": (False, "images are decoded as Pillow does: leave it out"),
    "input_size_choices": (None, "open a loader for each size, and take batches from a `headwater.CombinedLoader`"),
    "batch_size_choices": (None, "open a loader for each size, and take batches from a `headwater.CombinedLoader`"),
    "batch_choice_weights": (None, "these are the ratios of a `headwater.CombinedLoader`"),
    "num_batches": (None, 'give `epoch_end={"steps": N}`'),
}


def refuse(name: str, value: Any, remedy: str) -> NoReturn:
    """Raises `ConfigError` for an argument that has no counterpart."""
    _opening.refuse(f"{name}={value!r}", "create_loader", remedy)


def check_unsupported(given: Entry) -> None:
    """That no argument is set which recipes do not have."""
    for name, (unset, remedy) in _UNSUPPORTED.items():
        # A falsy value leaves it out in timm too.
        if given[name] != unset and given[name]:
            refuse(name, given[name], remedy)


def sides(input_size: Any) -> tuple[int, int]:
    """Height and width of `input_size`: a side, (height, width) or (channels, height, width)."""
    if isinstance(input_size, Sequence):
        if len(input_size) == 3 and input_size[0] != 3:
            refuse("input_size", input_size, "images have three channels")
        return int(input_size[-2]), int(input_size[-1])
    return int(input_size), int(input_size)


def train_recipe(given: Entry, dtype: str) -> Entry:
    """The recipe of a training loader."""
    if given["no_aug"]:
        return _unaugmented(given, dtype)
    mode = given["train_crop_mode"]
    if mode not in (None, "", "rrc"):
        refuse("train_crop_mode", mode, "leave it out for a random resized crop, which is 'rrc'")
    crop = {
        "kind": "random_resized",
        "scale": _pair(given["scale"] or (0.08, 1.0)),
        "ratio": _pair(given["ratio"] or (3.0 / 4.0, 4.0 / 3.0)),
    }
    ops: list[Entry] = []
    for name, op in (("hflip", "flip"), ("vflip", "vertical_flip")):
        if given[name] > 0.0:
            ops.append({"op": op, "p": float(given[name])})
    policy = given["auto_augment"]
    if policy:
        ops += _policy(policy, given)
    if given["color_jitter"] is not None and not (policy and "3a" not in policy):
        ops += _jitter(given["color_jitter"], given["color_jitter_prob"])
    if given["grayscale_prob"]:
        ops.append({"op": "grayscale", "p": float(given["grayscale_prob"])})
    if given["gaussian_blur_prob"]:
        blur = 'its kernel has 23 pixels, and recipes have 9: give a `headwater.Loader` with {"op": "gaussian_blur"} or "pil_blur"'
        refuse("gaussian_blur_prob", given["gaussian_blur_prob"], blur)
    if given["re_prob"] > 0.0:
        ops.append(_erase(float(given["re_prob"]), given["re_mode"]))
    return _recipe(given, dtype, crop, ops, given["interpolation"])


def eval_recipe(given: Entry, dtype: str) -> Entry:
    """The recipe of a loader for validation."""
    height, width = sides(given["input_size"])
    crop_pct, mode = given["crop_pct"] or 0.875, given["crop_mode"] or "center"
    if given["interpolation"] == "random":
        refuse("interpolation", "random", "timm's validation has one filter: give 'bicubic' or 'bilinear'")
    if mode == "center":
        if height != width:
            refuse("input_size", given["input_size"], "timm's `center` cuts squares here: give a square, or crop_mode='squash', crop_pct=1")
        crop = {"kind": "center_after_resize", "resize": math.floor(height / crop_pct)}
    elif mode == "squash" and crop_pct == 1.0:
        crop = {"kind": "resize"}
    elif mode == "squash":
        refuse("crop_pct", crop_pct, "with crop_mode='squash' the whole image is resized: give crop_pct=1.0")
    else:
        refuse("crop_mode", mode, "give 'center', or 'squash' with crop_pct=1.0")
    return _recipe(given, dtype, crop, [], given["interpolation"])


def _unaugmented(given: Entry, dtype: str) -> Entry:
    """As timm's `transforms_noaug_train`: a size with two sides is resized to, a single one is cut out of the middle."""
    height, _ = sides(given["input_size"])
    whole = isinstance(given["input_size"], Sequence)
    crop: Entry = {"kind": "resize"} if whole else {"kind": "center_after_resize", "resize": height}
    chosen = "bilinear" if given["interpolation"] == "random" else given["interpolation"]
    return _recipe(given, dtype, crop, [], chosen)


def _recipe(given: Entry, dtype: str, crop: Entry, ops: list[Entry], interpolation: str) -> Entry:
    if interpolation not in _FILTERS:
        refuse("interpolation", interpolation, f"give one of {', '.join(_FILTERS)}")
    height, width = sides(given["input_size"])
    images = {"name": "images", "dtype": dtype, "height": height, "width": width, "views": [{"crop": crop, "ops": ops}]}
    return {
        "preset": "custom",
        "mean": _channels("mean", given["mean"]),
        "std": _channels("std", given["std"]),
        "interpolation": interpolation,
        "tensors": [images],
    }


def _channels(name: str, values: Any) -> list[float]:
    if len(values) != 3:
        refuse(name, values, "images have three channels")
    return [float(one) for one in values]


def _pair(values: Sequence[float]) -> list[float]:
    least, greatest = values
    return [float(least), float(greatest)]


def _jitter(given: Any, probability: float | None) -> list[Entry]:
    factors = [float(given)] * 3 if isinstance(given, (int, float)) else [float(one) for one in given]
    names = ("brightness", "contrast", "saturation")
    if len(factors) not in (3, 4):
        refuse("color_jitter", given, "give a number, or three or four of them")
    ranges = {name: [max(0.0, 1.0 - factor), 1.0 + factor] for name, factor in zip(names, factors)}
    hue = factors[3] if len(factors) == 4 else 0.0
    p = 1.0 if probability is None else float(probability)
    return [{"op": "color_jitter", "p": p, **ranges, "hue": [-hue, hue] if hue else [0.0, 0.0]}]


def _erase(p: float, mode: str) -> Entry:
    if mode.lower() not in _ERASED:
        refuse("re_mode", mode, "give 'const', 'rand' or 'pixel'")
    return {"op": "erase", "p": p, "scale": [0.02, 1.0 / 3.0], "ratio": [0.3, 1.0 / 0.3], "mode": _ERASED[mode.lower()]}


def _policy(text: str, given: Entry) -> list[Entry]:
    """An `--aa` string, such as rand-m9-mstd0.5-inc1."""
    kind, *parts = text.split("-")
    # As timm's factory sets them.
    look = {
        "interpolation": given["interpolation"] or "random",
        "fill": [min(255, round(255 * float(one))) for one in given["mean"]],
    }
    if kind == "rand":
        return _rand_augment(text, _sections(text, parts, {"m", "n", "p", "mstd", "mmax", "inc"}), look)
    if kind == "augmix":
        return _aug_mix(text, _sections(text, parts, {"m", "w", "d", "a", "b", "mstd"}), look)
    return refuse("auto_augment", text, "give one that begins with 'rand' or 'augmix', or a `headwater.Loader` with torchvision's policies")


def _sections(text: str, parts: list[str], known: set[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        split = re.split(r"(\d.*)", part)
        if part.startswith("t") or len(split) < 2 or split[0] not in known:
            refuse("auto_augment", text, f"leave out `{part}`: a policy here has {', '.join(sorted(known))}")
        # The first one counts for deviations in timm, the last one for others.
        if not (split[0] == "mstd" and "mstd" in found):
            found[split[0]] = float(split[1])
    return found


def _rand_augment(text: str, has: dict[str, float], look: Entry) -> list[Entry]:
    if has.get("mmax", 10) != 10:
        refuse("auto_augment", text, "leave out `mmax`: magnitudes end at 10")
    if has.get("mstd", 0) > 100:
        refuse("auto_augment", text, "give an `mstd` up to 100: uniform magnitudes are those of 'augmix'")
    if not has.get("n", 2):
        return []
    entry = {
        "op": "timm_rand_augment",
        "num_ops": int(has.get("n", 2)),
        "magnitude": float(int(has.get("m", 10))),
        "magnitude_std": has.get("mstd", 0.0),
        # timm takes the text for a truth value: that of `inc0`, too.
        "increasing": "inc" in has,
        "p": has.get("p", 0.5),
    }
    return [{**entry, **look}]


def _aug_mix(text: str, has: dict[str, float], look: Entry) -> list[Entry]:
    if has.get("b"):
        refuse("auto_augment", text, "leave out `b`: chains are blended at the end")
    entry: Entry = {
        "op": "timm_aug_mix",
        "magnitude": float(int(has.get("m", 3))),
        "width": int(has.get("w", 3)),
        "depth": max(0, int(has.get("d", 0))),
        "alpha": has.get("a", 1.0),
    }
    if "mstd" in has and has["mstd"] <= 100:
        entry["magnitude_std"] = has["mstd"]
    return [{**entry, **look}]
