"""With `publish.pace = "each"` every address has its own place in the stream."""

import json
import re
import time

import headwater.tensorcom
import zmq

from conftest import LIMIT_S, client
from test_tensorcom import connection, equal, page

SMALL = ["--set", "recipe.preset=imagenet-eval", "--set", "publish.queue_batches=1", "--set", "receiver.window_batches=1"]
EACH = [*SMALL, "--set", "publish.pace=each"]


def step(metrics: str, url: str) -> int:
    """How far an address has come."""
    found = re.search(rf'^headwater_publish_step{{address="{re.escape(url)}"}} (\d+)', page(metrics), re.MULTILINE)
    return int(found[1]) if found else 0


def reaches(metrics: str, url: str, wanted: int):
    end = time.monotonic() + LIMIT_S
    while step(metrics, url) != wanted:
        assert time.monotonic() < end, page(metrics)
        time.sleep(0.05)


def both_have_taken(metrics: str):
    """Waits until each of two addresses has a batch to hand on."""
    end = time.monotonic() + LIMIT_S
    while sum(int(at) > 0 for at in re.findall(r"^headwater_receiver_step{[^}]*} (\d+)", page(metrics), re.MULTILINE)) < 2:
        assert time.monotonic() < end, page(metrics)
        time.sleep(0.02)


def test_a_client_that_does_not_read_stops_nobody(tiers, tmp_path):
    epochs = ["--set", "receiver.epochs=3"]
    reference = tiers.reference(*SMALL, *epochs)
    # By a file: buffers of TCP would take all batches.
    urls = f"zrpush+ipc://{tmp_path}/slow,zrpush://127.0.0.1:0,zrpush://127.0.0.1:0"
    publisher = tiers.publish("--urls", urls, *EACH, *epochs, "--set", "telemetry.metrics_listen=127.0.0.1:0")
    (metrics,) = publisher.said("metrics on")
    slow, quick, late = publisher.said("publishing on", 3)
    # Its own queue takes one batch, and it does not read.
    lagging = headwater.tensorcom.Connection(client(slow), queue_batches=1)
    lagging.socket.setsockopt(zmq.RCVTIMEO, LIMIT_S * 1000)
    lagging.socket.poll(LIMIT_S * 1000)
    reader = connection(client(quick))
    equal([reader.recv() for _ in reference], reference)
    reaches(metrics, quick, len(reference))
    assert step(metrics, slow) < len(reference) and step(metrics, late) == 0
    # Who comes late begins with the first batch, and who lagged has lost nothing.
    reader = connection(client(late))
    equal([reader.recv() for _ in reference], reference)
    equal([lagging.recv() for _ in reference], reference)
    assert publisher.end() == 0, publisher.log.read_text()


def test_an_address_goes_on_where_it_stopped(tiers, tmp_path):
    urls = f"zrpush+ipc://{tmp_path}/a,zrpush+ipc://{tmp_path}/b"
    options = [*EACH, "--urls", urls, "--set", f"receiver.checkpoint_dir={tmp_path}/state", "--set", "receiver.resume=true"]
    options += ["--epochs", "0", "--set", "publish.linger_ms=300"]
    publisher = tiers.publish(*options, "--set", "telemetry.metrics_listen=127.0.0.1:0")
    (metrics,) = publisher.said("metrics on")
    places = publisher.said("publishing on", 2)
    reader = connection(client(places[0]))
    first = [reader.recv() for _ in range(2)]
    both_have_taken(metrics)
    publisher.process.terminate()
    # The other one's client never came.
    assert publisher.end() == 1, publisher.log.read_text()
    # It would share out what comes now.
    reader.close()
    (kept,) = (tmp_path / "state").glob("*_a-*/*.json")
    assert not list((tmp_path / "state").glob("*_b-*/*.json"))
    state = json.loads(kept.read_text())
    reference = tiers.reference(*SMALL, "--epochs", str(state["epoch"] + 2))
    # Behind an epoch's last step there is none.
    taken = sum((line["epoch"], line["step"]) < (state["epoch"], state["step"]) for line in reference)
    assert taken >= 2
    equal(first, reference[:2])

    publisher = tiers.publish(*options)
    for place, begin in zip(publisher.said("publishing on", 2), (taken, 0)):
        reader = connection(client(place))
        equal([reader.recv() for _ in range(3)], reference[begin : begin + 3])


def test_an_address_that_fails_is_given_up_and_the_others_go_on(tiers, tmp_path):
    reference = tiers.reference(*SMALL)
    (tmp_path / "1.ten").write_bytes(b"")
    publisher = tiers.publish("--urls", f"file:{tmp_path}/{{0..}}.ten,zrpush://127.0.0.1:0", *EACH)
    _, url = publisher.said("publishing on", 2)
    reader = connection(client(url))
    equal([reader.recv() for _ in reference], reference)
    assert publisher.end() == 1
    log = publisher.log.read_text()
    assert f"file:{tmp_path}/{{0..}}.ten is given up, the others go on: {tmp_path}/1.ten is there already" in log
    assert "1 of 2 addresses were given up: the log says why" in log
