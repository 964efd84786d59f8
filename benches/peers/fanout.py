"""Batches per second that each of several trials on one host gets, by the ways there are to share them: the sender of
the PyPI package tensorcom, `headwater publish` over the same sockets, a receiver of Headwater's in each trial, such
receivers with one copy for all, a DataLoader over `webdataset` in each, and the PyPI package tensorsocket.

usage: fanout.py PROGRAM [--trials 1,4] [--rounds N] [--plot FILE.svg] [--json]
PROGRAM is `headwater` (a release build); Python has its wheel, pyzmq, tensorcom, NumPy and xxhash. What else it wants is
in requirements-fanout.txt beside it, to be installed with --no-deps. A package that is not there is left out, by name.

The batches cost next to nothing to make, so that moving them is what is measured: samples of bytes in WebDataset
tars, put together by the recipe `raw`. Tensorcom's sender is there twice: as its examples have it, with a DataLoader
that reads the same tars, and with the receiver's first batches in memory, which it sends again and again and makes
none. TensorSocket has these too; on CPU it pickles tensors, as it is made to share those of a GPU. Each trial looks at
one byte of each 64, a cache line. The first batch's bytes are compared where the order is the same. CPU time is that
of all processes, both ends, from a round's first batch on.

Ways take turns in each round; figures are medians over rounds. The table is Markdown.
"""

import argparse
import importlib.metadata
import io
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading

import fanout_ends
from fanout_ends import PREPARED, SEED, receiver

# For one way in one round.
LIMIT_S = 120


# === the processes ===


class Ended(Exception):
    """A process ended, or was too slow and was ended."""


class Process:
    """A child, its lines, and the CPU time that it took."""

    def __init__(self, *command):
        environment = {**os.environ, "HEADWATER_LOG": "error"}
        words = [str(word) for word in command]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def said(self, start):
        """What stands behind `start` in the next line that begins with it."""
        for line in self.process.stdout:
            if line.startswith(start):
                return line.removeprefix(start).strip()
        raise Ended(f"exit status {self.process.wait()} before it said `{start}`")

    def cpu_s(self):
        """So far, children that have ended included."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = sum(int(field) for field in fields[11:15])
        # A DataLoader's worker is a child that goes on.
        for child in children(self.process.pid):
            fields = pathlib.Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += sum(int(field) for field in fields[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Patience:
    """Ends processes after a while, so that whoever waits for their next line goes on."""

    def __init__(self, processes):
        self.timer = threading.Timer(LIMIT_S, lambda: [process.process.kill() for process in processes])

    def __enter__(self):
        self.timer.start()

    def __exit__(self, *raised):
        self.timer.cancel()


def children(pid):
    listed = [pathlib.Path(f"/proc/{pid}/task/{task.name}/children") for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for path in listed for child in path.read_text().split()]


class Bench:
    """Services that run all the time, and what trials and senders are told."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        tars = folder / "tars"
        tars.mkdir()
        write(tars, options)
        program = options.program
        self.storage = Process(
            program, "storage", "--listen", "127.0.0.1:0", "--index-dir", folder / "index",
            "--dataset", f"samples={tars}/*.tar",
        )  # fmt: skip
        at = self.storage.said("listening on")
        settings = [word for setting in options.augment_set for word in ("--set", setting)]
        self.augment = Process(
            program, "augment", "--listen", "127.0.0.1:0", "--storage", at, "--threads", options.threads, *settings
        )
        self.services = [self.storage, self.augment]
        options.storage, options.workers = at, self.augment.said("listening on")
        options.folder, options.prepared = str(tars), str(folder / "batches.npz")
        self.prepare()

    def prepare(self):
        """The receiver's first batches in a file, for senders in Python."""
        import numpy

        arrays = {}
        for number, batch in enumerate(itertools.islice(receiver(self.options), PREPARED)):
            # Labels as they are published.
            for place, (name, tensor) in enumerate(batch.items()):
                array = tensor.numpy()
                arrays[f"{number:03}{place}"] = array.astype(numpy.int32) if array.dtype == numpy.int64 else array.copy()
        numpy.savez(self.options.prepared, **arrays)

    def child(self, role, **told):
        return Process(sys.executable, fanout_ends.__file__, role, json.dumps({**vars(self.options), **told}))

    def run(self, way, trials):
        """Batches a second of a trial, and CPU seconds for each batch that one got."""
        senders, urls = way.senders(self, trials)
        children = [self.child(way.trial, url=url) for url in urls]
        try:
            # A round of a way that is so slow does not end the others.
            with Patience([*senders, *children]):
                for child in children:
                    child.said("ready")
                processes = [*self.services, *senders, *children]
                before = sum(process.cpu_s() for process in processes)
                reports = [json.loads(child.said("report ")) for child in children]
                cpu = sum(process.cpu_s() for process in processes) - before
        finally:
            for process in [*children, *senders]:
                process.stop()
        count = self.options.count
        rates = [count / (report["end"] - report["begin"]) for report in reports]
        all_batches = trials * (count + self.options.warm_up)
        return {
            "rate": statistics.mean(rates),
            "cpu_ms": 1000 * cpu / all_batches,
            "mb": statistics.mean(report["bytes"] for report in reports) / 1e6,
            "first": {report["first"] for report in reports},
        }


def write(folder, options):
    """Samples of bytes that nothing compresses, in tars."""
    random.seed(SEED)
    for number in range(4):
        with tarfile.open(folder / f"{number}.tar", "w") as tar:
            for sample in range(options.samples // 4):
                for name, data in [("jpg", random.randbytes(options.sample_bytes)), ("cls", b"%d" % sample)]:
                    member = tarfile.TarInfo(f"{number}-{sample:05}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


# === the ways ===


class Way:
    """Who sends what, and what a trial receives it with."""

    def __init__(self, name, trial, *packages):
        self.name, self.trial, self.packages = name, trial, packages

    def missing(self):
        """Packages that are not installed."""
        return [package for package in self.packages if not found(package)]

    def senders(self, bench, trials):
        """Each trial helps itself."""
        return [], [""] * trials


def found(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Python(Way):
    """A sender in Python, with an address for each trial or one for all."""

    def __init__(self, name, sender, trial, *packages, each=True):
        super().__init__(name, trial, *packages)
        self.sender, self.each = sender, each

    def senders(self, bench, trials):
        sender = bench.child(self.sender, senders=trials)
        urls = [sender.said("publishing on") for _ in range(trials if self.each else 1)]
        return [sender], [other_end(url) for url in urls] * (1 if self.each else trials)


class Publish(Way):
    """`headwater publish`, with an address for each trial."""

    def senders(self, bench, trials):
        options = bench.options
        settings = [
            f"receiver.seed={SEED}", "receiver.epochs=0", "recipe.preset=raw", f"recipe.raw_bytes_max={options.sample_bytes}",
            *options.publish_set,
        ]  # fmt: skip
        sender = Process(
            options.program, "publish", "--storage", options.storage, "--workers", options.workers, "--dataset", "samples",
            "--batch", options.batch, "--urls", ",".join(["zrpush://127.0.0.1:0"] * trials),
            *(word for setting in settings for word in ("--set", setting)),
        )  # fmt: skip
        return [sender], [other_end(sender.said("publishing on")) for _ in range(trials)]


def other_end(url):
    return url.replace("zrpush", "zrpull")


TENSORCOM = "tensorcom's sender of a DataLoader"
OTHER_ORDER = (TENSORCOM, "a DataLoader in each trial", "a receiver in each trial", "receivers that share one copy")
WAYS = [
    Python(TENSORCOM, "tensorcom_loading_sender", "tensorcom_trial", "tensorcom", "webdataset"),
    Python("tensorcom's sender, batches in memory", "tensorcom_sender", "tensorcom_trial", "tensorcom"),
    Publish("`headwater publish`, tensorcom's client", "tensorcom_trial", "tensorcom"),
    Publish("`headwater publish`, `headwater.tensorcom`", "headwater_client_trial"),
    Way("a receiver in each trial", "receiver_trial"),
    Way("receivers that share one copy", "shared_copy_trial"),
    Way("a DataLoader in each trial", "webdataset_trial", "webdataset"),
    Python("TensorSocket, batches in memory", "tensorsocket_sender", "tensorsocket_trial", "tensorsocket", each=False),
]


def main():
    options = parse()
    ways = [way for way in WAYS if not way.missing()]
    for way in WAYS:
        if way not in ways:
            print(f"left out: {way.name}, for {', '.join(way.missing())} is not installed", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        try:
            results = measure(bench, ways)
        finally:
            for service in bench.services:
                service.stop()
    if options.json:
        print(json.dumps({f"{name}, {trials}": figures for (name, trials), figures in results.items()}, default=list))
    else:
        table(results, options)
    if options.plot:
        plot(results, options)


def measure(bench, ways):
    options = bench.options
    rounds = {(way.name, trials): [] for trials in options.trials for way in ways}
    for _ in range(options.rounds):
        for trials in options.trials:
            for way in ways:
                try:
                    rounds[way.name, trials].append(bench.run(way, trials))
                except Ended as error:
                    print(f"no figures of {way.name} for {trials}: {error} ({LIMIT_S} s at most)", file=sys.stderr)
    # Of the receiver's own batches the labels have another type; DataLoaders have other orders.
    same = [each for (name, _), each in rounds.items() if name not in OTHER_ORDER]
    first = {one for each in same for figures in each for one in figures["first"]}
    if len(first) > 1:
        sys.exit(f"first batches differ: {first}")

    def medians(each):
        return {what: statistics.median(figures[what] for figures in each) for what in ("rate", "cpu_ms", "mb")}

    return {place: medians(each) for place, each in rounds.items() if each}


def table(results, options):
    print(f"| way | trials | batches/s, each | MB/s, all | times {TENSORCOM} | CPU, ms a batch delivered |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (name, trials), figures in results.items():
        base = results.get((TENSORCOM, trials), {"rate": float("nan")})["rate"]
        rate = figures["rate"]
        everything = rate * trials * figures["mb"]
        print(f"| {name} | {trials} | {rate:.1f} | {everything:.0f} | {rate / base:.2f} | {figures['cpu_ms']:.1f} |")
    mb = next(iter(results.values()))["mb"]
    versions = {package: found(package) for way in WAYS for package in way.packages if found(package)}
    print("\n" + ", ".join(f"{package} {version}" for package, version in versions.items()) + ".", end=" ")
    print(f"Batches of {options.batch} samples, {mb:.1f} MB; medians of {options.rounds} rounds of {options.count} batches.")


def plot(results, options):
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 3.8))
    for axes, what, label in zip(panels, ("rate", "cpu_ms"), ("batches/s of each trial", "CPU ms a batch delivered")):
        for name in dict.fromkeys(name for name, _ in results):
            there = [trials for trials in options.trials if (name, trials) in results]
            axes.plot(there, [results[name, trials][what] for trials in there], marker="o", label=name)
        axes.set_xlabel("trials on the host")
        axes.set_ylabel(label)
        axes.set_xticks(options.trials)
        axes.set_ylim(bottom=0)
    panels[0].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(options.plot, metadata={"Date": None} if options.plot.endswith(".svg") else None)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--trials", type=lambda text: [int(word) for word in text.split(",")], default=[1, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="samples of a batch")
    parser.add_argument("--sample-bytes", type=int, default=150_528, help="bytes of a sample: 3 x 224 x 224 of u8")
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--count", type=int, default=60, help="batches that are timed, for each trial")
    parser.add_argument("--warm-up", type=int, default=8, help="batches before that")
    parser.add_argument("--threads", type=int, default=1, help="threads of the worker, workers of a DataLoader")
    parser.add_argument("--augment-set", action="append", default=[], metavar="KEY=VALUE", help="for the worker")
    parser.add_argument("--publish-set", action="append", default=[], metavar="KEY=VALUE", help="for `headwater publish`")
    parser.add_argument(
        "--loader-option", action="append", default=[], metavar="NAME=VALUE", type=lambda text: text.split("=", 1),
        help="a keyword of the receivers' headwater.Loader",
    )  # fmt: skip
    parser.add_argument("--plot", help="file of the plot, .svg or .png")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
