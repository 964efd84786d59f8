"""How the memory of training loaders grows over a long run.

usage: memory.py [--minutes 60] [--tars FOLDER] [--loaders NAME,..] [--json FILE] [--plot FILE.svg]

One loader runs at a time. What counts is PSS, the memory of all its processes with shared pages counted once, read every
--every-s seconds from /proc: workers that are children, and services that are not. Growth is the slope of a line by least
squares through the readings after the first --warm-up of the time. The trainer takes batches, and sleeps --step-ms after
each; epochs are short, so that what a loader keeps of each one is seen.
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
from start import LEFT_OUT

HERE = pathlib.Path(__file__).resolve().parent
# Every process of a run inherits it.
MARK = "HEADWATER_PEERS_RUN"
MB = 1e6


def members(mark):
    """Processes that have the run's mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                # It ended, or is somebody else's.
                continue
    return found


def pss_bytes(pids):
    total = 0
    for pid in pids:
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def run(name, options, folder):
    """The readings (seconds, bytes, processes), and the number of batches."""
    record = folder / f"record-{name}"
    setup = {"folder": str(folder / "data"), "mixed": False, "batch": options.batch, "size": options.size}
    told = {"loader": name, "record": str(record), "content": False, "steps": 10**9, "until_s": 60 * options.minutes}
    told |= {"setup": {**setup, "workers": options.workers}, "pause_s": options.step_ms / 1000}
    mark = f"{os.getpid()}-{name}"
    environment = {**os.environ, MARK: mark, "HEADWATER_LOG": "error", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", feeding.__file__, json.dumps(told)]
    begin = time.monotonic()
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    readings = []
    while process.poll() is None:
        pids = members(mark)
        readings.append((time.monotonic() - begin, pss_bytes(pids), len(pids)))
        time.sleep(options.every_s)
    runs.Process(process.pid).end()
    lines = [json.loads(text) for text in record.read_text().splitlines()]
    failed = next((line["error"] for line in lines if "error" in line), None)
    if failed or process.returncode:
        sys.exit(f"{name}: {failed or process.returncode}")
    return readings[:-1], sum("step" in line for line in lines)


def growth(readings, warm_up):
    """Bytes per hour, and the error of the slope (one standard deviation)."""
    begin = warm_up * readings[-1][0]
    some = [(seconds / 3600, size) for seconds, size, _ in readings if seconds >= begin]
    if len(some) < 3:
        sys.exit("too few readings: run it longer")
    hours, sizes = zip(*some)
    slope, level = statistics.linear_regression(hours, sizes)
    mean = statistics.mean(hours)
    rest = sum((size - level - slope * hour) ** 2 for hour, size in some) / (len(some) - 2)
    return slope, (rest / sum((hour - mean) ** 2 for hour in hours)) ** 0.5


def measure(options, folder):
    names = [name for name in options.loaders.split(",") if name]
    kinds = {name: loader_class(name) for name in names}
    formats = sorted({format for kind in kinds.values() for format in kind.formats})
    data.write(folder / "data", options.tars.glob("*.tar"), formats)
    rows = runs.kept(options.json)
    for name, kind in kinds.items():
        readings, batches = run(name, options, folder)
        slope, error = growth(readings, options.warm_up)
        after = [size for seconds, size, _ in readings if seconds >= options.warm_up * readings[-1][0]]
        rows[name] = {
            "title": kind.title,
            "versions": runs.versions(kind.packages),
            "minutes": readings[-1][0] / 60,
            "batches": batches,
            "load": round(os.getloadavg()[0], 1),
            "processes": max(count for _, _, count in readings),
            "first_mb": after[0] / MB,
            "last_mb": after[-1] / MB,
            "most_mb": max(size for _, size, _ in readings) / MB,
            "growth_mb_h": slope / MB,
            "growth_error_mb_h": error / MB,
            "readings": [f"{seconds:.0f} s: {size / MB:.0f} MB" for seconds, size, _ in readings],
        }
        print(f"{name}: {slope / MB:.0f} MB/h, {batches} batches", file=sys.stderr)
        told = {key: value for key, value in vars(options).items() if isinstance(value, (int, float))}
        result = runs.write(options.json, told, rows)
    return result


def markdown(result):
    head = ("loader", "minutes", "batches", "processes", "MB after warm-up", "MB at the end", "most, MB", "growth, MB/h")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for row in result["loaders"].values():
        sizes = " | ".join(f"{row[key]:.0f}" for key in ("first_mb", "last_mb", "most_mb"))
        slope = f"{row['growth_mb_h']:.0f} ± {row['growth_error_mb_h']:.0f}"
        lines.append(
            f"| {row['title']} | {row['minutes']:.1f} | {row['batches']} | {row['processes']} | {sizes} | {slope} |"
        )
    lines.append("")
    for row in result["loaders"].values():
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        lines.append(f"- {row['title']}: load of the machine {row['load']}; {versions}")
    return "\n".join(lines)


def plot(result):
    rows = [(row["title"], (row["first_mb"], row["last_mb"])) for row in result["loaders"].values()]
    minutes = max(row["minutes"] for row in result["loaders"].values())
    title = f"Memory of all processes of a loader, runs of {minutes:.1f} minutes"
    return drawing.bars(title, "MB (PSS)", rows, ("after the warm-up", "at the end"), markdown(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="of each loader")
    parser.add_argument("--tars", type=pathlib.Path, default=HERE / "../../tests/data/photos")
    parser.add_argument("--loaders", default=",".join(name for name in LOADERS if name not in LEFT_OUT))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224, help="height and width of an image")
    parser.add_argument("--step-ms", type=float, default=20, help="what the trainer does with a batch")
    parser.add_argument("--workers", type=int, default=2, help="processes or threads of a loader")
    parser.add_argument("--every-s", type=float, default=2)
    parser.add_argument("--warm-up", type=float, default=0.25, help="share of the time that does not count")
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
