"""The client of the PyPI package tensorcom reads what `headwater publish` sends.

What it gets is compared sample by sample with what `headwater receive` got: digests are computed here, in
Python, from the arrays that Tensorcom gives out.
"""

import threading
import time
import urllib.request

import numpy as np
import pytest
import zmq
from tensorcom import Connection, tenbin

from conftest import LIMIT_S, client
from digests import digests


def connection(url: str, **options) -> Connection:
    made = Connection(url, **options)
    made.socket.setsockopt(zmq.RCVTIMEO, LIMIT_S * 1000)
    return made


def page(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        return answer.read().decode()


def equal(batches: list, reference: list[dict]):
    assert len(batches) == len(reference)
    for batch, line in zip(batches, reference):
        assert digests(batch, line["keys"]) == line["digests"], (line["epoch"], line["step"])


@pytest.mark.parametrize("address", ["zrpush", "zpub"])
@pytest.mark.parametrize("framing", ["multipart", "single"])
def test_a_client_gets_the_batches_of_a_receiver(tiers, address, framing):
    reference = tiers.reference()
    publisher = tiers.publish(
        "--urls", f"{address}://127.0.0.1:0", "--subscribers", "1",
        "--set", f"publish.framing={framing}", "--set", "publish.queue_batches=100",
    )  # fmt: skip
    (url,) = publisher.said("publishing on")
    reader = connection(client(url), multipart=framing == "multipart")
    batches = [reader.recv() for _ in reference]
    assert publisher.end() == 0, publisher.log.read_text()
    equal(batches, reference)
    # bf16, which Tensorcom has no name for.
    assert [tensor.dtype for tensor in batches[0]] == [np.uint16, np.uint16, np.int32]
    assert batches[0][0].shape == (16, 3, 224, 224) and batches[0][1].shape == (64, 3, 96, 96)


@pytest.mark.parametrize("dtype, known", [("f32", np.float32), ("f16", np.float16), ("u8", np.uint8)])
def test_types_that_tensorcom_knows_arrive_as_such(tiers, dtype, known):
    options = ["--set", f"recipe.dtype={dtype}", "--set", "recipe.preset=imagenet-eval"]
    reference = tiers.reference(*options)
    publisher = tiers.publish("--urls", "zrpush://127.0.0.1:0", *options)
    (url,) = publisher.said("publishing on")
    reader = connection(client(url))
    # As `Connection.recv` does it, which cannot hand the infos out itself.
    received = [tenbin.zrecv_multipart(reader.socket, infos=True) for _ in reference]
    batches = [batch for batch, _ in received]
    assert batches[0][0].dtype == known
    assert all(infos[-1] == "labels" for _, infos in received)
    equal(batches, reference)


def test_twenty_clients_of_one_pass_lose_nothing_however_slow_one_is(tiers):
    small = ["--set", "recipe.preset=imagenet-eval"]
    reference = tiers.reference(*small)
    clients = 20
    urls = ",".join(["zrpush://127.0.0.1:0"] * clients)
    publisher = tiers.publish("--urls", urls, "--set", "publish.queue_batches=1", *small)
    places = publisher.said("publishing on", clients)
    assert len(set(places)) == clients
    batches: list[list] = [[] for _ in places]

    def take(number: int, url: str):
        reader = connection(client(url))
        for _ in reference:
            if number == 0 and len(batches[0]) == 1:
                # So long that the others have to wait for it.
                time.sleep(2)
            batches[number].append(reader.recv())

    threads = [threading.Thread(target=take, args=entry) for entry in enumerate(places)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert publisher.end() == 0, publisher.log.read_text()
    for taken in batches:
        equal(taken, reference)


def test_clients_of_one_address_share_its_batches_out(tiers):
    small = ["--set", "recipe.preset=imagenet-eval"]
    reference = tiers.reference(*small)
    publisher = tiers.publish(
        "--urls", "zrpush://127.0.0.1:0", "--set", "publish.queue_batches=1", *small
    )
    (url,) = publisher.said("publishing on")
    expected = [line["digests"] for line in reference]
    taken = []

    def take(reader):
        try:
            while True:
                taken.append(reader.recv())
        except zmq.Again:
            pass

    readers = [connection(client(url)) for _ in range(2)]
    threads = [threading.Thread(target=take, args=(reader,)) for reader in readers]
    for reader in readers:
        reader.socket.setsockopt(zmq.RCVTIMEO, 5000)
    for thread in threads:
        thread.start()
    assert publisher.end() == 0, publisher.log.read_text()
    for thread in threads:
        thread.join(LIMIT_S)
    keys = {tuple(line["digests"]): line["keys"] for line in reference}
    found = []
    for batch in taken:
        found += [wanted for wanted, names in keys.items() if digests(batch, names) == list(wanted)]
    assert sorted(found) == sorted(map(tuple, expected))


def test_a_subscriber_that_does_not_read_loses_batches_and_holds_nobody_up(tiers):
    reference = tiers.reference()
    publisher = tiers.publish(
        "--urls", "zpub://127.0.0.1:0", "--subscribers", "1", "--set", "receiver.epochs=4",
        "--set", "publish.queue_batches=1", "--set", "publish.linger_ms=1",
    )  # fmt: skip
    (url,) = publisher.said("publishing on")
    socket = zmq.Context().socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, 1)
    socket.setsockopt(zmq.RCVBUF, 65536)
    socket.connect(url.replace("zpub", "tcp"))
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    assert publisher.end() == 0, publisher.log.read_text()
    socket.setsockopt(zmq.RCVTIMEO, 1000)
    got = 0
    try:
        while socket.recv_multipart():
            got += 1
    except zmq.Again:
        pass
    assert got < 4 * len(reference)


def test_a_publisher_that_is_asked_to_end_does(tiers):
    publisher = tiers.publish(
        "--urls", "zrpush://127.0.0.1:0", "--set", "publish.linger_ms=300",
        "--set", "telemetry.metrics_listen=127.0.0.1:0",
    )  # fmt: skip
    (metrics,) = publisher.said("metrics on")
    end = time.monotonic() + LIMIT_S
    while "\nheadwater_receiver_stall_seconds_count 1\n" not in page(metrics):
        assert time.monotonic() < end, "no batch was taken"
        time.sleep(0.05)
    publisher.process.terminate()
    # Nobody took the first batch: that is said, and the place is not kept as if somebody had.
    assert publisher.end() == 1
    assert "epoch 0 step 0 did not reach zrpush://" in publisher.log.read_text()


def waits(publisher, what: str) -> str:
    """What the log has from `what` on, once it is there."""
    end = time.monotonic() + LIMIT_S
    while what not in (log := publisher.log.read_text()):
        assert publisher.process.poll() is None and time.monotonic() < end, log
        time.sleep(0.05)
    return log[log.index(what) :]


def test_a_publisher_says_whom_it_waits_for(tiers):
    publisher = tiers.publish("--urls", "zpub://127.0.0.1:0", "--subscribers", "2")
    (url,) = publisher.said("publishing on")
    # An IPv4 address as people write it, though the socket takes IPv6 too.
    assert url.startswith("zpub://127.0.0.1:")
    said = waits(publisher, "waits for subscribers: ")
    assert said.startswith(f"waits for subscribers: {url} has 0 of 2 (publish.subscribers_min)")
    publisher.process.terminate()
    assert publisher.end() == 143, publisher.log.read_text()

    publisher = tiers.publish("--urls", "zrpush://127.0.0.1:0", "--set", "publish.linger_ms=1")
    (url,) = publisher.said("publishing on")
    said = waits(publisher, "epoch 0 step 0 waits: ")
    assert said.startswith(f"epoch 0 step 0 waits: no client of {url} has room")
    publisher.process.terminate()
    assert publisher.end() == 1
