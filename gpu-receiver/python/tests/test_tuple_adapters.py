"""headwater.integrations.mae and .ijepa: tuples as upstream's loops take them, beside PyTorch's own DataLoader."""

import headwater
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

from headwater.integrations.ijepa import make_imagenet1k  # noqa: E402
from headwater.integrations.mae import DataLoader  # noqa: E402
from PIL import Image  # noqa: E402
from torch.utils import data  # noqa: E402
from torchvision import datasets, transforms  # noqa: E402

IMAGES, BATCH, CLASSES = 23, 4, 3
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
FLOATS = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
WHOLE = transforms.Compose([transforms.Resize((16, 24), interpolation=3), *FLOATS])
RANDOM = transforms.Compose([transforms.RandomResizedCrop(16, scale=(0.2, 1.0), interpolation=3), transforms.RandomHorizontalFlip(), *FLOATS])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Images of one colour and a stripe each, in folders of classes."""
    folder = tmp_path_factory.mktemp("images") / "train"
    for number in range(IMAGES):
        of_class = folder / f"class-{number % CLASSES}"
        of_class.mkdir(parents=True, exist_ok=True)
        image = Image.new("RGB", (40, 32), (11 * number, 255 - 11 * number, 7 * number))
        image.paste((0, 0, 0), (number, 0, number + 8, 32))
        image.save(of_class / f"image-{number:02}.png")
    return folder


@pytest.fixture
def opened():
    """Opens loaders, and closes them."""
    kept = []

    def opened(kind, *given, **named):
        made = kind(*given, **named, embedded="threads")
        kept.append(made[1] if isinstance(made, tuple) else made)
        return made

    yield opened
    for one in kept:
        one.close()


def copied(batches):
    return [tuple(one.clone() for one in batch) for batch in batches]


def is_same(mine, theirs):
    same = [torch.equal(a[1], b[1]) and torch.allclose(a[0], b[0], atol=1e-5) for a, b in zip(mine, theirs, strict=True)]
    return all(same)


class Collator:
    """The attributes of I-JEPA's multi-block MaskCollator."""

    def __init__(self, patch=4, side=32, nenc=1, npred=3, min_keep=2, **others):
        self.patch_size, self.height, self.width = patch, side // patch, side // patch
        self.enc_mask_scale, self.pred_mask_scale, self.aspect_ratio = [0.85, 1.0], [0.15, 0.2], [0.75, 1.5]
        self.nenc, self.npred, self.min_keep, self.allow_overlap = nenc, npred, min_keep, False
        vars(self).update(others)


def ijepa(side=32):
    return transforms.Compose([transforms.RandomResizedCrop(side, scale=(0.3, 1.0)), *FLOATS])


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_in_order_are_those_of_pytorchs_loader(root, opened, drop_last):
    folder = datasets.ImageFolder(str(root), transform=WHOLE)
    mine = opened(DataLoader, folder, batch_size=BATCH, drop_last=drop_last, num_workers=2, pin_memory=True)
    theirs = data.DataLoader(folder, batch_size=BATCH, drop_last=drop_last)
    for _ in range(2):
        assert is_same(mine, theirs)
    assert len(mine) == len(theirs) and len(mine.dataset) == len(theirs.dataset) and mine.batch_size == BATCH
    images, labels = next(iter(mine))
    assert images.dtype == torch.float32 and labels.dtype == torch.int64


@pytest.mark.parametrize("of_path", [False, True])
def test_ranks_of_a_sampler_have_each_image_once_in_a_new_order_each_epoch(root, opened, of_path):
    folder = datasets.ImageFolder(str(root), transform=WHOLE)
    epochs = []
    for rank in (0, 1):
        sampler = data.DistributedSampler(folder, num_replicas=2, rank=rank, shuffle=True, seed=5)
        given = {"dataset": str(root), "transform": WHOLE} if of_path else {"dataset": folder}
        loader = opened(DataLoader, **given, sampler=sampler, batch_size=BATCH, drop_last=True)
        assert loader.loader.config["seed"] == 5 and len(loader) == IMAGES // (2 * BATCH)
        for epoch in (0, 1, 1):
            loader.sampler.set_epoch(epoch)
            epochs.append(torch.cat([images for images, _ in copied(loader)]))
    for of_ranks in zip(epochs[:3], epochs[3:]):
        assert len(torch.unique(torch.cat(of_ranks).flatten(1), dim=0)) == 2 * BATCH * (IMAGES // (2 * BATCH))
    assert torch.equal(epochs[1], epochs[2]) and not torch.equal(epochs[0], epochs[1])


@pytest.mark.parametrize("steps", [0, 2, 4, 5])
def test_a_resumed_loader_goes_on_with_the_next_batch(root, opened, steps):
    """Of 5 batches: also where the last one was just taken, and the loop has not ended yet."""

    def mae():
        return opened(DataLoader, str(root), BATCH, shuffle=True, drop_last=True, transform=RANDOM)

    whole = mae()
    whole = [copied(whole), copied(whole)]
    before = mae()
    batches = iter(before)
    for _ in range(steps):
        next(batches)
    state = before.state_dict()
    after = mae()
    epoch = after.resume(state)
    assert (epoch, after.step) == divmod(steps, 5)
    after.set_epoch(epoch)
    assert is_same(copied(after), whole[epoch][steps % 5 :])
    assert is_same(copied(after), [*whole, whole[0]][epoch + 1]) or epoch == 1


def test_the_recipe_is_the_preset_in_the_order_of_passes_of_pillow_13(root, opened, make):
    mae = transforms.Compose([transforms.RandomResizedCrop(224, scale=(0.2, 1.0), interpolation=3), *RANDOM.transforms[1:]])
    loaders = {
        "mae": opened(DataLoader, str(root), BATCH, transform=mae),
        "ijepa": opened(make_imagenet1k, ijepa(224), BATCH, root_path=str(root))[1],
    }
    for preset, loader in loaders.items():
        expected = make(recipe={"preset": preset, "dtype": "f32", "resize_passes": "pillow-13"}).recipe
        assert loader.loader.recipe == expected


def test_pillows_blur_stands_behind_the_colours(root, opened):
    class GaussianBlur:
        prob, radius_min, radius_max = 0.5, 0.1, 2.0

    jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    steps = [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), jitter, GaussianBlur(), *FLOATS]
    _, loader, _ = opened(make_imagenet1k, transforms.Compose(steps), BATCH, root_path=str(root))
    (view,) = loader.loader.recipe["tensors"][0]["views"]
    assert [(one["op"], one["p"]) for one in view["ops"]] == [("flip", 0.5), ("color_jitter", 0.8), ("pil_blur", 0.5)]
    assert view["ops"][-1]["radius"] == [0.1, 2.0]


def test_blocks_of_patches_are_lists_with_the_collators_numbers(root, opened):
    collator = Collator(nenc=2, npred=3)
    dataset, loader, sampler = opened(
        make_imagenet1k, ijepa(), BATCH, collator=collator, root_path=str(root.parent), image_folder=".", num_workers=2
    )
    assert len(dataset) == IMAGES and len(loader) == IMAGES // BATCH and sampler is not None
    kept = loader.loader.config["patches"]
    assert (kept["patch"], kept["num_enc_masks"], kept["num_pred_masks"], kept["min_keep"]) == (4, 2, 3, 2)
    assert [kept[key] for key in ("enc_mask_scale", "pred_mask_scale", "aspect_ratio")] == [[0.85, 1.0], [0.15, 0.2], [0.75, 1.5]]
    labels = []
    for (images, of_batch), masks_enc, masks_pred in loader:
        labels += of_batch.tolist()
        assert images.shape == (BATCH, 3, 32, 32) and images.dtype == torch.float32
        assert isinstance(masks_enc, list) and len(masks_enc) == 2 and isinstance(masks_pred, list) and len(masks_pred) == 3
        for masks in (masks_enc, masks_pred):
            assert all(one.dtype == torch.int64 and one.shape == masks[0].shape and len(one) == BATCH for one in masks)
        for row in range(BATCH):
            targets = {patch for one in masks_pred for patch in one[row].tolist()}
            assert not any(targets & set(one[row].tolist()) for one in masks_enc)
    assert len(labels) == BATCH * (IMAGES // BATCH) and set(labels) == set(range(CLASSES))


def test_a_resumed_run_has_the_same_blocks(root, opened):
    def loader():
        return opened(make_imagenet1k, ijepa(), BATCH, collator=Collator(), root_path=str(root), seed=2)[1]

    def taken(batches):
        return [[one.clone() for one in (*images, *enc, *pred)] for images, enc, pred in batches]

    first = loader()
    whole = [taken(first), taken(first)]
    before = loader()
    batches = iter(before)
    for _ in range(3):
        next(batches)
    after = loader()
    assert after.resume(before.state_dict()) == 0 and after.step == 3
    found = [taken(after), taken(after)]
    expected = [whole[0][3:], whole[1]]
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for batch, again in zip(one, other, strict=True) for a, b in zip(batch, again, strict=True))


def test_ranks_have_blocks_of_one_size_at_places_of_their_own(root, opened):
    ranks = []
    for rank in (0, 1):
        _, loader, _ = opened(make_imagenet1k, ijepa(), BATCH, Collator(), root_path=str(root), world_size=2, rank=rank)
        ranks.append([[one.clone() for one in (*images, *pred)] for images, _, pred in loader])
    assert [len(rank) for rank in ranks] == [IMAGES // (2 * BATCH)] * 2
    for one, other in zip(*ranks):
        assert [a.shape for a in one] == [b.shape for b in other]
        assert not torch.equal(one[0], other[0]) and not torch.equal(one[2], other[2])


def test_without_a_collator_batches_are_images_and_labels(root, opened):
    _, loader, _ = opened(make_imagenet1k, ijepa(), BATCH, root_path=str(root), drop_last=False)
    assert sum(len(labels) for _, labels in loader) == IMAGES and isinstance(next(iter(loader)), list)


class Mine(data.Sampler):
    pass


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"sampler": Mine()}, "`sampler=Mine` of DataLoader has no counterpart"),
        ({"sampler": data.RandomSampler(range(9), num_samples=5)}, "`sampler=RandomSampler with"),
        ({"sampler": data.SequentialSampler(range(9)), "shuffle": True}, "`sampler` and `shuffle` are both given"),
        ({"collate_fn": list}, "`collate_fn` is not a keyword of the loader"),
        ({"transform": None}, "`transform` is not given"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_mae_does_not_have_is_refused_by_its_name(root, arguments, named):
    with pytest.raises(headwater.ConfigError, match=named):
        DataLoader(str(root), BATCH, **{"transform": WHOLE, **arguments}, embedded="threads")


@pytest.mark.parametrize(
    ("of_folder", "arguments", "named"),
    [
        ({"target_transform": str}, {}, "`target_transform` of ImageFolder has no counterpart"),
        ({"loader": Image.open}, {}, "`loader` of ImageFolder has no counterpart"),
        ({}, {"transform": WHOLE}, "`transform` and `dataset` are both given"),
        ({"is_valid_file": lambda path: "-01" not in path}, {}, "`dataset` has the images 22, and the loader 23: give the path"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_folder_of_torchvision_with_more_than_images_is_refused(root, of_folder, arguments, named):
    folder = datasets.ImageFolder(str(root), transform=WHOLE, **of_folder)
    with pytest.raises(headwater.ConfigError, match=named):
        DataLoader(folder, BATCH, **arguments, embedded="threads")


def test_a_folder_of_torchvision_may_have_images_that_filters_leave_out(root, opened):
    folder = datasets.ImageFolder(str(root), transform=WHOLE)
    wide = root / "class-0" / "wide.png"
    Image.new("RGB", (90, 32)).save(wide)
    try:
        loader = opened(DataLoader, folder, BATCH, filters=[{"kind": "width", "max": 50}])
        assert len(loader.dataset) == len(folder) == IMAGES
        narrow = opened(DataLoader, datasets.ImageFolder(str(root), transform=WHOLE), BATCH, filters=[{"kind": "width", "max": 50}])
        assert len(narrow.dataset) == IMAGES
    finally:
        wide.unlink()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"copy_data": True}, "`copy_data=True` of make_imagenet1k has no counterpart"),
        ({"subset_file": "some.txt"}, "`subset_file=some.txt` of make_imagenet1k has no counterpart"),
        ({"collator": list}, "`collator=type` of make_imagenet1k has no counterpart"),
        ({"collator": Collator(side=64)}, "`collator of 16 x 16 patches` of make_imagenet1k .* images have 32 x 32 pixels"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_ijepa_does_not_have_is_refused_by_its_name(root, arguments, named):
    with pytest.raises(headwater.ConfigError, match=named):
        make_imagenet1k(ijepa(), BATCH, root_path=str(root), **arguments, embedded="threads")
