"""One end of a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Optional, Union

from ..errors import ClosedError, ConfigError, MessageError
from . import converters as converting
from . import tenbin, urls
from .statistics import Statistics

__all__ = ["Connection"]


class Connection:
    """Sends or receives lists of arrays over ZeroMQ, or reads them from `.ten` files; see the stub."""

    def __init__(
        self,
        url: Optional[Union[str, Sequence[str]]] = None,
        epoch: int = 100000,
        total: int = -1,
        multipart: bool = True,
        infos: Any = None,
        device: Optional[str] = None,
        allow64: bool = False,
        raw: bool = False,
        batch_transforms: Any = None,
        batch_count: bool = True,
        converters: Any = None,
        report: int = -1,
        stats_horizon: int = 1000,
        noexpand: bool = False,
        *,
        queue_batches: Optional[int] = None,
    ):
        """Opens `url`, if there is one.

        Arguments:
            url: an address or a list of addresses; `{7410..7412}` means three, unless `noexpand` is set.
            epoch: the value of `len()`; it has no other effect.
            total: an iteration ends after so many samples; -1: never.
            multipart: whether each header and each array has a frame of its own; the other end must have the same.
            infos: on sending a name of up to 8 characters for each array; on receiving the names that there have to
                be, or True for pairs of arrays and names.
            device: PyTorch's name of a device, for tensors in place of arrays.
            allow64: sends types of 64 bits too.
            raw: hands out a message's frames as they came.
            batch_transforms, converters: a function or one for each array, applied in this order. Converters may be
                "torch", "torch_cuda" or "numpy".
            batch_count: whether `total` and `report` count samples, the first array's length; else batches.
            report: prints the rate after so many samples, when iterating.
            stats_horizon: batches of which `stats` shows recent rates.
            queue_batches: batches that wait in this process's memory; ZeroMQ's own limit is 1000.
        """
        self.stats = Statistics(stats_horizon)
        self.multipart, self.infos, self.raw = multipart, infos, raw
        self.device, self.allow64 = device, allow64
        self.epoch, self.total, self.report = epoch, total, report
        self.batch_transforms = converting.listed(batch_transforms)
        self.converters = converting.listed(converting.NAMED.get(converters, converters) if isinstance(converters, str) else converters)
        self.batch_count = batch_count
        self.count = 0
        self.context: Any = None
        self.socket: Any = None
        self._queue_batches = queue_batches
        self._kind: Optional[str] = None
        self._files: Optional[Iterator[str]] = None
        self._url = ""
        if url is not None:
            given = [url] if isinstance(url, str) else list(url)
            try:
                self.connect(given if noexpand else [one for each in given for one in urls.expanded(each)])
            except BaseException:
                self.close()
                raise

    def connect(self, url: Union[str, Sequence[str]], topic: str = "") -> None:
        """Binds or connects to another address; a `zsub` or `zrsub` subscribes to `topic`."""
        if not isinstance(url, str):
            for one in url:
                self.connect(one, topic)
            return
        if url.startswith(urls.FILES):
            self._open_files(url)
        else:
            self._open_socket(url, urls.parse(url), topic)
        self._url = f"{self._url}, {url}" if self._url else url

    def _open_files(self, url: str) -> None:
        if self._kind not in (None, "file"):
            raise ConfigError(f"`{url}` beside {self._url}: a Connection has sockets or files")
        self._kind = "file"
        before, more = self._files or iter(()), urls.files(url)
        self._files = (path for series in (before, more) for path in series)

    def _open_socket(self, url: str, address: urls.Address, topic: str) -> None:
        zmq = _zmq()
        if self._kind not in (None, address.kind):
            raise ConfigError(f"`{url}` beside {self._url}: the addresses of a Connection are all of one kind")
        if self.socket is None:
            # One for the process: ending a context waits for each of its sockets, also in the garbage collector.
            self.context = zmq.Context.instance()
            self.socket = self.context.socket(getattr(zmq, address.kind))
            self.socket.setsockopt(zmq.LINGER, 0)
            if self._queue_batches is not None:
                self.socket.set_hwm(self._queue_batches)
        self._kind = address.kind
        try:
            (self.socket.bind if address.binds else self.socket.connect)(address.place)
            if address.kind == "SUB":
                self.socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        except zmq.ZMQError as error:
            does = "be bound to: is it free, and of this host?" if address.binds else "be connected to"
            raise ConfigError(f"`{url}` cannot {does} ({error})") from None

    def close(self) -> None:
        """Closes the connection. Messages that have not left this process are lost, as with Tensorcom."""
        if self.socket is not None:
            self.socket.close()
        self.socket = self.context = self._files = None

    def send(self, data: Iterable[Any], allow64: bool = False) -> None:
        """Sends arrays, or objects that NumPy converts. Blocks while no `zpull` client has room; a `zpub` drops them.

        Raises `ValueError` for types that Tensorcom's clients cannot read, and for 64 bits unless `allow64` is set.
        """
        parts = tenbin.encode(data, self.infos, allow64 or self.allow64)
        socket = self._opened(("PUSH", "PUB"), "receives: send to zpush, zrpush, zpub or zrpub")
        if self.multipart:
            socket.send_multipart(parts)
        else:
            socket.send(b"".join(tenbin.framed(parts)))
        self.stats.add(sum(len(part) for part in parts[1::2]))

    def recv(self) -> Any:
        """The next arrays, in the memory in which ZeroMQ received them. Blocks until there are some.

        Raises `MessageError` for a message that is not in Tensorcom's format; you may ask for the next one.
        Raises `EOFError` after the last file.
        """
        if self._files is not None:
            path = next(self._files, None)
            if path is None:
                raise _NoMoreFiles(f"{self._url}: there is no further file")
            if self.raw:
                with open(path, "rb") as file:
                    return [file.read()]
            data = tenbin.load(path, self.infos, nocheck=True)
        else:
            socket = self._opened(("PULL", "SUB"), "sends: receive with zpull, zrpull, zsub or zrsub")
            frames = [frame.buffer for frame in socket.recv_multipart(copy=False)]
            if self.raw:
                return frames
            data = self._decoded(frames)
        arrays, infos = data if isinstance(data, tuple) else (data, None)
        self.stats.add(sum(array.nbytes for array in arrays))
        arrays = converting.applied(arrays, self.batch_transforms)
        arrays = converting.applied(arrays, self.converters)
        if self.device is not None:
            arrays = converting.applied(arrays, [converting.as_torch(self.device)])
        return arrays if infos is None else (arrays, infos)

    def _decoded(self, frames: list[memoryview]) -> Any:
        try:
            if not self.multipart:
                if len(frames) > 1:
                    raise MessageError(f"{len(frames)} frames where one was expected: set multipart=True")
                frames = tenbin.chunks(frames[0])
            elif len(frames) == 1:
                raise MessageError("one frame where two for each tensor were expected: set multipart=False")
            return tenbin.checked(*tenbin.decode(frames), self.infos)
        except MessageError as error:
            raise MessageError(f"{self._url}: {error}") from None

    def _opened(self, kinds: tuple[str, ...], otherwise: str) -> Any:
        if self._kind is not None and self._kind not in kinds:
            raise ConfigError(f"{self._url} {otherwise}")
        if self.socket is None:
            raise ClosedError(f"{self._url or 'the Connection'} is not open")
        return self.socket

    def batchsize(self, xs: Sequence[Any]) -> int:
        """Samples of a batch: the length of its first array, or 1 with `batch_count=False`."""
        return len(xs[0]) if self.batch_count and not self.raw else 1

    def serve(self, source: Iterable[Iterable[Any]], report: int = -1) -> None:
        """Sends every list of arrays that `source` yields."""
        progress = _Progress(self.stats, report)
        for sample in source:
            sample = list(sample)
            self.send(sample)
            progress.add(self.batchsize(sample))

    def items(self, report: int = -1) -> Iterator[Any]:
        """Receives until `total` samples have arrived, or to the last file; otherwise without end."""
        progress = _Progress(self.stats, report if report > 0 else self.report)
        while not 0 < self.total <= self.count:
            try:
                result = self.recv()
            except _NoMoreFiles:
                return
            arrays = result[0] if self.infos is True and not self.raw else result
            size = self.batchsize(arrays)
            self.count += size
            progress.add(size)
            yield result

    def write(self, data: Iterable[Any]) -> None:
        """The same as `send`."""
        self.send(data)

    def __iter__(self) -> Iterator[Any]:
        return self.items()

    def __len__(self) -> int:
        return self.epoch

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class _NoMoreFiles(EOFError):
    """The end of a series of files; distinct from an EOFError of a converter."""


class _Progress:
    """Prints the rate after each group of samples."""

    def __init__(self, stats: Statistics, every: int):
        self.stats, self.every = stats, every
        self.count = self.next = 0

    def add(self, samples: int) -> None:
        if 0 < self.every and self.count >= self.next:
            print("count", self.count, self.stats.summary())
            self.next += self.every
        self.count += samples


def _zmq() -> ModuleType:
    try:
        import zmq
    except ImportError as error:
        raise ImportError(
            "headwater.tensorcom needs pyzmq, which cannot be imported: pip install 'headwater[tensorcom]'"
        ) from error
    return zmq
