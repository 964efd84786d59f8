"""Files that only this user can read: a token, and lists of addresses that are written again and again."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

# Names the files, as the entry `file:/path` of a list of addresses does.
_LISTS = "file:"
_LOCK = "lock"


class Folder:
    """A folder that is removed at the end of this process. If the process is killed, the next process removes it."""

    def __init__(self) -> None:
        start = f"headwater-ray-{os.geteuid()}-"
        for left in Path(tempfile.gettempdir()).glob(f"{start}*"):
            _remove_unused(left)
        # Mode 0700. Under another name until it is locked: a process that starts now would remove it.
        hidden = Path(tempfile.mkdtemp(prefix=f".{start}"))
        lock = os.open(hidden / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.path = hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))
        self.remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def write(self, name: str, text: str) -> Path:
        """Writes a file atomically, because others read it meanwhile."""
        new = self.path / f".{name}"
        with open(os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
        return new.rename(self.path / name)

    def entry(self, name: str) -> str:
        """The entry of a list of addresses that leads to a file."""
        return f"{_LISTS}{self.path / name}"

    def write_list(self, name: str, addresses: list[str]) -> bool:
        """Writes a list of addresses and returns whether it did. An empty list leaves the file as it is."""
        if addresses:
            self.write(name, "".join(f"{address}\n" for address in addresses))
        return bool(addresses)


def _remove(path: Path, lock: int, made_in: int) -> None:
    # A process that was forked leaves its parent's alone.
    if os.getpid() == made_in:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _remove_unused(path: Path) -> None:
    try:
        if os.lstat(path).st_uid != os.geteuid():
            return
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # Somebody makes it at this moment, or somebody else removes it.
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(lock)
