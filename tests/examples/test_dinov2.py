"""Self-supervised training, from the first step to a linear probe."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

STEPS, STOP = 72, 37
EPOCH = 256 // 16
SHORT = (
    "photos --batch-size 16 --size 32 --local-size 16 --locals 2 --dim 64 --depth 2 --prototypes 128 "
    f"--steps {STEPS}"
).split()


def losses(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def mean(lines: list[dict], *names: str) -> float:
    return sum(line[name] for line in lines for name in names) / len(lines)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Where the run that is never stopped leaves its log and its checkpoint."""
    return tmp_path_factory.mktemp("dinov2")


def test_the_loss_falls_and_a_run_stopped_in_mid_epoch_goes_on_to_the_last_bit(run, trained, tmp_path):
    run("train_dinov2.py", *SHORT, "--log", str(trained / "log"), "--checkpoint", str(trained / "dino.pt"))
    whole = losses(trained / "log")
    assert [line["step"] for line in whole] == list(range(STEPS))
    first, last = whole[:10], whole[-10:]
    assert mean(last, "dino", "ibot") < 0.95 * mean(first, "dino", "ibot")
    # A model that collapses has falling losses too.
    assert mean(last, "class_information") > 0.9 * mean(first, "class_information")
    assert mean(last, "patch_information") > mean(first, "patch_information")

    stopped = [*SHORT, "--checkpoint", "dino.pt", "--log", "log"]
    run("train_dinov2.py", *stopped, "--stop-after", str(STOP))
    before = losses(tmp_path / "log")
    assert len(before) == STOP and before[-1]["step_of_epoch"] not in (0, EPOCH - 1)
    run("train_dinov2.py", *stopped, "--resume")
    assert losses(tmp_path / "log") == whole


def test_a_linear_layer_finds_classes_in_the_features(run, trained):
    arguments = ["--validation", "validation", "--classes", "87"]
    out = run("linear_probe.py", str(trained / "dino.pt"), "train", *arguments)
    accuracy, samples = re.search(r"accuracy ([\d.]+) of (\d+) samples", out).groups()
    assert int(samples) == 41
    # By chance: 0.011.
    assert float(accuracy) > 0.15
