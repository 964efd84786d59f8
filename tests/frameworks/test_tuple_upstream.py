"""MAE's and I-JEPA's own training scripts, with the lines of their pages: with checkouts in $HEADWATER_UPSTREAMS."""

import importlib

import pytest

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")
pytest.importorskip("timm", reason="timm is not installed")

from adapters import figures, photos, upstreams  # noqa: E402

NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(not upstreams.folder(name), reason=f"${upstreams.VARIABLE} has no checkout of {name}"))
    for name in ("mae", "ijepa")
]
# What upstream's own loader repeats and loses after a kill: MAE begins the next epoch, I-JEPA the epoch again.
OF_UPSTREAM = {"mae": lambda trained: (0, photos.SAMPLES - trained), "ijepa": lambda trained: (trained, 0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("photos")
    photos.write_folder(made / "train", one_class_each=True)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_within_the_spread_of_upstreams_seeds(name, folder):
    found = figures.losses(importlib.import_module(f"adapters.{name}_runs").losses, folder)
    assert found.apart <= found.spread, found


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_training_that_is_resumed_repeats_and_loses_no_sample(name, folder, tmp_path):
    upstream, mine = (
        figures.resumed(f"{name}_runs", kind, str(folder), tmp_path / kind, photos.SAMPLES, seed=7) for kind in figures.KINDS
    )
    assert (mine.repeated, mine.lost) == (0, 0)
    assert (upstream.repeated, upstream.lost) == OF_UPSTREAM[name](upstream.saved * figures.BATCH)
