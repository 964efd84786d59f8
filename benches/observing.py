"""What it costs to be observed: samples a second with metrics, monitor, page and traces on, beside off.

    python benches/observing.py target/release/headwater 'photos-*.tar' [--rounds 7] [--batches 250]

Three tiers as processes of their own, recipe `dinov2`, batches of 32, one worker with as many threads as the
machine has cores, over `shm`. A trainer that takes no time takes the batches. The ways are measured in turns, each
with new processes, and compared within their round:

- `off`: no metrics;
- `observed`: all processes serve metrics, and `headwater monitor --web` reads them once a second, as a page that
  is open reads its report;
- `traced`: all processes write a trace.

Processor time is that of all processes, the monitor's too, from their start to their end.
"""

import argparse
import os
import re
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

WAYS = ("off", "observed", "traced")
BATCH = 32


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port: int):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")


def look(url: str, stop: threading.Event):
    """Does what an open page does."""
    while not stop.wait(1):
        with urllib.request.urlopen(url, timeout=10) as answer:
            answer.read()


def cpu_s() -> float:
    """Processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(program: str, shards: str, way: str, batches: int, folder: Path) -> float:
    """Samples a second of one run."""
    storage, worker, page = free_port(), free_port(), free_port()
    targets = folder / "targets"
    processes, stop = [], threading.Event()

    def start(name: str, *arguments: str) -> subprocess.Popen:
        command = [program, "--die-with", str(os.getpid()), "--log", "warn", name, *arguments]
        if way == "observed":
            command += ["--set", "telemetry.metrics_listen=127.0.0.1:0"]
            command += ["--set", f"telemetry.targets_dir={targets}"]
        elif way == "traced":
            command += ["--trace", str(folder / f"{name}.json")]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        processes.append(process)
        return process

    try:
        dataset = f"photos={shards}"
        start(
            "storage", "--listen", f"127.0.0.1:{storage}", "--dataset", dataset,
            "--index-dir", str(folder / "index"),
        )  # fmt: skip
        wait_for(storage)
        start(
            "augment", "--listen", f"127.0.0.1:{worker}", "--storage", f"127.0.0.1:{storage}",
            "--set", f'augment.local_roots=["{Path(shards).resolve().parent}"]',
        )  # fmt: skip
        wait_for(worker)
        if way == "observed":
            web = [program, "--die-with", str(os.getpid()), "monitor", "--targets-dir", str(targets)]
            web += ["--web", f"127.0.0.1:{page}"]
            quiet = subprocess.DEVNULL
            processes.append(subprocess.Popen(web, stdout=quiet, stderr=quiet))
            wait_for(page)
            url = f"http://127.0.0.1:{page}/report.json"
            threading.Thread(target=look, args=(url, stop), daemon=True).start()
        rank = start(
            "receive", "--dataset", "photos", "--storage", f"127.0.0.1:{storage}",
            "--workers", f"127.0.0.1:{worker}", "--batch", str(BATCH), "--epochs", "0",
            "--batches", str(batches),
        )  # fmt: skip
        said, _ = rank.communicate(timeout=600)
        found = re.search(r"([\d.]+) samples/s", said)
        assert rank.returncode == 0 and found, said
        return float(found[1])
    finally:
        stop.set()
        for process in processes:
            process.kill()
            process.wait()


def of_off(figures: dict, way: str) -> tuple[float, float]:
    """Median, and median of the ratios to `off` of the same round."""
    ratios = [one / off for one, off in zip(figures[way], figures["off"])]
    return statistics.median(figures[way]), statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("shards")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=250)
    arguments = parser.parse_args()
    rates, times = ({way: [] for way in WAYS} for _ in range(2))
    for number in range(arguments.rounds):
        # The order turns, so that none is always first.
        turned = WAYS[number % 3 :] + WAYS[: number % 3]
        for way in turned:
            before = cpu_s()
            with tempfile.TemporaryDirectory() as folder:
                rate = measure(arguments.program, arguments.shards, way, arguments.batches, Path(folder))
            rates[way].append(rate)
            times[way].append((cpu_s() - before) / arguments.batches / BATCH * 1000)
        print(f"round {number}:", ", ".join(f"{way} {rates[way][-1]:.0f}" for way in WAYS), flush=True)
    for way in WAYS:
        rate, cpu = (of_off(figures, way) for figures in (rates, times))
        print(f"{way:9} {rate[0]:7.1f} samples/s, {rate[1]:.3f} of off; {cpu[0]:.3f} ms of CPU a sample, {cpu[1]:.3f} of off")


if __name__ == "__main__":
    main()
