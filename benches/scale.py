#!/usr/bin/env python3
"""A dataset of a million shards: how long the tiers take to know it, and what a rank keeps of it.

    benches/scale.py WORK [--as files|array] [--shards 1000000] [--samples 1000] [--program headwater]

WORK gets the samples, rows of 16 bytes: as files, hard links to a few `.npy` files in folders of a thousand, or as one
sparse array whose rows are cut into shards. Nothing is decoded, so that what is measured is the order and its tables.
Needs the package `headwater` and NumPy. Prints a table.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROW_BYTES = 16
FOLDER_FILES = 1_000
# Links of one file that a file system takes.
LINKS_MAX = 50_000
STREAM = {"image_field": "bin", "label_field": "", "recipe": {"preset": "raw", "raw_bytes_max": 64}}


def make(work: Path, form: str, shards: int, samples: int) -> str:
    """Writes the dataset; what names its shards."""
    if form == "array":
        path = work / "one.npy"
        np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(shards * samples, ROW_BYTES))
        return str(path)
    for shard in range(shards):
        source = work / f"source-{shard // LINKS_MAX}.npy"
        if shard % LINKS_MAX == 0:
            np.save(source, np.random.default_rng(shard).integers(0, 256, (samples, ROW_BYTES), dtype=np.uint8))
        folder = work / "many" / f"{shard // FOLDER_FILES:04}"
        if shard % FOLDER_FILES == 0:
            folder.mkdir(parents=True, exist_ok=True)
        os.link(source, folder / f"{shard:07}.npy")
    return f"{work}/many/*/*.npy"


def start(program: str, verb: str, *options: str) -> tuple[subprocess.Popen, str, float]:
    """A tier that serves: the process, its address and the seconds that it took."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [program, "--config", "/dev/null", *(word for option in options for word in ("--set", option)), verb],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    said = process.stdout.readline()
    if not said.startswith("listening on "):
        sys.exit(f"`{verb}` says `{said.strip()}` and ended with {process.wait()}")
    return process, said.split()[-1], time.monotonic() - begun


def peak_mb(pid: int | str) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def rank(storage: str, workers: str) -> None:
    """One rank in a process of its own: prints its figures as JSON."""
    import headwater

    def timed(work):
        begun = time.monotonic()
        return work(), time.monotonic() - begun

    def opened():
        return headwater.Loader(datasets=["big"], storage=storage, workers=workers, batch_samples=64, epochs=1, **STREAM)

    loader, found = opened(), {}
    _, found["first batch, s"] = timed(lambda: next(iter(loader)))
    state, found["state_dict, s"] = timed(loader.state_dict)
    found["state, bytes"] = len(json.dumps(state))
    steps = found["steps of an epoch"] = len(loader)
    _, found["seek to two thirds and its batch, s"] = timed(lambda: (loader.seek(0, steps // 3 * 2), next(iter(loader))))
    state = loader.state_dict()
    loader.close()
    other = opened()
    _, found["resume there and its batch, s"] = timed(lambda: (other.load_state_dict(state), next(iter(other))))
    other.close()
    found["rank, peak MB"] = peak_mb("self")
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--as", dest="form", choices=["files", "array"], default="files")
    parser.add_argument("--shards", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=1_000, help="of each shard")
    parser.add_argument("--program", default="headwater")
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        return rank(*given.rank)
    given.work.mkdir(parents=True)
    pattern = make(given.work, given.form, given.shards, given.samples)
    dataset = f'{{name="big", shards="{pattern}", shard_samples={given.samples}}}'
    here = "127.0.0.1:0"
    storage, address, indexed = start(given.program, "storage", f"dataset=[{dataset}]", f"storage.listen={here}")
    worker, workers, _ = start(
        given.program, "augment", f"augment.storage={address}", f"augment.listen={here}", "augment.threads=1"
    )
    for which in ("first rank", "rank after it"):
        said = subprocess.run(
            [sys.executable, __file__, str(given.work), "--rank", address, workers],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name, value in json.loads(said.stdout).items():
            print(f"| {which}: {name} | {value:.4g} |" if isinstance(value, float) else f"| {which}: {name} | {value} |")
    print(f"| storage: until it serves, s | {indexed:.4g} |")
    print(f"| storage: peak MB | {peak_mb(storage.pid):.4g} |")
    print(f"| worker: peak MB | {peak_mb(worker.pid):.4g} |")
    for process in (worker, storage):
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
