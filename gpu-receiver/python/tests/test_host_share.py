"""Loaders of one host that share one copy of their batches."""

import os
import re
import signal
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import headwater
import numpy
import pytest
from conftest import program
from local_services import running

LIMIT_S = 120
ALL = 64


@pytest.fixture
def runtime():
    """A folder for sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        yield Path(folder)


@pytest.fixture
def share(make, monkeypatch, runtime):
    """Makes loaders that share, in a folder of their own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("HEADWATER_PROGRAM", program())

    def loader(**options):
        return make(host_share=True, **{"host_batches": ALL, **options})

    yield loader
    for pid in processes(runtime):
        os.kill(pid, signal.SIGKILL)


def processes(runtime: Path) -> list[int]:
    """Those that have the copies whose sockets are in a folder."""
    return running(runtime, b"host")


def until(true):
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def digests(loader):
    return [batch.digest for batch in loader]


def rights(address: int) -> str:
    """How this process may use the mapping of an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            assert "headwater-slot" in line
            return line.split()[1]
    raise AssertionError("no mapping")


def test_a_seed_may_be_any_number_of_64_bits(make, share, runtime):
    alone = [digests(make(seed=seed)) for seed in (2**63, 2**64 - 1, 2**63 - 1)]
    assert len(set(map(tuple, alone))) == 3
    for seed, expected in zip((2**63, 2**64 - 1, 2**63 - 1), alone):
        loader = share(seed=seed)
        assert digests(loader) == expected
        assert loader.state_dict()["seed"] == loader.config["seed"] == seed
        assert loader.stats()["host_batches"] > 0


def test_loaders_have_equal_batches_in_one_memory(make, share, runtime):
    alone = digests(make())
    loaders = [share(), share(job="another")]
    for loader in loaders:
        batch = next(iter(loader))
        array = batch.global_crops.numpy()
        assert not array.flags.writeable
        assert rights(array.ctypes.data) == "rw-p"
        loader.set_epoch(0)
    for loader in loaders:
        assert digests(loader) == alone
        assert loader.stats()["host_batches"] >= len(alone)
    assert len(processes(runtime)) == 1
    for loader in loaders:
        loader.close()
    del batch, array
    until(lambda: not processes(runtime))


def test_what_a_trial_writes_to_a_batch_is_its_own_and_ends_with_it(make, share):
    alone = make()
    wanted = [digests(alone) for _ in range(3)]
    writer, reader = share(host_batches=4), share(host_batches=4)
    for epoch in wanted:
        for step, (written, read) in enumerate(zip(writer, reader)):
            assert written.digest == read.digest == epoch[step]
            written.global_crops.torch().zero_()
            assert written.digest != epoch[step]
            assert read.digest == epoch[step]
    # In slots that were used before.
    assert writer.stats()["host_batches"] > 2 * len(wanted[0])


def test_a_batch_that_is_given_twice_is_whole_though_the_first_was_written_to(make, share):
    wanted = digests(make())[0]
    loader = share()
    first = next(iter(loader))
    first.global_crops.torch().zero_()
    loader.seek(0, 0)
    second = next(iter(loader))
    assert second.digest == wanted != first.digest
    assert loader.stats()["host_batches"] >= 2


def test_a_batch_that_is_held_keeps_its_bytes_after_its_loader_is_closed(share):
    one, other = share(host_batches=1), share(host_batches=1)
    batch = next(iter(one))
    crops = batch.global_crops.numpy()
    before = crops.copy()
    digest = batch.digest
    one.close()
    # Every slot that is free is used again.
    assert len([b.step for _ in range(3) for b in other]) == 3 * len(other)
    assert numpy.array_equal(crops, before) and batch.digest == digest


def test_a_loader_that_goes_elsewhere_has_the_same_batches_as_alone(make, share):
    alone = make()
    wanted = digests(alone) + digests(alone)
    first, second = share(), share()
    assert digests(first) == wanted[:16]
    # Far from the first: by itself to the epoch's end, then together again.
    second.seek(0, 7)
    state = second.state_dict()
    assert digests(second) == wanted[7:16]
    assert digests(first) == digests(second) == wanted[16:]
    third = share(seed=3)
    assert digests(third) == digests(make(seed=3))
    second.load_state_dict(state)
    assert digests(second) == wanted[7:16]


def test_loaders_go_on_when_the_process_with_the_copy_is_killed(make, share, runtime):
    wanted = digests(make())
    loader = share()
    iteration = iter(loader)
    seen = [next(iteration).digest for _ in range(3)]
    (pid,) = processes(runtime)
    os.kill(pid, signal.SIGKILL)
    assert seen + digests(iteration) == wanted
    assert loader.stats()["workers"]
    # A new one starts another process.
    again = share()
    assert digests(again) == wanted
    # At least: batches of the next epoch are fetched ahead.
    assert again.stats()["host_batches"] >= len(wanted)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"device": "cuda:0"}, r"receiver\.device is \"cuda:0\": with receiver\.host_share"),
        ({"host_batches": 0}, r"receiver\.host_batches is 0: must be from 1 to 256"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_the_remedy(share, options, says):
    with pytest.raises(headwater.ConfigError, match=says):
        share(**options)


def test_sharing_a_service_on_ray_is_refused_with_the_remedy(monkeypatch):
    # Stands in for a service, so that no cluster is needed.
    found = SimpleNamespace(storage=["file:/nowhere/a"], workers=["file:/nowhere/b"], token_file=None)
    monkeypatch.setattr("headwater.ray._following.follow", lambda name: found)
    with pytest.raises(headwater.ConfigError, match="`host_share` and `ray` do not go together.*set `host_share` to"):
        headwater.Loader(ray="mine", datasets="photos", recipe="imagenet-eval", host_share=True)


def test_without_a_program_there_is_an_error_that_names_the_remedy(share, monkeypatch):
    monkeypatch.setenv("HEADWATER_PROGRAM", "/nowhere/headwater")
    with pytest.raises(headwater.HeadwaterError, match=re.escape("/nowhere/headwater")):
        share()
