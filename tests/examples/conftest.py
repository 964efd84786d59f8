"""Runs the examples as their readers do, against services over the project's photographs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PHOTOS = ROOT / "tests" / "data" / "photos"
# 215 and 41 samples of the same 87 classes.
DATASETS = {
    "photos": "photos-*.tar",
    "train": "photos-{000000..000002}.tar",
    "validation": "photos-000003.tar",
    "captioned": "../fields/fields.tar",
}
TOKENIZER = ROOT / "tests" / "data" / "fields" / "clip-tokenizer.json"
LIMIT_S = 300


def pytest_configure(config):
    config.addinivalue_line("markers", "long: trains until it has learnt something; `make test-examples` runs these, too")


def program() -> str:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("HEADWATER_BIN", target / "debug" / "headwater"))
    assert path.exists(), f"{path} is missing: cargo build"
    return str(path)


class Service:
    """The program with a verb, once it listens."""

    def __init__(self, log: Path, *arguments: str):
        with log.open("w") as out:
            command = [program(), "--die-with", str(os.getpid()), *arguments]
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent)
        end = time.monotonic() + LIMIT_S
        while "listening on " not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"{arguments[0]} does not listen:\n{log.read_text()}")
            time.sleep(0.02)
        self.address = log.read_text().split("listening on ", 1)[1].split()[0]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Services:
    """Addresses of a storage node and of a worker, as options of an example."""

    def __init__(self, storage: Service, worker: Service):
        self.storage, self.worker = storage.address, worker.address
        self.options = ["--storage", self.storage, "--workers", self.worker]


@pytest.fixture(scope="session")
def services(tmp_path_factory):
    folder = tmp_path_factory.mktemp("services")
    arguments = ["--listen", "127.0.0.1:0", "--index-dir", str(folder / "index")]
    for name, shards in DATASETS.items():
        arguments += ["--dataset", f"{name}={PHOTOS}/{shards}"]
    started = [Service(folder / "storage.log", "storage", *arguments)]
    try:
        address = started[0].address
        arguments = ["--listen", "127.0.0.1:0", "--threads", "1", "--storage", address]
        arguments += ["--set", f'augment.tokenizers=["{TOKENIZER}"]']
        started.append(Service(folder / "augment.log", "augment", *arguments))
        yield Services(*started)
    finally:
        for service in started:
            service.stop()


def environment() -> dict[str, str]:
    """Without settings of whoever runs the tests. One thread: sums have one order then, on every machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def run(services, run_here):
    """Runs an example over the services to its end in an empty folder, and gives what it printed."""
    return lambda name, *arguments: run_here(name, *arguments, *services.options)


@pytest.fixture
def run_here(tmp_path):
    """Runs an example, which starts its own services."""

    def run(name: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / name), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run
