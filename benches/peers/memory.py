"""How the memory of training loaders grows over a long run.

usage: memory.py [--minutes 60] [--together] [--tars FOLDER] [--loaders NAME,..] [--json FILE] [--plot FILE.svg]

One loader runs after the other, or with --together all at the same time. What counts is the memory of all processes of a
loader, workers and services, read every --every-s seconds from /proc: anonymous and shared memory, a page that several
processes have counted once. Pages of files do not count: the system may drop them, and loaders share those of libraries.
Growth is the slope of a line by least squares through the readings after the first --warm-up of the time. The trainer
takes batches, and sleeps --step-ms after each; epochs are short, so that what a loader keeps of each one is seen.
"""

import os
import pathlib
import statistics
import sys
import time

import command
import drawing
import runs

# Every process of a run inherits it.
MARK = "HEADWATER_PEERS_RUN"
MB = 1e6
# Readings that a row keeps in the file.
KEPT = 60


def members():
    """Processes that have a mark of this script's runs in their environment, by mark."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                # It ended, or is somebody else's.
                continue
            for word in words:
                if word.startswith(f"{MARK}=".encode()):
                    found.setdefault(word.decode().partition("=")[2], []).append(int(entry.name))
    return found


def memory_bytes(pids):
    total = 0
    for pid in pids:
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total


def run(names, options, folder):
    """For each loader the readings (seconds, bytes, processes), and the number of batches."""
    begin = time.monotonic()
    trainers = {}
    for name in names:
        mark = {MARK: f"{os.getpid()}-{name}"}
        trainers[name] = runs.Trainer(name, options, folder, mark, steps=10**9, until_s=60 * options.minutes)
    readings = {name: [] for name in names}
    while any(trainer.process.poll() is None for trainer in trainers.values()):
        marked = members()
        for name, trainer in trainers.items():
            pids = marked.get(f"{os.getpid()}-{name}", [])
            reading = (time.monotonic() - begin, memory_bytes(pids), len(pids))
            # What was read while it ended does not count.
            if trainer.process.poll() is None:
                readings[name].append(reading)
        time.sleep(options.every_s)
    ended = {}
    for name, trainer in trainers.items():
        try:
            ended[name] = readings[name], len(trainer.lines("step"))
        except runs.Failed as error:
            print(error, file=sys.stderr)
    return ended


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


def row(kind, readings, batches, options):
    slope, error = growth(readings, options.warm_up)
    after = [size for seconds, size, _ in readings if seconds >= options.warm_up * readings[-1][0]]
    kept = readings[:: -(-len(readings) // KEPT)]
    return {
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
        "readings": [f"{seconds:.0f} s: {size / MB:.0f} MB" for seconds, size, _ in kept],
    }


def measure(options, folder):
    kinds, _ = runs.prepared(options, folder)
    rows = runs.kept(options.json)
    for names in [list(kinds)] if options.together else [[name] for name in kinds]:
        for name, (readings, batches) in run(names, options, folder).items():
            rows[name] = row(kinds[name], readings, batches, options)
            print(f"{name}: {rows[name]['growth_mb_h']:.0f} MB/h, {batches} batches", file=sys.stderr)
        result = runs.write(options.json, runs.numbers(options), rows)
    return result


def markdown(result):
    head = ("loader", "minutes", "batches", "processes", "MB after warm-up", "MB at the end", "most, MB", "growth, MB/h")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for row in result["loaders"].values():
        sizes = " | ".join(f"{row[key]:.0f}" for key in ("first_mb", "last_mb", "most_mb"))
        slope = f"{row['growth_mb_h']:.1f} ± {row['growth_error_mb_h']:.1f}"
        lines.append(
            f"| {row['title']} | {row['minutes']:.1f} | {row['batches']} | {row['processes']} | {sizes} | {slope} |"
        )
    return "\n".join([*lines, "", *runs.version_lines(result, "load of the machine {load}".format_map)])


def plot(result):
    rows = [(row["title"], (row["first_mb"], row["last_mb"])) for row in result["loaders"].values()]
    minutes = max(row["minutes"] for row in result["loaders"].values())
    title = f"Memory of all processes of a loader, runs of {minutes:.1f} minutes"
    return drawing.bars(title, "MB", rows, ("after the warm-up", "at the end"), markdown(result))


if __name__ == "__main__":
    parser = command.trainer(__doc__, step_ms=20)
    parser.add_argument("--minutes", type=float, default=60, help="of each loader")
    parser.add_argument("--together", action="store_true", help="all loaders at the same time; give them a long --step-ms")
    parser.add_argument("--every-s", type=float, default=2)
    parser.add_argument("--warm-up", type=float, default=0.25, help="share of the time that does not count")
    command.main(parser.parse_args(), measure, markdown, plot)
