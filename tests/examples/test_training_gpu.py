"""benches/training_gpu.py, which compares loaders on a GPU, with what of it runs on a processor."""

import subprocess
import sys

import pytest

from conftest import LIMIT_S, PHOTOS, ROOT, environment, program

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

SMALL = "--device cpu --steps 3 --batch-size 2 --dim 64 --depth 1 --prototypes 32 --threads 1".split()


def bench(tmp_path, *arguments):
    command = [sys.executable, str(ROOT / "benches" / "training_gpu.py"), *SMALL, *arguments, str(PHOTOS), "--", program()]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=LIMIT_S)


def test_each_loader_trains_for_two_epochs_and_its_waiting_is_told(tmp_path):
    done = bench(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(("| torch ", "| cpu "))]
    assert [[cell.strip("| ") for cell in row[:3]] for row in rows] == [
        ["torch", "1", "3"], ["torch", "2", "3"], ["cpu", "1", "3"], ["cpu", "2", "3"]
    ]  # fmt: skip
    assert all(float(row[3]) > 0 and row[5].endswith("%") for row in rows), done.stdout


def test_a_loader_that_cannot_run_here_fails_by_name_and_no_other_with_it(tmp_path):
    done = bench(tmp_path, "--loaders", "gpu,dali,cpu")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "| gpu | FAILED: augment does not listen" in done.stdout
    assert "| dali | NOT RUN: No module named 'nvidia" in done.stdout
    assert "| cpu | 2 | 3 |" in done.stdout
