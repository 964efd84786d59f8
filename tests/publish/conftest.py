"""Real tiers and a real publisher over the project's photographs."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
import zmq

# A failed test leaves its clients open, and garbage collection at the end would wait for their contexts for ever.
zmq.Context.__del__ = lambda context: None

ROOT = Path(__file__).resolve().parents[2]
SHARDS = ROOT / "tests" / "data" / "photos" / "photos-000003.tar"
LIMIT_S = 60
# What clients call the other end of a publisher's address.
OTHER_END = {"zrpush": "zrpull", "zpub": "zsub"}


def program() -> str:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("HEADWATER_BIN", target / "debug" / "headwater"))
    assert path.exists(), f"{path} is missing: cargo build"
    return str(path)


class Process:
    """The program with a verb; its lines as they come."""

    def __init__(self, log: Path, *arguments: str):
        self.log = log
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [program(), "--die-with", str(os.getpid()), *arguments],
                stdout=subprocess.PIPE, stderr=errors, text=True, cwd=log.parent, env=environment,
            )  # fmt: skip
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def said(self, start: str, count: int = 1) -> list[str]:
        """What stands behind `start` in the first `count` lines that begin with it."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            found = [line.removeprefix(start).strip() for line in self.lines if line.startswith(start)]
            if len(found) >= count:
                return found
            assert self.process.poll() is None or time.monotonic() < end - LIMIT_S + 1, self.log.read_text()
            time.sleep(0.01)
        raise TimeoutError(f"{self.log.name} does not say `{start}`: {self.log.read_text()}")

    def end(self) -> int:
        """Its status, once all of its lines are there."""
        status = self.process.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        return status

    def stop(self):
        self.process.kill()
        self.process.wait()


class Tiers:
    """A storage node and a worker, and what a receiver needs to know of them."""

    def __init__(self, folder: Path):
        self.folder = folder
        storage = Process(
            folder / "storage.log", "storage", "--listen", "127.0.0.1:0",
            "--index-dir", str(folder / "index"), "--dataset", f"photos={SHARDS}",
        )  # fmt: skip
        self.processes = [storage]
        (address,) = storage.said("listening on")
        worker = Process(
            folder / "augment.log", "augment", "--listen", "127.0.0.1:0", "--storage", address
        )
        self.processes.append(worker)
        (worker_address,) = worker.said("listening on")
        self.arguments = [
            "--dataset", "photos", "--storage", address, "--workers", worker_address,
            "--batch", "8", "--set", "receiver.epochs=1", "--set", "receiver.seed=5",
        ]  # fmt: skip

    def publish(self, *arguments: str) -> Process:
        log = self.folder / f"publish-{len(self.processes)}.log"
        process = Process(log, "publish", *self.arguments, *arguments)
        self.processes.append(process)
        return process

    def reference(self, *arguments: str) -> list[dict]:
        """The same batches as `headwater receive` gets them: keys and digests of every sample."""
        file = self.folder / f"reference-{len(self.processes)}.jsonl"
        process = Process(
            file.with_suffix(".log"), "receive", *self.arguments, *arguments, "--digests", str(file)
        )
        self.processes.append(process)
        assert process.end() == 0, process.log.read_text()
        return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="session")
def tiers(tmp_path_factory):
    tiers = Tiers(tmp_path_factory.mktemp("publish"))
    yield tiers
    for process in reversed(tiers.processes):
        process.stop()


def client(address: str) -> str:
    """A publisher's address as its client writes it."""
    scheme, rest = address.split("://")
    kind, plus, transport = scheme.partition("+")
    return f"{OTHER_END[kind]}{plus}{transport}://{rest}"
