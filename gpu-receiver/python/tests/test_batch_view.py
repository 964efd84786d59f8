"""A loader shows the batches that it hands out to whoever asks."""

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from conftest import PHOTOS, SMALL, program
from local_services import remove, short_folder

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


def get(address, path, **headers):
    asked = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=LIMIT_S) as answer:
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


@pytest.fixture
def runtime():
    """The user's runtime folder: the path of a socket must be short."""
    folder = short_folder("hw-")
    yield folder
    remove(folder)


def asked_while_taking(process, address, **headers):
    """The answer to a question for a batch; batches are taken meanwhile."""
    answers = []
    asking = threading.Thread(target=lambda: answers.append(get(address, "/batch.json", **headers)))
    asking.start()
    while asking.is_alive():
        take(process)
    [(status, _)] = answers
    return status


@pytest.mark.parametrize("place", [{}, {"embedded": "threads"}], ids=["process", "threads"])
def test_a_loader_with_services_of_its_own_shows_batches_to_those_whom_security_names(
    rank, runtime, tmp_path, place
):
    options = {"data": str(PHOTOS / "photos-000001.tar"), "recipe": SMALL, "batch_size": 4, **place}
    environment = {
        "HEADWATER_TELEMETRY__SHOW_BATCHES": "true",
        "HEADWATER_PROGRAM": program(),
        "XDG_RUNTIME_DIR": str(runtime),
    }
    process, address = rank(options, **environment)
    assert asked_while_taking(process, address) == 200, "without [security] everybody may see them"
    file = tmp_path / "token"
    file.write_text("a token of the job's own")
    process, address = rank(options, **environment, HEADWATER_SECURITY__TOKEN_FILE=str(file))
    assert asked_while_taking(process, address) == 401
    bearer = f"Bearer {file.read_text()}"
    assert asked_while_taking(process, address, Authorization=bearer) == 200
