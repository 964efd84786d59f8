"""Nobody waits for a lock of the package with the interpreter's lock: no thread stops, and none for ever.

What would stop for ever runs in a process of its own, which a limit ends.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import headwater
import pytest
from conftest import Node

LIMIT_S = 60
TRIES = 10
# Views of one pixel, whose scales follow from what `amax_reduce` gives.
CROP = {"kind": "center_after_resize", "resize": 8}
VIEWS = {"name": "crops", "dtype": "fp8_e4m3", "height": 1, "width": 1, "views": [{"crop": CROP}]}
DELAYED = {"tensors": [VIEWS], "fp8": {"scaling": "delayed", "delay": 8}}


def ran(script, options, *arguments, **environment):
    """What a script prints; it ends within the limit."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script, json.dumps(options), *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# A second iteration, whose first call of `amax_reduce` does something.
WITHIN_REDUCE = """
import gc, json, sys
import headwater

options, what = json.loads(sys.argv[1]), sys.argv[2]
begun, said = [], []


def tried(work):
    try:
        work()
        said.append("done")
    except headwater.BusyError as error:
        said.append(str(error))


def reduce(amaxes):
    if begun and not said:
        work = {
            "drop": begun.clear,
            "collect": lambda: (begun.clear(), gc.collect()),
            "close an iteration": lambda: begun[0].close(),
            "state_dict": loader.state_dict,
            "checkpoint": lambda: loader.checkpoint(1),
            "iter": lambda: next(iter(loader)),
            "next": lambda: next(begun[0]),
            "seek": lambda: loader.seek(0, 0),
            "set_epoch": lambda: loader.set_epoch(1),
            "load_state_dict": lambda: loader.load_state_dict(state),
            "read": lambda: (loader.epoch, loader.step, loader.stats(), loader.weights, len(loader)),
        }
        tried(work[what])
    return amaxes


loader = headwater.Loader(amax_reduce=reduce, **options)
state = loader.state_dict()
earlier = iter(loader)
next(earlier)
begun.append(earlier)
if what == "collect":
    begun[0] = {"iteration": earlier}
    begun[0]["itself"] = begun[0]
del earlier
steps = [batch.step for batch in loader]
loader.close()
print(json.dumps([said, steps]))
"""


@pytest.mark.parametrize("what", ["drop", "collect", "close an iteration", "read"])
def test_amax_reduce_may_end_an_earlier_iteration_and_read(tiers, what):
    printed = ran(WITHIN_REDUCE, tiers.keywords(recipe=DELAYED), what)
    assert json.loads(printed) == [["done"], list(range(16))]


@pytest.mark.parametrize(
    "what",
    ["state_dict", "checkpoint", "iter", "next", "seek", "set_epoch", "load_state_dict"],
)
def test_what_would_wait_for_amax_reduce_is_refused_within_it(tiers, tmp_path, what):
    options = tiers.keywords(recipe=DELAYED, checkpoint_dir=str(tmp_path))
    [problem], steps = json.loads(ran(WITHIN_REDUCE, options, what))
    assert "amax_reduce" in problem, problem
    assert steps == list(range(16)), "the stream goes on as if nothing had been asked"


TRACED = """
import json, os, sys, threading
import headwater

options, folder = json.loads(sys.argv[1]), sys.argv[2]
THREADS, ROUNDS = 3, 8
begin = threading.Barrier(THREADS)
failed = []


def rounds(number):
    for round in range(ROUNDS):
        begin.wait()
        # The loaders of a round may read the same value: enough of them do not.
        os.environ["HEADWATER_TELEMETRY__TRACE"] = f"{folder}/{number}-{round}.json"
        try:
            headwater.Loader(**options).close()
        except Exception as error:
            failed.append(repr(error))


threads = [threading.Thread(target=rounds, args=[number]) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""


def test_threads_that_make_loaders_with_a_trace_do_not_wait_for_each_other(tiers, tmp_path):
    assert ran(TRACED, tiers.keywords(), tmp_path) == "[]\n"


def test_the_folders_of_scripts_are_known_before_threads_ask_for_them():
    # `sysconfig` fills its tables when it is first asked, and a second thread finds them half full.
    script = """
import sys, sysconfig
import headwater
sysconfig.get_path = sysconfig.get_preferred_scheme = None
headwater._native.program()
print("found")
"""
    assert ran(script, {}) == "found\n"


@pytest.fixture
def worker(tiers, tmp_path):
    """A worker that can be stopped."""
    arguments = ["augment", "--listen", "127.0.0.1:0", "--threads", "1", "--storage", tiers.storage]
    worker = Node(tmp_path / "augment.log", *arguments)
    yield worker
    worker.stop()


@pytest.fixture
def laps():
    """The times at which another thread ran."""
    times, over = [], threading.Event()

    def run():
        while not over.wait(0.001):
            times.append(time.monotonic())

    thread = threading.Thread(target=run)
    thread.start()
    yield times
    over.set()
    thread.join()


@pytest.mark.parametrize("how", ["loader", "iteration", "trace", "close"])
def test_other_threads_run_while_a_loader_that_is_dropped_leaves_its_workers(tiers, worker, laps, tmp_path, how):
    options = tiers.keywords(workers=[worker.address], batch_size=2)
    # A busy machine may give the other thread no time during one drop, but not during each.
    for _ in range(TRIES):
        loader = headwater.Loader(**options)
        held = {"loader": loader, "iteration": iter(loader), "trace": loader.trace(tmp_path / "out.json")}
        next(held["iteration"])
        last = loader if how == "close" else held.pop(how)
        del loader
        held.clear()
        # It answers nothing: leaving it takes some time.
        worker.process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        if how == "close":
            last.close()
        else:
            del last
        end = time.monotonic()
        worker.process.send_signal(signal.SIGCONT)
        if any(begin < lap < end for lap in laps):
            return
    raise AssertionError("another thread stood still in each drop")
