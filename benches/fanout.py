"""What each further trial costs a worker that shares parts, and what one trial's trouble costs the others.

usage: fanout.py [OPTIONS] TARS [--plot FILE.svg]

1, 2, 4 and 8 trials of one recipe, seed and order read the same batches; each trial is a `headwater receive`. Over
`tcp` and `shm` it has slots of its own. With `host` all of them share one copy (`receiver.host_share`), and the CPU time of the
process that has it counts as the worker's. The tables are Markdown: CPU seconds of the worker per step of the stream, and batches
per second of seven trials before and while the eighth is stopped, killed and resumed, or half as fast. Digests of every trial are compared
with those of a lone run on a worker that shares nothing.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

TRIALS = (1, 2, 4, 8)
START_S = 60
# In the place of a link: one copy for all trials.
HOST = "host"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tars", help="pattern of WebDataset tars")
    parser.add_argument("--program", default="headwater", help="the program")
    parser.add_argument("--threads", type=int, default=1, help="threads of the worker")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--part-samples", type=int, default=8)
    parser.add_argument("--recipe", default="imagenet-train")
    parser.add_argument("--share-bytes", type=int, default=1 << 30)
    parser.add_argument("--steps", type=int, default=200, help="steps of each trial")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the first table; medians are shown")
    parser.add_argument("--links", default="tcp,shm,host")
    parser.add_argument("--host-batches", type=int, default=64, help="batches kept for trials that share one copy")
    parser.add_argument("--trouble-s", type=float, default=60, help="how long the eighth trial is in trouble; 0: never")
    parser.add_argument("--step-ms", type=int, default=200, help="step time of the trials of the second table")
    parser.add_argument("--plot", help="file of the plot, .svg or .png")
    return parser.parse_args()


class Service:
    """A process of the program that listens; its address and that of its metrics."""

    def __init__(self, options, folder, verb, config):
        path = folder / f"{verb}-{time.monotonic_ns()}.toml"
        path.write_text(f'{config}\n[telemetry]\nmetrics_listen = "127.0.0.1:0"\n')
        self.process = subprocess.Popen(
            [options.program, "--config", path, verb], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        said = iter(self.process.stdout.readline, "")
        for line in said:
            if found := re.match(r"metrics on (\S+)", line):
                self.metrics = found[1]
            if found := re.match(r"listening on (\S+)", line):
                self.address = found[1]
                break
        else:
            raise SystemExit(f"{verb} does not start: run it with --config {path}")
        # Whatever it says later must not fill the pipe.
        threading.Thread(target=lambda: list(said), daemon=True).start()

    def cpu_s(self):
        """CPU time of all its threads so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def counter(self, name, label=""):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(name + r"[ {]", line) and label in line)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class HostProcess:
    """CPU time of the process that trials share, looked at while it runs, as it ends with them."""

    def __init__(self, folder):
        self.folder, self.cpu_of = os.fsencode(folder), {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def look(self):
        while not self.ended.wait(0.05):
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    command = (entry / "cmdline").read_bytes().split(b"\0")
                    if b"host" in command and any(part.startswith(self.folder) for part in command):
                        fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                        self.cpu_of[entry.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_s(self):
        return sum(self.cpu_of.values())


def runtime(folder):
    """Where the processes of this bench find each other."""
    return {"XDG_RUNTIME_DIR": str(folder)}


class Trial:
    """A `headwater receive` that notes what it takes."""

    def __init__(self, options, folder, services, name, link, *, steps, step_ms=0):
        storage, worker = services
        self.digests = folder / f"{name}.json"
        checkpoints = folder / f"{name}-checkpoints"
        host = link == HOST
        settings = {
            "host_share": str(host).lower(),
            "host_batches": options.host_batches,
            "job": name,
            "part_samples": options.part_samples,
            "checkpoint_dir": checkpoints,
            "checkpoint_every_steps": 5,
            "resume": "true",
        }
        command = [options.program, "receive", "--dataset", "photos=photos"]
        command += ["--set", f"recipe.preset={options.recipe}"]
        command += ["--storage", storage.address, "--workers", worker.address]
        command += ["--links", "shm" if host else link]
        command += ["--batch", str(options.batch_size), "--step-ms", str(step_ms), "--digests", self.digests]
        command += ["--batches", str(steps)] if steps else []
        for key, value in settings.items():
            command += ["--set", f"receiver.{key}={value}"]
        self.process = subprocess.Popen(
            command, env=os.environ | runtime(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def lines(self):
        text = self.digests.read_text() if self.digests.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def batches(self):
        """Digests by place. A batch that was taken in two lives must be the same in both."""
        batches = {}
        for line in self.lines():
            place = line["epoch"], line["step"]
            if batches.setdefault(place, line["digests"]) != line["digests"]:
                raise SystemExit(f"{self.digests}: {place} differs between two lives")
        return batches

    def rate(self, since, until):
        """Batches per second between two times."""
        times = [line["unix_ms"] / 1000 for line in self.lines()]
        return sum(since <= at < until for at in times) / (until - since)

    def finish(self):
        if self.process.wait():
            raise SystemExit(f"{self.digests.stem} failed")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def services(options, folder, share_bytes):
    """A storage node and a worker."""
    dataset = f'[[dataset]]\nname = "photos"\nshards = ["{options.tars}"]\n'
    index = folder / "index"
    storage = Service(options, folder, "storage", f'[storage]\nlisten = "127.0.0.1:0"\nindex_dir = "{index}"\n{dataset}')
    lines = f'listen = "127.0.0.1:0"\nstorage = ["{storage.address}"]\nthreads = {options.threads}\nshare_bytes = {share_bytes}'
    worker = Service(options, folder, "augment", f"[augment]\n{lines}\n{dataset}")
    try:
        yield storage, worker
    finally:
        worker.end()
        storage.end()


def compare(trials, expected):
    """Every trial's batches are those of the lone run."""
    for trial in trials:
        batches = trial.batches()
        if not batches or any(expected.get(place) != digests for place, digests in batches.items()):
            raise SystemExit(f"{trial.digests.stem}: batches differ from a lone run's")
        missing = set(list(expected)[: len(batches)]) - set(batches)
        if missing:
            raise SystemExit(f"{trial.digests.stem}: {len(missing)} batches are missing")


def lone_run(options, folder, steps):
    with services(options, folder, 0) as both:
        trial = Trial(options, folder, both, "alone", "tcp", steps=steps)
        trial.finish()
        return trial.batches()


def cost(options, folder, link, count, share_bytes, expected):
    """Worker's CPU seconds per step of the stream, with so many trials, and parts made per step."""
    with services(options, folder, share_bytes) as both:
        worker = both[1]
        before = worker.cpu_s()
        name = f"{link}-{count}-{time.monotonic_ns()}"
        with HostProcess(folder) as host:
            trials = [Trial(options, folder, both, f"{name}-{i}", link, steps=options.steps) for i in range(count)]
            for trial in trials:
                trial.finish()
        cpu_s = (worker.cpu_s() - before + host.cpu_s()) / options.steps
        made = worker.counter("headwater_augment_share_parts_made_total") / options.steps
        compare(trials, expected)
        return cpu_s, made


def costs(options, folder):
    expected = lone_run(options, folder, options.steps)
    print("| link | trials | worker CPU per step, ms | each further trial costs of the first | parts made per step |")
    print("| --- | --- | --- | --- | --- |")
    all_costs = {}
    for link in options.links.split(","):
        rounds = {count: [] for count in (0, *TRIALS)}
        for _ in range(options.rounds):
            # 0 stands for one trial on a worker that shares nothing.
            for count, of_count in rounds.items():
                share_bytes = options.share_bytes if count else 0
                of_count.append(cost(options, folder, link, max(count, 1), share_bytes, expected))
        cpu_s = {count: statistics.median(one[0] for one in of_count) for count, of_count in rounds.items()}
        made = {count: statistics.median(one[1] for one in of_count) for count, of_count in rounds.items()}
        print(f"| {link} | 1, not shared | {1000 * cpu_s[0]:.2f} | - | - |")
        for count in TRIALS:
            further = f"{(cpu_s[count] / cpu_s[1] - 1) / (count - 1):.1%}" if count > 1 else "-"
            print(f"| {link} | {count} | {1000 * cpu_s[count]:.2f} | {further} | {made[count]:.2f} |", flush=True)
        all_costs[link] = cpu_s
    return all_costs


def trouble(options, folder, link, kind):
    """Batches per second of the seven others before and during the eighth's trouble, and parts made again."""
    length = options.trouble_s
    with services(options, folder, options.share_bytes) as both:
        name = f"{kind}-{link}"
        slow = 2 if kind == "half as fast" else 1
        trials = [Trial(options, folder, both, f"{name}-{i}", link, steps=0, step_ms=options.step_ms) for i in range(7)]
        eighth = Trial(options, folder, both, f"{name}-7", link, steps=0, step_ms=options.step_ms * slow) if slow == 1 else None
        try:
            deadline = time.monotonic() + START_S
            while any(len(trial.lines()) < 3 for trial in trials + [eighth] * (slow == 1)):
                if time.monotonic() > deadline:
                    raise SystemExit(f"a trial takes nothing within {START_S} s")
                time.sleep(0.1)
            began = time.time()
            time.sleep(length)
            troubled = time.time()
            if kind == "stopped":
                eighth.signal(signal.SIGSTOP)
            elif kind == "killed and resumed":
                eighth.end()
            else:
                eighth = Trial(options, folder, both, f"{name}-7", link, steps=0, step_ms=options.step_ms * slow)
            time.sleep(length)
            after = time.time()
            if kind == "stopped":
                eighth.signal(signal.SIGCONT)
            elif kind == "killed and resumed":
                eighth = Trial(options, folder, both, f"{name}-7", link, steps=0, step_ms=options.step_ms)
            time.sleep(length)
            again = both[1].counter("headwater_augment_share_parts_made_total", 'again="yes"')
            rates = [
                statistics.mean(trial.rate(*span) for trial in trials)
                for span in ((began, troubled), (troubled, after), (after, after + length))
            ]
            return rates, again, [*trials, eighth]
        finally:
            for trial in [*trials, eighth]:
                if trial is not None:
                    trial.end()


def troubles(options, folder):
    steps = int(5 * 1000 * options.trouble_s / options.step_ms) + 200
    expected = lone_run(options, folder, steps)
    print("\n| the eighth trial | link | batches/s of each other: before | meanwhile | after | parts made again |")
    print("| --- | --- | --- | --- | --- | --- |")
    for link in options.links.split(","):
        for kind in ("stopped", "killed and resumed", "half as fast"):
            rates, again, trials = trouble(options, folder, link, kind)
            compare(trials, expected)
            shown = " | ".join(f"{rate:.3f}" for rate in rates)
            print(f"| {kind} | {link} | {shown} | {again:.0f} |", flush=True)


def plot(all_costs, path):
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for link, cpu_s in all_costs.items():
        axes.plot(TRIALS, [1000 * cpu_s[count] for count in TRIALS], marker="o", label=f"{link}, shared")
        axes.plot(TRIALS, [1000 * cpu_s[0] * count for count in TRIALS], linestyle=":", label=f"{link}, each made alone")
    axes.set_xlabel("trials")
    axes.set_ylabel("worker CPU per step, ms")
    axes.set_xticks(TRIALS)
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main():
    options = parse()
    options.tars = os.path.abspath(options.tars)
    with tempfile.TemporaryDirectory() as folder:
        all_costs = costs(options, pathlib.Path(folder))
        if options.trouble_s > 0:
            troubles(options, pathlib.Path(folder))
    if options.plot:
        plot(all_costs, options.plot)


if __name__ == "__main__":
    main()
