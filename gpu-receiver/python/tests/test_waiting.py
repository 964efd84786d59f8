"""While the loader waits, other threads run and Ctrl-C works."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import headwater
import pytest
from conftest import patiently

# Ports where nobody listens.
NOBODY = "127.0.0.1:1"


def test_other_threads_run_while_the_loader_waits(make):
    loader = make(workers=[NOBODY], worker_wait_ms=1500)
    turns, done = 0, threading.Event()

    def count():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.monotonic()
    with pytest.raises(headwater.WorkerError, match="no augment worker for 1 s.*127.0.0.1:1"):
        next(iter(loader))
    waited = time.monotonic() - begin
    done.set()
    thread.join()
    assert waited > 1
    assert turns > 200 * waited


WAIT_FOR_BATCH = """
import headwater, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
loader = headwater.Loader(storage=[sys.argv[1]], workers=["127.0.0.1:1"], datasets="photos")
print("waiting", flush=True)
try:
    next(iter(loader))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

WAIT_FOR_STORAGE = """
import headwater, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
print("waiting", flush=True)
try:
    headwater.Loader(storage=["127.0.0.1:1"], datasets="photos")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

WAIT_IN_REDUCE = """
import headwater, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)

def reduce(amaxes):
    print("waiting", flush=True)
    time.sleep(600)

recipe = {"preset": "imagenet-eval", "dtype": "fp8_e4m3", "fp8": {"scaling": "delayed"}}
loader = headwater.Loader(
    storage=[sys.argv[1]], workers=[sys.argv[2]], datasets="photos", recipe=recipe, batch_size=2,
    amax_reduce=reduce,
)
try:
    next(iter(loader))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "script", [WAIT_FOR_BATCH, WAIT_FOR_STORAGE, WAIT_IN_REDUCE], ids=["batch", "storage", "reduce"]
)
def test_ctrl_c_ends_the_wait(tiers, script):
    command = [sys.executable, "-c", script, tiers.storage, tiers.workers[0]]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begin < 2
        assert child.wait(10) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_wait_may_be_tried_again(make, tiers):
    loader = make(workers=[NOBODY], worker_wait_ms=300)
    iteration = iter(loader)
    with pytest.raises(headwater.WorkerError):
        next(iteration)
    loader.set_workers(tiers.workers)
    batch = next(patiently(iteration))
    assert (batch.epoch, batch.step) == (0, 0)


def test_loaders_that_only_a_cycle_keeps_are_gone_when_the_next_is_opened(tiers):
    def pruned():
        loader = headwater.Loader(**tiers.keywords())
        cycle = [loader, next(iter(loader))]
        cycle.append(cycle)

    gc.collect()
    gc.disable()
    try:
        pruned()
        pruned()
        after_two = len(os.listdir("/proc/self/fd"))
        for _ in range(4):
            pruned()
        assert len(os.listdir("/proc/self/fd")) <= after_two
    finally:
        gc.enable()
