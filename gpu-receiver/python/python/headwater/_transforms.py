"""Recipes from torchvision's transforms, which are read and never called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .errors import ConfigError

__all__ = ["recipe_from"]

_PAGE = "docs/operations.md lists what a recipe has"
_FILTERS = {"nearest": "nearest", "nearest-exact": "nearest", "bilinear": "bilinear", "bicubic": "bicubic", "box": "box"}
_ON_COLOURS = {"color_jitter", "grayscale", "solarize"}
_ON_FLOATS = {"erase", "flip", "vertical_flip"}
_BEHIND_FLOATS = "stands behind the conversion to floats, where it gives other pixels: put it before"
_BEHIND_ERASING = "stands behind `RandomErasing`, which must be the last operation: put it before"
_DTYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "uint8": "u8"}

Entry = dict[str, Any]


def recipe_from(transforms: Any, *, name: str = "images", dtype: str = "f32") -> Entry:
    """A recipe with the same operations as a `torchvision.transforms` or `torchvision.transforms.v2` object.

    `transforms` is one transform, a `Compose`, or a list of them: one crop, operations on levels, the conversion to floats,
    `Normalize`, and `RandomErasing` after it; or the `transforms()` of a classification model's weights. The result is a dict
    for `recipe=`, with one tensor `name`, `[batch, 3, height, width]` of `dtype`. Pixels are those of Pillow images; random
    numbers are Headwater's own. `RandomCrop` pads smaller images, also without `pad_if_needed`, where torchvision raises.

    Raises `ConfigError` for a transform, or an argument of one, that recipes do not have; the text names it.
    """
    reader = _Reader()
    for transform in _steps(transforms):
        try:
            reader.read(transform)
        except (AttributeError, TypeError, ValueError) as error:
            # A `ConfigError` is a `ValueError`.
            raise error if isinstance(error, ConfigError) else _refuse(transform, f"cannot be read: {error}") from error
    dtype = str(dtype).removeprefix("torch.")
    return reader.recipe(name, _DTYPES.get(dtype, dtype))


def _steps(transforms: Any) -> list[Any]:
    if isinstance(transforms, Sequence) and not isinstance(transforms, (str, bytes)):
        return [step for one in transforms for step in _steps(one)]
    if _kind(transforms) == "Compose":
        return _steps(list(transforms.transforms))
    if _kind(transforms) == "Sequential":
        return _steps(list(transforms))
    return [transforms]


def _kind(transform: Any) -> str:
    return type(transform).__name__


def _refuse(transform: Any, why: str) -> ConfigError:
    return ConfigError(f"`{_kind(transform)}` {why}")


class _Crop(NamedTuple):
    size: tuple[int, int]
    spec: Entry


class _Reader:
    """What was read so far."""

    def __init__(self) -> None:
        self.image_ops: list[Entry] = []
        self.ops: list[Entry] = []
        self.shorter_side: int | None = None
        self.crop: _Crop | None = None
        self.filter: str | None = None
        self.mean: list[float] | None = None
        self.std: list[float] | None = None
        # What pixels are by now, where a transform said so.
        self.are_floats: bool | None = None

    def read(self, transform: Any) -> None:
        kind = _kind(transform)
        _check_own(transform)
        if kind in _CONVERSIONS:
            self._convert(transform)
        elif kind in _CROPS:
            self._read_crop(transform)
        elif kind == "Normalize":
            self._normalize(transform)
        elif kind == "ImageClassification":
            self._read_weights(transform)
        elif kind in _OPERATIONS:
            self._add(transform, _OPERATIONS[kind](transform))
        elif kind == "RandomApply":
            self._add(transform, _applied(transform))
        else:
            raise _refuse(transform, f"has no counterpart: {_PAGE}")

    def recipe(self, name: str, dtype: str) -> Entry:
        if self.crop is None:
            if self.shorter_side is not None:
                raise ConfigError(
                    f"`Resize({self.shorter_side})` leaves images of many sizes: add a `CenterCrop`, or give `Resize((height, width))`"
                )
            raise ConfigError("no transform says the size of the images: add `RandomResizedCrop`, `Resize` or `CenterCrop`")
        if dtype == "u8" and self.mean is not None:
            raise ConfigError('`Normalize` makes floats, and `dtype` is "u8": give another `dtype`, or leave `Normalize` out')
        if dtype != "u8" and self.are_floats is False:
            raise ConfigError(
                'the transforms end with levels from 0 to 255: give `dtype="u8"`, or add `ToDtype(torch.float32, scale=True)`'
            )
        (height, width), crop = self.crop
        view = {"crop": crop, "ops": self.ops}
        tensor = {"name": name, "dtype": dtype, "height": height, "width": width, "views": [view]}
        recipe: Entry = {
            "preset": "custom",
            # Without `Normalize`, values are from 0 to 1.
            "mean": [0.0] * 3 if self.mean is None else self.mean,
            "std": [1.0] * 3 if self.std is None else self.std,
            "image_ops": self.image_ops,
            "tensors": [tensor],
        }
        return recipe if self.filter is None else {**recipe, "interpolation": self.filter}

    def _add(self, transform: Any, entry: Entry) -> None:
        if entry.get("num_ops") == 0:
            # It changes nothing, and recipes have no operation that does not.
            return
        if self._is_erased() and entry["op"] != "erase":
            raise _refuse(transform, _BEHIND_ERASING)
        if entry["op"] not in _ON_FLOATS and self.are_floats:
            raise _refuse(transform, _BEHIND_FLOATS)
        if self.crop is not None:
            self.ops.append(entry)
        elif self.shorter_side is None and entry["op"] in _ON_COLOURS:
            self.image_ops.append(entry)
        else:
            raise _refuse(transform, "stands before the crop: put it behind")

    def _read_crop(self, transform: Any) -> None:
        if self.crop is not None:
            raise _refuse(transform, f"is a second crop: a view is cut once ({_PAGE})")
        if self.are_floats:
            self._check_crop_of_floats(transform)
        if hasattr(transform, "interpolation"):
            if self.shorter_side is not None:
                raise _refuse(transform, f"resizes what was resized: a view is resized once ({_PAGE})")
            self.filter = _filter(transform)
        if _kind(transform) == "Resize" and (side := _shorter_side(transform)) is not None:
            if getattr(transform, "max_size", None) is not None:
                raise _refuse(transform, f"has a `max_size`, which recipes do not: {_PAGE}")
            self.shorter_side = side
            return
        self.crop = _Crop(_size(transform), _CROPS[_kind(transform)](transform, self.shorter_side))

    def _is_erased(self) -> bool:
        return any(entry["op"] == "erase" for entry in self.ops)

    def _check_crop_of_floats(self, crop: Any) -> None:
        """That it moves pixels only: padding is black in a recipe, and after `Normalize` it would be another colour."""
        if hasattr(crop, "interpolation"):
            raise _refuse(crop, _BEHIND_FLOATS)
        may_fill = self.shorter_side is None and getattr(crop, "padding_mode", "constant") == "constant"
        if may_fill and (self.mean is not None or any(_levels(crop))):
            raise _refuse(crop, "pads with another colour behind the conversion to floats: put it before")

    def _convert(self, transform: Any) -> None:
        kind = _kind(transform)
        if kind == "ToTensor":
            self.are_floats = True
        elif kind in ("ConvertImageDtype", "ToDtype"):
            self._convert_to(_dtype_of(transform), transform)
        elif kind in ("PILToTensor", "ToImage"):
            self.are_floats = bool(self.are_floats)

    def _convert_to(self, dtype: str | None, transform: Any) -> None:
        if dtype is None:
            return
        are_floats, is_scaled = "float" in dtype, getattr(transform, "scale", True)
        if are_floats and not self.are_floats and not is_scaled:
            raise _refuse(transform, "leaves values from 0 to 255 as they are: give `scale=True`")
        if self.are_floats and not are_floats and not is_scaled:
            raise _refuse(transform, "leaves values from 0 to 1 as they are, and cuts off their fractions: give `scale=True`")
        if not are_floats and is_scaled and dtype != "uint8":
            raise _refuse(transform, f"scales levels to the range of {dtype}: give `torch.uint8`")
        self.are_floats = are_floats

    def _normalize(self, transform: Any) -> None:
        if self.mean is not None:
            raise _refuse(transform, "is a second one: leave one out")
        if self._is_erased():
            raise _refuse(transform, "stands behind `RandomErasing`, which then erases to another colour: put it before")
        if not self.are_floats:
            raise _refuse(transform, "takes floats: put `ToTensor()`, or `ToDtype(torch.float32, scale=True)`, before it")
        self.mean, self.std = [float(one) for one in transform.mean], [float(one) for one in transform.std]
        if len(self.mean) != 3 or len(self.std) != 3:
            raise _refuse(transform, f"has {len(self.mean)} means and {len(self.std)} deviations: images have three channels")

    def _read_weights(self, weights: Any) -> None:
        """Evaluation as torchvision's weights have it: `Resize`, `CenterCrop`, `ConvertImageDtype`, `Normalize`."""
        if self.crop is not None or self.shorter_side is not None:
            raise _refuse(weights, f"resizes and cuts what was resized or cut: a view is cut once ({_PAGE})")
        if self.are_floats:
            raise _refuse(weights, _BEHIND_FLOATS)
        (self.shorter_side,), (side,) = weights.resize_size, weights.crop_size
        self.filter = _filter(weights)
        self.crop = _Crop((side, side), _center(weights, self.shorter_side))
        self.are_floats = True
        self._normalize(weights)


def _check_own(transform: Any) -> None:
    """That it is not a class of the user's with one of these names."""
    if not type(transform).__module__.startswith(("torchvision.transforms", "torch.nn")):
        raise _refuse(
            transform,
            'is not one of torchvision\'s: a function of your own is an operation, {"op": "python", "function": "module:name"} '
            "(docs/own-python.md)",
        )


def _shorter_side(resize: Any) -> int | None:
    size = resize.size
    if isinstance(size, int):
        return size
    return size[0] if len(size) == 1 else None


def _size(transform: Any) -> tuple[int, int]:
    size = transform.crop_size if _kind(transform) == "ImageClassification" else transform.size
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return int(height), int(width)


def _filter(transform: Any) -> str:
    given = transform.interpolation
    name = str(getattr(given, "value", given))
    # Pillow's numbers, which torchvision takes too.
    name = {"0": "nearest", "2": "bilinear", "3": "bicubic", "4": "box"}.get(name, name)
    if name not in _FILTERS:
        raise _refuse(transform, f"has the filter {name!r}: recipes have {', '.join(sorted(set(_FILTERS.values())))}")
    return _FILTERS[name]


def _is_of_images(key: Any) -> bool:
    """Whether a key of a dict is a type of images: torchvision's, Pillow's, or a plain tensor."""
    module, name = str(getattr(key, "__module__", "")), getattr(key, "__name__", "")
    return (name == "Image" and module.startswith(("torchvision.", "PIL."))) or (name == "Tensor" and module == "torch")


def _of_images(transform: Any, by_type: Mapping[Any, Any]) -> Any:
    """What a dict by types has for images."""
    found = [value for key, value in by_type.items() if _is_of_images(key)]
    if any(value != found[0] for value in found):
        raise _refuse(transform, "has different values for two types of images: give both the same")
    return found[0] if found else by_type.get("others")


def _dtype_of(transform: Any) -> str | None:
    """The dtype that it gives images; `None` if it leaves them as they are."""
    dtype = transform.dtype
    if isinstance(dtype, Mapping):
        dtype = _of_images(transform, dtype)
    return None if dtype is None else str(dtype).removeprefix("torch.")


def _levels(transform: Any) -> list[float]:
    fill = getattr(transform, "fill", 0)
    if isinstance(fill, Mapping):
        fill = _of_images(transform, fill)
    levels: list[float] = [0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    return levels * 3 if len(levels) == 1 else levels


def _fill(transform: Any) -> list[int]:
    # Pillow cuts fractions off.
    return [int(level) for level in _levels(transform)]


def _pair(values: Any) -> list[float]:
    least, greatest = values
    return [float(least), float(greatest)]


def _random_resized(transform: Any, _: int | None) -> Entry:
    return {"kind": "random_resized", "scale": _pair(transform.scale), "ratio": _pair(transform.ratio)}


def _whole(_: Any, shorter_side: int | None) -> Entry:
    return {"kind": "resize"}


def _check_within(transform: Any, shorter_side: int) -> None:
    """That no resized image is smaller than the crop."""
    height, width = _size(transform)
    longer = max(height, width)
    if longer > shorter_side:
        raise _refuse(
            transform,
            f"takes {height} x {width} pixels behind `Resize({shorter_side})`, and recipes do not pad what was resized: "
            f"give `Resize({longer})`",
        )


def _center(transform: Any, shorter_side: int | None) -> Entry:
    if shorter_side is None:
        return {"kind": "center"}
    _check_within(transform, shorter_side)
    return {"kind": "center_after_resize", "resize": shorter_side}


def _random(transform: Any, shorter_side: int | None) -> Entry:
    padding = transform.padding
    if shorter_side is not None:
        if padding:
            raise _refuse(transform, f"pads what was resized, which recipes do not: {_PAGE}")
        _check_within(transform, shorter_side)
        return {"kind": "random_after_resize", "resize": shorter_side}
    sides = [0] if padding is None else [padding] if isinstance(padding, int) else list(padding)
    if len(set(sides)) > 1:
        raise _refuse(transform, "pads its sides by different numbers: recipes have one `padding`")
    return {"kind": "random", "padding": int(sides[0]), "padding_mode": str(transform.padding_mode), "fill": _fill(transform)}


def _jitter(transform: Any) -> Entry:
    neutral = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0}
    ranges = {key: getattr(transform, key) for key in neutral}
    pairs = {key: [neutral[key]] * 2 if pair is None else _pair(pair) for key, pair in ranges.items()}
    return {"op": "color_jitter", "p": 1.0, **pairs}


def _blur(transform: Any) -> Entry:
    kernel = transform.kernel_size
    if any(side != 9 for side in ([kernel] if isinstance(kernel, int) else kernel)):
        raise _refuse(transform, f'has the kernel {kernel}: recipes have 9, and Pillow\'s blur as {{"op": "pil_blur"}}')
    return {"op": "gaussian_blur", "p": 1.0, "sigma": _pair(transform.sigma)}


def _gray(transform: Any) -> Entry:
    if getattr(transform, "num_output_channels", 3) != 3:
        raise _refuse(transform, "makes one channel: images have three, `Grayscale(3)`")
    return {"op": "grayscale", "p": float(getattr(transform, "p", 1.0))}


def _rotation(transform: Any) -> Entry:
    if transform.expand or transform.center is not None:
        raise _refuse(transform, "has `expand` or `center`, which recipes do not")
    return {"op": "rotation", "p": 1.0, "degrees": _pair(transform.degrees), "interpolation": _filter(transform), "fill": _fill(transform)}


def _affine(transform: Any) -> Entry:
    if transform.center is not None:
        raise _refuse(transform, "has `center`, which recipes do not")
    shear = [float(one) for one in transform.shear or ()]
    along = [shear[:2] or [0.0, 0.0], shear[2:] or [0.0, 0.0]]
    return {
        "op": "affine",
        "p": 1.0,
        "degrees": _pair(transform.degrees),
        "translate": _pair(transform.translate or (0, 0)),
        "scale": _pair(transform.scale or (1, 1)),
        "shear": along,
        "interpolation": _filter(transform),
        "fill": _fill(transform),
    }


def _perspective(transform: Any) -> Entry:
    distortion = float(transform.distortion_scale)
    return {**_with_p("perspective")(transform), "distortion_scale": distortion, "interpolation": _filter(transform), "fill": _fill(transform)}


def _sharpness(transform: Any) -> Entry:
    return {**_with_p("sharpness")(transform), "factor": [float(transform.sharpness_factor)] * 2}


def _solarize(transform: Any) -> Entry:
    threshold = transform.threshold
    if threshold != int(threshold) or threshold < 0:
        raise _refuse(transform, f"has the threshold {threshold}: give a level from 0 to 255")
    entry = {**_with_p("solarize")(transform), "threshold": min(int(threshold), 255)}
    # Levels are inverted from the threshold on: beyond 255 none is.
    return entry if threshold <= 255 else {**entry, "p": 0.0}


def _posterize(transform: Any) -> Entry:
    if not 1 <= transform.bits <= 8:
        raise _refuse(transform, f"has {transform.bits} bits: Pillow takes 1 to 8")
    return {**_with_p("posterize")(transform), "bits": int(transform.bits)}


def _policy(name: str, *keys: str) -> Callable[[Any], Entry]:
    def entry(transform: Any) -> Entry:
        given = {key: getattr(transform, key) for key in keys}
        if "policy" in given:
            given["policy"] = str(getattr(given["policy"], "value", given["policy"]))
        return {"op": name, **given, "interpolation": _filter(transform), "fill": _fill(transform)}

    return entry


def _erase(transform: Any) -> Entry:
    value = transform.value
    values = [value] if isinstance(value, (int, float, str)) or value is None else list(value)
    modes: dict[Any, str] = {"random": "noise", None: "noise", 0: "zero"}
    if len(set(values)) != 1 or values[0] not in modes:
        raise _refuse(transform, f"has the value {value!r}: recipes have 0 and 'random'")
    mode = modes[values[0]]
    return {**_with_p("erase")(transform), "scale": _pair(transform.scale), "ratio": _pair(transform.ratio), "mode": mode}


def _with_p(name: str) -> Callable[[Any], Entry]:
    return lambda transform: {"op": name, "p": float(transform.p)}


def _applied(transform: Any) -> Entry:
    inner = list(transform.transforms)
    for one in inner:
        _check_own(one)
    if len(inner) != 1 or _kind(inner[0]) not in _OPERATIONS:
        raise _refuse(transform, f"has {', '.join(map(_kind, inner))}: recipes give each operation a probability of its own")
    entry = _OPERATIONS[_kind(inner[0])](inner[0])
    if "p" not in entry:
        raise _refuse(transform, f"has the policy `{_kind(inner[0])}`, which recipes apply to every view")
    return {**entry, "p": entry["p"] * float(transform.p)}


_CONVERSIONS = {"ToTensor", "PILToTensor", "ToImage", "ToDtype", "ConvertImageDtype", "ToPureTensor", "RGB", "Identity"}
_CROPS: dict[str, Callable[[Any, int | None], Entry]] = {
    "RandomResizedCrop": _random_resized,
    "Resize": _whole,
    "CenterCrop": _center,
    "RandomCrop": _random,
}
_BINS = "num_magnitude_bins"
_OPERATIONS: dict[str, Callable[[Any], Entry]] = {
    "RandomHorizontalFlip": _with_p("flip"),
    "RandomVerticalFlip": _with_p("vertical_flip"),
    "ColorJitter": _jitter,
    "RandomGrayscale": _gray,
    "Grayscale": _gray,
    "GaussianBlur": _blur,
    "RandomSolarize": _solarize,
    "RandomPosterize": _posterize,
    "RandomInvert": _with_p("invert"),
    "RandomEqualize": _with_p("equalize"),
    "RandomAutocontrast": _with_p("auto_contrast"),
    "RandomAdjustSharpness": _sharpness,
    "RandomRotation": _rotation,
    "RandomAffine": _affine,
    "RandomPerspective": _perspective,
    "RandAugment": _policy("rand_augment", "num_ops", "magnitude", _BINS),
    "TrivialAugmentWide": _policy("trivial_augment_wide", _BINS),
    "AutoAugment": _policy("auto_augment", "policy"),
    "RandomErasing": _erase,
}
