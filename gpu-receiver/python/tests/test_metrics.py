"""What a rank shows of itself: /metrics and /healthz, one port for each rank of a host."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

LIMIT_S = 120
LISTEN = "HEADWATER_TELEMETRY__METRICS_LISTEN"
NOBODY = "127.0.0.1:1"

# Does what its standard input says, line by line, and answers each line. A process has one recorder, so
# that each test needs a process of its own.
RANK = """
import json, sys, threading
import headwater

names = {"loaders": []}

def open_loader(**options):
    names["loaders"].append(headwater.Loader(**options))
    return names["loaders"][-1].metrics_address

def take_in_background():
    def take():
        names["batch"] = next(iter(names["loaders"][0]))
    names["thread"] = threading.Thread(target=take, daemon=True)
    names["thread"].start()

def join():
    names["thread"].join()
    return names["batch"].step

for line in sys.stdin:
    try:
        answer = eval(line, {**globals(), **names})
    except headwater.HeadwaterError as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""


class Rank:
    """A training rank: a process that makes loaders."""

    def __init__(self, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, expression):
        print(expression, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"the rank ended with {self.process.wait()} at {expression}"
        return json.loads(answer)

    def open(self, options):
        return self.do(f"open_loader(**{options!r})")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def rank():
    """Starts ranks with variables and ends them."""
    started = []

    def start(**environment):
        started.append(Rank(**environment))
        return started[-1]

    yield start
    for one in started:
        one.end()


def get(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=LIMIT_S) as answer:
        return answer.read().decode()


def value(address, name):
    """The value of a metric without labels; `None` where it is not shown."""
    found = re.search(rf"^{name} (\S+)$", get(address), re.MULTILINE)
    return float(found[1]) if found else None


def wait_for(condition):
    """Waits for a condition and gives what it gave."""
    end = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return found


def without_help(text):
    """Names of metrics that have a type and no help text."""
    typed = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert typed, text
    return typed - set(re.findall(r"^# HELP (\S+) .+", text, re.MULTILINE))


def two_ports():
    """A port that is free, as the one after it is."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


def test_a_rank_serves_its_metrics_with_help(rank, tiers):
    trainer = rank(**{LISTEN: "127.0.0.1:0"})
    address = trainer.open(tiers.keywords())
    assert get(address, "/healthz") == get(address, "/readyz") == "ready"
    assert trainer.do("sum(1 for batch in loaders[0])") == 16
    text = get(address)
    assert "headwater_receiver_stall_seconds_count 16" in text
    assert value(address, "headwater_receiver_samples_total") >= 64
    assert "headwater_link_parts_total{" in text
    assert without_help(text) == set()
    if promtool := shutil.which("promtool"):
        checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("tier", ["storage", "augment"])
def test_the_other_tiers_metrics_have_help(tier, tiers, make):
    for _ in make():
        pass
    text = get(tiers.metrics[tier])
    assert "headwater_storage_" in text
    assert without_help(text) == set()


def test_a_rank_leaves_a_file_that_says_where_until_it_ends(rank, tiers, tmp_path):
    folder = tmp_path / "targets"
    trainer = rank(**{LISTEN: "127.0.0.1:0", "HEADWATER_TELEMETRY__TARGETS_DIR": str(folder)})
    address = trainer.open(tiers.keywords(job="run7"))
    (file,) = folder.glob("*.json")
    labels = {"tier": "receiver", "headwater_job": "run7", "rank": "0"}
    assert json.loads(file.read_text()) == [{"targets": [address], "labels": labels}]
    trainer.process.stdin.close()
    assert trainer.process.wait(LIMIT_S) == 0
    assert [*folder.iterdir()] == []


def test_a_loader_without_the_key_serves_nothing(make):
    assert make().metrics_address is None


@pytest.mark.parametrize("variable", ["LOCAL_RANK", "SLURM_LOCALID"])
def test_each_rank_of_a_host_adds_its_local_rank_to_the_port(rank, tiers, variable):
    # Somebody may take a port between the look and the start.
    for _ in range(10):
        port = two_ports()
        ranks = [rank(**{LISTEN: f"127.0.0.1:{port}", variable: str(number)}) for number in range(2)]
        addresses = [one.open(tiers.keywords()) for one in ranks]
        if not any("in use" in address for address in addresses):
            break
    assert addresses == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
    ranks[1].do("sum(1 for batch in loaders[0])")
    assert [value(address, "headwater_receiver_stall_seconds_count") for address in addresses] == [None, 16]


def test_a_port_that_is_taken_is_refused_with_the_remedy(rank, tiers):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        trainer = rank(**{LISTEN: f"127.0.0.1:{port - 1}", "LOCAL_RANK": "1"})
        error = trainer.open(tiers.keywords())
    assert error.startswith(f"ConfigError: cannot listen on `127.0.0.1:{port}` for metrics")
    assert "in use" in error and "telemetry.metrics_listen" in error and "local rank" in error


def test_a_wait_in_many_steps_is_counted_whole_and_while_it_lasts(rank, tiers):
    trainer = rank(**{LISTEN: "127.0.0.1:0"})
    address = trainer.open(tiers.keywords(workers=[NOBODY], worker_wait_ms=LIMIT_S * 1000))
    stalled = lambda: trainer.do('loaders[0].stats()["stalled_s"]')
    waited = lambda: value(address, "headwater_receiver_waited_seconds")
    by_cause = lambda: trainer.do('loaders[0].stats()["stalled_by_s"]')
    assert (stalled(), waited(), by_cause()) == (0, 0, {})
    trainer.do("take_in_background()")
    # Longer than any single step, of which there are ten in a second.
    seen = wait_for(lambda: (s := stalled()) > 1 and s)
    assert wait_for(lambda: waited() >= seen)
    assert set(by_cause()) == {"nobody"}
    assert value(address, "headwater_receiver_stall_seconds_count") is None
    trainer.do(f"loaders[0].set_workers({tiers.workers!r})")
    assert trainer.do("join()") == 0
    assert stalled() >= seen
    # One wait, as long as all its steps.
    assert value(address, "headwater_receiver_stall_seconds_count") == 1
    assert value(address, "headwater_receiver_stall_seconds_sum") == pytest.approx(stalled(), abs=1e-6)
    assert waited() == pytest.approx(stalled(), abs=1e-6)


def test_a_rank_that_never_met_a_worker_is_told_from_one_that_did(rank, tiers):
    trainer = rank(**{LISTEN: "127.0.0.1:0"})
    address = trainer.open(tiers.keywords(workers=[NOBODY]))
    alone = lambda: value(address, "headwater_receiver_without_workers")
    assert (alone(), value(address, "headwater_receiver_workers")) == (1, 0)
    # Shown before they grow, so that an alert can see that they do not.
    assert value(address, "headwater_receiver_batches_total") == 0
    trainer.do(f"loaders[0].set_workers({tiers.workers!r})")
    wait_for(lambda: alone() == 0 and value(address, "headwater_receiver_workers") == 2)
    trainer.do(f"loaders[0].set_workers({[NOBODY]!r})")
    wait_for(lambda: alone() == 1 and value(address, "headwater_receiver_workers") == 0)
    trainer.do("loaders[0].close()")
    wait_for(lambda: alone() == 0)


def test_the_loaders_of_a_process_are_shown_together(rank, tiers):
    trainer = rank(**{LISTEN: "127.0.0.1:0"})
    addresses = [trainer.open(tiers.keywords()), trainer.open(tiers.keywords(seed=7))]
    assert addresses[0] == addresses[1]
    workers = lambda: value(addresses[0], "headwater_receiver_workers")
    wait_for(lambda: workers() == 4)
    trainer.do("loaders[1].close()")
    wait_for(lambda: workers() == 2)
    assert value(addresses[0], "headwater_receiver_without_workers") == 0


def test_another_address_in_the_same_process_is_refused(rank, tiers):
    trainer = rank(**{LISTEN: "127.0.0.1:0"})
    trainer.open(tiers.keywords())
    trainer.do("__import__('os').environ.update({'%s': 'localhost:0'})" % LISTEN)
    error = trainer.open(tiers.keywords())
    assert "`localhost:0`" in error and "`127.0.0.1:0`" in error
    assert "give all loaders of a process the same address" in error
