"""headwater.integrations.dinov2 and .dinov3: what they read of upstream's objects, and where a run goes on."""

import warnings

import headwater
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

from dino_objects import Augmentation, MaskingGenerator, collate_fn  # noqa: E402
from headwater.integrations import dinov2  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

BATCH = 4
STEPS = 16  # of 64 photographs
KEYS = [
    "collated_global_crops", "collated_local_crops", "collated_masks", "mask_indices_list", "masks_weight", "upperbound", "n_masked_patches",
]


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

    def open_batches(module=dinov2, transform=None, collate=None, **arguments):
        dataset = module.make_dataset(dataset_str="photos", transform=transform or Augmentation(), target_transform=None)
        services = {"storage": [tiers.storage], "workers": tiers.workers, "batch_size": BATCH, "num_workers": 2}
        opened.append(module.make_data_loader(dataset=dataset, collate_fn=collate or collate_fn(), **{**services, **arguments}))
        return opened[-1]

    yield open_batches
    for one in opened:
        one.close()


def taken(loader, steps):
    """All of the next batches."""
    return [{name: torch.as_tensor(value).clone() for name, value in batch.items()} for _, batch in zip(range(steps), loader)]


def is_same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_batch_has_upstreams_names_shapes_and_dtypes(open_batches):
    (batch,) = taken(open_batches(), 1)
    assert list(batch) == KEYS
    assert batch["collated_global_crops"].shape == (2 * BATCH, 3, 32, 32) and batch["collated_global_crops"].dtype == torch.float16
    assert batch["collated_local_crops"].shape == (2 * BATCH, 3, 16, 16) and batch["collated_local_crops"].dtype == torch.float16
    masks = batch["collated_masks"]
    assert masks.shape == (2 * BATCH, 64) and masks.dtype == torch.bool and (masks.any(1).sum() == BATCH)
    assert torch.equal(batch["mask_indices_list"], masks.flatten().nonzero().flatten())
    assert torch.equal(batch["masks_weight"], (1 / masks.sum(1).clamp(min=1))[:, None].expand_as(masks)[masks])
    assert batch["n_masked_patches"].tolist() == [len(batch["mask_indices_list"])] and batch["n_masked_patches"].dtype == torch.long
    # Shares of 64 patches up to 0.2, 0.3, 0.4 and 0.5, as upstream adds them.
    assert batch["upperbound"] == 12 + 19 + 25 + 32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_crops_have_the_dtype_of_the_collate_function(open_batches, dtype):
    (batch,) = taken(open_batches(collate=collate_fn(dtype=dtype)), 1)
    assert batch["collated_global_crops"].dtype == batch["collated_local_crops"].dtype == dtype


def test_the_recipe_is_the_preset_with_the_sizes_of_the_augmentation(open_batches, make):
    sizes = {"global_crops_size": 32, "local_crops_size": 16, "local_crops_number": 2}
    for kind in (None, v2):
        transform = Augmentation() if kind is None else Augmentation(kind)
        recipe = open_batches(transform=transform).loader.recipe
        assert recipe == make(recipe={"preset": "dinov2", "dtype": "f16", **sizes}).recipe
    whole = open_batches(transform=Augmentation(side=224, local_side=96, locals=8), collate=collate_fn(224, 14)).loader.recipe
    assert whole == make(recipe={"preset": "dinov2", "dtype": "f16"}).recipe


@pytest.mark.parametrize("steps", [0, 5, STEPS, STEPS + 3, 2 * STEPS])
def test_a_run_goes_on_where_sampler_advance_says(open_batches, steps):
    whole = taken(open_batches(seed=3), 2 * STEPS + 4)
    rest = taken(open_batches(seed=3, sampler_advance=steps * BATCH), 4)
    assert all(map(is_same, rest, whole[steps : steps + 4]))
    assert not is_same(whole[0], whole[STEPS])


def test_a_state_does_the_same(open_batches):
    loader = open_batches()
    before = taken(loader, 7)
    assert loader.step == 7
    after = open_batches()
    after.load_state_dict(loader.state_dict())
    whole = taken(open_batches(), 10)
    assert all(map(is_same, [*before, *taken(after, 3)], whole))


def test_ranks_have_the_parts_of_each_batch(open_batches):
    whole = taken(open_batches(batch_size=2 * BATCH, seed=1), STEPS // 2 + 2)
    parts = [taken(open_batches(seed=1, rank=rank, world_size=2), STEPS // 2 + 2) for rank in (0, 1)]
    for batch, *of_ranks in zip(whole, *parts):
        crops = [one["collated_global_crops"].unflatten(0, (2, BATCH)) for one in of_ranks]
        assert torch.equal(torch.cat(crops, 1).flatten(0, 1), batch["collated_global_crops"])
        assert not torch.equal(of_ranks[0]["collated_masks"], of_ranks[1]["collated_masks"])
    # Each rank advances by its own samples.
    for rank in (0, 1):
        (resumed,) = taken(open_batches(seed=1, rank=rank, world_size=2, sampler_advance=3 * BATCH), 1)
        assert is_same(resumed, parts[rank][3])


def test_an_iteration_has_no_end_or_is_an_epoch(open_batches):
    whole = taken(open_batches(sampler_type="SHARDED_INFINITE"), 3 * STEPS)
    assert len(whole) == 3 * STEPS
    loader = open_batches(sampler_type="EPOCH")
    loader.sampler.set_epoch(2)
    epoch = taken(loader, 3 * STEPS)
    assert len(epoch) == STEPS == len(loader) and all(map(is_same, epoch, whole[2 * STEPS :]))


def test_without_shuffle_samples_come_in_order(open_batches, tiers):
    loader = open_batches(shuffle=False)
    assert [sample.index for batch in loader.loader for sample in batch.samples] == list(range(64))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("photos/*.tar", "photos/*.tar"),
        ("s3://bucket/photos/{000000..000009}.tar", "s3://bucket/photos/{000000..000009}.tar"),
        (["a.tar", "b.tar"], ["a.tar", "b.tar"]),
        ("ImageNet:split=TRAIN:root=/data/in1k:extra=/data/extra", "/data/in1k/train"),
        ("ImageNet:split=VAL:root=/data/in1k", "/data/in1k/val"),
    ],
)
def test_a_dataset_is_a_path_or_upstreams_imagenet(given, path):
    assert dinov2.make_dataset(dataset_str=given).path == path


@pytest.mark.parametrize("given", ["ImageNet22k:root=/data:extra=/extra", "ImageNet:split=TRAIN"])
def test_a_dataset_that_is_no_folder_is_refused(given):
    with pytest.raises(headwater.ConfigError, match=f"`dataset_path={given}` of make_dataset has no counterpart: .*give"):
        dinov2.make_dataset(dataset_str=given)


def other_masks(**others):
    return collate_fn(mask_generator=MaskingGenerator(8, **{"max_num_patches": 32, **others}))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"collate": list}, "`collate_fn` of make_data_loader"),
        ({"collate": collate_fn(dtype=torch.float64)}, "`dtype=torch.float64` of collate_data_and_cast"),
        ({"collate": collate_fn(local_batch_size=2)}, "`local_batch_size` of collate_data_and_cast"),
        ({"collate": collate_fn(patch=5)}, "`mask_generator of 6 x 6 patches` of make_data_loader"),
        ({"collate": other_masks(min_num_patches=2)}, "`mask_generator` of make_data_loader"),
        ({"collate": other_masks(max_num_patches=20)}, "`mask_generator` of make_data_loader"),
        ({"sampler_type": None}, "`sampler_type=None` of make_data_loader"),
        ({"sampler_size": 100}, "`sampler_size=100` of make_data_loader"),
        ({"sampler_advance": 6}, "`sampler_advance=6` of make_data_loader"),
        ({"transform": Augmentation(flips=0.0)}, "`transform` of make_data_loader"),
        ({"transform": Augmentation(jitter_p=0.5)}, "`global_transfo1` of DataAugmentationDINO"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_counterpart_is_refused_by_its_name(open_batches, arguments, named):
    with pytest.raises(headwater.ConfigError, match=f"{named} has no counterpart: .+"):
        open_batches(**arguments)


def test_another_augmentation_is_refused_or_replaced_by_a_recipe(open_batches):
    class Mine:
        pass

    with pytest.raises(headwater.ConfigError, match="`transform` is a Mine: give `DataAugmentationDINO`, or `recipe="):
        open_batches(transform=Mine())
    broken = Augmentation()
    broken.local_transfo = v2.Compose([v2.RandomChannelPermutation()])
    with pytest.raises(headwater.ConfigError, match="`local_transfo` of DataAugmentationDINO: `RandomChannelPermutation` has no counterpart"):
        open_batches(transform=broken)
    recipe = {"preset": "dinov2", "dtype": "f32", "global_crops_size": 48, "local_crops_size": 16}
    with pytest.raises(headwater.ConfigError, match="`transform without global_crops_size` .*: give `masks="):
        open_batches(transform=Mine(), recipe=recipe)
    (batch,) = taken(open_batches(transform=Mine(), recipe=recipe, masks={"patch": 8}), 1)
    assert batch["collated_global_crops"].shape == (2 * BATCH, 3, 48, 48) and batch["collated_masks"].shape == (2 * BATCH, 36)
