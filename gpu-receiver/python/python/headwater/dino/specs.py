"""Data and loader settings of a script for dino_loader."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ..errors import ConfigError

# docs/keywords.md is made from these two tables and the fields of LoaderConfig.
_OTHER_NAMES: Mapping[str, str] = {"dali_gpu_queue": "the batches that are made in advance, `window_batches`"}
# Fields of LoaderConfig without an effect here, and what to use in their place.
_REPLACED: Mapping[str, str] = {
    "node_shm_gb": 'set `storage.cache` = [{ dir = "/dev/shm", bytes = .. }], the cache of a storage node',
    "shard_prefetch_window": "set `storage.shard_prefetch_window`",
    "shard_timeout_s": "set `storage.cache_timeout_ms`",
    "shard_extraction_workers": "set `storage.readers`",
    "dali_cpu_queue": "`dali_gpu_queue` is the number of batches that are made in advance",
    "dali_num_threads": "set `augment.threads` of the workers",
    "hw_decoder_load": "set `decoder` = \"nvjpeg\" and `hw_decoder_load` in a `recipe()` of your own",
    "shuffle_buffer": "give the loader the keyword `shuffle_block`, the number of shards that are mixed",
}
_OF_OWN_SERVICES = ("dali_num_threads",)
_OUTPUT_DTYPES = {"bf16": "bf16", "fp32": "f32"}


@dataclass
class DatasetSpec:
    """A dataset: its shards and its share in the mix.

    Arguments:
        name: unique in the job; running storage nodes must serve the dataset under this name.
        shards: paths or patterns of shards, in order.
        weight: relative to the other datasets'.
    """

    name: str
    shards: Sequence[str] = field(default_factory=list)
    weight: float = 1.0


@dataclass
class LoaderConfig:
    """Settings of a `DINODataLoader`, with the names and defaults of dino_loader.

    Fields without a meaning here warn if they differ from their default, and say what to use instead.
    """

    node_shm_gb: float = 128.0
    shard_prefetch_window: int = 64
    shard_timeout_s: float = 300.0
    shard_extraction_workers: int = 4
    dali_cpu_queue: int = 8
    dali_gpu_queue: int = 6
    dali_num_threads: int = 8
    hw_decoder_load: float = 0.90
    use_fp8_output: bool = True
    output_dtype: str = "bf16"
    checkpoint_dir: str = "/checkpoint/dino/dl"
    checkpoint_every_steps: int = 500
    force_topology: Optional[str] = None
    seed: int = 0
    shuffle_buffer: int = 2000


def checked_specs(specs: Iterable[DatasetSpec]) -> list[DatasetSpec]:
    """The specs as a list. `ConfigError` if there are none, or if two have the same name."""
    checked = list(specs)
    if not checked:
        raise ConfigError("`specs` is empty: give one DatasetSpec at least")
    names = [spec.name for spec in checked]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"`specs` has dataset `{twice[0]}` twice: give each DatasetSpec a name of its own")
    return checked


def shards_of(spec: DatasetSpec) -> list[str]:
    """The shards as strings. `ConfigError` if there are none."""
    shards = [spec.shards] if isinstance(spec.shards, str) else spec.shards
    if not shards:
        raise ConfigError(
            f"dataset `{spec.name}` has no shards: give its DatasetSpec `shards`, or give the loader `storage` and "
            "`workers`, the addresses of services that have them"
        )
    return [str(shard) for shard in shards]


def checked_config(config: LoaderConfig) -> LoaderConfig:
    """The config, after its values were checked."""
    if config.output_dtype not in _OUTPUT_DTYPES:
        known = " or ".join(f'"{name}"' for name in _OUTPUT_DTYPES)
        raise ConfigError(f"`output_dtype` = {config.output_dtype!r}: give {known}")
    if config.checkpoint_every_steps < 1:
        raise ConfigError(f"`checkpoint_every_steps` = {config.checkpoint_every_steps}: give 1 or more")
    return config


def dtype_of(config: LoaderConfig, transformer_engine: bool) -> str:
    """Element type of the crops, as in recipes: FP8 needs Transformer Engine, as in dino_loader."""
    return "fp8_e4m3" if config.use_fp8_output and transformer_engine else _OUTPUT_DTYPES[config.output_dtype]


def render_threads(config: LoaderConfig) -> Optional[int]:
    """Threads of a worker that the loader starts; None for dino_loader's default: the loader then chooses."""
    return None if config.dali_num_threads == LoaderConfig.dali_num_threads else config.dali_num_threads


def warn_of_replaced(config: LoaderConfig, elsewhere: bool, stacklevel: int) -> None:
    """Warns of fields that were set but have no meaning, including those of services that run elsewhere."""
    for one in dataclasses.fields(LoaderConfig):
        value: Any = getattr(config, one.name, one.default)
        replaced = one.name in _REPLACED and (elsewhere or one.name not in _OF_OWN_SERVICES)
        if replaced and value != one.default:
            warnings.warn(
                f"LoaderConfig.{one.name} has no meaning in headwater: {_REPLACED[one.name]}",
                stacklevel=stacklevel + 1,
            )
