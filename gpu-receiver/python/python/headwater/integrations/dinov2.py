"""DINOv2's `make_dataset` and `make_data_loader`, over a `headwater.Loader`.

    from headwater.integrations.dinov2 import make_data_loader, make_dataset

    dataset = make_dataset(dataset_str=cfg.train.dataset_path, transform=data_transform, target_transform=lambda _: ())
    data_loader = make_data_loader(dataset=dataset, batch_size=64, num_workers=10, seed=cfg.train.seed,
                                   sampler_advance=start_iter * 64, collate_fn=collate_fn)
"""

from __future__ import annotations

from typing import Any

from ._dino import DINOBatches, Images, images, open_batches

__all__ = ["make_data_loader", "make_dataset"]


def make_dataset(*, dataset_str: Any, transform: Any = None, target_transform: Any = None) -> Images:
    """What `make_data_loader` takes as `dataset`; nothing is read yet.

    Args:
        dataset_str: a path, a pattern, a URL or a list of them, as for `headwater.Loader`; or `ImageNet:split=TRAIN:root=..`,
            which is the folder `root/train`. With `storage`, `workers` or `ray`, the name of a dataset of the cluster.
        transform: upstream's `DataAugmentationDINO`. Its settings are read.
        target_transform: has no effect: batches have no labels.

    Raises `ConfigError` for a dataset that is not a folder of images.
    """
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
    **options: Any,
) -> DINOBatches:
    """A loader with the arguments of `dinov2.data.make_data_loader`.

    Args:
        dataset: the result of `make_dataset`.
        batch_size: samples in this rank's batch.
        num_workers: threads that render, if the loader has services of its own.
        seed: of all draws. It must stay the same when a run is resumed.
        sampler_type: upstream's `SamplerType`. With the infinite ones an iteration does not end.
        sampler_advance: samples of this rank before the first batch, a multiple of `batch_size`: the run goes on there.
        collate_fn: `partial(collate_data_and_cast, ..)`. Its settings are read; the draws are the receiver's.
        persistent_workers: has no effect.
        options: further keywords of `headwater.Loader`. They override what is read of `dataset` and `collate_fn`.

    Rank and number of ranks are those of torch.distributed if it is initialised, and otherwise the launcher's. Batches are dicts
    with upstream's names, on the host; with `device="cuda:0"` on that GPU.

    Raises `ConfigError` for an argument that has no counterpart; the text names it, and what to do.
    """
    given = dict(locals())
    return open_batches("dinov2", dataset, given, options)
