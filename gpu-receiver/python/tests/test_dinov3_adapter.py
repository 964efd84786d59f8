"""headwater.integrations.dinov3: its masks, its options of views, and several resolutions in one run."""

import warnings

import headwater
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

from dino_objects import Augmentation, collate_fn  # noqa: E402
from headwater.integrations import dinov3  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

BATCH = 4
RATIOS = (0.6, 0.4)


@pytest.fixture(autouse=True)
def small_views():
    """Views of the tests are smaller than the published ones, which the loader says."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the recipe is `dinov")
        yield


@pytest.fixture
def open_batches(tiers):
    """Opens loaders, and closes them."""
    opened = []

    def open_batches(side=32, of_views=None, collate=None, **arguments):
        transform = Augmentation(v2, side=side, **(of_views or {}))
        dataset = dinov3.make_dataset(dataset_str="photos", transform=transform)
        services = {"storage": [tiers.storage], "workers": tiers.workers, "batch_size": BATCH, "num_workers": 2}
        collate = collate or collate_fn(side, dtype=torch.bfloat16)
        opened.append(dinov3.make_data_loader(dataset=dataset, collate_fn=collate, **{**services, **arguments}))
        return opened[-1]

    yield open_batches
    for one in opened:
        one.close()


def taken(loader, steps):
    """All of the next batches."""
    return [{name: torch.as_tensor(value).clone() for name, value in batch.items()} for _, batch in zip(range(steps), loader)]


def is_same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_all_batches_have_as_many_masked_patches(open_batches):
    for batch in taken(open_batches(), 6):
        # Shares of 64 patches of 0.2, 0.3, 0.4 and 0.5.
        assert batch["n_masked_patches"].tolist() == [12 + 19 + 25 + 32] == [batch["upperbound"]]
        assert sorted(batch["collated_masks"].sum(1).tolist()) == [0] * 4 + [12, 19, 25, 32]
        assert "collated_gram_teacher_crops" not in batch and batch["collated_global_crops"].dtype == torch.bfloat16


def test_masks_are_shifted_where_the_collate_function_says(open_batches):
    plain, shifted = (open_batches(collate=collate_fn(random_circular_shift=shift)) for shift in (False, True))
    assert not plain.loader.config["masks"].get("random_circular_shift") and shifted.loader.config["masks"]["random_circular_shift"]
    one, other = taken(plain, 1)[0]["collated_masks"], taken(shifted, 1)[0]["collated_masks"]
    assert not torch.equal(one, other) and sorted(one.sum(1).tolist()) == sorted(other.sum(1).tolist())


def test_gram_views_come_with_upstreams_name(open_batches):
    (batch,) = taken(open_batches(of_views={"gram": 48}), 1)
    assert list(batch)[-1] == "collated_gram_teacher_crops"
    assert batch["collated_gram_teacher_crops"].shape == (2 * BATCH, 3, 48, 48) and batch["collated_global_crops"].shape[-1] == 32


#: `crops` and what else its data follow from, as in upstream's `configs/train/dinov3_vitl16_lvd1689m_distilled.yaml`.
RELEASED = {"side": 256, "local_side": 112, "locals": 8, "gram": 256, "gram_is_distorted": True, "flips": 0.0}


def test_gram_crops_of_the_released_distillation_are_the_global_crops(open_batches, make):
    of_views = {name: value for name, value in RELEASED.items() if name != "side"}
    loader = open_batches(RELEASED["side"], of_views, collate_fn(256, patch=16, dtype=torch.bfloat16))
    sizes = {"global_crops_size": 256, "local_crops_size": 112, "local_crops_number": 8, "horizontal_flips": False}
    assert loader.loader.recipe == make(recipe={"preset": "dinov3", "dtype": "bf16", "dinov3": sizes}).recipe
    (batch,) = taken(loader, 1)
    assert list(batch)[-1] == "collated_gram_teacher_crops"
    assert torch.equal(batch["collated_gram_teacher_crops"], batch["collated_global_crops"])
    # So they are upstream's: what it makes Gram crops with leaves normalised tensors of this size as they are.
    crops = v2.functional.to_image(batch["collated_global_crops"][0].float())
    assert torch.equal(Augmentation(v2, **RELEASED).resize_gram_teacher(crops), crops)


def test_gram_crops_are_the_global_crops_at_several_resolutions_too(open_batches):
    loaders = [open_batches(side, {"gram": side, "gram_is_distorted": True}) for side in (32, 48)]
    of_both = dinov3.CombinedDataLoader(zip(loaders, RATIOS), batch_size=BATCH, combining_mode=0)
    batches = taken(of_both, 12)
    assert {batch["collated_gram_teacher_crops"].shape[-1] for batch in batches} == {32, 48}
    assert all(torch.equal(batch["collated_gram_teacher_crops"], batch["collated_global_crops"]) for batch in batches)
    loaders[1] = open_batches(48, {"gram": 64})
    with pytest.raises(headwater.ConfigError, match="Gram crops of its loaders are global_crops and gram_crops: give all the same"):
        dinov3.CombinedDataLoader(zip(loaders, RATIOS), batch_size=BATCH, combining_mode=0)


@pytest.mark.parametrize(
    ("of_views", "options"),
    [
        ({}, {"horizontal_flips": True}),
        ({"flips": 0.0}, {"horizontal_flips": False}),
        ({"shared": True}, {"horizontal_flips": True, "share_color_jitter": True}),
        ({"subset": True, "flips": 0.0}, {"localcrops_subset_of_globalcrops": True, "patch_size": 4}),
        ({"gram": 48, "flips": 0.0, "shared": True}, {"gram_crops_size": 48, "share_color_jitter": True}),
    ],
    ids=str,
)
def test_the_recipe_has_the_options_of_the_augmentation(open_batches, make, of_views, options):
    sizes = {"global_crops_size": 32, "local_crops_size": 16, "local_crops_number": 2}
    preset = "dinov3-gram" if "gram_crops_size" in options else "dinov3"
    expected = make(recipe={"preset": preset, "dtype": "bf16", "dinov3": {**sizes, **options}}).recipe
    assert open_batches(of_views=of_views).loader.recipe == expected


def combined(open_batches, advance=0, seed=65537, **options):
    """As train.py opens them, each with all batches of the run as its `sampler_advance`."""
    loaders = [open_batches(side, seed=number, sampler_advance=advance * BATCH, **options) for number, side in enumerate((32, 48))]
    return dinov3.CombinedDataLoader(zip(loaders, RATIOS), batch_size=BATCH, combining_mode=0, seed=seed, name="MultiResDL")


def test_several_resolutions_go_on_where_sampler_advance_says(open_batches):
    whole = taken(combined(open_batches), 44)
    assert {batch["collated_global_crops"].shape[-1] for batch in whole} == {32, 48}
    for cut in (1, 7, 40):
        after = combined(open_batches, cut)
        assert after.step == cut
        assert all(map(is_same, taken(after, 4), whole[cut:]))


def test_a_state_of_several_resolutions_does_the_same(open_batches):
    before = combined(open_batches)
    whole = taken(before, 9)
    state = before.state_dict()
    whole += taken(before, 3)
    after = combined(open_batches)
    after.load_state_dict(state)
    assert all(map(is_same, taken(after, 3), whole[9:]))


def test_ranks_take_the_same_resolution(open_batches):
    ranks = [taken(combined(open_batches, rank=rank, world_size=2), 12) for rank in (0, 1)]
    sizes = [[batch["collated_global_crops"].shape[-1] for batch in rank] for rank in ranks]
    assert sizes[0] == sizes[1] and len(set(sizes[0])) == 2
    assert not any(torch.equal(one["collated_global_crops"], other["collated_global_crops"]) for one, other in zip(*ranks))


def test_loaders_that_do_not_go_together_are_refused(open_batches):
    one, other = open_batches(), open_batches(sampler_advance=BATCH)
    for given, arguments, said in [
        ([one, one], {"combining_mode": 1}, "`combining_mode=1` of CombinedDataLoader has no counterpart"),
        ([one, one], {"batch_size": 8}, "`batch_size=8` of CombinedDataLoader: the loaders have .4.: give all"),
        ([one, other], {}, r"loaders begin after \[0, 1\] batches: give all the same `sampler_advance`"),
    ]:
        with pytest.raises(headwater.ConfigError, match=said):
            dinov3.CombinedDataLoader(zip(given, RATIOS), **{"batch_size": BATCH, "combining_mode": 0, **arguments})


def test_what_has_no_counterpart_is_refused_by_its_name(open_batches):
    with pytest.raises(headwater.ConfigError, match="`worker_init_fn` of make_data_loader has no counterpart"):
        open_batches(worker_init_fn=print)
    with pytest.raises(headwater.ConfigError, match="`transforms` of make_dataset has no counterpart"):
        dinov3.make_dataset(dataset_str="photos", transforms=print)
    said = "`gram_teacher_no_distortions=False` of DataAugmentationDINO has no counterpart: Gram crops of 48 .* the 32 of global crops"
    for gram in (48, 24):
        with pytest.raises(headwater.ConfigError, match=said.replace("48", str(gram))):
            open_batches(of_views={"gram": gram, "gram_is_distorted": True})
