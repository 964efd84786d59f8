"""Keywords of other loaders, translated into those of a `headwater.Loader`. `_words` says in words what each of them means."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

from ._words import REFUSED
from .errors import ConfigError

__all__ = ["ACCEPTED", "REFUSED", "located", "translate"]

Keywords = dict[str, Any]


def translate(given: Keywords, has_data: bool) -> None:
    """Puts keywords of the loader in place of those that others have for the same.

    Raises `ConfigError` for one that has no meaning here, with what there is in its place, and for values that do not fit.
    """
    if str(given.get("device")) == "cuda":
        given["device"] = _current_gpu()
    _check_recipe(given.get("recipe"))
    if not has_data and not any(given.get(name) for name in ("storage", "workers", "ray")):
        _check_names(given.get("datasets"))
    translated: Keywords = {}
    for name in [name for name in given if name in REFUSED or name in ACCEPTED]:
        value = given.pop(name)
        if value is None:
            continue
        if name in REFUSED:
            raise ConfigError(f"`{name}` is not a keyword of the loader: {REFUSED[name]}")
        for key, meant in ACCEPTED[name](name, value, has_data).items():
            if given.get(key) is not None or key in translated:
                raise ConfigError(f"`{name}` and `{key}` are the same: leave one out")
            translated[key] = meant
    given.update(translated)


def located(data: Any) -> Any:
    """The argument `data` with the home folder in place of `~`.

    Raises `ConfigError` for an object in place of a path.
    """
    if isinstance(data, (str, os.PathLike)):
        return os.path.expanduser(data)
    if isinstance(data, Mapping):
        return {name: located(one) for name, one in data.items()}
    if isinstance(data, Sequence):
        return [located(one) for one in data]
    if data is None or isinstance(data, (bool, int, float)):
        return data
    kind = type(data).__name__
    root = getattr(data, "root", None)
    if isinstance(root, (str, os.PathLike)):
        raise ConfigError(f"`data` is an object of {kind}: give the path of its files, `Loader({os.fspath(root)!r})`")
    raise ConfigError(
        f"`data` is an object of {kind}: give a path, a pattern, a URL, or a list or dict of them; a dataset class of your "
        'own is "python:module:Class" (docs/own-python.md)'
    )


def _check_recipe(recipe: Any) -> None:
    if callable(recipe) or isinstance(recipe, (list, tuple)) and any(map(callable, recipe)):
        raise ConfigError(
            f"`recipe` is a {type(recipe).__name__}, which runs in Python: `headwater.recipe_from(..)` makes a recipe of "
            "torchvision's transforms; else give the name of a preset, or a dict (docs/operations.md)"
        )


def _current_gpu() -> str:
    torch = sys.modules.get("torch")
    return f"cuda:{torch.cuda.current_device() if torch and torch.cuda.is_available() else 0}"


def _check_names(datasets: Any) -> None:
    for name in [datasets] if isinstance(datasets, str) else datasets or ():
        if isinstance(name, str) and (name.endswith(("/", ".tar")) or "*" in name or "{" in name):
            raise ConfigError(
                f"`datasets` is for names of datasets that a cluster serves, and {name!r} is a path: give it as the first "
                f"argument, `Loader({name!r})`"
            )


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ConfigError(f"`{name}` is {value!r}: give True or False")


def _count(name: str, value: object) -> int:
    if isinstance(value, SupportsIndex) and not isinstance(value, bool) and (number := operator.index(value)) >= 0:
        return number
    raise ConfigError(f"`{name}` is {value!r}: give a whole number, 0 or more")


def _shuffle(name: str, value: object, _: bool) -> Keywords:
    return {} if _flag(name, value) else {"shuffle_block": 0}


def _drop_last(name: str, value: object, _: bool) -> Keywords:
    return {"epoch_end": "drop_last" if _flag(name, value) else "short_last"}


def _threads(name: str, value: object, has_data: bool) -> Keywords:
    threads = _count(name, value)
    if not has_data:
        raise ConfigError(f"`{name}` goes with `data`, which is not given: workers of a cluster have threads of their own")
    # The loader's services render in any case.
    return {"augment_threads": threads} if threads else {}


def _timeout(name: str, value: Any, _: bool) -> Keywords:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ConfigError(f"`{name}` is {value!r}: give seconds, 0 for the usual time")
    return {"worker_wait_ms": round(value * 1000)} if value else {}


def _window(name: str, value: object, _: bool) -> Keywords:
    return {"window_batches": max(_count(name, value), 1)}


def _no_effect(name: str, value: object, _: bool) -> Keywords:
    _flag(name, value)
    return {}


def _same(key: str) -> Callable[[str, Any, bool], Keywords]:
    return lambda _name, value, _has_data: {key: value}


ACCEPTED: dict[str, Callable[[str, Any, bool], Keywords]] = {
    # PyTorch's DataLoader.
    "shuffle": _shuffle,
    "drop_last": _drop_last,
    "num_workers": _threads,
    "prefetch_factor": _window,
    "timeout": _timeout,
    # Batches are ready in memory that a GPU can be given, and services stay between epochs.
    "pin_memory": _no_effect,
    "persistent_workers": _no_effect,
    # DALI.
    "random_shuffle": _shuffle,
    "num_threads": _threads,
    "prefetch_queue_depth": _window,
    "shard_id": _same("rank"),
    "num_shards": _same("world_size"),
    # timm, torchvision's scripts.
    "img_size": _same("image_size"),
    "crop_size": _same("image_size"),
    "scale": _same("crop_scale"),
}
