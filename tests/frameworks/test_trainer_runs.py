"""The lines of docs/integrations/lightning.md and transformers.md, in trainings of 100 steps and in ones that are killed."""

import collections
import importlib
import json
import math
import statistics

import pytest

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

import torch  # noqa: E402
from adapters import figures, photos  # noqa: E402

NAMES = ("lightning", "transformers")
WHOLE = 10**6


@pytest.fixture(scope="module")
def by_photograph(tmp_path_factory):
    return photos.write_folder(tmp_path_factory.mktemp("photos") / "train", one_class_each=True)


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed") and request.param


def weights(folder):
    return torch.load(folder / "weights.pt")


def test_the_loss_is_that_of_upstream(name, tmp_path):
    """Of 12 seeds, as three lie close together at times: docs/integrations/README.md has 40. 100 steps gain 1.6 or more."""
    runs = importlib.import_module(f"adapters.{name}_runs")
    found = figures.losses(runs.losses, photos.write_folder(tmp_path / "train", one_class_each=False), range(12))
    error = math.sqrt((statistics.variance(found.upstream) + statistics.variance(found.headwater)) / 12)
    assert found.apart <= 3 * error < 0.2, found


# In mid-epoch, at an epoch's end, and right after a checkpoint of the second epoch.
@pytest.mark.parametrize("killed_after", [7, 16, 20])
def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(name, by_photograph, tmp_path, killed_after):
    whole = tmp_path / "whole"
    whole.mkdir()
    trained = figures.train(f"{name}_runs", "headwater", str(by_photograph), whole, WHOLE)
    assert trained.returncode == 0, trained.stderr
    seen = collections.Counter(sample for line in (whole / "steps-killed.jsonl").read_text().splitlines() for sample in json.loads(line)[1])
    assert set(seen.values()) == {figures.EPOCHS} and len(seen) == photos.SAMPLES
    killed = tmp_path / "killed"
    found = figures.resumed(f"{name}_runs", "headwater", str(by_photograph), killed, photos.SAMPLES, 0, killed_after)
    assert (found.repeated, found.lost) == (0, 0)
    assert all(map(torch.equal, weights(whole).values(), weights(killed).values()))


@pytest.mark.parametrize(("of_name", "repeats"), [("lightning", True), ("transformers", False)])
def test_pytorchs_loader_repeats_samples_where_the_trainer_does_not_skip(by_photograph, tmp_path, of_name, repeats):
    pytest.importorskip(of_name, reason=f"{of_name} is not installed")
    found = figures.resumed(f"{of_name}_runs", "upstream", str(by_photograph), tmp_path / "run", photos.SAMPLES, seed=7)
    expected = found.saved * figures.BATCH if repeats else 0
    assert (found.repeated, found.lost) == (expected, expected)
