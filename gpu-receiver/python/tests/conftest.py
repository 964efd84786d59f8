"""Real storage and augment processes over the project's photographs."""

import csv
import gc
import os
import signal
import subprocess
import time
from pathlib import Path

import headwater
import pytest

PROJECT = Path(__file__).resolve().parents[3]
PHOTOS = PROJECT / "tests" / "data" / "photos"
START_LIMIT_S = 60
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID",
             "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE")

# Small crops, so that a test takes its time for what it tests.
SMALL = {
    "tensors": [
        {
            "name": "global_crops",
            "dtype": "f32",
            "height": 32,
            "width": 32,
            "views": [
                {
                    "crop": {"kind": "random_resized", "scale": [0.3, 1.0], "ratio": [0.75, 1.3]},
                    "ops": [{"op": "flip", "p": 0.5}],
                }
            ]
            * 2,
        },
        {
            "name": "local_crops",
            "dtype": "u8",
            "height": 16,
            "width": 24,
            "views": [
                {"crop": {"kind": "random_resized", "scale": [0.1, 0.3], "ratio": [0.75, 1.3]}}
            ]
            * 3,
        },
    ]
}


# A shell in the background has it ignored, which every process that is started here would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def listed() -> list[dict[str, str]]:
    """The list of all photographs."""
    with (PHOTOS / "manifest.csv").open() as file:
        return list(csv.DictReader(file))


def program() -> str:
    """The program `headwater`: $HEADWATER_BIN, else the newest build."""
    if "HEADWATER_BIN" in os.environ:
        return os.environ["HEADWATER_BIN"]
    target = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
    built = [target / profile / "headwater" for profile in ("debug", "release")]
    built = [path for path in built if path.exists()]
    if not built:
        pytest.exit(f"no `headwater` in {target}: run `cargo build`, or set HEADWATER_BIN", 2)
    return str(max(built, key=lambda path: path.stat().st_mtime))


def pytest_collection_finish():
    # Each new loader has Python collect. PyTorch and others are 300,000 objects that are never garbage: 0.1 s each time.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """JAX comes last: it starts threads, and a process with threads is not to be forked."""
    items.sort(key=lambda item: item.path.name == "test_jax.py")


class Node:
    """A process that listens; killed when dropped."""

    def __init__(self, log: Path, *arguments: str):
        self.log = log
        with log.open("w") as out:
            command = [program(), "--die-with", str(os.getpid()), *arguments]
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent)
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            text = log.read_text()
            if "listening on " in text:
                self.address = text.split("listening on ", 1)[1].split()[0]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"{arguments[0]} does not listen:\n{log.read_text()}")

    @property
    def metrics(self) -> str:
        """Where it serves /metrics."""
        return self.log.read_text().split("metrics on ", 1)[1].split()[0]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Tiers:
    """Addresses of a storage node and of workers, and loaders that use them."""

    def __init__(self, storage: Node, workers: list[Node]):
        self.storage, self.workers = storage.address, [worker.address for worker in workers]
        self.metrics = {"storage": storage.metrics, "augment": workers[0].metrics}

    def keywords(self, **options):
        if "config" not in options:
            options.setdefault("datasets", ["photos"])
            options.setdefault("recipe", SMALL)
        options.setdefault("batch_size", 4)
        options.setdefault("storage", [self.storage])
        options.setdefault("workers", self.workers)
        return options


@pytest.fixture(scope="session")
def tiers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiers")
    shown = ["--set", "telemetry.metrics_listen=127.0.0.1:0"]
    arguments = ["storage", *shown, "--listen", "127.0.0.1:0", "--index-dir", str(folder / "index")]
    for name, shards in [
        ("photos", PHOTOS / "photos-000001.tar"),
        ("others", PHOTOS / "photos-000003.tar"),
        ("broken", PHOTOS.parent / "bad" / "broken-jpeg.tar"),
    ]:
        arguments += ["--dataset", f"{name}={shards}"]
    nodes = [Node(folder / "storage.log", *arguments)]
    try:
        for number in range(2):
            log = folder / f"augment-{number}.log"
            arguments = ["augment", *shown, "--listen", "127.0.0.1:0", "--threads", "1"]
            nodes.append(Node(log, *arguments, "--storage", nodes[0].address))
        yield Tiers(nodes[0], nodes[1:])
    finally:
        for node in nodes:
            node.stop()


@pytest.fixture
def make(tiers):
    """Makes loaders and closes them."""
    made = []

    def make(**options):
        made.append(headwater.Loader(**tiers.keywords(**options)))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def patiently(iteration):
    """The batches of an iteration that is asked again until its worker has answered, which a busy machine may take long for."""
    end = time.monotonic() + START_LIMIT_S
    while True:
        try:
            yield next(iteration)
        except StopIteration:
            return
        except headwater.WorkerError:
            if time.monotonic() > end:
                raise


@pytest.fixture(scope="session")
def labels():
    """Class of each sample of `photos` by its key, as the list beside the shards has them."""
    return {row["key"]: int(row["cls"]) for row in listed() if row["shard"] == "photos-000001.tar"}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    """The tests' own launcher must not say which rank they are."""
    for name in list(os.environ):
        launcher = name in LAUNCHERS
        ours = name.startswith("HEADWATER_") and name not in ("HEADWATER_BIN", "HEADWATER_LOG")
        if launcher or ours:
            monkeypatch.delenv(name)
