"""timm's `create_naflex_loader`, over a `headwater.Loader`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Optional, Union

import torch

from .. import Loader
from ..sampling import BatchIterator, DataLoaderWrapper
from . import _opening
from ._timm_folders import check_classes, check_depth, located
from ._timm_recipe import DTYPES, MEAN, STD, eval_recipe, train_recipe

__all__ = ["NaFlexLoader", "create_naflex_loader"]

_NAME = "patches"
# timm's, of each rank.
_DIVISOR = 8
# Arguments without a counterpart, with the value that leaves them out, and what to do; the first of a training only.
_OF_TRAINING: dict[str, tuple[Any, str]] = {
    "patch_size_choices": (None, "a run has one patch size: give `patch_size`"),
    "patch_size_choice_probs": (None, "a run has one patch size: give `patch_size`"),
    "mixup_fn": (None, "sequences are not mixed: leave it out"),
    "no_aug": (False, "give a `headwater.Loader` with the crop `sequence` (docs/naflex.md)"),
    "re_prob": (0.0, "timm erases whole patches: leave it out, or erase in the training loop"),
    "num_aug_repeats": (0, "an augmented sample is drawn once a batch: leave it out"),
    "num_aug_splits": (0, "an augmented sample is drawn once a batch: leave it out"),
}
_UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "crop_border_pixels": (None, "recipes trim no border: leave it out, or trim when you pack the images"),
    "patchify_channels_last": (True, "channels of a pixel lie together: permute patches in the model"),
}


def create_naflex_loader(
    dataset: Any,
    patch_size: Union[tuple[int, int], int, None] = None,
    patch_size_choices: Optional[list[int]] = None,
    patch_size_choice_probs: Optional[list[float]] = None,
    train_seq_lens: tuple[int, ...] = (128, 256, 576, 784, 1024),
    max_seq_len: int = 576,
    batch_size: int = 32,
    is_training: bool = False,
    mixup_fn: Any = None,
    no_aug: bool = False,
    re_prob: float = 0.0,
    re_mode: str = "const",
    re_count: int = 1,
    re_split: bool = False,
    train_crop_mode: Optional[str] = None,
    scale: Optional[tuple[float, float]] = None,
    ratio: Optional[tuple[float, float]] = None,
    hflip: float = 0.5,
    vflip: float = 0.0,
    color_jitter: Union[float, Sequence[float], None] = 0.4,
    color_jitter_prob: Optional[float] = None,
    grayscale_prob: float = 0.0,
    gaussian_blur_prob: float = 0.0,
    auto_augment: Optional[str] = None,
    num_aug_repeats: int = 0,
    num_aug_splits: int = 0,
    interpolation: str = "bilinear",
    mean: tuple[float, ...] = MEAN,
    std: tuple[float, ...] = STD,
    crop_pct: Optional[float] = None,
    crop_mode: Optional[str] = None,
    crop_border_pixels: Optional[int] = None,
    num_workers: int = 4,
    distributed: bool = False,
    rank: int = 0,
    world_size: int = 1,
    seed: int = 42,
    epoch: int = 0,
    use_prefetcher: bool = True,
    pin_memory: bool = True,
    img_dtype: torch.dtype = torch.float32,
    device: Any = torch.device("cuda"),  # noqa: B008: timm's default
    persistent_workers: bool = True,
    worker_seeding: str = "all",
    patchify_channels_last: bool = True,
    **options: Any,
) -> NaFlexLoader:
    """A loader with the arguments of `timm.data.create_naflex_loader`.

    Args:
        dataset: a path, a pattern, a URL or a list of them, as for `headwater.Loader`. With `storage`, `workers` or `ray` in
            `options`, the name of a dataset of the cluster.
        options: further keywords of `headwater.Loader`, such as `epoch_end`, and `batch_divisor`: what divides the samples of a
            training's batch over all ranks, 8 times `world_size` unless given. A training that goes on with other numbers of ranks
            needs one that they all divide.

    The others are timm's. Batches are `(inputs, target)`: a dict with `patches`, `patch_coord`, `patch_valid` and `seq_len`, and
    `int64[batch]`.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """
    given = dict(locals())
    for name, (unset, remedy) in {**_UNSUPPORTED, **(_OF_TRAINING if is_training else {})}.items():
        # Nothing, however it is written, is nothing; and False is not what stands for True.
        if given[name] != unset and (given[name] or unset is True):
            _refuse(name, given[name], remedy)
    side = patch_size if patch_size is not None else 16
    if not isinstance(side, int):
        if len(set(side)) != 1:
            _refuse("patch_size", side, "patches are squares: give one side")
        side = side[0]
    on = torch.device(device) if use_prefetcher else torch.device("cpu")
    dtype = DTYPES.get(img_dtype if use_prefetcher else torch.float32)
    if dtype is None:
        _refuse("img_dtype", img_dtype, "give torch.float32, torch.bfloat16 or torch.float16")
    keywords: dict[str, Any] = {"seed": seed}
    if is_training:
        recipe = train_recipe({**given, "input_size": side}, dtype)
        crop = recipe["tensors"][0]["views"][0]["crop"]
        crop = {"kind": "random_resized_sequence", "scale": crop["scale"], "ratio": crop["ratio"]}
        # `batch_size` is that of the longest sequences, as in timm.
        lengths = sorted(set(train_seq_lens), reverse=True)
        if batch_size < _DIVISOR:
            _refuse("batch_size", batch_size, f"batches are multiples of {_DIVISOR}: give {_DIVISOR} or more")
        if len(lengths) == 1:
            # Several lengths are rounded by the schedule.
            batch_size -= batch_size % _DIVISOR
    else:
        # timm's validation has no other crop here, whatever `crop_pct` is.
        if interpolation == "random":
            _refuse("interpolation", interpolation, "give 'bicubic' or 'bilinear' for a validation")
        recipe = eval_recipe({**given, "input_size": side, "crop_pct": None, "crop_mode": None}, dtype)
        crop, lengths = {"kind": "sequence"}, [max_seq_len]
        keywords |= {"shuffle_block": 0, "epoch_end": "short_last"}
    views = [{"crop": crop, "ops": recipe["tensors"][0]["views"][0]["ops"]}]
    tensor = {"name": _NAME, "dtype": dtype, "patch_size": side, "sequence_lengths": lengths, "views": views}
    tensor["batch_divisor"] = options.pop("batch_divisor", _DIVISOR * (world_size if distributed else 1))
    keywords |= {"recipe": {**recipe, "tensors": [tensor]}, "batch_size": batch_size}
    if not distributed:
        keywords |= {"rank": 0, "world_size": 1}
    elif is_training or world_size > 1:
        keywords |= {"rank": rank, "world_size": world_size}
    # Else, as timm's sampler of an evaluation has it, those of `torch.distributed`.
    if on.type == "cuda":
        keywords["device"] = str(on)
    check_depth(dataset)
    loader = Loader(**{**_opening.source(located(dataset), num_workers, options), **keywords, **options})
    is_folder = isinstance(dataset, (str, os.PathLike)) and os.path.isdir(dataset)
    if _opening.is_on_cluster(options) or is_folder:
        check_classes(loader)
    if epoch:
        loader.set_epoch(epoch)
    return NaFlexLoader(loader, on, is_training)


def _refuse(name: str, value: Any, remedy: str) -> NoReturn:
    _opening.refuse(f"{name}={value!r}", "create_naflex_loader", remedy)


class NaFlexLoader(DataLoaderWrapper):
    """Batches of a loader as timm's training of NaFlex models takes them: `(inputs, target)`.

    Epochs follow each other as those of a `headwater.Loader`; a validation goes through the same batches each time.
    """

    def __init__(self, loader: Loader, device: torch.device, is_training: bool) -> None:
        super().__init__(loader)
        self._device = device
        self._is_training = is_training

    def __iter__(self) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
        if not self._is_training:
            self.loader.set_epoch(0)
        return BatchIterator(self.loader, self._pair)

    def _pair(self, batch: Any) -> tuple[dict[str, Any], torch.Tensor]:
        tensors = batch.to(self._device, non_blocking=True)
        patches: torch.Tensor = tensors[_NAME]
        inputs = {"patches": patches, "patch_coord": tensors[f"{_NAME}_coord"], "patch_valid": tensors[f"{_NAME}_valid"]}
        return {**inputs, "seq_len": patches.shape[1]}, tensors["labels"]
