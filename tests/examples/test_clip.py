"""A CLIP of images and captions."""

import re

import pytest
from conftest import TOKENIZER


def losses(out: str) -> list[str]:
    return re.findall(r"loss ([\d.]+)", out)


@pytest.fixture
def train(run):
    """Runs the example, and gives the loss of each step."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    arguments = ["captioned", "--tokenizer", str(TOKENIZER), "--batch-size", "8"]
    return lambda *more: losses(run("train_clip.py", *arguments, *more))


def test_a_resumed_run_is_the_same(train):
    whole = train("--steps", "14")
    # An epoch has 3 steps: both stop in the middle of one.
    assert train("--steps", "5", "--checkpoint", "state") + train("--steps", "14", "--checkpoint", "state") == whole
    assert len(whole) == 14


@pytest.mark.long
def test_images_find_their_captions(train):
    whole = train("--steps", "90")
    assert len(whole) == 90
    mean = lambda part: sum(map(float, part)) / len(part)  # noqa: E731
    assert mean(whole[-12:]) < 0.6 * mean(whole[:12])
