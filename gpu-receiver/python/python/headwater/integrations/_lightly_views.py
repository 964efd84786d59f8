"""Recipes from the settings of lightly-train's transforms, which are read and never called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from ._opening import refuse

__all__ = ["recipe", "views_of"]

Entry = dict[str, Any]

_OWNER = "lightly_train.pretrain"
_OWN_RECIPE = "leave it out, or give a recipe of your own, `recipe={..}`"
# Between the area's mean that lightly-train resizes with and each filter that recipes have, this one's pixels are the nearest.
_FILTER = "bicubic"
# Classes of lightly-train with views of one kind, and how many of them.
_ALIKE = {"DenseCLTransform": 2, "SimCLRTransform": 2, "DistillationTransform": 1, "DistillationV2Transform": 1, "DistillationV3Transform": 1}
# Views without the colours of others that DINOv3.1 adds, one for each global view.
_GLOBALS = 2


class _View(NamedTuple):
    """A view, with its height and width."""

    size: tuple[int, int]
    spec: Entry


def recipe(transform: Any, paka_windows: bool) -> Entry:
    """The recipe of a `MethodTransform`: views in its order, those of one size that follow each other in one tensor."""
    args, kinds = transform.transform_args, [one.__name__ for one in type(transform).__mro__]
    _check(args)
    bases: list[Entry] = []
    if "DINOv31Transform" in kinds:
        bases = [_base(args) for _ in range(_GLOBALS)]
        views = _of_dinov31(args, paka_windows)
    elif "DINOTransform" in kinds:
        views = _of_dino(args)
    else:
        count = next((count for kind, count in _ALIKE.items() if kind in kinds), None)
        if count is None:
            refuse(f"transform={kinds[0]}", _OWNER, "give a recipe of your own, `recipe={..}`")
        views = [_view(args, args.image_size, args.random_resize, args.gaussian_blur, args.solarize)] * count
    tensors: list[Entry] = []
    for view in views:
        height, width = view.size
        if not tensors or (tensors[-1]["height"], tensors[-1]["width"]) != (height, width):
            tensors.append({"name": f"views_{len(tensors)}", "dtype": "f32", "height": height, "width": width, "views": []})
        tensors[-1]["views"].append(view.spec)
    fields = [{"name": _geometry(one["name"]), "kind": "geometry", "like": one["name"]} for one in tensors]
    normalize = {"mean": [float(one) for one in args.normalize.mean], "std": [float(one) for one in args.normalize.std]}
    found: Entry = {"preset": "custom", **normalize, "interpolation": _FILTER, "bases": bases, "tensors": tensors}
    return {**found, "fields": fields} if getattr(args, "record_geometry", False) else found


def _geometry(tensor: str) -> str:
    return f"{tensor}_geometry"


def views_of(batch: Any, tensors: dict[str, int], geometries: dict[str, str]) -> Entry:
    """A batch as lightly-train's collate makes it: `filename`, `views` and, where the recipe has them, `geometries`.

    `tensors` has the number of views of each image tensor, `geometries` the geometry field of a tensor.
    """
    found: Entry = {"filename": list(batch.keys), "views": []}
    arrays = batch.torch()
    places: list[Any] = []
    for name, count in tensors.items():
        found["views"] += arrays[name].chunk(count)
        if name in geometries:
            places += _places(arrays, geometries[name], count)
    return {**found, "geometries": places} if places else found


def _places(arrays: Any, name: str, count: int) -> list[Any]:
    """For each view `float32[batch, 8]`: left, top, right, bottom, the image's width and height, and both flips."""
    import torch

    size = arrays[f"{name}_size"].flip(1).repeat(count, 1)
    rows = torch.cat([arrays[f"{name}_box"], size.float(), arrays[f"{name}_flip"].float()], dim=1)
    return list(rows.chunk(count))


def _check(args: Any) -> None:
    """That nothing in the settings would be left out."""
    if args.channel_drop is not None:
        refuse("channel_drop", _OWNER, _OWN_RECIPE)
    if args.num_channels != 3:
        refuse(f"num_channels={args.num_channels}", _OWNER, "images have three channels here: use lightly_train's own pretrain")
    if args.random_rotation is not None:
        refuse("random_rotation", _OWNER, f"its edges are mirrored, which recipes do not have: {_OWN_RECIPE}")


def _of_dino(args: Any) -> list[_View]:
    """Two global views, and the local ones."""
    one = args.global_view_1
    views = [
        _view(args, args.image_size, args.random_resize, args.gaussian_blur, args.solarize),
        _view(args, args.image_size, args.random_resize, one.gaussian_blur, one.solarize),
    ]
    local = args.local_view
    return views if local is None else [*views, *[_local(args)] * local.num_views]


def _local(args: Any) -> _View:
    local = args.local_view
    return _view(args, local.view_size, local.random_resize, local.gaussian_blur, args.solarize)


def _of_dinov31(args: Any, paka_windows: bool) -> list[_View]:
    """Those of DINO, both global views without colours, and the windows of these that PaKA's student sees."""
    height, width = args.image_size
    clean = [_View((height, width), {"crop": {"kind": "base", "base": number}, "ops": []}) for number in range(_GLOBALS)]
    colours = [_colours(args, args.gaussian_blur, args.solarize), _colours(args, args.global_view_1.gaussian_blur, args.global_view_1.solarize)]
    globals_ = [view._replace(spec={**view.spec, "ops": ops}) for view, ops in zip(clean, colours)]
    views = [*globals_, *_of_dino(args)[_GLOBALS:], *clean]
    if args.paka_num_local == 0:
        return views
    if not paka_windows:
        refuse(
            f"paka_num_local={args.paka_num_local}",
            _OWNER,
            "a recipe cuts no part of a random size out of a random crop: give `paka_windows=True` for windows of a fixed size "
            "(docs/integrations/lightly_train.md)",
        )
    size = args.local_view.view_size
    if height != width or max(size) > height:
        refuse(f"image_size=({height}, {width}) with paka_windows", _OWNER, "give a square that is no smaller than the local views")
    flips, ops = _flips(args), _colours(args, args.local_view.gaussian_blur, args.solarize)
    for number in range(args.paka_num_local):
        crop = {"kind": "window_of_base", "base": number % _GLOBALS, "within": height, "stride": 1}
        views.append(_View((size[0], size[1]), {"crop": crop, "ops": [*flips, *ops]}))
    return views


def _base(args: Any) -> Entry:
    height, width = args.image_size
    return {"height": height, "width": width, "view": {"crop": _crop(args.random_resize), "ops": _flips(args)}}


def _view(args: Any, size: Sequence[int], resize: Any, blur: Any, solarize: Any) -> _View:
    return _View((size[0], size[1]), {"crop": _crop(resize), "ops": [*_flips(args), *_colours(args, blur, solarize)]})


def _crop(resize: Any) -> Entry:
    if resize is None:
        return {"kind": "resize"}
    return {"kind": "random_resized", "scale": list(resize.scale_as_tuple()), "ratio": list(resize.ratio_as_tuple())}


def _flips(args: Any) -> list[Entry]:
    flips = args.random_flip
    if flips is None:
        return []
    given = {"flip": flips.horizontal_prob, "vertical_flip": flips.vertical_prob}
    return [{"op": op, "p": p} for op, p in given.items() if p > 0]


def _colours(args: Any, blur: Any, solarize: Any) -> list[Entry]:
    ops = [_jitter(args.color_jitter), _grey(args.random_gray_scale), _blur(blur)]
    if solarize is not None and solarize.prob > 0:
        # Levels of the threshold and above are inverted.
        ops.append({"op": "solarize", "p": solarize.prob, "threshold": int(-(-solarize.threshold * 255 // 1))})
    return [one for one in ops if one is not None]


def _jitter(jitter: Any) -> Optional[Entry]:
    if jitter is None or jitter.prob == 0:
        return None
    shares = {name: jitter.strength * getattr(jitter, name) for name in ("brightness", "contrast", "saturation")}
    factors = {name: [max(0.0, 1 - share), 1 + share] for name, share in shares.items()}
    hue = jitter.strength * jitter.hue
    return {"op": "color_jitter", "p": jitter.prob, **factors, "hue": [-hue, hue]}


def _grey(p: Optional[float]) -> Optional[Entry]:
    return {"op": "grayscale", "p": p} if p else None


def _blur(blur: Any) -> Optional[Entry]:
    if blur is None or blur.prob == 0:
        return None
    if blur.blur_limit not in (0, (0, 0)):
        refuse(f"blur_limit={blur.blur_limit}", _OWNER, "the size of the kernel follows from sigma here: leave it at 0")
    # A sigma of less than 1 / 3.5 has a kernel of one pixel.
    return None if max(blur.sigmas) * 3.5 < 1 else {"op": "pil_blur", "p": blur.prob, "radius": list(blur.sigmas)}
