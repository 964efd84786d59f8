"""A service on a Ray cluster of several nodes on this machine: what is lost changes no byte, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import headwater
import headwater.ray
import pytest
from conftest import PHOTOS, SMALL
from local_services import LIMIT_S, Watched

ray = pytest.importorskip("ray", reason="Ray is not installed")

DATASETS = {"photos": str(PHOTOS / "photos-000001.tar")}
# Looks for workers often, so that a test need not wait for them.
READING = {"datasets": "photos", "recipe": SMALL, "batch_size": 4, "workers_refresh_ms": 50, "window_batches": 1}
PLACED = {"num_cpus": 0, "resources": {"place": 1}}


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    # Ray has its processes give way to all others, which takes minutes on a machine that is busy.
    os.environ.setdefault("RAY_worker_niceness", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def node(cluster):
    """Adds nodes with places for so many members."""
    added = []

    def node(places):
        added.append(cluster.add_node(num_cpus=1, resources={"place": places}))
        return added[-1]

    yield node
    for one in added:
        if one in cluster.worker_nodes:
            cluster.remove_node(one, allow_graceful=False)


@pytest.fixture
def start(cluster):
    """Starts services and stops them."""
    started = []

    def start(**options):
        free = {"num_cpus": 0}
        options = {"datasets": DATASETS, "worker_options": free, "storage_options": free, **options}
        started.append(headwater.ray.start(**options))
        return started[-1]

    yield start
    for service in started:
        service.stop()


@pytest.fixture(scope="module")
def expected():
    """Digests of two epochs, with services of this host."""
    with headwater.Loader(DATASETS, recipe=SMALL, batch_size=4) as loader:
        return [batch.digest for _ in range(2) for batch in loader]


def rest(iteration):
    return [batch.digest for batch in iteration]


def counts(service):
    return tuple(len(one) for one in service.addresses)


def members(service):
    named = ray.util.list_named_actors(all_namespaces=True)
    return sorted(one["name"] for one in named if one["name"].startswith(f"{service.name}/"))


def until(holds):
    """Waits for a condition; on a machine that is busy it may take its time."""
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def pids(service):
    """Process numbers of the programs of a service, by the members' names."""
    actors = {name: ray.get_actor(name, namespace="headwater") for name in members(service)}
    return {name: ray.get(actor.child.remote()) for name, actor in actors.items()}


def folders():
    """Folders with tokens that processes of this user have."""
    return set(Path(tempfile.gettempdir()).glob(f"headwater-ray-{os.geteuid()}-*"))


def test_batches_are_those_of_services_of_one_host(start, node, expected):
    for _ in range(2):
        node(2)
    service = start(storage_nodes=2, workers=2, storage_options=PLACED, worker_options=PLACED)
    until(lambda: counts(service) == (2, 2))
    assert service.pending == [] and service.troubles == {}
    with headwater.Loader(ray="headwater", **READING) as loader:
        assert [batch.digest for _ in range(2) for batch in loader] == expected
        assert len(loader.stats()["workers"]) == 2
    # Whoever has an address and not the token is refused.
    storage, workers = service.addresses
    with pytest.raises(headwater.StorageError, match="the caller has no token"):
        headwater.Loader(storage=storage, workers=workers, worker_wait_ms=1, **READING)


def test_a_node_that_is_lost_changes_no_byte(start, node, cluster, expected):
    first = node(2)
    service = start(storage_options=PLACED, worker_options=PLACED)
    before, watched = service.addresses, [Watched(pid) for pid in pids(service).values()]
    with headwater.Loader(ray="headwater", **READING) as loader:
        iteration = iter(loader)
        digests = [next(iteration).digest for _ in range(4)]
        # Both members restart there.
        node(2)
        cluster.remove_node(first, allow_graceful=False)
        assert len(watched) == 2 and all(one.has_ended() for one in watched)
        digests += rest(iteration)
        until(lambda: counts(service) == (1, 1) and not set(sum(before, [])) & set(sum(service.addresses, [])))
        assert digests + rest(loader) == expected


def test_programs_that_are_killed_change_no_byte(start, expected):
    service = start(workers=2, storage_nodes=2)
    until(lambda: counts(service) == (2, 2))
    with headwater.Loader(ray="headwater", **READING) as loader:
        iteration = iter(loader)
        digests = [next(iteration).digest for _ in range(4)]
        killed = pids(service)
        for pid in killed.values():
            os.kill(pid, signal.SIGKILL)
        digests += rest(iteration)
        until(lambda: None not in pids(service).values() and not set(pids(service).values()) & set(killed.values()))
        assert digests + rest(loader) == expected
    until(lambda: counts(service) == (2, 2))


def test_workers_that_come_and_go_change_no_byte(start, node, expected):
    service = start(worker_options=PLACED, wait=False)
    # Ray's autoscaler would see what they ask for; here somebody adds the node.
    until(lambda: counts(service) == (1, 0))
    assert service.pending == ["headwater/worker-000000"]
    node(3)
    service.wait()
    with headwater.Loader(ray="headwater", epochs=2, **READING) as loader:
        iteration, digests = iter(loader), []
        for workers in (3, 1, 2):
            service.scale(workers=workers)
            until(lambda: counts(service) == (1, workers))
            # It sees them while it waits in mid-epoch.
            until(lambda: len(loader.stats()["workers"]) == workers)
            digests += [next(iteration).digest for _ in range(4)]
        digests += rest(iteration)
        assert digests + rest(loader) == expected


def directory_pid():
    """Number of the directory's process; nothing while it has none."""
    actor = ray.get_actor("headwater", namespace="headwater")
    try:
        return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
    except ray.exceptions.RayError:
        return None


def test_a_directory_that_is_restarted_hears_of_everybody_again(start, expected):
    service = start(workers=2)
    until(lambda: counts(service) == (1, 2))
    addresses = service.addresses
    with headwater.Loader(ray="headwater", **READING) as loader:
        iteration = iter(loader)
        digests = [next(iteration).digest for _ in range(4)]
        before = directory_pid()
        ray.kill(ray.get_actor("headwater", namespace="headwater"), no_restart=False)
        until(lambda: directory_pid() not in (before, None))
        until(lambda: service.addresses == addresses)
        assert digests + rest(iteration) + rest(loader) == expected


def test_nothing_is_left_when_a_service_is_stopped(start):
    before = folders()
    with start(workers=2) as service:
        until(lambda: counts(service) == (1, 2))
        watched = [Watched(pid) for pid in pids(service).values()]
        loader = headwater.Loader(ray="headwater", **READING)
        iteration = iter(loader)
        next(iteration)
    assert len(watched) == 3 and all(one.has_ended() for one in watched)
    assert members(service) == [] and headwater.ray.services() == []
    assert len(folders() - before) == 1, "that of the loader"
    with loader, pytest.raises(headwater.WorkerError, match="the service `headwater` on Ray has ended"):
        rest(iteration)
    # The name is free again.
    start(wait=False)


DRIVER = """
import sys, ray, headwater.ray
ray.init(address=sys.argv[1], log_to_driver=False)
shared = {"worker_options": {"num_cpus": 0}, "storage_options": {"num_cpus": 0}}
for name in ("ends", "stays"):
    headwater.ray.start({"photos": sys.argv[2]}, name=name, detached=name == "stays", **shared)
print("started", flush=True)
sys.stdin.readline()
"""


def test_a_service_ends_with_its_driver_unless_it_is_detached(cluster):
    command = [sys.executable, "-c", DRIVER, cluster.address, DATASETS["photos"]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as driver:
        assert driver.stdout.readline() == "started\n", driver.stderr.read()
        ends, stays = headwater.ray.get("ends"), headwater.ray.get("stays")
        watched = [Watched(pid) for pid in pids(ends).values()]
        driver.send_signal(signal.SIGKILL)
    assert len(watched) == 2 and all(one.has_ended() for one in watched)
    until(lambda: members(ends) == [])
    assert headwater.ray.services() == ["stays"] and counts(stays) == (1, 1)
    stays.stop()


def test_what_is_wrong_names_the_thing_and_the_remedy(start, tmp_path):
    def refused(error, words, **options):
        with pytest.raises(error, match=words):
            start(**options)
        assert headwater.ray.services() == []

    refused(headwater.StorageError, "storage-000000` on Ray has ended: .*no-such", datasets=str(tmp_path / "no-such.tar"))
    refused(headwater.ConfigError, "did you mean `augment.threads`", settings={"augment.thread": 1})
    refused(headwater.ConfigError, "no dataset is configured", datasets=None)
    refused(headwater.ConfigError, "`workers` = -1", workers=-1)
    refused(headwater.ConfigError, "`name` = 'a/b'", name="a/b")
    refused(headwater.ConfigError, "`worker_options` has `lifetime`", worker_options={"lifetime": "detached"})
    with pytest.raises(headwater.ConfigError, match="no service `mine` runs .* there is none; headwater.ray.start"):
        headwater.Loader(ray="mine", **READING)
    start(name="other")
    with pytest.raises(headwater.ConfigError, match="no service `mine` runs .* there is `other`"):
        headwater.ray.get("mine")
    with pytest.raises(headwater.ConfigError, match="a service `other` runs on this Ray cluster already"):
        start(name="other")
    with pytest.raises(headwater.ConfigError, match="`ray` and `storage` are both given"):
        headwater.Loader(ray="other", storage="a:1", **READING)
