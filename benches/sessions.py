#!/usr/bin/env python3
"""What a session costs a worker whose receiver asks for nothing: memory, processor time and descriptors.

    benches/sessions.py PROGRAM [--numbers 64,256,1024] [--link tcp]

Starts a storage node and a worker on the photographs of the tests, and opens that many loaders against them, all in this
process. Each has taken one batch. Needs the package `headwater`. Prints a table.
"""

import argparse
import itertools
import os
import subprocess
import time
from pathlib import Path

import headwater

PHOTOS = Path(__file__).resolve().parents[1] / "tests/data/photos"
TINY = {"tensors": [{"name": "images", "dtype": "u8", "height": 16, "width": 16, "views": [{"crop": {"kind": "resize"}}]}]}
# Longer than staging memory is kept that nobody uses.
SETTLES_S = 35
MEASURED_S = 20
BUSY_S = 8


def start(program: str, verb: str, *options: str) -> tuple[subprocess.Popen, str]:
    words = [word for option in options for word in ("--set", option)]
    process = subprocess.Popen(
        [program, "--config", "/dev/null", *words, verb], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return process, process.stdout.readline().split()[-1]


def memory_mb(pid: int) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(pid: int) -> tuple[float, float]:
    """Memory in MB and processor time in ms a second, once what was needed for batches is given back."""
    time.sleep(SETTLES_S)
    before = processor_s(pid)
    time.sleep(MEASURED_S)
    return memory_mb(pid), (processor_s(pid) - before) / MEASURED_S * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--numbers", default="64,256,1024")
    parser.add_argument("--link", default="tcp")
    given = parser.parse_args()
    dataset = f'dataset=[{{name="photos", shards="{PHOTOS}/photos-*.tar"}}]'
    storage, at = start(given.program, "storage", dataset, "storage.listen=127.0.0.1:0")
    worker, workers = start(
        given.program, "augment", f"augment.storage={at}", "augment.listen=127.0.0.1:0", "augment.threads=2"
    )

    def opened(seed: int, recipe=TINY, batch: int = 4):
        return headwater.Loader(
            storage=at, workers=workers, datasets="photos", recipe=recipe, batch_size=batch, seed=seed, links=[given.link],
            rank=0, world_size=1, threads=1, window_batches=2, epochs=0,
        )  # fmt: skip

    def rate() -> float:
        """Samples a second of one busy rank beside the others."""
        loader = opened(0, "imagenet-train", 32)
        batches = itertools.chain.from_iterable(itertools.repeat(loader))
        next(batches)
        begun = time.monotonic()
        for number in itertools.count(1):
            next(batches)
            if time.monotonic() - begun > BUSY_S:
                break
        loader.close()
        return number * 32 / (time.monotonic() - begun)

    alone = rate()
    memory, busy = idle(worker.pid)
    print("| sessions | MB each | ms of a core a second, each | descriptors of the worker | samples/s of one busy rank |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| 0 | - | - | {len(os.listdir(f'/proc/{worker.pid}/fd'))} | {alone:.0f} |", flush=True)
    held = []
    for number in map(int, given.numbers.split(",")):
        while len(held) < number:
            held.append(opened(len(held) + 1))
            next(iter(held[-1]))
        now, spent = idle(worker.pid)
        descriptors = len(os.listdir(f"/proc/{worker.pid}/fd"))
        each = f"{(now - memory) / number:.3f} | {(spent - busy) / number:.3f}"
        print(f"| {number} | {each} | {descriptors} | {rate():.0f} |", flush=True)
    worker.terminate()
    storage.terminate()
    # Thousands of threads need not end one by one.
    os._exit(0)


if __name__ == "__main__":
    main()
