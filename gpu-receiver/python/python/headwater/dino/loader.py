"""dino_loader's loader, on top of `headwater.Loader`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import Loader, fp8
from ..distributed import process_group, topology
from ..errors import StateError
from ..sampling import BatchIterator
from .augment import DINOAugConfig, recipe_for, warn_of_unknown
from .batch import DINOBatch, Splitter
from .specs import (
    DatasetSpec,
    LoaderConfig,
    checked_config,
    checked_specs,
    dtype_of,
    render_threads,
    shards_of,
    warn_of_replaced,
)

if TYPE_CHECKING:
    from types import TracebackType

_Addresses = Union[str, Sequence[str], None]

# Variables that may name services, in addition to the keywords. Otherwise the loader starts its own services.
_VARIABLES = ("HEADWATER_CONFIG", "HEADWATER_RECEIVER__STORAGE", "HEADWATER_RECEIVER__WORKERS")
_CONFIG_FILE = "headwater.toml"
# Checkpoints are written only when the trainer asks for them.
_NEVER_STEPS = 2**32 - 1
_CHECKPOINTS_KEPT = 3
_log = logging.getLogger("headwater.dino")


class DINODataLoader:
    """Batches of crops for DINO training, in the form of dino_loader: see `DINOBatch`.

    Arguments:
        specs: the datasets.
        batch_size: samples in this rank's batch.
        aug_cfg: views of a sample; `DINOAugConfig()` without it.
        config: `LoaderConfig()` without it.
        device_id: GPU that batches are handed out on, or a device by its name. On a machine without GPUs
            batches stay on the CPU.
        steps_per_epoch: length of an epoch; datasets begin again as often as needed. Without it an epoch has
            each sample once, except those that do not fill a batch.
        resume: begin at the newest checkpoint of `config.checkpoint_dir`, if there is one.
        storage, workers: addresses of the two tiers, as `headwater.Loader` takes them. Without them, their
            variables, $HEADWATER_CONFIG and `headwater.toml`, services for the shards are started here.
        options: other keywords of `headwater.Loader`; they override `config`.

    Rank and number of ranks come from torch.distributed if it is initialised, and otherwise from the launcher.
    `loader` is the `headwater.Loader`. Raises the same errors as that class.
    """

    def __init__(
        self,
        specs: Iterable[DatasetSpec],
        batch_size: int,
        aug_cfg: Optional[Any] = None,
        config: Optional[LoaderConfig] = None,
        device_id: Any = 0,
        steps_per_epoch: Optional[int] = None,
        resume: bool = False,
        *,
        storage: _Addresses = None,
        workers: _Addresses = None,
        **options: Any,
    ):
        specs = checked_specs(specs)
        config = checked_config(LoaderConfig() if config is None else config)
        aug_cfg = DINOAugConfig() if aug_cfg is None else aug_cfg
        elsewhere = _are_elsewhere(storage, workers)
        warn_of_replaced(config, elsewhere, stacklevel=2)
        warn_of_unknown(aug_cfg, stacklevel=2)
        forced = topology.checked(config.force_topology)
        if forced is not None:
            topology.set_variables(forced)
        settings = {
            "batch_size": batch_size,
            "recipe": _recipe(aug_cfg, config),
            "seed": config.seed,
            "window_batches": config.dali_gpu_queue,
            "device": _device(device_id),
            "epoch_end": None if steps_per_epoch is None else {"steps": steps_per_epoch},
            "checkpoint_dir": config.checkpoint_dir,
            "checkpoint_every_steps": _NEVER_STEPS,
            "checkpoint_keep": _CHECKPOINTS_KEPT,
            "resume": resume,
            **process_group.ranks(),
            **options,
        }
        if elsewhere:
            settings.update(storage=storage, workers=workers)
        else:
            settings["augment_threads"] = render_threads(config)
        self.loader = _open_loader(specs, elsewhere, settings)
        if resume:
            _check_one_place(self.loader)
        # Until it is iterated.
        self._resumed_epoch: Optional[int] = self.loader.epoch if resume else None
        self._is_done = self._has_warned = False
        self._every_steps = config.checkpoint_every_steps
        self._split = Splitter(self.loader.recipe, config.output_dtype)

    def __iter__(self) -> Iterator[DINOBatch]:
        if self._is_done:
            # Once: a loop that sets no epoch any more goes on with the rest.
            self._is_done = False
            return iter(())
        self._resumed_epoch = None
        return BatchIterator(self.loader, self._split)

    def __len__(self) -> int:
        """Steps of an epoch, the same on every rank."""
        return len(self.loader)

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.loader.epoch

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration: the whole epoch, or the rest of it after a resume. dino_loader's scripts
        count from 0 after a resume, too: an iteration over an epoch that is done has no batches then."""
        if self._resumed_epoch is None:
            self.loader.set_epoch(epoch)
            return
        self._is_done = epoch < self._resumed_epoch
        if not self._is_done:
            self._resumed_epoch = None
            self.loader.set_epoch(epoch)
        elif not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"epochs before {self._resumed_epoch} are done, and their iterations are empty: the run was resumed at "
                f"epoch {self.loader.epoch} step {self.loader.step}; begin with `for epoch in range(loader.epoch, n)`",
                stacklevel=2,
            )

    def checkpoint(self, step: int) -> None:
        """Writes `dl_state_{step:09}.json` every `checkpoint_every_steps`, on rank 0; otherwise does nothing."""
        if step % self._every_steps == 0:
            self.loader.checkpoint(step)

    def set_weights(self, weights: Sequence[float]) -> None:
        """Sets the weights of all datasets from the next batch on, from any thread; any sum is allowed."""
        self.loader.set_weights(weights)

    def set_weight_by_name(self, name: str, weight: float) -> None:
        """Sets the weight of one dataset in the same way."""
        self.loader.set_weight_by_name(name, weight)

    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch, as in `headwater.Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where the state was taken, as `headwater.Loader.load_state_dict` does."""
        self.loader.load_state_dict(state_dict)
        self._resumed_epoch, self._is_done = self.loader.epoch, False

    def close(self) -> None:
        """Ends all sessions and threads. Batches that you hold stay valid."""
        self.loader.close()

    def __enter__(self) -> DINODataLoader:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]] = None,
        error: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None:
        self.close()


def _are_elsewhere(storage: _Addresses, workers: _Addresses) -> bool:
    """Whether a keyword, variable or file names the services."""
    given = storage or workers or any(os.environ.get(name) for name in _VARIABLES)
    return bool(given) or os.path.exists(_CONFIG_FILE)


def _open_loader(specs: list[DatasetSpec], elsewhere: bool, settings: dict[str, Any]) -> Loader:
    """A loader for running services, or for the shards themselves."""
    weights = [{"name": spec.name, "weight": spec.weight} for spec in specs]
    if elsewhere:
        return Loader(datasets=weights, **settings)
    shards = {spec.name: shards_of(spec) for spec in specs}
    return Loader(data=shards, datasets=weights, **settings)


def _recipe(aug_cfg: Any, config: LoaderConfig) -> dict[str, Any]:
    transformer_engine = fp8.transformer_engine_is_here()
    dtype = dtype_of(config, transformer_engine)
    if config.use_fp8_output and not transformer_engine:
        _log.info("crops are %s, as Transformer Engine is not installed", dtype)
    return recipe_for(aug_cfg, dtype)


def _device(device_id: Any) -> str:
    import torch

    if not isinstance(device_id, Integral):
        return str(device_id)
    if torch.cuda.is_available():
        return f"cuda:{process_group.device_index(int(device_id))}"
    _log.info("batches are on the CPU, as PyTorch finds no GPU")
    return "cpu"


def _check_one_place(loader: Loader) -> None:
    """Refuses ranks at different positions: they would train on parts of different batches."""
    from torch import distributed

    if not process_group.ranks():
        return
    places: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(places, (loader.epoch, loader.step))
    for rank, (epoch, step) in enumerate(places):
        if (epoch, step) != places[0]:
            raise StateError(
                f"rank 0 resumes at epoch {places[0][0]} step {places[0][1]}, and rank {rank} at epoch {epoch} step "
                f"{step}: `checkpoint_dir` must be a folder that all ranks share"
            )
