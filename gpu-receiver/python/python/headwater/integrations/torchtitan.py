"""torchtitan's `FluxDataLoader`, over a `headwater.Loader`.

    from headwater.integrations.torchtitan import FluxDataLoader

    dataloader=FluxDataLoader.Config(dataset_path="cc12m-{0000..2175}.tar", prompt_dropout_prob=0.447, img_size=256)
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import json
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

import torch

from .. import Loader
from ..errors import ConfigError
from ..sampling import BatchIterator, LoaderWrapper
from ._opening import is_on_cluster, refuse, source

_Settings: Any
_ENTRIES: dict[str, Any]
try:
    from torchtitan.components.dataloader import BaseDataLoader
    from torchtitan.models.flux.flux_datasets import DATASETS
    from torchtitan.models.flux.flux_datasets import FluxDataLoader as _Upstream

    _Settings = _Upstream.Config
    _ENTRIES = {"kw_only": True, "slots": True}
except ModuleNotFoundError:  # Tools that read every module, such as stubtest, do not need it.
    BaseDataLoader = DATASETS = _Settings = object
    _ENTRIES = {}

__all__ = ["FluxDataLoader"]

_OWNER = "FluxDataLoader.Config"
_STATE = "headwater"
# Of `FluxValidationDataset`: the middles of eight equal parts.
_TIMESTEPS = [(part + 0.5) / 8 for part in range(8)]


class FluxDataLoader(LoaderWrapper, BaseDataLoader):
    """Batches `({"clip", "t5", "prompt"}, images)` as torchtitan's Flux takes them.

    The state is the same on all ranks, and a run of another data-parallel degree goes on with it: no sample comes twice, and none is
    left out but those that do not fill the last global batch of an epoch.
    """

    @dataclass(**_ENTRIES)
    class Config(_Settings):
        """torchtitan's settings, and those of the loader.

        `dataset_path` is what `headwater.Loader` takes: shards, a pattern, a URL. Without it, `dataset` names one of torchtitan's
        folders of shards on this host. With `storage`, `workers` or `ray` in `options`, it is the name of a dataset of a cluster.
        `num_workers` is the number of threads that render. `persistent_workers`, `pin_memory` and `prefetch_factor` have no effect.
        """

        seed: int = 0
        """Of the order, of the images' windows and of the dropout of prompts."""

        prompt: str = "txt"
        """The field of a sample with its prompt; `"txt|caption"` is the first that it has."""

        prompt_bytes_max: int = 4096
        """Maximum bytes of a prompt; a sample with more is a bad sample."""

        filters: list[dict[str, Any]] = field(default_factory=list)
        """Conditions of samples, as `[[filter]]`, in addition to a width and height of `img_size`."""

        options: dict[str, Any] = field(default_factory=dict)
        """Further keywords of `headwater.Loader`."""

    def __init__(
        self,
        config: Any,
        *,
        dp_world_size: int,
        dp_rank: int,
        local_batch_size: int,
        tokenizer: Any = None,
        **_: Any,
    ) -> None:
        """Opens the loader. torchtitan calls it by `Config.build`.

        Raises `ConfigError` for a setting that has no counterpart; the text names it, and what to do.
        """
        if BaseDataLoader is object:
            raise ConfigError("FluxDataLoader runs in torchtitan, which is not installed: `pip install torchtitan`")
        if tokenizer is None or not isinstance(empty := tokenizer.encode(""), Mapping):
            raise ConfigError("`tokenizer` is not torchtitan's for Flux: give `tokenizer=FluxTokenizerContainer.Config(..)` to the Trainer")
        keywords: dict[str, Any] = {"recipe": _recipe(config), "batch_size": local_batch_size, "rank": dp_rank, "world_size": dp_world_size}
        keywords |= {"seed": config.seed, "label_field": "", "epoch_end": "drop_last" if config.infinite else "short_last"}
        if config.generate_timesteps:
            # A validation has the order of its files.
            keywords["shuffle_block"] = 0
        if is_on_cluster(config.options):
            if config.filters:
                refuse("filters", _OWNER, "its storage nodes filter: write [[filter]] into their configuration")
        else:
            keywords["filters"] = [*({"kind": kind, "min": config.img_size} for kind in ("width", "height")), *config.filters]
        super().__init__(Loader(**{**source(_path(config), config.num_workers, config.options), **keywords, **config.options}))
        self._tokenizer = tokenizer
        self._empty = dict(empty)
        self._config = config
        self._seed = self.loader.config["seed"]

    def __iter__(self) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
        timesteps = itertools.cycle(_TIMESTEPS) if self._config.generate_timesteps else None
        return BatchIterator(self.loader, lambda batch: self._collated(batch, timesteps), is_endless=self._config.infinite)

    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch, as one text: a checkpoint of torch's may have other ranks then."""
        return {_STATE: json.dumps(self.loader.state_dict())}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next iteration continue where the state was taken, also with another global batch. An empty state is none."""
        if not state_dict:
            return
        if _STATE not in state_dict:
            raise ConfigError(
                "the checkpoint has the state of torchtitan's own dataloader, which says nothing of this one's order: begin with "
                '`checkpoint.exclude_from_loading=["dataloader"]`'
            )
        self.loader.load_state_dict(json.loads(state_dict[_STATE]), allow=["global-batch"])

    def _collated(self, batch: Any, timesteps: Optional[Iterator[float]]) -> tuple[dict[str, Any], torch.Tensor]:
        tensors, prompts = batch.torch(), list(batch["prompt"])
        found: dict[str, Any] = {}
        for name, ids in self._tokenizer.encode(prompts).items():
            # Upstream collates what its tokenizers give for each text: `[length]`, or `[1, length]`.
            rows = ids if self._empty[name].dim() == 1 else ids.unsqueeze(1)
            found[name] = self._dropped(name, rows, batch)
        found["prompt"] = prompts
        if timesteps is not None:
            found["timestep"] = torch.tensor([next(timesteps) for _ in prompts], dtype=torch.float64)
        return found, tensors["images"]

    def _dropped(self, encoder: str, rows: torch.Tensor, batch: Any) -> torch.Tensor:
        """The rows, where those of dropped prompts have the ids of an empty text."""
        p = self._config.prompt_dropout_prob
        if p <= 0:
            return rows
        is_dropped = torch.tensor([_uniform(encoder, self._seed, batch.epoch, sample) < p for sample in batch.samples])
        return torch.where(is_dropped.reshape(-1, *[1] * (rows.dim() - 1)), self._empty[encoder], rows)


def _uniform(encoder: str, seed: int, epoch: int, sample: Any) -> float:
    """A number from 0 to 1 that follows from the encoder and the sample's coordinates: the same on every rank, and after a resume."""
    drawn = f"{encoder}\0{sample.dataset}\0".encode() + struct.pack("<QQQQ", seed, epoch, sample.pass_index, sample.id)
    return int.from_bytes(hashlib.blake2b(drawn, digest_size=7).digest(), "little") / (1 << 56)


def _recipe(config: Any) -> dict[str, Any]:
    """The shorter side becomes `img_size`, then a window, and values from -1 to 1: upstream's `_process_cc12m_image`."""
    side = config.img_size
    view = {"crop": {"kind": "random_after_resize", "resize": side}, "ops": []}
    tensor = {"name": "images", "dtype": "f32", "height": side, "width": side, "views": [view]}
    prompt = {"name": "prompt", "kind": "text", "field": config.prompt, "bytes_max": config.prompt_bytes_max}
    return {"preset": "custom", "interpolation": "bicubic", "mean": [0.5] * 3, "std": [0.5] * 3, "tensors": [tensor], "fields": [prompt]}


def _path(config: Any) -> Any:
    path = config.dataset_path
    if path is None and not is_on_cluster(config.options):
        path = DATASETS[config.dataset].path if config.dataset in DATASETS else config.dataset
        if not os.path.exists(path):
            refuse(f"dataset={config.dataset}", _OWNER, "give its shards as `dataset_path`, such as hf://datasets/pixparse/cc12m-wds/*.tar")
    elif path is None:
        path = config.dataset
    # A folder of shards, as upstream reads it.
    shards = os.path.join(path, "*.tar") if isinstance(path, str) else ""
    return shards if isinstance(path, str) and os.path.isdir(path) and glob.glob(shards) else path
