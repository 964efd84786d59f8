"""Batches in a GPU's memory, over the emulated driver of tests/emulated_cuda.

It executes what is put on a stream as late as CUDA's contract allows, so that whoever forgets to wait sees
other bytes.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import headwater
import pytest
from conftest import PROJECT

LIMIT_S = 300


@pytest.fixture(scope="session")
def driver():
    """Folder of the emulated driver's libraries: the one that the Rust tests use."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "tmp"
    script = PROJECT / "tests" / "emulated_cuda" / "build.sh"
    built = subprocess.run([script, folder], check=True, capture_output=True, text=True)
    return built.stdout.strip()


@pytest.fixture
def consume(driver, tiers, tmp_path):
    """Does one thing of device_consumer.py and gives what it printed."""

    def consume(what, check=True, **environment):
        options = {
            "datasets": ["photos"],
            "batch_size": 4,
            "storage": [tiers.storage],
            "workers": tiers.workers,
            "cuda_cache_dir": str(tmp_path / "cubin"),
        }
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("device_consumer.py"), what, json.dumps(options)],
            env={**os.environ, "LD_LIBRARY_PATH": driver, **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        if not check:
            return done
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return consume


@pytest.mark.parametrize("execution", ["late", "eager"])
def test_a_batch_on_a_gpu_is_the_cpus_on_every_stream(consume, execution):
    assert consume("every_stream", EMULATED_CUDA=execution) == 4 * 3 * 5


def test_what_a_stream_was_asked_for_before_a_batch_is_let_go_of_reads_that_batch(consume):
    assert consume("late_reads") == 12


def test_levels_are_normalised_on_the_gpu_as_workers_do_it(consume):
    pixels = 4 * 3 * 224 * 224
    assert consume("normalised") == [2 * pixels, 2 * pixels, 4 * pixels]


def test_slots_lie_where_a_frameworks_allocator_says_and_go_back_to_it(consume):
    assert consume("allocated") >= 5


def test_what_cannot_be_had_names_the_thing_and_the_remedy(consume):
    said = consume("refusals")
    words = {
        "numpy": ["TypeError", "cuda:0", ".torch()"],
        "interface": ["AttributeError", "cuda:0"],
        "stream 0": ["BufferError", "0 is no stream"],
        "copy": ["BufferError", "cuda:0"],
        "cpu": ["BufferError", "(2, 0)", "(1, 0)"],
        "cuda:7": ["DeviceError", "GPU 7"],
        "gpu": ["ConfigError", "receiver.device", '"cuda:0"'],
        "u8_as": ["ConfigError", "receiver.u8_as", "receiver.device"],
        "allocator": ["DeviceError", "no GPU's memory"],
        "an exception": ["LookupError", "the trainer has no room"],
    }
    assert said.keys() == words.keys()
    for name, wanted in words.items():
        assert all(word in said[name] for word in wanted), (name, said[name])


def test_a_gpu_that_fails_ends_the_stream_with_its_reason(consume):
    # Counted from the end of the GPU's proof on.
    fails = {
        "EMULATED_CUDA_FAIL": "cuMemcpyHtoDAsync:1",
        "EMULATED_CUDA_FAIL_AFTER": "cuMemHostUnregister",
    }
    done = consume("first_batch", check=False, **fails)
    assert done.returncode == 1
    assert "DeviceError" in done.stderr and "copy a batch to it" in done.stderr, done.stderr


def test_a_gpu_that_copies_otherwise_is_refused_before_the_first_batch(consume):
    done = consume("first_batch", check=False, EMULATED_CUDA_CORRUPT="1")
    assert done.returncode == 1
    said = done.stderr
    assert "DeviceError" in said and "its proof failed: `copy of a slot`" in said, said


def test_a_gpu_without_room_for_the_slots_says_so(consume):
    done = consume("first_batch", check=False, EMULATED_CUDA_MEMORY_BYTES="100000")
    assert done.returncode == 1
    assert "DeviceError" in done.stderr and "take memory for a slot" in done.stderr, done.stderr


def test_without_a_driver_a_gpu_is_refused_with_the_remedy(make):
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(headwater.DeviceError, match=r"libcuda\.so.* is not found .*: install it"):
            make(device="cuda:0")
    else:
        pytest.skip("this machine has a driver")


def test_a_driver_that_cannot_be_used_is_refused_with_the_reason(consume, tmp_path):
    for name in ["libcuda.so", "libcuda.so.1"]:
        subprocess.run(["cc", "-shared", "-x", "c", os.devnull, "-o", tmp_path / name], check=True)
    done = consume("first_batch", check=False, LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1
    assert "DeviceError" in done.stderr and "panicked" not in done.stderr, done.stderr
    assert "libcuda.so: it has no cu" in done.stderr, done.stderr
