"""open_clip's `get_data`, over `headwater.Loader`s.

    from headwater.integrations.open_clip import get_data

    data = get_data(args, (preprocess_train, preprocess_val), epoch=start_epoch, tokenizer=tokenizer)
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import torch

from .. import Loader, recipe_from
from ..errors import ConfigError
from ..sampling import BatchIterator, LoaderWrapper
from ._clip_tokens import Tokens
from ._opening import is_on_cluster, refuse, source

__all__ = ["get_data"]

# Batches that a loader makes in advance, and the slots it has beside them, unless they are set.
_WINDOW, _SPARE = 4, 4


def get_data(
    args: Any,
    preprocess_fns: tuple[Any, Any],
    epoch: int = 0,
    tokenizer: Any = None,
    *,
    text: str = "txt",
    text_path: Optional[str] = None,
    text_bytes_max: int = 4096,
    **options: Any,
) -> dict[str, Any]:
    """What `open_clip_train.data.get_data` returns: a `DataInfo` for each of `train`, `val` and the ImageNets in `args`.

    Args:
        args: open_clip's arguments.
        preprocess_fns: transforms for training and validation, of which recipes are made.
        epoch: the epoch that training begins with.
        tokenizer: open_clip's tokenizer. Ids are equal to what it returns.
        text: the file of a sample with its caption; `"txt|caption"` is the first that it has.
        text_path: the caption in that file, which is JSON then, as a JSON pointer: a string, or a list of strings. A draw from
            seed, epoch, pass and sample chooses one of a list.
        text_bytes_max: maximum bytes of that file; a sample with more is a bad sample.
        options: further keywords of `headwater.Loader`. With `storage`, `workers` or `ray`, `--train-data` is a dataset's name.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """
    from open_clip_train.data import DataInfo, get_imagenet

    if tokenizer is None:
        raise ConfigError("`tokenizer` is None: give `open_clip.get_tokenizer(args.model)`")
    captions = _Captions(tokenizer, text, text_path, text_bytes_max)
    preprocess_train, preprocess_val = preprocess_fns
    data: dict[str, Any] = {}
    if args.train_data or args.dataset_type == "synthetic":
        train = _train(args, preprocess_train, captions, options)
        train.loader.set_epoch(epoch)
        data["train"] = DataInfo(train, train.loader.sampler, _Epoch(train.loader))
    if args.val_data:
        data["val"] = DataInfo(_Validation(args, preprocess_val, captions, options))
    # Images in folders, without captions: open_clip's own loader.
    if args.imagenet_val is not None:
        data["imagenet-val"] = get_imagenet(args, preprocess_fns, "val")
    if args.imagenet_v2 is not None:
        data["imagenet-v2"] = get_imagenet(args, preprocess_fns, "v2")
    return data


class _Captions:
    """Fields of a recipe with a sample's caption, and the token ids of a batch."""

    def __init__(self, tokenizer: Any, source: str, path: Optional[str], bytes_max: int) -> None:
        self._path = path
        self._tokens = Tokens(tokenizer, source, bytes_max, by_workers=path is None)
        caption = {"name": "caption", "field": source, "kind": "text", "bytes_max": bytes_max}
        self.fields = [caption, *([self._tokens.field] if self._tokens.field else [])]

    def ids(self, batch: Any, seed: int) -> torch.Tensor:
        """`int64[batch, length]`."""
        captions = list(batch.caption)
        if self._path is not None:
            samples = batch.samples
            captions = [_chosen(*one, self._path, seed, batch.epoch) for one in zip(captions, samples)]
        return self._tokens(captions, batch)


class _Batches(LoaderWrapper):
    """Batches of a loader as open_clip takes them: images and token ids."""

    def __init__(self, loader: Loader, captions: _Captions, world_size: int) -> None:
        super().__init__(loader)
        self._captions = captions
        self._world_size = world_size
        self._seed = loader.config["seed"]

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return BatchIterator(self.loader, self._pair)

    def _pair(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        tensors = batch.torch()
        return tensors["images"], self._captions.ids(tensors, self._seed)

    @property
    def num_batches(self) -> int:
        """Batches of an epoch, on each rank."""
        return len(self.loader)

    @property
    def num_samples(self) -> int:
        """Samples of an epoch, on all ranks."""
        return self.num_batches * self.loader.batch_size * self._world_size


class _Validation:
    """The same for validation, which only one rank does: it opens with its first use."""

    def __init__(self, args: Any, preprocess: Any, captions: _Captions, options: dict[str, Any]) -> None:
        # What is said of the training's datasets.
        options = {name: value for name, value in options.items() if name != "datasets"}
        source = _source(args, args.val_data, "--val-data", options)
        recipe = _recipe(preprocess, captions)
        keywords = {"shuffle_block": 0, "epoch_end": "short_last", "rank": 0, "world_size": 1, "seed": args.seed, "label_field": ""}
        self._keywords = {**source, "recipe": recipe, "batch_size": args.batch_size, **keywords, **options}
        self._captions = captions
        self._opened: Optional[_Batches] = None

    def _open(self) -> _Batches:
        if self._opened is None:
            self._opened = _Batches(Loader(**self._keywords), self._captions, 1)
        return self._opened

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batches = self._open()
        batches.loader.set_epoch(0)
        return iter(batches)

    def __len__(self) -> int:
        return len(self._open())

    @property
    def num_batches(self) -> int:
        return len(self)

    @property
    def num_samples(self) -> int:
        return len(self._open().loader.dataset)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


class _Epoch:
    """open_clip's `SharedEpoch` of a loader."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_value(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def get_value(self) -> int:
        return self._loader.epoch


def _train(args: Any, preprocess: Any, captions: _Captions, options: dict[str, Any]) -> _Batches:
    if getattr(args, "dataset_resampled", False):
        refuse("--dataset-resampled", "open_clip", "an epoch here has each sample once: leave it out")
    if getattr(args, "train_data_upsampling_factors", None) is not None:
        refuse("--train-data-upsampling-factors", "open_clip", "leave it out, or give weights of datasets: `datasets=[(name, weight), ..]`")
    source = _source(args, args.train_data, "--train-data", options)
    rank, world_size = (args.rank, args.world_size) if args.distributed else (0, 1)
    keywords: dict[str, Any] = {"rank": rank, "world_size": world_size, "seed": args.seed, "label_field": ""}
    is_filtered = bool(options.get("filters"))
    if args.train_num_samples and is_filtered and "epoch_end" not in options:
        remedy = 'leave it out, or give the length of an epoch as `epoch_end={"steps": N}`'
        refuse(f"--train-num-samples {args.train_num_samples}` with `filters", "open_clip", remedy)
    # The files beside the shards count all samples.
    listed = None if args.train_num_samples or is_filtered or is_on_cluster(options) else _listed(args.train_data)
    samples = args.train_num_samples or listed
    epoch: dict[str, Any] = {}
    if samples:
        # As open_clip rounds: some samples come twice where the last batch would not be full.
        epoch["epoch_end"] = {"steps": math.ceil(samples / (args.batch_size * world_size))}
    accumulated = getattr(args, "accum_freq", 1)
    if accumulated > 1:
        # The training keeps this number of batches.
        keywords["slots_max"] = options.get("window_batches", _WINDOW) + _SPARE + accumulated
    recipe = _recipe(preprocess, captions)
    keywords = {**source, "recipe": recipe, "batch_size": args.batch_size, **keywords}
    loader = Loader(**{**keywords, **epoch, **options})
    here = len(loader.dataset)
    if listed and here < listed and "epoch_end" not in options:
        # The configuration's `[[filter]]` leaves some out.
        loader.close()
        warnings.warn(
            f"`--train-data` has {here} samples here, and {listed} by `sizes.json` or `__len__`: an epoch has the full batches of those that are here",
            stacklevel=3,
        )
        loader = Loader(**{**keywords, **options})
    return _Batches(loader, captions, world_size)


def _source(args: Any, given: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Where the loader finds its samples."""
    if args.dataset_type == "synthetic":
        refuse("--dataset-type synthetic", "open_clip", "nothing is loaded there: use open_clip's own get_data")
    if is_on_cluster(options):
        return source(given, 0, options)
    parts = given.split("::") if isinstance(given, str) else list(given)
    if args.dataset_type == "csv" or (args.dataset_type == "auto" and parts[0].endswith((".csv", ".tsv"))):
        refuse(f"{name} of CSV", "open_clip", "write its images and captions into WebDataset shards (tar), or into Parquet")
    return source(parts if len(parts) > 1 else parts[0], args.workers, options)


def _listed(shards: Any) -> Optional[int]:
    """Samples by `sizes.json` or `__len__` next to the shards, where open_clip looks for them."""
    from open_clip_train.data import get_dataset_size

    try:
        return get_dataset_size(shards)[0]
    except (KeyError, OSError, ValueError):
        return None


def _recipe(preprocess: Any, captions: _Captions) -> dict[str, Any]:
    """The recipe of open_clip's transforms."""
    try:
        recipe = recipe_from(_torchvision(preprocess))
    except ConfigError as error:
        raise ConfigError(
            f"open_clip's transforms: {error}; leave the option out that adds it (`--aug-cfg`, `--image-resize-mode`), or train with "
            "headwater.Loader itself and a recipe of its own"
        ) from error
    return {**recipe, "fields": captions.fields}


def _torchvision(preprocess: Any) -> list[Any]:
    """The transforms, with torchvision's own in place of open_clip's."""
    from torchvision import transforms

    found = []
    for step in getattr(preprocess, "transforms", [preprocess]):
        kind = type(step).__name__
        if not type(step).__module__.startswith("open_clip."):
            # A function `_convert_to_rgb` in older releases.
            found.append(step)
        elif kind == "MaybeToTensor":
            found.append(transforms.ToTensor())
        elif kind == "color_jitter":
            found.append(transforms.RandomApply([step.transf], p=step.p))
        elif kind == "gray_scale":
            found.append(transforms.RandomGrayscale(step.p))
        elif kind != "MaybeConvertMode":
            # All images are RGB here.
            found.append(step)
    return found


def _chosen(document: str, sample: Any, path: str, seed: int, epoch: int) -> str:
    """The caption of a sample, or one of its captions."""
    found: Any = None
    try:
        found = json.loads(document)
        for part in path.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            found = found[int(part)] if isinstance(found, list) else found[part]
    except (KeyError, IndexError, TypeError, ValueError):
        found = None
    if isinstance(found, str):
        return found
    if isinstance(found, Sequence) and found and all(isinstance(one, str) for one in found):
        drawn = f"{sample.dataset}\0".encode() + struct.pack("<QQQQ", seed, epoch, sample.pass_index, sample.id)
        number = int.from_bytes(hashlib.blake2b(drawn, digest_size=8).digest(), "little")
        return found[number * len(found) >> 64]
    raise ConfigError(
        f"sample {sample.key} of {sample.shard} has no caption at `text_path={path!r}`: give the JSON pointer of a text or of a list of texts, "
        "or leave such samples out of the shards"
    )
