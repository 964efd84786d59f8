"""What a training does with its loader, and what it got of the samples: the same for every framework."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from images import BATCH, SAMPLES, SEED, ranks


@dataclass(frozen=True)
class Plan:
    """One run of a framework's loop."""

    epochs: int
    # Steps of an epoch, if the framework is told to take fewer than there are.
    limit: int | None = None
    # Steps after which the run is left.
    leave_after: int | None = None
    # Where it writes its checkpoint: when it is left, else at the end of each epoch.
    checkpoint: Path | None = None
    # The checkpoint that it begins with.
    resume: Path | None = None


@dataclass(frozen=True)
class Step:
    """A training step: the framework's epoch, and the numbers of the samples."""

    epoch: int
    samples: list[int]


FRESH, LIMITED, LEFT = "four epochs", "limited steps per epoch", "left early, begun again"
EPOCH_END, MID_EPOCH = "resumed at an epoch's end", "resumed in mid-epoch"
RESUMED = (EPOCH_END, MID_EPOCH)
SCENARIOS = (FRESH, LIMITED, LEFT, EPOCH_END, MID_EPOCH)


def run(loop: ModuleType, kind: str, folder: Path, scratch: Path, scenario: str) -> list[list[Step]]:
    """The steps of each run of a scenario. The loop has `opened(kind, folder)` and `train(loader, plan)`."""
    full = SAMPLES // BATCH // ranks()[1]
    half = full // 2
    checkpoint = scratch / "checkpoint"
    plans = {
        FRESH: [Plan(4)],
        LIMITED: [Plan(4, limit=half)],
        LEFT: [Plan(1, leave_after=half), Plan(1)],
        EPOCH_END: [Plan(2, checkpoint=checkpoint), Plan(4, resume=checkpoint)],
        MID_EPOCH: [Plan(3, leave_after=full + half, checkpoint=checkpoint), Plan(4, resume=checkpoint)],
    }[scenario]
    scratch.mkdir(parents=True, exist_ok=True)
    runs, loader = [], None
    for plan in plans:
        # A script sets its seed where it begins.
        torch.manual_seed(SEED)
        if loader is None or plan.resume:
            close(loader)
            loader = loop.opened(kind, folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs.append(loop.train(loader, plan))
    close(loader)
    return runs


def close(loader: object) -> None:
    """Closes Headwater's loader, if there is one in it."""
    within = getattr(getattr(loader, "dataset", None), "loader", loader)
    if hasattr(within, "close"):
        within.close()


def by_epoch(scenario: str, of_ranks: list[list[list[Step]]]) -> list[list[int]]:
    """The samples of each epoch, of all ranks: of what the scenario asks for."""
    epochs: dict[int, list[int]] = {}
    for runs in of_ranks:
        # Of a run that was left without a checkpoint nothing is continued.
        for steps in runs[-1:] if scenario == LEFT else runs:
            for step in steps:
                epochs.setdefault(step.epoch, []).extend(step.samples)
    return [epochs[epoch] for epoch in sorted(epochs)]


def expected(scenario: str, world_size: int) -> tuple[int, int]:
    """How many epochs there are, and how many samples each has."""
    epochs = {FRESH: 4, LIMITED: 4, LEFT: 1, EPOCH_END: 4, MID_EPOCH: 4}[scenario]
    steps = SAMPLES // BATCH // world_size
    return epochs, (steps // 2 if scenario == LIMITED else steps) * BATCH * world_size


def result(scenario: str, of_ranks: list[list[list[Step]]]) -> str:
    """What the samples of all ranks amount to, as a cell of the table."""
    count, size = expected(scenario, len(of_ranks))
    epochs = by_epoch(scenario, of_ranks)
    distinct = [len(set(epoch)) for epoch in epochs]
    twice = [sum(times - 1 for times in Counter(epoch).values()) for epoch in epochs]
    if len(epochs) != count:
        return f"{len(epochs)} epochs of {count}"
    if all(found == size for found in distinct) and not any(twice):
        said = f"{size} of {size}, none twice"
        orders = {tuple(epoch) for epoch in epochs}
        return said if len(orders) == count else f"{said}, the order of an epoch again"
    worst = min(range(count), key=lambda epoch: (distinct[epoch], -twice[epoch]))
    return f"{distinct[worst]} of {size}, {twice[worst]} twice"


def same(resumed: list[list[Step]], uninterrupted: list[list[Step]]) -> bool:
    """Whether a rank's steps after all resumes are those of a run without any."""
    return [step for steps in resumed for step in steps] == uninterrupted[0]


def measure(loop: ModuleType, kind: str, folder: Path, scratch: Path, write: Callable[[str, list], None]) -> None:
    """Runs all scenarios on this rank."""
    for scenario in SCENARIOS:
        write(scenario, run(loop, kind, folder, scratch / kind / scenario.replace(" ", "-"), scenario))
