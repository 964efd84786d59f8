"""Runs of a loader: `world` processes of feeding.py, and what they recorded."""

import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import select
import signal
import socket
import subprocess
import sys
import time

import feeding
from loaders import LOADERS, data, loader_class

# A run that takes longer hangs.
LIMIT_S = 180
# Samples of a step of all ranks together.
GLOBAL_BATCH = 8


@dataclasses.dataclass
class Run:
    """What the ranks of a run gave: for each step its (id, CRC of the pixels), those of rank 0 first."""

    steps: dict
    error: str = None
    refused: str = None
    # Of rank 0, seconds from the process's start, for each batch.
    clock: list = dataclasses.field(default_factory=list)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Process:
    """A process that another one of ours made."""

    def __init__(self, pid):
        self.pid = pid
        try:
            self.descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.descriptor = None

    def wait(self, limit_s):
        """Whether it has ended."""
        return self.descriptor is None or bool(select.select([self.descriptor], [], [], max(0, limit_s))[0])

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def end(self):
        """With what is left of its group: workers of a rank that is gone."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait(LIMIT_S)


class Bench:
    """Starts runs of a loader, in a folder that holds the data in the subfolder `data`."""

    def __init__(self, folder, loader, options):
        self.folder, self.loader, self.options = pathlib.Path(folder), loader, options
        self.mixed = False
        self.numbers = 0
        command = [sys.executable, "-W", "ignore", feeding.__file__, "--serve", loader]
        environment = {**os.environ, "HEADWATER_LOG": "error", "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self.server = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        if self.server.stdout.readline() != "ready\n":
            sys.exit(f"{loader} cannot be imported: try {' '.join(command)}")

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.server.kill()
        self.server.wait()

    def start(self, world, **told):
        """The processes of a run, the files that they write, and the folder of the states."""
        self.numbers += 1
        home = self.folder / "runs" / f"{self.loader}-{self.numbers}-{'mix' if self.mixed else 'one'}"
        home.mkdir(parents=True)
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        processes, records = [], []
        for rank in range(world):
            ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
            words = {"save": str(home / f"state-{rank}"), **told}
            words["loader"] = self.loader
            words["setup"] = {
                "folder": str(self.folder / "data"),
                "mixed": self.mixed,
                "batch": GLOBAL_BATCH // world,
                "rank": rank,
                "world": world,
                **self.options,
            }
            words["environment"] = {**address, **{name: str(value) for name, value in ranks.items()}}
            words["record"], words["errors"] = str(home / f"record-{rank}"), str(home / f"errors-{rank}")
            if "load" in words:
                words["load"] = str(self.state(told["load"], rank, world))
            self.server.stdin.write(json.dumps(words) + "\n")
            self.server.stdin.flush()
            processes.append(Process(int(self.server.stdout.readline())))
            records.append(home / f"record-{rank}")
        return processes, records, home

    def state(self, home, rank, world):
        """The rank's own state; rank 0's where their number changed."""
        states = sorted(home.glob("state-*"))
        return home / f"state-{rank if len(states) == world else 0}"

    def run(self, world, **told):
        processes, records, home = self.start(world, **told)
        hung = wait(processes)
        end(processes)
        return self.read(records, hung), home

    def read(self, records, hung=False):
        run = Run({})
        complete = 0
        for record in records:
            for text in record.read_text().splitlines() if record.exists() else []:
                words = json.loads(text)
                if "ids" in words:
                    run.steps.setdefault(words["step"], []).extend(zip(words["ids"], words["crcs"]))
                if "s" in words and record == records[0]:
                    run.clock.append(words["s"])
                complete += "ended" in words
                run.error = run.error or words.get("error")
                run.refused = run.refused or words.get("refused")
        if hung:
            run.error = run.error or f"no end after {LIMIT_S} s"
        elif complete < len(records):
            run.error = run.error or "a process ended before the last step"
        return run


class Failed(Exception):
    """A loader raised an error, or its process ended otherwise."""


class Trainer:
    """One process of feeding.py that takes batches at a trainer's pace."""

    def __init__(self, name, options, folder, mark=None, **told):
        self.name, self.record = name, folder / f"record-{name}"
        self.record.unlink(missing_ok=True)
        setup = {"folder": str(folder / "data"), "mixed": False}
        setup |= {key: getattr(options, key) for key in ("batch", "size", "workers")}
        words = {"loader": name, "record": str(self.record), "content": False, "pause_s": options.step_ms / 1000}
        environment = {**os.environ, **(mark or {}), "HEADWATER_LOG": "error", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", feeding.__file__, json.dumps({**words, "setup": setup, **told})]
        self.process = subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def has_batch(self):
        return self.record.exists() and b'"step"' in self.record.read_bytes()

    def lines(self, kind):
        """The lines that have a field, such as `step`, when it has ended."""
        Process(self.process.pid).end()
        lines = [json.loads(text) for text in self.record.read_text().splitlines()] if self.record.exists() else []
        failed = next((line["error"] for line in lines if "error" in line), None)
        if failed or self.process.returncode:
            raise Failed(f"{self.name}: {failed or self.process.returncode}")
        return [line for line in lines if kind in line]


def prepared(options, folder):
    """The loaders' classes by name, and the number of samples of each dataset, which is written here."""
    kinds = {}
    for name in filter(None, options.loaders.split(",")):
        try:
            kinds[name] = loader_class(name)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    formats = sorted({format for kind in kinds.values() for format in kind.formats})
    return kinds, data.write(folder / "data", options.tars.glob("*.tar"), formats)


def numbers(options):
    """The options that are numbers: they stand in the JSON."""
    return {key: value for key, value in vars(options).items() if isinstance(value, (int, float))}


def wait(processes):
    """Whether time ran out before the last of them ended."""
    deadline = time.monotonic() + LIMIT_S
    return not all([process.wait(deadline - time.monotonic()) for process in processes])


def end(processes):
    for process in processes:
        process.end()


def versions(packages):
    found = {"date": datetime.date.today().isoformat(), "Python": platform.python_version()}
    for package in packages:
        found[package] = importlib.metadata.version(package)
    return found


def kept(path):
    """Rows of a JSON file that are not measured now."""
    return json.loads(path.read_text())["loaders"] if path and path.exists() else {}


def write(path, told, rows):
    """What was told, and the rows in the order of the tables; to the file, if there is one."""
    result = {**told, "loaders": {name: rows[name] for name in LOADERS if name in rows}}
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n")
    return result


def version_lines(result, about):
    """For below a table: what `about` says of each row, and its versions."""
    for row in result["loaders"].values():
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        yield f"- {row['title']}: {about(row)}; {versions}"
