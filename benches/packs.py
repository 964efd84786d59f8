"""Packs of sequences: time to the first batch, padding, and how even the loads of ranks are.

    python benches/packs.py FOLDER [SEQUENCES]

Writes a corpus of tokens that are all 0 into FOLDER, with lengths as texts have them (log-normal, mean 655, 8,192 at most), and Markdown to
standard output.
"""

from __future__ import annotations

import pathlib
import statistics
import struct
import sys
import time

import headwater
import numpy as np

BUDGET, BATCH, RANKS, STEPS = 8192, 64, 8, 200


def write(folder, count):
    """A corpus whose file of tokens has no block on the disk."""
    lengths = np.clip(np.random.default_rng(1).lognormal(np.log(400), 1.0, count), 1, BUDGET).astype("<i4")
    begins = np.concatenate([[0], 2 * np.cumsum(lengths[:-1], dtype=np.int64)]).astype("<i8")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "corpus.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, count + 1))
        for array in (lengths, begins, np.arange(count + 1, dtype="<i8")):
            file.write(array.tobytes())
    with open(folder / "corpus.bin", "wb") as file:
        file.truncate(2 * int(lengths.sum()))
    return folder / "corpus.bin"


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000
    path = write(folder, count)
    begin, used = time.perf_counter(), time.process_time()
    field = {"name": "tokens", "field": "pack", "kind": "pack", "budget": BUDGET}
    loader = headwater.Loader(
        str(path),
        datasets={"name": "data", "pack": {"budget": BUDGET, "epochs": 3, "batch": BATCH, "ranks": RANKS}},
        recipe={"preset": "custom", "fields": [field]},
        image_field="pack",
        label_field="",
        batch_size=BATCH,
        epochs=1,
        embedded="threads",
    )
    batches = iter(loader)
    next(batches)
    first, used = time.perf_counter() - begin, time.process_time() - used
    padding, loads = [], []
    for _, batch in zip(range(STEPS), batches):
        bounds = batch.torch()["tokens_cu_seqlens"].numpy().astype(np.int64)
        padding.append(1 - bounds[:, -1].sum() / (BATCH * BUDGET))
        of_ranks = (np.diff(bounds, axis=1) ** 2).sum(1).reshape(RANKS, -1).sum(1)
        loads.append(of_ranks.max() / of_ranks.mean())
    print(f"{count:,} sequences, 3 epochs, {len(loader):,} steps of {BATCH} packs of {BUDGET} tokens on {RANKS} ranks\n")
    print("| | |")
    print("| --- | --- |")
    print(f"| first batch | {first:.1f} s, {used:.1f} s of processor |")
    print(f"| padding, {STEPS} steps | {100 * statistics.mean(padding):.2f} % |")
    print(f"| largest load of a rank over the mean: median, most | {statistics.median(loads):.4f}, {max(loads):.4f} |")
    loader.close()


if __name__ == "__main__":
    main()
