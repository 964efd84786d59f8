"""A GPT on a corpus of texts."""

import re

import pytest
from conftest import ROOT


def losses(out: str) -> list[str]:
    return re.findall(r"loss ([\d.]+)", out)


@pytest.fixture
def train(run_here):
    """Runs the example, and gives the loss of each step."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    texts = [str(ROOT / name) for name in ("README.md", "ARCHITECTURE.md")]
    arguments = ["texts.bin", "--text", *texts, "--batch-size", "8", "--length", "48"]
    return lambda *more: losses(run_here("train_gpt.py", *arguments, *more))


def test_a_resumed_run_is_the_same_and_learns(train):
    whole = train("--steps", "40")
    assert train("--steps", "13", "--checkpoint", "state") + train("--steps", "40", "--checkpoint", "state") == whole
    assert len(whole) == 40
    first, last = (sum(map(float, part)) / len(part) for part in (whole[:5], whole[-5:]))
    assert last < 0.8 * first
