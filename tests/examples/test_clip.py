"""A CLIP of images and captions."""

import re

import pytest
from conftest import TOKENIZER


def losses(out: str) -> list[str]:
    return re.findall(r"loss ([\d.]+)", out)


def test_images_find_their_captions_and_a_resumed_run_is_the_same(run):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    arguments = ["captioned", "--tokenizer", str(TOKENIZER), "--batch-size", "8"]
    whole = losses(run("train_clip.py", *arguments, "--steps", "90"))
    assert len(whole) == 90
    mean = lambda part: sum(map(float, part)) / len(part)  # noqa: E731
    assert mean(whole[-12:]) < 0.6 * mean(whole[:12])
    # An epoch has 3 steps: both stop in the middle of one.
    first = losses(run("train_clip.py", *arguments, "--steps", "10", "--checkpoint", "state"))
    second = losses(run("train_clip.py", *arguments, "--steps", "20", "--checkpoint", "state"))
    assert first + second == whole[:20]
