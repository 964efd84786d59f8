"""A loader shows the batches that it hands out to whoever asks."""

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

LIMIT_S = 60
PNG = b"\x89PNG\r\n\x1a\n"

# A process has one recorder of metrics. For each line it takes a batch and says what is in it.
RANK = """
import json, sys
import headwater

with headwater.Loader(**json.loads(sys.argv[1])) as loader:
    print(json.dumps(loader.metrics_address), flush=True)
    batches = (batch for epoch in range(10**6) for batch in loader)
    for line in sys.stdin:
        batch = next(batches)
        print(json.dumps([f"{batch.epoch}-{batch.step}", batch.keys]), flush=True)
"""


@pytest.fixture
def rank():
    """Starts a rank: the process, and where its metrics are."""
    started = []

    def start(options, **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", RANK, json.dumps(options)],
            env={**os.environ, "HEADWATER_TELEMETRY__METRICS_LISTEN": "127.0.0.1:0", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, json.loads(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def get(address, path):
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=LIMIT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def take(process):
    print(file=process.stdin, flush=True)
    return json.loads(process.stdout.readline())


def test_the_batch_that_is_shown_is_the_one_that_is_handed_out(tiers, rank):
    process, address = rank(tiers.keywords(), HEADWATER_TELEMETRY__SHOW_BATCHES="true")
    answers = []
    asking = threading.Thread(target=lambda: answers.append(get(address, "/batch.json")))
    asking.start()
    taken = {}
    while asking.is_alive():
        taken.update([take(process)])
    [(status, body)] = answers
    assert status == 200, body
    shown = json.loads(body)
    assert [sample["key"] for sample in shown["samples"]] == taken[shown["id"]]
    views = [view["tensor"] for view in shown["samples"][0]["views"]]
    assert views == ["global_crops"] * 2 + ["local_crops"] * 3
    status, picture = get(address, f"/batch.png?id={shown['id']}")
    assert status == 200 and picture.startswith(PNG)


def test_a_loader_shows_nothing_unless_it_is_told_to(tiers, rank):
    process, address = rank(tiers.keywords())
    take(process)
    status, body = get(address, "/batch.json")
    assert status == 404 and b"telemetry.show_batches" in body
