"""Training with labels, with each framework, and a mix of datasets that changes."""

import re

import pytest

CLASSES = ["--classes", "87"]
VALIDATION = ["--validation", "validation", *CLASSES]


def numbers(word: str, out: str) -> list[float]:
    return [float(number) for number in re.findall(rf"{word} ([\d.]+)", out)]


@pytest.mark.parametrize(("epochs", "least"), [(2, 0), pytest.param(8, 0.1, marks=pytest.mark.long)])
def test_training_with_labels_learns(run, epochs, least):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    out = run("train_supervised.py", "train", *VALIDATION, "--epochs", str(epochs), "--size", "32")
    loss, accuracy = numbers("loss", out), numbers("accuracy", out)
    assert len(loss) == len(accuracy) == epochs
    assert loss[-1] < (1 - 0.03 * epochs) * loss[0]
    # By chance: 0.011.
    assert accuracy[-1] >= least


@pytest.mark.parametrize("epochs", [2, pytest.param(5, marks=pytest.mark.long)])
def test_jax_learns_too(run, epochs):
    pytest.importorskip("jax", reason="JAX is not installed")
    loss = numbers("loss", run("jax_loop.py", "photos", *CLASSES, "--epochs", str(epochs)))
    assert len(loss) == epochs and loss[-1] < (1 - 0.02 * epochs) * loss[0]


def test_the_mix_follows_the_curriculum_and_then_the_hand(run):
    out = run("curriculum.py", "train", "validation", "--steps", "40", "--then-steps", "20", "--batch-size", "16")
    shares = numbers("share of the second dataset", out)
    assert len(shares) == 6
    # 160 samples each, drawn with weights that rise from 0 to 1, then are 0.25.
    assert shares[:4] == sorted(shares[:4]) and shares[0] < 0.25 and shares[3] > 0.75
    assert all(0.1 < share < 0.4 for share in shares[4:])


def test_lightning_resumes_in_mid_epoch(run, tmp_path):
    pytest.importorskip("lightning", reason="Lightning is not installed")
    arguments = ["train", *VALIDATION, "--size", "32", "--max-steps", "8", "--checkpoint-every", "4"]
    whole = numbers("step \\d+  loss", run("lightning_module.py", *arguments))
    # An epoch has 6 steps.
    middle = next((tmp_path / "out" / "lightning").glob("*step=4.ckpt"))
    resumed = run("lightning_module.py", *arguments, "--resume", str(middle), "--checkpoints", "again")
    assert len(whole) == 8 and numbers("step \\d+  loss", resumed) == whole[4:]
    assert numbers("accuracy", resumed)


def test_accelerate_resumes_in_mid_epoch(run):
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    arguments = ["photos", *CLASSES, "--size", "32", "--cpu", "--checkpoint", "state"]
    whole = numbers("loss", run("accelerate_loop.py", *arguments, "--steps", "8"))
    before = numbers("loss", run("accelerate_loop.py", *arguments, "--steps", "3"))
    after = numbers("loss", run("accelerate_loop.py", *arguments, "--steps", "8", "--resume"))
    assert len(whole) == 8 and before + after == whole
