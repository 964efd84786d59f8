"""`headwater monitor --tensorcom` watches what the PyPI package tensorcom sends, and what is sent badly."""

import json
import re
import threading
import time

import numpy as np
import pytest
import zmq
from tensorcom import Connection

from conftest import LIMIT_S, Process

BATCH = [np.zeros((4, 3, 8, 8), np.float32), np.arange(4, dtype=np.int32)]
TENSORS = [
    {"info": "images", "dtype": "f4", "shape": [4, 3, 8, 8]},
    {"info": "labels", "dtype": "i4", "shape": [4]},
]


@pytest.fixture
def monitor(tmp_path):
    """Starts it, and ends it."""
    made = []

    def monitor(url, *arguments):
        made.append(Process(tmp_path / f"monitor-{len(made)}.log", "monitor", "--tensorcom", url, *arguments))
        return made[-1]

    yield monitor
    for process in made:
        process.stop()


@pytest.fixture
def sends():
    """Sends again and again, until the test has ended."""
    done, threads = threading.Event(), []

    def sends(send):
        def run():
            while not done.wait(0.01):
                send()

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield sends
    done.set()
    for thread in threads:
        thread.join(LIMIT_S)


def bound(scheme: str, **options) -> tuple[Connection, str]:
    """A sender of the real package, and its port."""
    sender = Connection(f"{scheme}://127.0.0.1:*", infos=["images", "labels"], **options)
    sender.socket.setsockopt(zmq.SNDTIMEO, 10)
    # What nobody takes does not hold up the end of a test that failed.
    sender.socket.setsockopt(zmq.LINGER, 0)
    return sender, sender.socket.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":")[-1]


def attempt(sender: Connection):
    try:
        sender.send(BATCH)
    except zmq.Again:
        pass


@pytest.mark.parametrize("scheme, client, framed", [("zpub", "zsub", {}), ("zrpush", "zrpull", {"multipart": False})])
def test_one_report_is_for_programs(monitor, sends, scheme, client, framed):
    sender, port = bound(scheme, **framed)
    sends(lambda: attempt(sender))
    url = f"{client}://127.0.0.1:{port}"
    process = monitor(url, "--once", "--json")
    assert process.end() == 0, process.log.read_text()
    (line,) = process.lines
    report = json.loads(line)
    assert report["url"] == url and report["tensors"] == TENSORS and report["bad_messages"] == 0
    size = sum(array.nbytes for array in BATCH)
    assert report["seconds"] >= 1 and report["batches"] > 0 and report["bytes"] == report["batches"] * size
    assert report["batches_per_second"] == pytest.approx(report["batches"] / report["seconds"])
    assert report["bytes_per_second"] == pytest.approx(report["bytes"] / report["seconds"])
    # Who takes batches away from others says so.
    assert ("missing at the other clients" in process.log.read_text()) == (client == "zrpull")


def test_reports_for_people_say_shapes_once(monitor, sends):
    sender, port = bound("zpub")
    sends(lambda: attempt(sender))
    process = monitor(f"zsub://127.0.0.1:{port}")
    process.said("images f4 [4, 3, 8, 8], labels i4 [4]")
    end = time.monotonic() + LIMIT_S
    while sum(line.endswith(" MB/s") for line in process.lines) < 3:
        assert time.monotonic() < end, process.lines
        time.sleep(0.05)
    assert sum(line.startswith("images") for line in process.lines) == 1


def test_what_is_not_the_format_is_counted_and_said(monitor, sends):
    socket = zmq.Context.instance().socket(zmq.PUB)
    socket.setsockopt(zmq.LINGER, 0)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    sends(lambda: socket.send(b"GET / HTTP/1.1"))
    process = monitor(f"zsub://127.0.0.1:{port}", "--once", "--wait", "2")
    assert process.end() == 1
    said = f"[1-9][0-9]* messages from zsub://127.0.0.1:{port} were not in Tensorcom's format: the chunk at byte 0 does not"
    assert re.search(said, process.log.read_text()), process.log.read_text()


def test_a_stream_without_batches_and_a_wrong_address_are_errors(monitor, tmp_path):
    process = monitor(f"zsub+ipc://{tmp_path}/nobody", "--once", "--wait", "1")
    assert process.end() == 1
    assert f"no batch came from zsub+ipc://{tmp_path}/nobody within 1 s: does its sender run?" in process.log.read_text()
    process = monitor("zpub://127.0.0.1:7404")
    assert process.end() == 1
    assert "`zpub` is the sender's side" in process.log.read_text()
