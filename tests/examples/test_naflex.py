"""A vision transformer on sequences of patches."""

import re

import pytest


def steps(out: str) -> list[tuple[str, ...]]:
    return re.findall(r"step +(\d+) +(\d+) sequences of +(\d+)  loss ([\d.]+)", out)


def test_a_resumed_run_is_the_same_and_learns(run):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    train = ["train_naflex.py", "train", "--classes", "87", "--steps"]
    whole = steps(run(*train, "40"))
    assert [int(step) for step, *_ in whole] == list(range(40))
    assert {(samples, length) for _, samples, length, _ in whole} == {("8", "96"), ("16", "48"), ("32", "24")}
    assert steps(run(*train, "13", "--checkpoint", "state")) + steps(run(*train, "40", "--checkpoint", "state")) == whole
    losses = [float(loss) for *_, loss in whole]
    assert sum(losses[-10:]) < sum(losses[:10])
