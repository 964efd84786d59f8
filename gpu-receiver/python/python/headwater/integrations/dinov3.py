"""DINOv3's `make_dataset`, `make_data_loader` and `CombinedDataLoader`, over `headwater.Loader`s.

    from headwater.integrations.dinov3 import CombinedDataLoader, make_data_loader, make_dataset

    data_loader = make_data_loader(dataset=dataset, batch_size=64, num_workers=10, seed=cfg.train.seed,
                                   sampler_advance=start_iter * 64, collate_fn=collate_fn)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Optional

from .. import CombinedLoader
from ..errors import ConfigError
from ..sampling import BatchIterator
from ._dino import DINOBatches, Images, collated, images, open_batches
from ._opening import refuse

__all__ = ["CombinedDataLoader", "make_data_loader", "make_dataset"]


def make_dataset(*, dataset_str: Any, transform: Any = None, target_transform: Any = None, transforms: Any = None) -> Images:
    """What `make_data_loader` takes as `dataset`; nothing is read yet.

    Args:
        dataset_str: a path, a pattern, a URL or a list of them, as for `headwater.Loader`; or `ImageNet:split=TRAIN:root=..`,
            which is the folder `root/train`. With `storage`, `workers` or `ray`, the name of a dataset of the cluster.
        transform: upstream's `DataAugmentationDINO`. Its settings are read.
        target_transform: has no effect: batches have no labels.

    Raises `ConfigError` for a dataset that is not a folder of images, and for `transforms`.
    """
    if transforms is not None:
        refuse("transforms", "make_dataset", "batches have no targets: give `transform`")
    return images(dataset_str, transform)


def make_data_loader(
    *,
    dataset: Any,
    batch_size: int,
    num_workers: int,
    shuffle: bool = True,
    seed: int = 0,
    sampler_type: Any = "INFINITE",
    sampler_size: int = -1,
    sampler_advance: int = 0,
    drop_last: bool = True,
    persistent_workers: bool = False,
    collate_fn: Any = None,
    worker_init_fn: Any = None,
    **options: Any,
) -> DINOBatches:
    """A loader with the arguments of `dinov3.data.make_data_loader`: those of `headwater.integrations.dinov2`, and:

    Args:
        collate_fn: `partial(collate_data_and_cast, ..)`. Masks have DINOv3's style, with `random_circular_shift`.
        worker_init_fn: must be None: there are no workers of yours.

    Batches have Gram views as `collated_gram_teacher_crops` if the transform makes them. With `gram_teacher_no_distortions=False`
    they are as large as global crops and are the same tensor.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """
    given = dict(locals())
    if worker_init_fn is not None:
        refuse("worker_init_fn", "make_data_loader", "there are no worker processes of yours: leave it out")
    return open_batches("dinov3", dataset, given, options)


class CombinedDataLoader:
    """One batch after the other, each of a loader that is drawn by ratios, as upstream's class with `combining_mode=0`.

    Args:
        loaders_with_ratios: loaders of `make_data_loader` and their ratios. Their `sampler_advance` counts batches of the whole
            run, as upstream gives it: each loader goes on after its own share of them.
        batch_size: samples in this rank's batch, which all loaders must have.
        combining_mode: 0, `GLOBAL_HOMOGENEOUS`: all ranks take the same loader. Mode 1 draws without a seed, and is refused.
        seed: of the choice of loaders.
        name, logging_period: have no effect.

    Raises `ConfigError` for loaders that do not go together.
    """

    def __init__(
        self,
        loaders_with_ratios: Iterable[tuple[DINOBatches, float]],
        batch_size: int,
        combining_mode: int = 1,
        seed: int = 65537,
        name: Optional[str] = None,
        logging_period: int = 100,
    ) -> None:
        if combining_mode != 0:
            remedy = "a choice without a seed cannot be resumed: give 0, GLOBAL_HOMOGENEOUS"
            refuse(f"combining_mode={combining_mode}", "CombinedDataLoader", remedy)
        pairs = list(loaders_with_ratios)
        self.loaders, self.ratios = [one for one, _ in pairs], [ratio for _, ratio in pairs]
        self.batch_size = batch_size
        sizes, steps = ({getattr(one, name) for one in self.loaders} for name in ("batch_size", "first_step"))
        if sizes != {batch_size}:
            raise ConfigError(f"`batch_size={batch_size}` of CombinedDataLoader: the loaders have {sorted(sizes)}: give all the same")
        if len(steps) > 1:
            raise ConfigError(f"CombinedDataLoader: loaders begin after {sorted(steps)} batches: give all the same `sampler_advance`")
        grams = sorted({one.gram for one in self.loaders})
        if len(grams) > 1:
            remedy = "give all the same `gram_teacher_no_distortions`"
            raise ConfigError(f"CombinedDataLoader: Gram crops of its loaders are {' and '.join(grams)}: {remedy}")
        self._collated = partial(collated, gram=grams[0])
        self.loader = CombinedLoader([one.loader for one in self.loaders], self.ratios, seed=seed)
        (first_step,) = steps
        if first_step:
            self.loader.seek(first_step)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return BatchIterator(self.loader, self._collated)

    @property
    def step(self) -> int:
        """Batches that were given out, in all runs."""
        return self.loader.step

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch is, of each loader too."""
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where a state was taken."""
        self.loader.load_state_dict(dict(state_dict))

    def close(self) -> None:
        """Closes the loaders."""
        self.loader.close()
