"""Self-supervised training, from the first step to a linear probe."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

EPOCH = 256 // 16
SMALL = "photos --batch-size 16 --size 32 --local-size 16 --locals 2 --dim 64 --depth 2 --prototypes 128".split()


def losses(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def mean(lines: list[dict], *names: str) -> float:
    return sum(line[name] for line in lines for name in names) / len(lines)


def test_a_run_stopped_in_mid_epoch_goes_on_to_the_last_bit(run, tmp_path):
    steps, stop = EPOCH + 8, 13
    short = [*SMALL, "--steps", str(steps), "--checkpoint", "dino.pt"]
    run("train_dinov2.py", *short, "--log", "whole")
    whole = losses(tmp_path / "whole")
    assert [line["step"] for line in whole] == list(range(steps))
    (tmp_path / "dino.pt").unlink()

    run("train_dinov2.py", *short, "--log", "log", "--stop-after", str(stop))
    before = losses(tmp_path / "log")
    assert len(before) == stop and before[-1]["step_of_epoch"] not in (0, EPOCH - 1)
    run("train_dinov2.py", *short, "--log", "log", "--resume")
    assert losses(tmp_path / "log") == whole


@pytest.mark.long
def test_the_loss_falls_and_a_linear_layer_finds_classes_in_the_features(run, tmp_path):
    run("train_dinov2.py", *SMALL, "--steps", "72", "--log", "log", "--checkpoint", "dino.pt")
    whole = losses(tmp_path / "log")
    first, last = whole[:10], whole[-10:]
    assert mean(last, "dino", "ibot") < 0.95 * mean(first, "dino", "ibot")
    # A model that collapses has falling losses too.
    assert mean(last, "class_information") > 0.9 * mean(first, "class_information")
    assert mean(last, "patch_information") > mean(first, "patch_information")

    arguments = ["--validation", "validation", "--classes", "87"]
    out = run("linear_probe.py", "dino.pt", "train", *arguments)
    accuracy, samples = re.search(r"accuracy ([\d.]+) of (\d+) samples", out).groups()
    assert int(samples) == 41
    # By chance: 0.011.
    assert float(accuracy) > 0.15
