"""A loader in a process that did not make it."""

import os
import pickle
import signal
import subprocess
import sys

import headwater
import pytest


def in_child(work):
    """Runs `work` in a forked process; what it returned or raised, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(write, str(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with {status}"
    return answer


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "use",
    [
        iter,
        len,
        lambda loader: loader.state_dict(),
        lambda loader: loader.set_epoch(1),
        lambda loader: loader.set_weights([1]),
        lambda loader: loader.stats(),
    ],
    ids=["iter", "len", "state_dict", "set_epoch", "set_weights", "stats"],
)
def test_a_forked_process_is_told_so(make, use):
    loader = make()
    answer = in_child(lambda: use(loader))
    assert answer.startswith(f"ForkError: this receiver was made in process {os.getpid()}"), answer
    assert "spawn" in answer
    assert next(iter(loader)).step == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_cannot_go_on_with_an_iteration(make):
    loader = make()
    iteration = iter(loader)
    next(iteration)
    assert in_child(lambda: next(iteration)).startswith("ForkError")
    assert next(iteration).step == 1


SCRIPT = """
import headwater, os, sys
loader = headwater.Loader(storage=[sys.argv[1]], workers=sys.argv[2:], datasets="photos",
                          recipe="imagenet-eval", batch_size=4, window_batches=1, slots_max=2)
iteration = iter(loader)
held = [next(iteration), next(iteration)]
pid = os.fork()
if pid == 0:
    # Ends as a script does: everything is dropped here, too.
    held.clear()
    loader.close()
    del iteration, loader
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
# The child gave nothing back, and stopped nothing.
try:
    next(iteration)
    print("a slot was given back by the child")
except headwater.SlotsError:
    held.clear()
    print("step", next(iteration).step)
"""


def test_a_forked_process_ends_without_touching_the_parents_loader(tiers):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, tiers.storage, *tiers.workers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("step 2\n", 0), done.stderr


def test_a_loader_cannot_be_pickled(make):
    with pytest.raises(TypeError, match="make one there"):
        pickle.dumps(make())
