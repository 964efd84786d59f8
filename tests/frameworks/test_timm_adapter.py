"""`headwater.integrations.timm.create_loader` beside timm's own."""

import math
import statistics

import pytest

pytestmark = pytest.mark.long
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("timm", reason="timm is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

import headwater  # noqa: E402
import timm.data  # noqa: E402
import torch  # noqa: E402
from adapters import figures, photos, timm_runs  # noqa: E402
from headwater.integrations.timm import create_loader  # noqa: E402
from timm.data import FastCollateMixup, Mixup  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photos.write_folder(tmp_path_factory.mktemp("photos") / "train", one_class_each=False)


@pytest.fixture(scope="module")
def by_photograph(tmp_path_factory):
    return photos.write_folder(tmp_path_factory.mktemp("photos") / "train", one_class_each=True)


@pytest.fixture
def create():
    """Opens loaders of this module, and closes them."""
    opened = []

    def create(folder, kind="headwater", **arguments):
        opened.append(timm_runs.create(kind, folder, **arguments))
        return opened[-1]

    yield create
    for one in opened:
        timm_runs.close(one)


def largest_difference(mine, theirs):
    """Over the batches of an epoch, which have equal targets."""
    differences = []
    for (images, labels), (other_images, other_labels) in zip(mine, theirs, strict=True):
        assert torch.equal(labels, other_labels) and images.shape == other_images.shape
        differences.append((images - other_images).abs().max().item())
    return max(differences)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"crop_pct": 0.95, "interpolation": "bicubic"},
        {"crop_pct": 1.0, "crop_mode": "squash", "interpolation": "bicubic"},
        {"input_size": (3, 32, 48), "crop_pct": 1.0, "crop_mode": "squash"},
        {"input_size": 40, "crop_pct": 0.9, "use_prefetcher": False, "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.3, 0.4)},
    ],
    ids=str,
)
def test_a_validation_has_upstreams_batches_each_time(create, folder, arguments):
    mine, theirs = create(folder, **arguments), create(folder, "upstream", **arguments)
    assert len(mine) == len(theirs) == 16 and len(mine.dataset) == len(theirs.dataset)
    for _ in range(2):
        assert largest_difference(mine, theirs) < 1e-5


@pytest.mark.parametrize("size", [32, (3, 32, 48)], ids=str)
def test_without_augmentation_a_photograph_looks_as_upstream_makes_it(create, by_photograph, size):
    arguments = {"is_training": True, "no_aug": True, "input_size": size, "interpolation": "random"}
    looks = []
    for kind in figures.KINDS:
        # A batch is memory of the loader, which has a few: what is kept is copied.
        pairs = [pair for images, labels in create(by_photograph, kind, **arguments) for pair in zip(images.clone(), labels)]
        looks.append(torch.stack([image for image, _ in sorted(pairs, key=lambda pair: pair[1].item())]))
    assert looks[0].shape == looks[1].shape and (looks[0] - looks[1]).abs().max() < 1e-5


def test_an_epoch_of_training_has_each_photograph_once_in_a_new_order(create, by_photograph):
    loader = create(by_photograph, is_training=True, **timm_runs.AUGMENTED)
    epochs = []
    for epoch in (0, 1):
        loader.sampler.set_epoch(epoch)
        epochs.append(torch.cat([labels for _, labels in loader]).tolist())
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(photos.SAMPLES)) and epochs[0] != epochs[1]


@pytest.mark.parametrize("given", ["collate_fn", "mixup_fn"])
def test_mixed_targets_are_timms_and_stay_soft_when_mixup_is_off(create, by_photograph, given):
    kind = {"collate_fn": FastCollateMixup, "mixup_fn": Mixup}[given]
    mixup = kind(mixup_alpha=0.8, cutmix_alpha=1.0, prob=1.0, label_smoothing=0.1, num_classes=photos.SAMPLES)
    loader = create(by_photograph, is_training=True, **{given: mixup})
    assert loader.mixup_enabled
    off = 0.1 / photos.SAMPLES
    for _, targets in loader:
        assert targets.shape == (figures.BATCH, photos.SAMPLES) and targets.dtype == torch.float32
        assert torch.allclose(targets.sum(1), torch.ones(figures.BATCH))
        # A sample and its partner, which timm counts from the batch's end.
        assert torch.equal(targets > off * 1.001, (targets > off * 1.001).flip(0)) and ((targets > off * 1.001).sum(1) == 2).all()
    loader.mixup_enabled = False
    assert not mixup.mixup_enabled
    for _, targets in loader:
        labels = targets.argmax(1)
        assert torch.allclose(targets, timm.data.mixup.mixup_target(labels, photos.SAMPLES, 1.0, 0.1))


def test_augmentation_follows_the_arguments(create, by_photograph):
    """A flip of every view gives the mirrored view of the same draws; a part is erased with `re_prob`."""
    plain = {"is_training": True, "color_jitter": None, "hflip": 0.0, "scale": (1.0, 1.0), "ratio": (1.0, 1.0)}
    upright, _ = next(iter(create(by_photograph, **plain)))
    for name, axis in (("hflip", 3), ("vflip", 2)):
        flipped, _ = next(iter(create(by_photograph, **{**plain, name: 1.0})))
        assert torch.equal(flipped.flip(axis), upright)
    erased, _ = next(iter(create(by_photograph, **plain, re_prob=1.0)))
    changed = (erased != upright).any(1)
    assert (erased.movedim(1, -1)[changed] == 0).all()
    assert changed.flatten(1).any(1).all()


REFUSED = {
    "re_split": {"re_split": True, "re_prob": 0.5},
    "re_count": {"re_count": 2, "re_prob": 0.5},
    "num_aug_repeats": {"num_aug_repeats": 3, "distributed": True},
    "num_aug_splits": {"num_aug_splits": 3},
    "train_crop_mode": {"train_crop_mode": "rkrc"},
    "gaussian_blur_prob": {"gaussian_blur_prob": 0.1},
    "tf_preprocessing": {"tf_preprocessing": True},
    "input_size_choices": {"input_size_choices": [32, 48]},
    "num_batches": {"num_batches": 4},
    "collate_fn": {"collate_fn": list},
    "interpolation": {"interpolation": "lanczos"},
    "img_dtype": {"img_dtype": torch.float64},
    "input_size": {"input_size": (1, 32, 32)},
    "mean": {"mean": (0.5,)},
    "batch_size": {"batch_size": 15, "collate_fn": timm_runs.mixup()},
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_without_a_counterpart_is_refused_by_its_name(folder, name):
    with pytest.raises(headwater.ConfigError, match=rf"`{name}=.* of create_loader has no counterpart: .+"):
        timm_runs.create("headwater", folder, is_training=True, **REFUSED[name])


@pytest.mark.parametrize("text", ["original-mstd0.5", "rand-m9-tweights", "rand-m9-mmax12", "3a", "augmix-m5-b1"])
def test_a_policy_that_recipes_do_not_have_is_refused(folder, text):
    with pytest.raises(headwater.ConfigError, match=rf"`auto_augment='{text}'` of create_loader has no counterpart"):
        timm_runs.create("headwater", folder, is_training=True, auto_augment=text)


@pytest.mark.parametrize("arguments", [{"crop_mode": "border"}, {"crop_border_pixels": 2}, {"crop_mode": "squash", "crop_pct": 0.9}], ids=str)
def test_a_validation_that_recipes_do_not_have_is_refused(folder, arguments):
    with pytest.raises(headwater.ConfigError, match="has no counterpart"):
        timm_runs.create("headwater", folder, **arguments)


def test_policies_have_the_numbers_of_their_text():
    from headwater.integrations._timm_recipe import _policy

    given = {"interpolation": "random", "mean": (0.485, 0.456, 0.406)}
    look = {"interpolation": "random", "fill": [124, 116, 104]}
    (rand,) = _policy("rand-m7-n3-mstd1-inc1-p0.3", given)
    assert rand == {"op": "timm_rand_augment", "num_ops": 3, "magnitude": 7.0, "magnitude_std": 1.0, "increasing": True, "p": 0.3, **look}
    (usual,) = _policy("rand", given)
    assert usual == {"op": "timm_rand_augment", "num_ops": 2, "magnitude": 10.0, "magnitude_std": 0.0, "increasing": False, "p": 0.5, **look}
    (augmix,) = _policy("augmix-m5-w4-d2", {**given, "interpolation": "bilinear"})
    assert augmix == {"op": "timm_aug_mix", "magnitude": 5.0, "width": 4, "depth": 2, "alpha": 1.0, **look, "interpolation": "bilinear"}


def test_classes_with_other_numbers_than_in_timm_are_refused(tmp_path):
    from PIL import Image

    for name in ("class-2", "class-10"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (40, 40)).save(tmp_path / name / "a.png")
    with pytest.raises(headwater.ConfigError, match="class 0 is 'class-10' here and 'class-2' in timm"):
        timm_runs.create("headwater", tmp_path)


def test_an_open_loader_is_taken_as_it_is_or_refused(folder):
    recipe = {"preset": "imagenet-train", "image_size": 32, "dtype": "f32"}
    with headwater.Loader(folder, recipe=recipe, batch_size=4, embedded="threads") as opened:
        cpu = {"is_training": True, "device": "cpu"}
        images, labels = next(iter(create_loader(opened, 32, 4, **cpu)))
        assert images.shape == (4, 3, 32, 32) and labels.dtype == torch.int64
        with pytest.raises(headwater.ConfigError, match="`scale=.*` belongs to the Loader"):
            create_loader(opened, 32, 4, scale=(0.5, 1.0), **cpu)
        with pytest.raises(headwater.ConfigError, match="the Loader has images of 32 x 32"):
            create_loader(opened, 48, 4, **cpu)
        with pytest.raises(headwater.ConfigError, match="the Loader has 4"):
            create_loader(opened, 32, 8, **cpu)
        with pytest.raises(headwater.ConfigError, match="the Loader has no `mixing`"):
            create_loader(opened, 32, 4, mixup_fn=timm_runs.mixup(), **cpu)


def test_a_dataset_of_timm_is_refused_with_its_path(folder):
    with pytest.raises(headwater.ConfigError, match=f"give its path, '{folder}'"):
        create_loader(timm.data.ImageDataset(str(folder)), 32, 4, device="cpu")


def test_the_loss_is_that_of_upstream(folder):
    """Of 12 seeds, as three lie close together at times: docs/integrations/README.md has 160. 100 steps gain 0.9."""
    upstream, mine = ([statistics.mean(timm_runs.losses(kind, folder, seed, 100)[-20:]) for seed in range(12)] for kind in figures.KINDS)
    error = math.sqrt((statistics.variance(upstream) + statistics.variance(mine)) / 12)
    assert abs(statistics.mean(mine) - statistics.mean(upstream)) <= 3 * error < 0.03


def test_a_killed_training_that_is_resumed_repeats_and_loses_no_sample(by_photograph, tmp_path):
    upstream, mine = (
        figures.resumed("timm_runs", kind, str(by_photograph), tmp_path / kind, photos.SAMPLES, seed=7) for kind in figures.KINDS
    )
    assert (mine.repeated, mine.lost) == (0, 0)
    # timm goes on with the next epoch.
    assert (upstream.repeated, upstream.lost) == (0, photos.SAMPLES - upstream.saved * figures.BATCH)
