"""lightly-train's `pretrain`, over a `headwater.Loader`.

    from headwater.integrations.lightly_train import pretrain

    pretrain(out="out", data="photos/", model="dinov2/vits14", method="dinov2", callbacks={"model_checkpoint": {"every_n_train_steps": 1000}})
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import torch

from .. import Loader
from ..errors import ConfigError
from ..sampling import BatchIterator, DataLoaderWrapper
from ._lightly_views import recipe, views_of
from ._opening import is_on_cluster, refuse, source

try:
    from pytorch_lightning import Callback
except ModuleNotFoundError:  # Tools that read every module, such as stubtest, do not need it.
    Callback = object

__all__ = ["pretrain"]

_OWNER = "lightly_train.pretrain"


def pretrain(*, paka_windows: bool = False, **arguments: Any) -> None:
    """`lightly_train.pretrain`, with its arguments, whose batches come from a `headwater.Loader`.

    Args:
        data: as upstream a folder, or a list of folders and images. Or else what `headwater.Loader` takes: shards, a pattern, a
            URL; with `storage`, `workers` or `ray`, the name of a dataset of a cluster.
        seed: also that of the loader.
        num_workers: threads that render, if the loader has services of its own; "auto" leaves the number to it.
        paka_windows: that PaKA's student of `method="dinov31"` sees windows of a fixed size.
        arguments: upstream's, and further keywords of `headwater.Loader`, such as `filters` or `recipe`.

    Lightning's checkpoints have the loader's state: `resume_interrupted=True` goes on with the next batch.

    For the time of the call, functions of `lightly_train._commands` are replaced: what opens the dataset, the loader and the Trainer.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """
    import lightly_train
    from lightly_train._commands import common_helpers, train_helpers

    theirs = inspect.signature(lightly_train.pretrain).parameters
    options = {name: value for name, value in arguments.items() if name not in theirs}
    arguments = {name: value for name, value in arguments.items() if name in theirs}
    if arguments.get("loader_args"):
        refuse("loader_args", _OWNER, "there is no DataLoader: leave it out, and give keywords of headwater.Loader")
    if os.environ.get("LIGHTLY_TRAIN_MASK_DIR"):
        refuse("LIGHTLY_TRAIN_MASK_DIR", _OWNER, "lightly-train's masks are files beside the images: use its own pretrain")
    opening = _Opening(arguments, options, paka_windows)
    with contextlib.ExitStack() as stack:
        stack.callback(opening.close)
        for module, name, ours in (
            (common_helpers, "get_dataset", opening.dataset),
            (train_helpers, "get_dataloader", opening.loader),
            (train_helpers, "get_trainer", opening.trainer),
        ):
            own = getattr(module, name)
            stack.callback(setattr, module, name, own)
            setattr(module, name, functools.partial(ours, own))
        lightly_train.pretrain(**arguments)


class _Opening:
    """What `pretrain` opens: samples to count, a Trainer, and a loader. Methods get upstream's function in place of which they are."""

    def __init__(self, arguments: dict[str, Any], options: dict[str, Any], paka_windows: bool) -> None:
        threads = arguments.get("num_workers", "auto")
        self._keywords = {**source(_located(arguments.get("data")), threads if isinstance(threads, int) else 0, options), "label_field": ""}
        self._keywords |= {"epoch_end": "drop_last", "seed": arguments.get("seed", 0), **options}
        self._paka_windows = paka_windows
        # Upstream's list has the images that filters leave out, too.
        is_whole = not is_on_cluster(options) and not options.get("filters")
        self._is_listed = is_whole and _is_of_images(arguments.get("data"))
        self._opened: Optional[_Batches] = None

    def dataset(self, own: Callable[..., Any], *, transform: Any, **given: Any) -> Any:
        """In place of `get_dataset`: upstream's dataset, or only the number of samples, where upstream could not read them."""
        if self._is_listed:
            return own(transform=transform, **given)
        # Before there are ranks: the number sets epochs and schedules.
        loader = Loader(**{**self._of(transform), "batch_size": 1, "rank": 0, "world_size": 1})
        try:
            return _Counted(len(loader.dataset), transform)
        finally:
            loader.close()

    def loader(self, _: Callable[..., Any], *, dataset: Any, batch_size: int, **__: Any) -> _Batches:
        """In place of `get_dataloader`."""
        counted = dataset
        self._opened = _Batches({**self._of(counted.transform), "batch_size": batch_size}, len(counted))
        return self._opened

    def trainer(self, own: Callable[..., Any], **given: Any) -> Any:
        """In place of `get_trainer`: upstream's, whose checkpoints have the loader's state."""
        others = given["trainer_args"] or {}
        owner = others if others.get("callbacks") is not None else given
        callbacks = owner["callbacks"] if isinstance(owner["callbacks"], list) else [owner["callbacks"]]
        added = {"callbacks": [*callbacks, _State(self)]}
        return own(**{**given, "trainer_args": {**others, **added}} if owner is others else {**given, **added})

    @property
    def batches(self) -> Optional[_Batches]:
        """The loader, as soon as `pretrain` has made it."""
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _of(self, transform: Any) -> dict[str, Any]:
        return {**self._keywords, "recipe": self._keywords.get("recipe") or recipe(transform, self._paka_windows)}


class _State(Callback):
    """Puts the loader's state into Lightning's checkpoints.

    Lightning saves it, too. But it does not load it where `configure_optimizers` has asked for `estimated_stepping_batches`, as all
    methods of lightly-train do: loaders are then set up before the checkpoint is read.
    """

    def __init__(self, opening: _Opening) -> None:
        self._opening = opening

    @property
    def state_key(self) -> str:
        return "headwater.integrations.lightly_train"

    def state_dict(self) -> dict[str, Any]:
        return {} if self._opening.batches is None else self._opening.batches.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self._opening.batches is not None:
            self._opening.batches.load_state_dict(state_dict)


class _Counted(torch.utils.data.Dataset[Any]):
    """The number of samples, and the transform whose settings are read."""

    def __init__(self, samples: int, transform: Any) -> None:
        self._samples = samples
        self.transform = transform

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: object) -> Any:
        raise TypeError("samples come in batches: iterate over the loader")


class _Batches(DataLoaderWrapper):
    """Batches as lightly-train's methods take them. The loader opens with its first use, when Lightning has made the ranks."""

    def __init__(self, keywords: dict[str, Any], samples: int) -> None:
        self._keywords = keywords
        self._samples = samples
        self._loader: Optional[Loader] = None
        self._tensors: dict[str, int] = {}
        self._geometries: dict[str, str] = {}

    @property
    def loader(self) -> Loader:  # type: ignore[override]
        """The loader, which is opened if it is not yet."""
        if self._loader is None:
            loader = Loader(**self._keywords)
            if len(loader.dataset) != self._samples:
                found = len(loader.dataset)
                loader.close()
                raise ConfigError(f"`data` has {self._samples} images for lightly-train, and {found} for the loader: give the images as shards")
            self._tensors = {one["name"]: len(one["views"]) for one in loader.recipe["tensors"] if "views" in one}
            self._geometries = {one["like"]: one["name"] for one in loader.recipe.get("geometry", ())}
            self._loader = loader
        return self._loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return BatchIterator(self.loader, self._collated)

    def _collated(self, batch: Any) -> dict[str, Any]:
        return views_of(batch, self._tensors, self._geometries)

    def close(self) -> None:
        if self._loader is not None:
            self._loader.close()


def _located(data: Any) -> Any:
    return os.fspath(data) if isinstance(data, os.PathLike) else data


def _is_of_images(data: Any) -> bool:
    """Whether upstream reads it: a folder, or a list of folders and images."""
    if isinstance(data, (str, os.PathLike)):
        return os.path.isdir(data)
    if not isinstance(data, (list, tuple)) or not data:
        return False
    from lightly_train._data.file_helpers import _supported_image_extensions

    endings = _supported_image_extensions()
    return all(os.path.isdir(one) or Path(one).suffix.lower() in endings for one in data)
