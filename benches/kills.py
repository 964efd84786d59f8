"""Whether every row of every global batch is the one that a single rank gets that nobody kills. Trainers of 1, 2, 4 and 8 ranks take the batches in
turn: each is killed, and the next resumes.

    python benches/kills.py packs|patches FOLDER [GLOBAL_BATCHES]

`FOLDER` is for corpora, checkpoints and logs. Patches are of tests/data/photos. Needs the program `headwater`, as `HEADWATER_BIN` or on the
path, and writes one line.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import headwater

PHOTOS = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data" / "photos" / "photos-{000000..000003}.tar"
BATCH = 16
WORLDS = (1, 2, 4, 8)
# Seconds that ranks live for at least and at most, once the first of them has a batch.
LIFE = (0.2, 3.0)


def source(kind: str, folder: pathlib.Path) -> list[str]:
    """Lines of the configuration of the storage node."""
    if kind == "patches":
        return ["[[dataset]]", 'name = "data"', f'shards = "{PHOTOS}"']
    from packs import write

    path = write(folder / "corpus", 2_000_000)
    pack = f"{{ budget = 8192, epochs = 3, batch = {BATCH}, ranks = 8 }}"
    return ["[[dataset]]", 'name = "data"', f'shards = "{path}"', f"pack = {pack}"]


def opened(kind: str, storage: str, worker: str, rank: int, world: int):
    common = {"storage": [storage], "workers": [worker], "datasets": "data", "rank": rank, "world_size": world, "batch_size": BATCH // world}
    if kind == "packs":
        field = {"name": "tokens", "field": "pack", "kind": "pack", "budget": 8192}
        recipe = {"preset": "custom", "fields": [field]}
        return headwater.Loader(recipe=recipe, image_field="pack", label_field="", epochs=1, **common)
    crop = {"kind": "random_resized_sequence", "scale": [0.2, 1.0], "ratio": [0.8, 1.25]}
    tensor = {"name": "patches", "dtype": "bf16", "patch_size": 8, "sequence_lengths": [16, 9, 25], "batch_divisor": 8, "views": [{"crop": crop}]}
    return headwater.Loader(recipe={"preset": "custom", "tensors": [tensor]}, epochs=100_000, seed=3, **common)


def rows(batch) -> list[str]:
    """A digest of each row over all tensors."""
    # Bytes, so that NumPy need not know bf16.
    parts = [tensor.view(len(tensor), -1).view(dtype=torch.uint8).numpy() for tensor in batch.torch().values()]
    return [hashlib.blake2b(b"".join(part[row].tobytes() for part in parts), digest_size=8).hexdigest() for row in range(len(batch))]


def train(kind: str, storage: str, worker: str, rank: int, world: int, log: str, checkpoint: str, steps: int):
    """One rank, until it is killed."""
    state = pathlib.Path(checkpoint) if checkpoint else None
    begin = state and state.with_suffix(".begin")
    with open(log, "w") as file, opened(kind, storage, worker, rank, world) as loader:
        if begin and begin.exists():
            loader.load_state_dict(json.loads(begin.read_text()))
        taken = 0
        while True:
            for batch in loader:
                print(batch.epoch, batch.step, *rows(batch), file=file, flush=True)
                taken += 1
                if taken == steps:
                    return
                if state and rank == 0 and taken % 5 == 0:
                    state.with_suffix(".new").write_text(json.dumps(loader.state_dict()))
                    state.with_suffix(".new").rename(state)
            if kind == "packs":
                return


def started(log: pathlib.Path, *arguments: str):
    with log.open("w") as out:
        process = subprocess.Popen([os.environ.get("HEADWATER_BIN", "headwater"), *arguments], stdout=out, stderr=out)
    while "listening on " not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    return process, log.read_text().split("listening on ", 1)[1].split()[0]


def read(log: pathlib.Path) -> dict[tuple[int, int], list[str]]:
    """The last line of a killed rank may be cut off."""
    lines = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")] if log.exists() else []
    return {(int(epoch), int(step)): found for epoch, step, *found in lines}


def main():
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "state.json").exists():
        sys.exit(f"{folder} has the state of another run: name an empty folder")
    (folder / "storage.toml").write_text("\n".join(source(kind, folder)) + "\n")
    storage, at = started(folder / "storage.log", "--config", str(folder / "storage.toml"), "storage", "--listen", "127.0.0.1:0",
                          "--index-dir", str(folder / "index"))
    worker, worker_at = started(folder / "worker.log", "augment", "--listen", "127.0.0.1:0", "--storage", at)

    def rank(number: int, world: int, log: pathlib.Path, checkpoint: str, steps: int):
        arguments = [kind, at, worker_at, str(number), str(world), str(log), checkpoint, str(steps)]
        return subprocess.Popen([sys.executable, __file__, "rank", *arguments])

    draw, lives, killed, seen, compared, ranks = random.Random(7), 0, 0, {}, 0, []
    whole_ones = 0
    try:
        while whole_ones < wanted:
            world = WORLDS[lives % len(WORLDS)]
            # All ranks begin where the one before was, also those that start when the first has gone on.
            if (folder / "state.json").exists():
                (folder / "state.begin").write_text((folder / "state.json").read_text())
            logs = [folder / f"life-{lives}-{number}.log" for number in range(world)]
            ranks = [rank(number, world, log, str(folder / "state.json"), wanted) for number, log in enumerate(logs)]
            while not all(log.exists() and log.stat().st_size for log in logs):
                assert all(process.poll() is None for process in ranks), f"a rank of life {lives} ended"
                time.sleep(0.01)
            time.sleep(draw.uniform(*LIFE))
            # Ranks that train stay together: the first one, which writes the checkpoints, is held back.
            ranks[0].send_signal(signal.SIGSTOP)
            # It does not stop at once.
            time.sleep(0.2)
            ahead = max(read(logs[0]))
            while any(max(read(log), default=(0, 0)) <= ahead and process.poll() is None for log, process in zip(logs[1:], ranks[1:])):
                time.sleep(0.01)
            for process in ranks:
                process.send_signal(signal.SIGKILL)
                killed += 1
            for process in ranks:
                process.wait()
            taken = [read(log) for log in logs]
            shared = min(max(of_rank) for of_rank in taken)
            assert len({frozenset(place for place in of_rank if place <= shared) for of_rank in taken}) == 1, f"a rank of life {lives} left one out"
            for number, (log, of_rank) in enumerate(zip(logs, taken)):
                for place, found in of_rank.items():
                    seen.setdefault(place, []).append((number, world, found))
                log.unlink()
            # Some ranks are ahead of the others.
            whole_ones = sum(place <= shared for place in seen)
            lives += 1
        whole = folder / "whole.log"
        rank(0, 1, whole, "", wanted).wait()
        expected = read(whole)
        assert len(expected) == wanted, f"{len(expected)} batches without a kill"
        for place, rows_expected in expected.items():
            got = [""] * len(rows_expected)
            for number, world, found in seen[place]:
                begin = number * len(got) // world
                got[begin : begin + len(found)] = found
                expected_here = rows_expected[begin : begin + len(got) // world]
                assert found == expected_here, f"{place} of rank {number} of {world} differs"
                compared += 1
            assert got == rows_expected, f"not all ranks took {place}"
    finally:
        for process in (*ranks, worker, storage):
            process.kill()
    print(f"{kind}: {wanted:,} global batches, {lives} trainers of 1, 2, 4 and 8 ranks, {killed} ranks killed, {compared:,} batches of ranks compared, 0 differ")


if __name__ == "__main__":
    import torch

    if sys.argv[1] == "rank":
        kind, storage, worker, number, world, log, checkpoint, steps = sys.argv[2:]
        train(kind, storage, worker, int(number), int(world), log, checkpoint, int(steps))
    else:
        main()
