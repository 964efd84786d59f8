"""Processes that run local services, and ranks that have them, as tests look at them."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

from conftest import PHOTOS, SMALL, program

LIMIT_S = 120

# What every rank begins with: a loader over the folder of the first argument, and its first batch.
RANK = """
import os, signal, sys, headwater, json
options = json.loads(sys.argv[2])
loader = headwater.Loader(sys.argv[1], **options)
def say(*words):
    print(*words, flush=True)
def told():
    return sys.stdin.readline().strip()
iteration = iter(loader)
say("batch", next(iteration).digest)
"""


def photos(folder: Path, shard: str = "photos-000001.tar") -> Path:
    """A folder with a folder of images for each class of a shard."""
    images, classes = {}, {}
    with tarfile.open(PHOTOS / shard) as tar:
        for member in tar:
            key, _, field = member.name.partition(".")
            content = tar.extractfile(member).read()
            if field == "cls":
                classes[key] = content.decode()
            elif field in ("jpg", "png", "webp"):
                images[key] = (field, content)
    for key, (ending, content) in images.items():
        name = folder / f"class-{int(classes[key]):05}" / f"{key.replace('/', '-')}.{ending}"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(content)
    return folder


def running(runtime: Path, verb: bytes = b"local") -> list[int]:
    """Processes of services, or of another verb, whose socket is in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if verb in command and any(part.startswith(os.fsencode(runtime)) for part in command):
            found.append(int(entry.name))
    return found


class Watched:
    """A process that is waited for, whoever started it."""

    def __init__(self, pid: int):
        self.pid = pid
        try:
            self.descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            # It ended since it was found.
            self.descriptor = None

    def has_ended(self, limit_s: float = LIMIT_S) -> bool:
        return self.descriptor is None or bool(select.select([self.descriptor], [], [], limit_s)[0])


def only(runtime: Path) -> Watched:
    """The one process of services that there is."""
    pids = running(runtime)
    assert len(pids) == 1, pids
    return Watched(pids[0])


class Rank:
    """A rank in a process of its own; killed when dropped."""

    def __init__(self, data, script: str = "", environment=None, options=None):
        options = {"recipe": SMALL, "batch_size": 4, **(options or {})}
        command = [sys.executable, "-W", "ignore", "-c", RANK + script, str(data), json.dumps(options)]
        pipe = subprocess.PIPE
        environment = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> list[str]:
        """The next line that it says."""
        line = self.process.stdout.readline().split()
        assert line, self.process.stderr.read()
        return line

    def tell(self, line: str):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        """Waits for its end; status and standard error."""
        _, errors = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, errors

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def short_folder(prefix: str) -> Path:
    """A folder whose path leaves room for the name of a socket."""
    import tempfile

    return Path(tempfile.mkdtemp(prefix=prefix))


def remove(folder: Path):
    shutil.rmtree(folder, ignore_errors=True)


__all__ = ["LIMIT_S", "Rank", "Watched", "only", "photos", "program", "remove", "running", "short_folder"]
