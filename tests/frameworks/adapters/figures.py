"""What is measured of both loaders: the loss of 100 steps, and the samples of a run that was killed and resumed."""

from __future__ import annotations

import collections
import json
import random
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BATCH = 16
STEPS = 100
LAST = 20
SEEDS = (0, 1, 2)
EPOCHS = 2
SAVED_EVERY = 4
KINDS = ("upstream", "headwater")


@dataclass(frozen=True)
class Losses:
    """Mean loss of the last steps, for each seed."""

    upstream: list[float]
    headwater: list[float]

    @property
    def spread(self) -> float:
        return max(self.upstream) - min(self.upstream)

    @property
    def apart(self) -> float:
        """How far Headwater's mean over the seeds is from upstream's."""
        return abs(statistics.mean(self.headwater) - statistics.mean(self.upstream))


@dataclass(frozen=True)
class Resumed:
    """Samples of all epochs of a run that was killed."""

    killed_after: int
    saved: int
    repeated: int
    lost: int


def losses(run, folder, seeds=SEEDS) -> Losses:
    """Both loaders' losses; `run(kind, folder, seed, steps)` gives that of each step."""
    found = {kind: [statistics.mean(run(kind, folder, seed, STEPS)[-LAST:]) for seed in seeds] for kind in KINDS}
    return Losses(**found)


def resumed(module: str, kind: str, data: str, folder: Path, samples: int, seed: int, kill_after: int = 0) -> Resumed:
    """Kills a training at a step that `seed` draws unless it is given, resumes it, and counts what the weights at the end have seen."""
    folder.mkdir(parents=True)
    steps = samples // BATCH
    kill_after = kill_after or random.Random(seed).randrange(SAVED_EVERY + 1, steps)
    killed = train(module, kind, data, folder, kill_after)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    again = train(module, kind, data, folder, 0)
    assert again.returncode == 0, again.stdout + again.stderr
    saved = kill_after // SAVED_EVERY * SAVED_EVERY
    first, second = (_read(folder / f"steps-{name}.jsonl") for name in ("killed", "resumed"))
    assert len(first) == kill_after
    # What came after the checkpoint is not in its weights.
    seen = collections.Counter((epoch, sample) for epoch, batch in first[:saved] + second for sample in batch)
    expected = samples * EPOCHS
    repeated = sum(count - 1 for count in seen.values())
    return Resumed(kill_after, saved, repeated, expected - len(seen))


def train(module: str, kind: str, data: str, folder: Path, kill_after: int):
    command = [sys.executable, "-m", f"adapters.{module}", kind, data, str(folder), str(kill_after)]
    return subprocess.run(command, cwd=Path(__file__).resolve().parents[1], capture_output=True, text=True, timeout=600)


def _read(path: Path) -> list[tuple[int, list]]:
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


class Log:
    """Writes what each step was trained on, and kills the process after a step."""

    def __init__(self, folder: Path, kill_after: int):
        self._kill_after = kill_after
        self._file = (folder / f"steps-{'killed' if kill_after else 'resumed'}.jsonl").open("w")
        self.steps = 0

    def trained(self, epoch: int, samples: list, save) -> None:
        import os

        self.steps += 1
        self._file.write(json.dumps([epoch, samples]) + "\n")
        self._file.flush()
        if self._kill_after and self.steps % SAVED_EVERY == 0:
            save()
        if self.steps == self._kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
