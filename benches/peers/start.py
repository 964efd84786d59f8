"""How long training loaders take to their first batch, and how long they stall where an epoch ends.

usage: start.py [--tars FOLDER] [--loaders NAME,..] [--runs N] [--json FILE] [--plot FILE.svg]

Seconds to the first batch are counted from the start of a fresh Python process, and are medians over runs; the loaders
take turns. Every trainer imports --imports before its loader, as a training would, and that time is also given by itself.
The trainer of each run then takes a batch, works for --step-ms, asks for the next one, and so
on, for --epochs. Its longest wait for the first two batches of a new epoch stands beside the median of all other waits.
"""

import operator
import os
import statistics
import sys
import time

import command
import drawing
import runs


def run(name, options, folder, steps):
    """Seconds to the first batch, those of the imports before, and the seconds waited for each batch."""
    begin = time.perf_counter()
    trainer = runs.Trainer(name, options, folder, steps=steps, imports=options.imports)
    first = None
    while trainer.process.poll() is None:
        if first is None and trainer.has_batch():
            first = time.perf_counter() - begin
        time.sleep(0.005)
    imported = sum(line["imported_s"] for line in trainer.lines("imported_s"))
    return first, imported, [line["waited_s"] for line in trainer.lines("step")]


def stalls(waits, steps):
    """The longest wait at each end of an epoch, and the waits that are neither there nor at the start."""
    boundaries = [waits[place : place + 2] for place in range(steps, len(waits), steps)]
    others = [wait for place, wait in enumerate(waits) if place >= 2 and place % steps > 1]
    return [max(some) for some in boundaries], others


def measure(options, folder):
    kinds, counts = runs.prepared(options, folder)
    steps = counts["a"] // options.batch
    firsts, imports, ends, others = ({name: [] for name in kinds} for _ in range(4))
    loads = [os.getloadavg()[0]]
    for number in range(options.runs):
        for name in kinds:
            first, imported, waits = run(name, options, folder, options.epochs * steps)
            at_ends, elsewhere = stalls(waits, steps)
            firsts[name].append(first)
            imports[name].append(imported)
            ends[name] += at_ends
            others[name] += elsewhere
            loads = [min([*loads, os.getloadavg()[0]]), max([*loads, os.getloadavg()[0]])]
            print(f"{name}, run {number + 1}: {first:.2f} s", file=sys.stderr)
    rows = runs.kept(options.json)
    for name, kind in kinds.items():
        rows[name] = {
            "title": kind.title,
            "versions": runs.versions(kind.packages),
            "runs": options.runs,
            "load": [round(value, 1) for value in loads],
            "first_s": statistics.median(firsts[name]),
            "imports_s": statistics.median(imports[name]),
            "after_imports_s": statistics.median(map(operator.sub, firsts[name], imports[name])),
            "first_least_s": min(firsts[name]),
            "first_most_s": max(firsts[name]),
            "epoch_end_ms": 1000 * statistics.median(ends[name]),
            "epoch_end_most_ms": 1000 * max(ends[name]),
            "other_ms": 1000 * statistics.median(others[name]),
        }
    return runs.write(options.json, {**runs.numbers(options), "imports": options.imports, "samples": counts["a"]}, rows)


def markdown(result):
    imports = ", ".join(result["imports"])
    head = ["loader", "first batch, s", "least to most, s", f"without the import of {imports}, s"]
    head += ["wait at an epoch's end, ms", "longest, ms", "other waits, ms"]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for row in result["loaders"].values():
        spread = f"{row['first_least_s']:.2f} to {row['first_most_s']:.2f}"
        waits = " | ".join(f"{row[key]:.1f}" for key in ("epoch_end_ms", "epoch_end_most_ms", "other_ms"))
        lines.append(f"| {row['title']} | {row['first_s']:.2f} | {spread} | {row['after_imports_s']:.2f} | {waits} |")
    loads = "{runs} runs, load of the machine {load[0]} to {load[1]}".format_map
    return "\n".join([*lines, "", *runs.version_lines(result, loads)])


def plot(result):
    rows = [(row["title"], (row["after_imports_s"], row["epoch_end_ms"] / 1000)) for row in result["loaders"].values()]
    names = (f"first batch, without the import of {', '.join(result['imports'])}", "wait at an epoch's end")
    return drawing.bars("Start of a training, and the end of an epoch", "seconds", rows, names, markdown(result))


if __name__ == "__main__":
    parser = command.trainer(__doc__, step_ms=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--imports", nargs="*", default=["torch"], help="modules that a trainer imports in any case")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of a run")
    command.main(parser.parse_args(), measure, markdown, plot)
