"""Tensorcom's addresses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple, Optional

from ..errors import ConfigError

FILES = "file:"
# The socket's type, and whether it binds.
_SCHEMES = {
    "zpush": ("PUSH", False),
    "zpull": ("PULL", True),
    "zpub": ("PUB", True),
    "zsub": ("SUB", False),
    "zrpush": ("PUSH", True),
    "zrpull": ("PULL", False),
    "zrpub": ("PUB", False),
    "zrsub": ("SUB", True),
}
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_SERIES = re.compile(r"([^{}]*)\{(\d+)\.\.(\d*)\}([^{}]*\.ten)")
# Most addresses that one URL stands for.
_RANGE_MAX = 1024


class Address(NamedTuple):
    """One end of a socket."""

    kind: str
    binds: bool
    #: In ZeroMQ's form.
    place: str

    @property
    def receives(self) -> bool:
        return self.kind in ("SUB", "PULL")


def parse(url: str) -> Address:
    """The socket of a URL. Raises `ConfigError`, which names it and the remedy."""
    scheme, found, rest = url.partition("://")
    name, _, transport = scheme.partition("+")
    if not found or name not in _SCHEMES:
        raise ConfigError(f"`{url}`: write SCHEME://HOST:PORT; schemes are {', '.join(_SCHEMES)}, each with `+ipc`, and file:")
    transport = transport or "tcp"
    if transport not in ("tcp", "ipc"):
        raise ConfigError(f"`{url}`: `{transport}` is no transport: it is tcp or ipc")
    if transport == "tcp" and not re.fullmatch(r".+:(\d+|\*)/?", rest):
        raise ConfigError(f"`{url}`: give a port, as in {name}://host:7404")
    if transport == "ipc" and not rest.startswith(("/", "@")):
        raise ConfigError(f"`{url}`: give the path of a socket file, as in {name}+ipc:///run/batches")
    kind, binds = _SCHEMES[name]
    return Address(kind, binds, f"{transport}://{rest.rstrip('/') if transport == 'tcp' else rest}")


def expanded(url: str) -> list[str]:
    """The URLs that a URL with braces means: `{7410..7412}`, `{a,b}`. A series of files is not expanded."""
    head, opened, rest = url.partition("{")
    if not opened or url.startswith(FILES):
        return [url]
    inner, closed, tail = rest.partition("}")
    if not closed or "{" in inner:
        raise ConfigError(f"`{url}`: braces hold a range or a list, as in {{7410..7429}} or {{a,b}}")
    bounds = _RANGE.fullmatch(inner)
    if bounds:
        first, last = map(int, bounds.groups())
        width = len(bounds[1]) if bounds[1].startswith("0") else 0
        if not first <= last < first + _RANGE_MAX:
            raise ConfigError(f"`{url}`: a range is in order, and of {_RANGE_MAX} addresses at most")
        words = [f"{number:0{width}}" for number in range(first, last + 1)]
    else:
        words = inner.split(",")
    return [head + word + more for word in words for more in expanded(tail)]


def files(url: str) -> Iterator[str]:
    """Paths of the files of `file:batches-{000000..}.ten`, or of `file:batch.ten`; without end if no end is given."""
    place = url[len(FILES) :]
    if place.startswith("//"):
        # The form of other programs: file:///srv/a is /srv/a.
        place = place[2:]
        if not place.startswith("/"):
            raise ConfigError(f"`{url}`: give a path of this host, as in file:/srv/batches-{{000000..}}.ten")
    series = _SERIES.fullmatch(place)
    if series is None:
        if "{" in place or not place.endswith(".ten"):
            raise ConfigError(f"`{url}`: write file:batches-{{000000..}}.ten, or the name of one .ten file")
        return iter([place])
    head, first, last, tail = series.groups()
    return _numbered(head, len(first), int(first), int(last) if last else None, tail)


def _numbered(head: str, digits: int, number: int, last: Optional[int], tail: str) -> Iterator[str]:
    begun = number
    while last is None or number <= last:
        path = f"{head}{number:0{digits}}{tail}"
        # A series without end has as many batches as there are; the first has to be there.
        if last is None and number > begun and not os.path.exists(path):
            return
        yield path
        number += 1
