"""What `headwater publish` knows of clients that are slow, come and go."""

import re
import time

import zmq

from conftest import LIMIT_S, client
from test_tensorcom import connection, page

METRICS = ["--set", "telemetry.metrics_listen=127.0.0.1:0"]
SMALL = ["--set", "recipe.preset=imagenet-eval"]


def value(metrics: str, name: str, url: str) -> float | None:
    """A metric of an address."""
    found = re.search(rf'^{name}{{address="{re.escape(url)}"}} (\S+)', page(metrics), re.MULTILINE)
    return found and float(found[1])


def becomes(metrics: str, name: str, url: str, holds):
    end = time.monotonic() + LIMIT_S
    while not holds(value(metrics, name, url) or 0):
        assert time.monotonic() < end, page(metrics)
        time.sleep(0.05)


def test_a_full_subscriber_is_counted_and_the_others_go_on(tiers, tmp_path):
    publisher = tiers.publish(
        "--urls", f"zpub+ipc://{tmp_path}/pub", "--subscribers", "2", "--epochs", "0", *METRICS, *SMALL,
        "--set", "publish.queue_batches=1", "--set", "publish.linger_ms=1",
    )  # fmt: skip
    (metrics,), (url,) = publisher.said("metrics on"), publisher.said("publishing on")
    reads = connection(client(url))
    context = zmq.Context()
    does_not = context.socket(zmq.SUB)
    does_not.set_hwm(1)
    does_not.connect(f"ipc://{tmp_path}/pub")
    does_not.setsockopt(zmq.SUBSCRIBE, b"")
    reads.recv()
    becomes(metrics, "headwater_publish_clients", url, lambda clients: clients == 2)
    becomes(metrics, "headwater_publish_overflows_total", url, lambda times: times >= 1)
    sent = value(metrics, "headwater_publish_batches_total", url)
    # It gets more than can have waited for it.
    for _ in range(10):
        reads.recv()
    becomes(metrics, "headwater_publish_batches_total", url, lambda batches: batches > sent)
    does_not.close(0)
    context.term()
    becomes(metrics, "headwater_publish_disconnects_total", url, lambda gone: gone == 1)
    becomes(metrics, "headwater_publish_clients", url, lambda clients: clients == 1)


def test_what_waits_in_a_queue_is_not_lost(tiers, tmp_path):
    publisher = tiers.publish(
        "--urls", f"zpub+ipc://{tmp_path}/pub,zrpush+ipc://{tmp_path}/push", "--subscribers", "1", *METRICS, *SMALL,
        "--set", "publish.queue_batches=4", "--set", "publish.linger_ms=1",
    )  # fmt: skip
    (metrics,), (url, push) = publisher.said("metrics on"), publisher.said("publishing on", 2)
    reads = connection(client(url))
    reads.recv()
    # Nobody has taken it there: it is not a drop but waits.
    becomes(metrics, "headwater_publish_batches_total", url, lambda batches: batches == 1)
    assert not value(metrics, "headwater_publish_overflows_total", url)
    assert value(metrics, "headwater_publish_batches_total", push) is None
