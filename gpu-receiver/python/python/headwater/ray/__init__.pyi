import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

__all__ = ["Addresses", "Service", "get", "services", "start"]

_Path = Union[str, os.PathLike[str]]
# Paths, patterns or URLs.
_Data = Union[_Path, Sequence[_Path]]

class Addresses(NamedTuple):
    """Addresses where a service listens or serves metrics: `host:port` of each member."""

    storage: list[str]
    workers: list[str]

class Service:
    """A running service of the cluster, started by any process. You may send it to tasks and actors."""

    name: str
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> Service: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]] = None,
        error: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None: ...
    @property
    def addresses(self) -> Addresses: ...
    @property
    def metrics(self) -> Addresses: ...
    @property
    def troubles(self) -> dict[str, str]: ...
    @property
    def pending(self) -> list[str]: ...
    def scale(self, *, workers: Optional[int] = None, storage_nodes: Optional[int] = None) -> None: ...
    def wait(self, timeout_s: Optional[float] = None) -> None: ...
    def stop(self) -> None: ...

def start(
    datasets: Union[_Data, Mapping[str, _Data], None] = None,
    *,
    name: str = "headwater",
    workers: int = 1,
    storage_nodes: int = 1,
    config: Optional[_Path] = None,
    # Keys of the configuration by their whole names, as "augment.share_bytes".
    settings: Optional[Mapping[str, Any]] = None,
    # Options of Ray's actors: num_cpus, num_gpus, resources, scheduling_strategy, label_selector, runtime_env, ..
    worker_options: Optional[Mapping[str, Any]] = None,
    storage_options: Optional[Mapping[str, Any]] = None,
    detached: bool = False,
    wait: bool = True,
) -> Service: ...
def get(name: str = "headwater") -> Service: ...
def services() -> list[str]: ...
