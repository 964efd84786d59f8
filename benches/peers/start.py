"""How long training loaders take to their first batch, and how long they stall where an epoch ends.

usage: start.py [--tars FOLDER] [--loaders NAME,..] [--runs N] [--json FILE] [--plot FILE.svg]

Seconds to the first batch are counted from the start of a fresh Python process, imports included, and are medians over
runs; the loaders take turns. The trainer of each run then takes a batch, works for --step-ms, asks for the next one, and so
on, for --epochs. Its longest wait for the first two batches of a new epoch stands beside the median of all other waits.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import drawing
import feeding
import runs
from loaders import LOADERS, data, loader_class

HERE = pathlib.Path(__file__).resolve().parent
# The same as other rows but for what they resume.
LEFT_OUT = ("torchdata-rng", "datasets-1")


def run(name, options, folder, steps):
    """Seconds to the first batch, and the seconds waited for each batch."""
    record = folder / "record"
    record.unlink(missing_ok=True)
    setup = {"folder": str(folder / "data"), "mixed": False, "batch": options.batch, "size": options.size}
    told = {"loader": name, "record": str(record), "content": False, "steps": steps, "pause_s": options.step_ms / 1000}
    told["setup"] = {**setup, "workers": options.workers}
    environment = {**os.environ, "HEADWATER_LOG": "error", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", feeding.__file__, json.dumps(told)]
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    first = None
    while process.poll() is None:
        if first is None and record.exists() and record.read_text().endswith("\n"):
            first = time.perf_counter() - begin
        time.sleep(0.005)
    runs.Process(process.pid).end()
    lines = [json.loads(text) for text in record.read_text().splitlines()]
    failed = next((line["error"] for line in lines if "error" in line), None)
    if failed or process.returncode:
        sys.exit(f"{name}: {failed or process.returncode}")
    return first, [line["waited_s"] for line in lines if "waited_s" in line]


def stalls(waits, steps):
    """The longest wait at each end of an epoch, and the waits that are neither there nor at the start."""
    boundaries = [waits[place : place + 2] for place in range(steps, len(waits), steps)]
    others = [wait for place, wait in enumerate(waits) if place >= 2 and place % steps > 1]
    return [max(some) for some in boundaries], others


def measure(options, folder):
    names = [name for name in options.loaders.split(",") if name]
    kinds = {name: loader_class(name) for name in names}
    formats = sorted({format for kind in kinds.values() for format in kind.formats})
    counts = data.write(folder / "data", options.tars.glob("*.tar"), formats)
    steps = counts["a"] // options.batch
    firsts, ends, others = ({name: [] for name in names} for _ in range(3))
    loads = [os.getloadavg()[0]]
    for number in range(options.runs):
        for name in names:
            first, waits = run(name, options, folder, options.epochs * steps)
            at_ends, elsewhere = stalls(waits, steps)
            firsts[name].append(first)
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
            "first_least_s": min(firsts[name]),
            "first_most_s": max(firsts[name]),
            "epoch_end_ms": 1000 * statistics.median(ends[name]),
            "epoch_end_most_ms": 1000 * max(ends[name]),
            "other_ms": 1000 * statistics.median(others[name]),
        }
    told = {key: value for key, value in vars(options).items() if isinstance(value, (int, float))}
    return runs.write(options.json, {**told, "samples": counts["a"]}, rows)


def markdown(result):
    lines = ["| loader | first batch, s | least to most, s | wait at an epoch's end, ms | longest, ms | other waits, ms |"]
    lines.append("| --- " * 6 + "|")
    for row in result["loaders"].values():
        spread = f"{row['first_least_s']:.2f} to {row['first_most_s']:.2f}"
        waits = " | ".join(f"{row[key]:.1f}" for key in ("epoch_end_ms", "epoch_end_most_ms", "other_ms"))
        lines.append(f"| {row['title']} | {row['first_s']:.2f} | {spread} | {waits} |")
    lines.append("")
    for row in result["loaders"].values():
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        lines.append(f"- {row['title']}: {row['runs']} runs, load of the machine {row['load'][0]} to {row['load'][-1]}; {versions}")
    return "\n".join(lines)


def plot(result):
    rows = [(row["title"], (row["first_s"], row["epoch_end_ms"] / 1000)) for row in result["loaders"].values()]
    names = ("seconds to the first batch", "wait at an epoch's end, seconds")
    return drawing.bars("Start of a training, and the end of an epoch", "seconds", rows, names, markdown(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tars", type=pathlib.Path, default=HERE / "../../tests/data/photos")
    parser.add_argument("--loaders", default=",".join(name for name in LOADERS if name not in LEFT_OUT))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3, help="epochs of a run")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224, help="height and width of an image")
    parser.add_argument("--step-ms", type=float, default=200, help="what the trainer does with a batch")
    parser.add_argument("--workers", type=int, default=2, help="processes or threads of a loader")
    parser.add_argument("--json", type=pathlib.Path, help="file for the figures; rows of other loaders in it are kept")
    parser.add_argument("--plot", type=pathlib.Path, help="file for the plot, .svg")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options, pathlib.Path(folder))
    print(markdown(result))
    if options.plot:
        options.plot.write_text(plot(result))


if __name__ == "__main__":
    main()
