"""Traces that a training asks for, and its ranges in PyTorch's profiles."""

import gzip
import json
import os
import subprocess
import sys

import headwater
import pytest
from conftest import PHOTOS, SMALL, program
from local_services import photos, remove, short_folder

LIMIT_S = 120


def events(path):
    """The events of a trace that was stopped."""
    if str(path).endswith(".pfw.gz"):
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        assert (lines[0], lines[-1]) == ("[", "]")
        return [json.loads(line) for line in lines[1:-1]]
    return json.loads(path.read_text())


def spans(path, name):
    return [event for event in events(path) if event["ph"] == "X" and event["name"] == name]


@pytest.mark.parametrize("name", ["out.json", "out.pfw.gz"])
def test_a_trace_has_what_happens_between_start_and_stop(make, tmp_path, name):
    loader = make(seed=3)
    iteration = iter(loader)
    next(iteration)
    trace = loader.trace(tmp_path / name)
    assert not (tmp_path / name).exists()
    for _ in range(2):
        # The second one takes the place of the first.
        with trace:
            steps = [next(iteration).step for _ in range(2)]
        next(iteration)
        taken = spans(trace.path, "next")
        assert [span["args"]["step"] for span in taken] == steps
        assert all(span["dur"] > 0 for span in taken)
    assert trace.path == tmp_path / name
    assert trace.trouble is None
    names = {event["args"]["name"] for event in events(trace.path) if event["name"] == "thread_name"}
    assert "main thread" in names


def test_start_and_stop_do_what_with_does(make, tmp_path):
    trace = make().trace(str(tmp_path / "out.json"))
    trace.stop()
    trace.start()
    with pytest.raises(headwater.BusyError, match=r"out\.json"):
        trace.start()
    trace.stop()
    assert isinstance(events(tmp_path / "out.json"), list)


def test_a_trace_that_cannot_be_written_is_refused_before_it_begins(make, tmp_path):
    loader = make()
    with pytest.raises(headwater.ConfigError, match=r"`out\.txt`.*\.pfw\.gz"):
        loader.trace("out.txt")
    with pytest.raises(headwater.ConfigError, match="/proc/no/out.json"):
        loader.trace("/proc/no/out.json").start()
    assert next(iter(loader)).step == 0


def test_a_trace_that_ends_early_says_why_and_the_loader_goes_on(make, tmp_path):
    loader = make()
    with loader.trace(tmp_path / "out.json", bytes_max=5000) as trace:
        steps = [batch.step for batch in loader]
    assert len(steps) == len(loader)
    assert "telemetry.trace_bytes_max" in trace.trouble
    assert (tmp_path / "out.json").stat().st_size <= 5000
    events(tmp_path / "out.json")


def test_ranks_write_a_file_each(make, tmp_path):
    trace = make(rank=1, world_size=2, batch_size=2).trace(tmp_path / "out.json")
    assert trace.path == tmp_path / "out-rank1.json"
    named = make(rank=1, world_size=2, batch_size=2).trace(tmp_path / "r%r-%t.json")
    assert named.path == tmp_path / "r1-receiver.json"


@pytest.mark.parametrize("place", [{}, {"embedded": "threads"}], ids=["process", "threads"])
def test_services_of_the_loader_are_traced_too(tmp_path, monkeypatch, place):
    folder = short_folder("hw-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("HEADWATER_PROGRAM", program())
    data = photos(tmp_path)
    with headwater.Loader(data, recipe=SMALL, batch_size=4, **place) as loader:
        with loader.trace(tmp_path / "out.json"):
            batches = sum(1 for _ in loader)
    own = tmp_path / "out.json"
    of_services = own if place else tmp_path / f"out-local-{os.uname().nodename}.json"
    leases = {span["args"]["flow"] for span in spans(own, "part")}
    made = {span["args"]["flow"] for span in spans(of_services, "make part")}
    assert batches > 1 and len(leases & made) >= batches
    assert spans(of_services, "decode") and spans(of_services, "read samples")
    remove(folder)


def test_a_trace_that_is_configured_ends_with_the_process(tiers, tmp_path):
    script = f"""
import headwater
loader = headwater.Loader(**{tiers.keywords()!r})
batch = next(iter(loader))
"""
    environment = {**os.environ, "HEADWATER_TELEMETRY__TRACE": "%t.json"}
    command = [sys.executable, "-c", script]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=LIMIT_S)
    assert len(spans(tmp_path / "receiver.json", "next")) == 1


def test_dftracers_own_tools_read_its_format(make, tmp_path):
    dftracer = pytest.importorskip("dftracer.utils", reason="dftracer-utils is not installed")
    loader = make()
    with loader.trace(tmp_path / "out.pfw.gz") as trace:
        batches = sum(1 for _ in loader)
    view = dftracer.TraceViewer(str(tmp_path))
    table = view.group_by("name").agg("count").collect().to_dict()
    counted = dict(zip(table["name"], table["count"]))
    assert counted["next"] == len(spans(trace.path, "next")) >= batches
    assert counted["part"] == len(spans(trace.path, "part"))


def test_a_profile_of_pytorch_has_a_range_for_each_wait(make):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    iteration = iter(make())
    next(iteration)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(3):
            next(iteration)
    next(iteration)
    ranges = [event for event in profile.events() if event.name == "headwater.Iteration.__next__"]
    assert len(ranges) == 3


def test_pytorch_is_not_imported_for_the_sake_of_its_profiler(tiers):
    script = f"""
import sys, headwater
loader = headwater.Loader(**{tiers.keywords()!r})
next(iter(loader))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=LIMIT_S)
