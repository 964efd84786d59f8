"""timm's `create_loader`, over a `headwater.Loader`.

    from headwater.integrations.timm import create_loader

    loader_train = create_loader("imagenet/train", input_size=224, batch_size=128, is_training=True, re_prob=0.25,
                                 re_mode="pixel", auto_augment="rand-m9-mstd0.5-inc1", collate_fn=FastCollateMixup(..))
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union

import torch

from .. import Loader
from ..errors import ConfigError
from ..mixing import mix, soft_labels
from ..sampling import BatchIterator, DataLoaderWrapper
from ._opening import is_on_cluster, source
from ._timm_folders import check_classes, check_depth, located
from ._timm_naflex import create_naflex_loader
from ._timm_recipe import DTYPES, MEAN, STD, check_unsupported, eval_recipe, refuse, sides, train_recipe

__all__ = ["create_loader", "create_naflex_loader"]

_MODES = ("batch", "elem", "pair")
# What a loader's own recipe decides.
_OF_RECIPE = """no_aug re_prob re_mode train_crop_mode scale ratio vflip color_jitter_prob grayscale_prob gaussian_blur_prob
    auto_augment crop_pct crop_mode""".split()


def create_loader(
    dataset: Any,
    input_size: Union[int, tuple[int, int], tuple[int, int, int]],
    batch_size: int,
    is_training: bool = False,
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
    num_workers: int = 1,
    distributed: bool = False,
    crop_pct: Optional[float] = None,
    crop_mode: Optional[str] = None,
    crop_border_pixels: Optional[int] = None,
    collate_fn: Any = None,
    pin_memory: bool = False,
    fp16: bool = False,
    img_dtype: Optional[torch.dtype] = torch.float32,
    device: Any = torch.device("cuda"),  # noqa: B008: timm's default
    use_prefetcher: bool = True,
    use_multi_epochs_loader: bool = False,
    persistent_workers: bool = True,
    worker_seeding: str = "all",
    tf_preprocessing: bool = False,
    input_size_choices: Any = None,
    batch_size_choices: Any = None,
    batch_choice_weights: Any = None,
    batch_choice_seed: int = 0,
    batch_choice_schedule: str = "constant",
    batch_schedule_epochs: Optional[int] = None,
    batch_schedule_spread: float = 0.65,
    batch_schedule_random_mix: float = 0.1,
    num_batches: Optional[int] = None,
    *,
    mixup_fn: Any = None,
    **options: Any,
) -> TimmLoader:
    """A loader with the arguments of `timm.data.create_loader`.

    Args:
        dataset: a path, a pattern, a URL or a list of them, as for `headwater.Loader`. With `storage`, `workers` or `ray` in
            `options`, the name of a dataset of the cluster. Or an open `headwater.Loader`, whose recipe then decides the views.
        collate_fn, mixup_fn: timm's `FastCollateMixup` or `Mixup`. Its settings are read; the draws are the receiver's.
        options: further keywords of `headwater.Loader`, such as `seed`.

    The others are timm's. Batches are `(input, target)`: normalised images on `device` in `img_dtype`, and `int64[batch]`, or
    with mixup `float32[batch, num_classes]`.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """
    given = dict(locals())
    check_unsupported(given)
    # timm leaves batches on the host without its prefetcher, in float32.
    device = torch.device(device) if use_prefetcher else torch.device("cpu")
    wanted = torch.float16 if fp16 and use_prefetcher else img_dtype if use_prefetcher else torch.float32
    dtype = DTYPES.get(wanted or torch.float32)
    if dtype is None:
        refuse("img_dtype", img_dtype, "give torch.float32, torch.bfloat16 or torch.float16")
    mixup = _mixup(collate_fn, mixup_fn, batch_size, is_training)
    if isinstance(dataset, Loader):
        _check_open(dataset, given, mixup)
        return TimmLoader(dataset, device, is_training, mixup)
    recipe = (train_recipe if is_training else eval_recipe)(given, dtype)
    keywords: dict[str, Any] = {"recipe": recipe, "batch_size": batch_size, **options}
    if not is_training:
        keywords.setdefault("shuffle_block", 0)
        keywords.setdefault("epoch_end", "short_last")
    if not distributed:
        keywords = {"rank": 0, "world_size": 1, **keywords}
    if mixup is not None:
        keywords["mixing"] = _mixing(mixup)
    if device.type == "cuda":
        keywords.setdefault("device", str(device))
    check_depth(dataset)
    loader = Loader(**{**source(located(dataset), num_workers, options), **keywords})
    is_folder = isinstance(dataset, (str, os.PathLike)) and os.path.isdir(dataset)
    if is_on_cluster(options) or is_folder:
        check_classes(loader)
    return TimmLoader(loader, device, is_training, mixup)


class TimmLoader(DataLoaderWrapper):
    """Batches of a loader as timm's training and validation take them: `(input, target)`.

    Epochs follow each other as those of a `headwater.Loader`; a validation goes through the same batches each time.
    """

    def __init__(self, loader: Loader, device: torch.device, is_training: bool, mixup: Any) -> None:
        super().__init__(loader)
        self._device = device
        self._is_training = is_training
        self._mixup = mixup

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        if not self._is_training:
            self.loader.set_epoch(0)
        return BatchIterator(self.loader, self._pair)

    def _pair(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        batch = batch.to(self._device, non_blocking=True)
        images, labels = batch["images"], batch["labels"]
        if self._mixup is None:
            return images, labels
        classes, smoothing = self._mixup.num_classes, self._mixup.label_smoothing
        if self._mixup.mixup_enabled:
            return mix(images, labels, batch, num_classes=classes, smoothing=smoothing)
        return images, soft_labels(labels, labels, torch.ones(len(labels), device=labels.device), classes, smoothing)

    @property
    def mixup_enabled(self) -> bool:
        """Whether batches are mixed. As in timm, targets stay soft after it is set to False; without mixup it has no effect."""
        return self._mixup is not None and bool(self._mixup.mixup_enabled)

    @mixup_enabled.setter
    def mixup_enabled(self, enabled: bool) -> None:
        if self._mixup is not None:
            self._mixup.mixup_enabled = enabled


def _mixup(collate_fn: Any, mixup_fn: Any, batch_size: int, is_training: bool) -> Any:
    """timm's object with the settings of mixup, if there is one."""
    for name, one in (("collate_fn", collate_fn), ("mixup_fn", mixup_fn)):
        if one is None or getattr(one, "__name__", "") in ("fast_collate", "default_collate"):
            continue
        if not hasattr(one, "mixup_enabled"):
            refuse(name, one, "batches come ready: give timm's `FastCollateMixup` or `Mixup`, or leave it out")
        if collate_fn is not None and mixup_fn is not None:
            refuse("mixup_fn", mixup_fn, "`collate_fn` mixes already: leave one out")
        if not is_training:
            refuse(name, one, "a validation is not mixed: leave it out")
        if batch_size % 2:
            refuse("batch_size", batch_size, "timm mixes an even number of samples")
        if one.mode not in _MODES:
            refuse(name, one.mode, f"give a mixup with `mode` {', '.join(_MODES)}")
        if not one.correct_lam:
            refuse(name, one, "give a mixup with `correct_lam=True`")
        if getattr(one, "multi_label", False):
            refuse(name, one, "labels are class numbers: give a mixup with `multi_label=False`")
        return one
    return None


def _mixing(mixup: Any) -> dict[str, Any]:
    """`receiver.mixing` of timm's object."""
    mixing = {"style": "timm", "mixup_alpha": float(mixup.mixup_alpha), "prob": float(mixup.mix_prob)}
    mixing |= {"switch_prob": float(mixup.switch_prob), "mode": mixup.mode}
    if mixup.cutmix_minmax is not None:
        return {**mixing, "cutmix_minmax": [float(one) for one in mixup.cutmix_minmax]}
    return {**mixing, "cutmix_alpha": float(mixup.cutmix_alpha)}


def _check_open(loader: Loader, given: dict[str, Any], mixup: Any) -> None:
    """That the arguments do not contradict a loader that is open."""
    import inspect

    for name in (*_OF_RECIPE, "options"):
        default = {} if name == "options" else inspect.signature(create_loader).parameters[name].default
        if given[name] != default:
            raise ConfigError(f"`{name}={given[name]!r}` belongs to the Loader that is given: leave it out, or give a path")
    if loader.batch_size != given["batch_size"]:
        raise ConfigError(f"`batch_size={given['batch_size']}`: the Loader has {loader.batch_size}: give the same")
    images = next((one for one in loader.recipe["tensors"] if one["name"] == "images"), None)
    if images is None or (images["height"], images["width"]) != sides(given["input_size"]):
        has = "no tensor `images`" if images is None else f"images of {images['height']} x {images['width']}"
        raise ConfigError(f"`input_size={given['input_size']}`: the Loader has {has}: give the same size")
    if mixup is not None and not loader.config.get("mixing"):
        raise ConfigError("`mixup_fn`: the Loader has no `mixing`: open it with `mixing={..}` (docs/mixing.md), or give a path")
