"""`headwater.integrations.dinov2` and `dinov3` beside the repositories themselves: with checkouts in $HEADWATER_UPSTREAMS."""

import pytest

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

import torch  # noqa: E402
from adapters import dino_runs, figures, photos, upstreams  # noqa: E402

NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(not upstreams.folder(name), reason=f"${upstreams.VARIABLE} has no checkout of {name}"))
    for name in ("dinov2", "dinov3")
]


@pytest.fixture(scope="module")
def by_photograph(tmp_path_factory):
    return photos.write_folder(tmp_path_factory.mktemp("photos") / "train", one_class_each=True)


def batches(name, kind, folder, steps, **others):
    dino_runs.seeded(0)
    loader, seen = dino_runs.create(name, kind, folder, **others)
    found = [{key: torch.as_tensor(value).clone() for key, value in batch.items()} for _, batch in zip(range(steps), loader)]
    dino_runs.close(loader)
    return found, seen


@pytest.mark.parametrize("name", NAMES)
def test_batches_have_upstreams_keys_shapes_and_dtypes(name, by_photograph):
    (mine, _), (theirs, _) = (batches(name, kind, by_photograph, 3) for kind in ("headwater", "upstream"))
    for one, other in zip(mine, theirs):
        assert list(one) == list(other) and one["upperbound"] == other["upperbound"]
        assert all(one[key].dtype == other[key].dtype for key in one)
        # The number of masked patches is drawn.
        drawn = ("mask_indices_list", "masks_weight")
        assert all(one[key].shape == other[key].shape for key in one if key not in drawn)
        masked = [(batch["collated_masks"].any(1)).sum() for batch in (one, other)]
        assert masked[0] == masked[1] == figures.BATCH


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_has_each_photograph_once_as_upstreams_pass(name, by_photograph):
    for kind in figures.KINDS:
        _, seen = batches(name, kind, by_photograph, 2 * dino_runs.STEPS_OF_EPOCH)
        for first in (0, dino_runs.STEPS_OF_EPOCH):
            of_epoch = [number for batch in seen[first : first + dino_runs.STEPS_OF_EPOCH] for number in batch]
            assert sorted(of_epoch) == list(range(photos.SAMPLES))


#: How far means over 512 photographs are apart by chance, three times over.
LIMITS = {"mean": 0.15, "deviation": 0.1, "edges": 0.03, "masked": 8}


@pytest.mark.parametrize("name", NAMES)
def test_crops_and_masks_are_distributed_as_upstreams(name, by_photograph):
    """Levels of each global view and of local ones, their edges, which a blur takes away, and the number of masked patches."""
    found = {key: [] for key in LIMITS}
    for kind in figures.KINDS:
        of_kind, _ = batches(name, kind, by_photograph, 2 * dino_runs.STEPS_OF_EPOCH)
        crops = torch.cat([batch["collated_global_crops"].float().unflatten(0, (2, -1)) for batch in of_kind], 1)
        views = [*crops, torch.cat([batch["collated_local_crops"].float() for batch in of_kind])]
        found["mean"].append(torch.stack([view.mean() for view in views]))
        found["deviation"].append(torch.stack([view.std() for view in views]))
        found["edges"].append(torch.stack([(view[..., 1:] - view[..., :-1]).abs().mean() for view in views]))
        found["masked"].append(torch.cat([batch["n_masked_patches"].float() for batch in of_kind]).mean())
    for key, (theirs, mine) in found.items():
        assert (mine - theirs).abs().max() < LIMITS[key], (key, mine, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_within_the_spread_of_upstreams_seeds(name, by_photograph):
    runs = __import__(f"adapters.{name}_runs", fromlist=["losses"])
    found = figures.losses(runs.losses, by_photograph)
    assert found.apart <= found.spread, found


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_training_that_is_resumed_repeats_and_loses_no_sample(name, by_photograph, tmp_path):
    upstream, mine = (
        figures.resumed(f"{name}_runs", kind, str(by_photograph), tmp_path / kind, photos.SAMPLES, seed=7) for kind in figures.KINDS
    )
    assert (mine.repeated, mine.lost) == (0, 0)
    assert upstream.repeated == upstream.lost > 0


@pytest.mark.skipif(not upstreams.folder("dinov3"), reason=f"${upstreams.VARIABLE} has no checkout of dinov3")
def test_distorted_gram_crops_of_the_global_size_are_the_global_crops(by_photograph):
    """As in its configuration `dinov3_vitl16_lvd1689m_distilled.yaml`."""
    for kind in figures.KINDS:
        views = {"of_transform": dino_runs.transform("dinov3", gram_teacher_crops_size=dino_runs.SIDE, gram_teacher_no_distortions=False)}
        for batch in batches("dinov3", kind, by_photograph, 3, **views)[0]:
            assert list(batch)[-1] == "collated_gram_teacher_crops"
            assert torch.equal(batch["collated_gram_teacher_crops"], batch["collated_global_crops"])


@pytest.mark.skipif(not upstreams.folder("dinov3"), reason=f"${upstreams.VARIABLE} has no checkout of dinov3")
def test_several_resolutions_come_in_upstreams_order(by_photograph):
    sizes = []
    for kind in figures.KINDS:
        loaders = []
        for side in (dino_runs.SIDE, 40):
            views = {"of_transform": dino_runs.transform("dinov3", global_crops_size=side), "of_collate": dino_runs.collate("dinov3", side)}
            loaders.append(dino_runs.create("dinov3", kind, by_photograph, **views)[0])
        combined = dino_runs.combined(kind, loaders, (0.6, 0.4))
        sizes.append([batch["collated_global_crops"].shape[-1] for _, batch in zip(range(24), combined)])
        dino_runs.close(combined)
    assert sizes[0] == sizes[1] and set(sizes[0]) == {dino_runs.SIDE, 40}
