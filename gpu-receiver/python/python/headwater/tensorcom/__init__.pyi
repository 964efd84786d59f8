import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Optional, Union

import numpy as np

__all__ = ["Connection", "load", "save"]

_Arrays = list[np.ndarray[Any, Any]]
_Infos = Optional[Union[bool, Sequence[str]]]
_Path = Union[str, os.PathLike[str]]

class Connection:
    """Sends or receives lists of arrays over ZeroMQ, or reads them from `.ten` files.

    `url` is an address as in Tensorcom, or a list of them; `zrpull://h:{7410..7412}` means three. `zsub`,
    `zrsub`, `zpull` and `zrpull` receive, `zpub`, `zrpub`, `zpush` and `zrpush` send; those with an `r` swap which
    end listens. `+ipc` takes a socket file. `file:batches-{000000..}.ten` reads files, one batch in each.

    Raises `ConfigError` for an address that cannot be understood or opened, `MessageError` for a message or file that
    is not in Tensorcom's format, `ImportError` where pyzmq is missing.
    """

    stats: Any
    multipart: bool
    infos: _Infos
    device: Optional[str]
    allow64: bool
    raw: bool
    epoch: int
    total: int
    batch_transforms: Optional[Sequence[Any]]
    batch_count: bool
    converters: Optional[Sequence[Any]]
    report: int
    # Samples received so far.
    count: int
    # Of pyzmq; None for files, and when closed.
    context: Any
    socket: Any

    def __init__(
        self,
        url: Optional[Union[str, Sequence[str]]] = None,
        epoch: int = 100000,
        total: int = -1,
        multipart: bool = True,
        infos: _Infos = None,
        device: Optional[str] = None,
        allow64: bool = False,
        raw: bool = False,
        batch_transforms: Optional[Union[Callable[..., Any], Sequence[Any]]] = None,
        batch_count: bool = True,
        converters: Optional[Union[Literal["torch", "torch_cuda", "numpy"], Callable[..., Any], Sequence[Any]]] = None,
        report: int = -1,
        stats_horizon: int = 1000,
        noexpand: bool = False,
        *,
        queue_batches: Optional[int] = None,
    ) -> None: ...
    def connect(self, url: Union[str, Sequence[str]], topic: str = "") -> None: ...
    def close(self) -> None: ...
    def send(self, data: Iterable[Any], allow64: bool = False) -> None: ...
    def recv(self) -> Any: ...
    def batchsize(self, xs: Sequence[Any]) -> int: ...
    def serve(self, source: Iterable[Iterable[Any]], report: int = -1) -> None: ...
    def items(self, report: int = -1) -> Iterator[Any]: ...
    def write(self, data: Iterable[Any]) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Connection: ...
    def __exit__(self, *raised: object) -> None: ...

def load(fname: _Path, infos: _Infos = False, nocheck: bool = False) -> Any: ...
def save(
    fname: _Path, *args: Any, infos: Optional[Sequence[str]] = None, nocheck: bool = False, allow64: bool = True
) -> None: ...
