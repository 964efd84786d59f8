"""What all adapters do to open a loader: where its samples are, and what it refuses."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import ConfigError

__all__ = ["is_on_cluster", "refuse", "source"]

_ON_CLUSTER = ("storage", "workers", "ray")


def is_on_cluster(options: dict[str, Any]) -> bool:
    """Whether keywords of a `headwater.Loader` name running services."""
    return any(options.get(name) for name in _ON_CLUSTER)


def source(data: Any, threads: int, options: dict[str, Any]) -> dict[str, Any]:
    """Keywords of a `headwater.Loader` for its samples: a dataset's name on a cluster, or data and the threads that render."""
    if is_on_cluster(options):
        return {} if "datasets" in options else {"datasets": data}
    return {"data": data, **({"augment_threads": threads} if threads else {})}


def refuse(argument: str, owner: str, remedy: str) -> NoReturn:
    """Raises `ConfigError` for an argument of another repository that has no counterpart."""
    raise ConfigError(f"`{argument}` of {owner} has no counterpart: {remedy}")
