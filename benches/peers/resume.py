"""Whether training loaders go on with exactly the batches of a run that was never interrupted.

usage: resume.py [--tars FOLDER] [--loaders NAME,..] [--json FILE] [--plot FILE.svg]

A run of each loader is stopped, resumed, resumed twice, killed by SIGKILL, and resumed on another number of ranks. Its
samples and its pixels are compared with those of a run without interruption, step by step. Data is shuffled and augmented;
`mix` draws it from two datasets, three of four samples from the first. Every part of a run is a process of its own,
forked from one that has only imported the library.

The packages are those of requirements-resume.txt, to be installed as proofs.sh does it. The tables are Markdown.
"""

import collections
import random
import sys
import time

import command
import resume_tables
import runs
from resume_tables import NOT_KILLED

FIRST_STOP, SECOND_STOP = 5, 11
# Time between two steps of a run that will be killed.
PAUSE_S = 0.5


def differences(expected, found, after, last, ordered):
    """Samples and pixels of the steps behind `after` that the uninterrupted run does not have there."""
    samples = pixels = total = 0
    for step in range(after + 1, last + 1):
        want, have = expected.steps.get(step, []), found.steps.get(step, [])
        total += len(want)
        if ordered:
            have = have + [(None, None)] * (len(want) - len(have))
            samples += sum(one[0] != other[0] for one, other in zip(want, have))
            pixels += sum(one != other for one, other in zip(want, have))
        else:
            ids = collections.Counter(id for id, _ in want) - collections.Counter(id for id, _ in have)
            samples += sum(ids.values())
            pixels += sum((collections.Counter(want) - collections.Counter(have)).values())
    return {"samples": samples, "pixels": pixels, "of": total}


class Trial:
    """All scenarios of one loader on one or two datasets."""

    def __init__(self, bench, kind, steps):
        self.bench, self.kind, self.steps = bench, kind, steps
        # Its state is saved on the way: a checkpoint, and a process that is lost some time later.
        self.whole, self.home = bench.run(1, steps=steps, save_at=FIRST_STOP)

    def go_on(self, world, home, stopped_at, refused, **told):
        """From the states in a folder; without states, by taking the batches before once more."""
        steps = self.steps - stopped_at
        begin = {"skip": stopped_at} if refused else {"load": home}
        return self.bench.run(world, steps=steps, **begin, **told)

    def cell(self, expected, found, after, ordered=True, offered=True):
        if found is None:
            return {"samples": 0, "pixels": 0, "of": 0, "error": NOT_KILLED, "offered": offered, "refused": None}
        error = expected.error or found.error
        counts = differences(expected, found, after, self.steps, ordered)
        return {**counts, "error": error, "offered": offered, "refused": self.whole.refused}

    def results(self):
        refused = self.whole.refused
        again, _ = self.bench.run(1, steps=self.steps)
        once, once_home = self.go_on(1, self.home, FIRST_STOP, refused, save_at=SECOND_STOP)
        twice, _ = self.go_on(1, once_home, SECOND_STOP, refused)
        # What failed the first time has no second time.
        twice.error = once.error or twice.error
        two, two_home = self.bench.run(2, steps=self.steps, save_at=FIRST_STOP)
        fewer, _ = self.go_on(1, two_home, FIRST_STOP, refused)
        more, _ = self.go_on(2, self.home, FIRST_STOP, refused)
        killed, after = self.killed()
        has_state = refused is None
        ranks = has_state and self.kind.other_ranks
        if self.bench.mixed:
            ranks = ranks and getattr(self.kind, "other_ranks_mixed", True)
        return {
            "again": self.cell(self.whole, again, 0),
            "once": self.cell(self.whole, once, FIRST_STOP, offered=has_state),
            "twice": self.cell(self.whole, twice, SECOND_STOP, offered=has_state),
            "killed": self.cell(self.whole, killed, after, offered=has_state),
            "fewer": {**self.cell(two, fewer, FIRST_STOP, False, ranks), **self.epoch(two, fewer)},
            "more": {**self.cell(self.whole, more, FIRST_STOP, False, ranks), **self.epoch(self.whole, more)},
        }

    def killed(self):
        """A run that saves its state after every step, and one that goes on from the last state."""
        processes, records, home = self.bench.start(1, steps=self.steps, pause_s=PAUSE_S)
        deadline = time.monotonic() + runs.LIMIT_S
        while len(self.bench.read(records).steps) <= FIRST_STOP and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.Random(self.bench.loader).uniform(0, PAUSE_S))
        processes[0].kill()
        processes[0].wait(runs.LIMIT_S)
        stopped = self.bench.read(records)
        step = max(stopped.steps, default=0)
        if step >= self.steps:
            # A slow machine: nothing was killed, and nothing is said about the loader.
            return None, step
        found, _ = self.go_on(1, home, step, stopped.refused)
        runs.end(processes)
        # A state may be one step behind the last line of the record, or the other way round.
        return found, min(found.steps, default=self.steps + 1) - 1

    def epoch(self, before, after):
        """Of the first dataset's samples: how many an epoch lost, and how many came again."""
        if self.bench.mixed:
            return {}
        first = [batch for step, batch in before.steps.items() if step <= FIRST_STOP]
        rest = [batch for step, batch in after.steps.items() if FIRST_STOP < step <= self.steps]
        seen = collections.Counter(id for batch in first + rest for id, _ in batch)
        return {"lost": self.steps * runs.GLOBAL_BATCH - len(seen), "repeated": sum(seen.values()) - len(seen)}


def measure(options, folder):
    kinds, counts = runs.prepared(options, folder)
    table = runs.kept(options.json)
    # An epoch of the first dataset.
    steps, rest = divmod(counts["a"], runs.GLOBAL_BATCH)
    if rest or steps <= SECOND_STOP:
        sys.exit(f"{counts['a']} samples do not fill batches of {runs.GLOBAL_BATCH}, or are too few")
    for name, kind in kinds.items():
        row = {"title": kind.title, "docs": kind.docs, "versions": runs.versions(kind.packages)}
        with runs.Bench(folder, name, {"workers": options.workers}) as bench:
            for part in ("one", "mix"):
                bench.mixed = part == "mix"
                row[part] = Trial(bench, kind, steps).results()
                print(f"{kind.title}, {part}: done", file=sys.stderr)
        table[name] = row
        result = runs.write(options.json, {"workers": options.workers}, table)
    return result


if __name__ == "__main__":
    command.main(command.parser(__doc__).parse_args(), measure, resume_tables.markdown, resume_tables.plot)
