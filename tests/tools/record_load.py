#!/usr/bin/env python3
"""Records what a controller of workers would see of a job whose load goes up and down in steps:

    tests/tools/record_load.py target/release/headwater >libs/autoscale/tests/recorded/NAME.csv

A storage node, one worker of one thread and one rank run on this machine; the rank's step time is changed from step
to step (none: no rank). Each line is one look: time, step time in ms, samples a second that the rank took, share of its
time for which it waited, share of its time for which the worker rendered.
"""

import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

LOOK_S, STEP_S, BATCH = 2.5, 75, 8
# In ms: light, heavier, more than the worker can make, light again, far too much, nobody, as at first.
STEPS = [400, 100, 40, 200, 20, None, 400]
STORAGE, WORKER, RANK_METRICS, WORKER_METRICS = (f"127.0.0.1:{port}" for port in (17411, 17412, 19411, 19412))
SHARDS = Path(__file__).resolve().parents[1] / "data" / "photos" / "photos-{000000..000003}.tar"


def counters(address: str) -> dict[str, float]:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    words = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in words}


def grown(before: dict, after: dict, name: str) -> float:
    # One that is not counted yet, or was started again, counts from nothing.
    old, new = before.get(name, 0.0), after.get(name, 0.0)
    return new - old if new >= old else new


def main() -> None:
    program, folder = sys.argv[1], tempfile.mkdtemp()

    def start(*arguments: str) -> subprocess.Popen:
        log = open(f"{folder}/{arguments[0]}.log", "a")
        return subprocess.Popen([program, *arguments], stdout=log, stderr=log, cwd=folder)

    tiers = [
        start("storage", "--listen", STORAGE, "--dataset", f"photos={SHARDS}", "--index-dir", folder),
        start(
            "augment", "--listen", WORKER, "--storage", STORAGE, "--set", "augment.threads=1",
            "--set", f"telemetry.metrics_listen={WORKER_METRICS}",
        ),
    ]  # fmt: skip
    try:
        print("# seconds,step_ms,samples_per_s,stall,busy")
        started = time.monotonic()
        for step_ms in STEPS:
            rank = step_ms and start(
                "receive", "--storage", STORAGE, "--workers", WORKER, "--dataset", "photos",
                "--batch", str(BATCH), "--epochs", "0", "--step-ms", str(step_ms), "--links", "tcp",
                "--set", f"telemetry.metrics_listen={RANK_METRICS}",
            )  # fmt: skip
            time.sleep(LOOK_S)
            look(started, step_ms)
            if rank:
                rank.terminate()
                rank.wait()
    finally:
        for tier in reversed(tiers):
            tier.terminate()
            tier.wait()


def look(started: float, step_ms: int | None) -> None:
    """Looks until the step is over. Its beginning, in which all start, is left out."""
    before, then, end = (counters(RANK_METRICS), counters(WORKER_METRICS)), time.monotonic(), time.monotonic() + STEP_S
    while time.monotonic() < end:
        time.sleep(LOOK_S)
        now, seconds = (counters(RANK_METRICS), counters(WORKER_METRICS)), time.monotonic() - then
        then = time.monotonic()
        (rank, worker), (rank_now, worker_now) = before, now
        samples = BATCH * grown(rank, rank_now, "headwater_receiver_batches_total")
        stall = grown(rank, rank_now, "headwater_receiver_waited_seconds")
        busy = grown(worker, worker_now, "headwater_augment_pool_busy_seconds")
        shares = ",".join(f"{min(value / seconds, 1.0):.3f}" for value in (stall, busy))
        print(f"{then - started:.1f},{step_ms or 0},{samples / seconds:.1f},{shares}", flush=True)
        before = now


if __name__ == "__main__":
    main()
