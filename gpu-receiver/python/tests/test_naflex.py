"""Sequences of patches beside Pillow and a plain copy of timm's definitions in NumPy; libs/render has the comparison with the package."""

import math

import headwater
import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

IMAGES, PATCH, LENGTHS = 90, 8, [24, 12, 48]
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    """Images of several shapes; the first pixel has the number."""
    folder, random = tmp_path_factory.mktemp("images"), np.random.default_rng(3)
    for number in range(IMAGES):
        height, width = (int(side) for side in random.integers(9, 90, 2))
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        (folder / str(number % 3)).mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / str(number % 3) / f"{number:03}.png")
    return folder


def opened(root, rank=0, world_size=1, crop="sequence", **options):
    tensor = {
        "name": "patches",
        "dtype": "f32",
        "patch_size": PATCH,
        "sequence_lengths": LENGTHS,
        "batch_divisor": 4,
        "views": [{"crop": {"kind": crop, **({"scale": [0.2, 1.0], "ratio": [0.8, 1.25]} if "random" in crop else {})}}],
    }
    return headwater.Loader(
        str(root),
        recipe={"preset": "custom", "resize_passes": "pillow-13", "tensors": [tensor]},
        batch_size=8 // world_size,
        rank=rank,
        world_size=world_size,
        seed=5,
        embedded="threads",
        **options,
    )


def size(image, length):
    """timm's `get_image_size_for_seq`."""

    def sides(ratio):
        return [int(max(PATCH * math.ceil(side * ratio / PATCH), PATCH)) for side in (image.height, image.width)]

    low, high = 1e-6, 100.0
    while high - low >= 1e-5:
        middle = (low + high) / 2
        down, across = (side // PATCH for side in sides(middle))
        low, high = (middle, high) if down * across <= length else (low, middle)
    return sides(low)


def patches(path, length):
    with Image.open(path) as image:
        height, width = size(image, length)
        pixels = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC))
    values = (pixels.astype(np.float32) / np.float32(255) - MEAN) / STD
    grid = values.reshape(height // PATCH, PATCH, width // PATCH, PATCH, 3).transpose(0, 2, 1, 3, 4)
    return grid.reshape(-1, PATCH * PATCH * 3), (height // PATCH, width // PATCH)


def taken(loader, epochs=1):
    with loader:
        found = []
        for _ in range(epochs):
            found += [({name: one.clone() for name, one in batch.torch().items()}, batch.group, list(batch.keys)) for batch in loader]
        return found


def test_patches_are_timms_and_pillows(root):
    batches = taken(opened(root))
    assert {group for _, group, _ in batches} == {0, 1, 2}
    seen = []
    for tensors, group, keys in batches:
        length = LENGTHS[group]
        assert tensors["patches"].shape == ({24: 8, 12: 16, 48: 4}[length], length, PATCH * PATCH * 3)
        for row, key in enumerate(keys):
            seen.append(key)
            expected, (down, across) = patches(root / key, length)
            count = down * across
            np.testing.assert_array_equal(tensors["patches"][row, :count], expected)
            assert not tensors["patches"][row, count:].any()
            places = np.stack(np.meshgrid(np.arange(down), np.arange(across), indexing="ij"), -1).reshape(-1, 2)
            np.testing.assert_array_equal(tensors["patches_coord"][row, :count], places)
            assert not tensors["patches_coord"][row, count:].any()
            np.testing.assert_array_equal(tensors["patches_valid"][row], np.arange(length) < count)
            assert int(tensors["labels"][row]) == int(key.split("/")[0])
    assert len(set(seen)) == len(seen) >= IMAGES - 16


def test_the_schedule_and_the_batches_are_the_same_for_any_number_of_ranks(root):
    whole = taken(opened(root, crop="random_resized_sequence"), epochs=2)
    assert [group for _, group, _ in whole[: len(whole) // 2]] != [group for _, group, _ in whole[len(whole) // 2 :]]
    for world_size in (2, 4):
        ranks = [taken(opened(root, rank, world_size, crop="random_resized_sequence"), epochs=2) for rank in range(world_size)]
        assert all(len(rank) == len(whole) for rank in ranks)
        for (tensors, group, _), *of_ranks in zip(whole, *ranks):
            assert {one[1] for one in of_ranks} == {group}
            for name, tensor in tensors.items():
                assert torch.equal(tensor, torch.cat([one[0][name] for one in of_ranks]))


def test_a_run_resumes_in_mid_epoch_on_another_number_of_ranks(root):
    whole = taken(opened(root))
    with opened(root, 1, 2) as loader:
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        state = loader.state_dict()
    rest = opened(root)
    rest.load_state_dict(state)
    rest = taken(rest)
    assert len(rest) == len(whole) - 4
    for (mine, group, _), (theirs, expected, _) in zip(rest, whole[4:]):
        assert group == expected and torch.equal(mine["patches"], theirs["patches"])


def test_an_evaluation_of_one_length_has_each_image_once(root):
    tensor = {"name": "patches", "dtype": "f32", "patch_size": PATCH, "sequence_lengths": [24], "views": [{"crop": {"kind": "sequence"}}]}
    recipe = {"preset": "custom", "resize_passes": "pillow-13", "tensors": [tensor]}
    batches = taken(headwater.Loader(str(root), recipe=recipe, batch_size=16, epoch_end="exact", embedded="threads"))
    keys = [key for _, group, keys in batches for key in keys if group is None]
    assert len(keys) == len(set(keys)) == IMAGES
    for tensors, _, keys in batches:
        for row, key in enumerate(keys):
            expected, (down, across) = patches(root / key, 24)
            np.testing.assert_array_equal(tensors["patches"][row, : down * across], expected)


def test_timms_loader_gives_timms_batches(root):
    from headwater.integrations.timm import create_naflex_loader

    kept = {"patch_size": PATCH, "device": "cpu", "interpolation": "bicubic", "embedded": "threads"}
    train = create_naflex_loader(str(root), **kept, train_seq_lens=(12, 24, 48), batch_size=8, is_training=True, color_jitter=None)
    assert train.loader.recipe["tensors"][0]["views"][0]["crop"]["kind"] == "random_resized_sequence"
    lengths = set()
    for inputs, target in train:
        batch, length, values = inputs["patches"].shape
        lengths.add((length, batch))
        assert inputs["seq_len"] == length and values == 3 * PATCH * PATCH and target.dtype == torch.int64
        assert inputs["patch_coord"].shape == (batch, length, 2) and inputs["patch_valid"].shape == (batch, length)
        assert (inputs["patch_valid"].sum(1) <= length).all() and inputs["patch_valid"][:, 0].all()
    assert lengths <= {(48, 8), (24, 16), (12, 32)} and len(train) > 2
    train.close()
    valid = create_naflex_loader(str(root), **kept, max_seq_len=24, batch_size=16)
    for _ in range(2):
        found = [(inputs["patches"].clone(), len(target)) for inputs, target in valid]
        assert sum(count for _, count in found) == IMAGES
        files = sorted(root.rglob("*.png"))
        for row in range(16):
            expected, (down, across) = patches(files[row], 24)
            np.testing.assert_array_equal(found[0][0][row, : down * across], expected)
    valid.close()


def test_timms_loader_takes_any_number_of_ranks_and_timms_classes_only(root, tmp_path):
    from headwater.integrations.timm import create_naflex_loader

    kept = {"patch_size": PATCH, "device": "cpu", "embedded": "threads", "is_training": True, "train_seq_lens": (24,), "batch_size": 8}
    for rank in range(3):
        loader = create_naflex_loader(str(root), **{**kept, "train_seq_lens": (24, 12)}, distributed=True, rank=rank, world_size=3)
        shapes = [inputs["patches"].shape[:2] for inputs, _ in loader]
        assert shapes and set(shapes) <= {(8, 24), (16, 12)}
        loader.close()
    for name in ("class-2", "class-10"):
        (tmp_path / name).mkdir()
        for number in range(8):
            Image.new("RGB", (30, 20)).save(tmp_path / name / f"{number}.png")
    with pytest.raises(headwater.ConfigError, match="class 0 is 'class-10' here and 'class-2' in timm"):
        create_naflex_loader(str(tmp_path), **kept)


def test_an_evaluation_is_divided_among_the_ranks_of_torch_distributed(root, monkeypatch):
    from headwater.integrations.timm import create_naflex_loader

    kept = {"patch_size": PATCH, "device": "cpu", "embedded": "threads", "max_seq_len": 24, "batch_size": 8, "distributed": True}
    found = []
    # As torchrun says it, and as timm's training script asks: `distributed`, without rank and world size.
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with create_naflex_loader(str(root), **kept).loader as loader:
            found.append({key for batch in loader for key in batch.keys})
    assert all(IMAGES // 2 <= len(keys) < IMAGES * 2 // 3 for keys in found) and len(found[0] | found[1]) == IMAGES


def test_a_training_of_one_length_has_batches_of_multiples_of_eight_as_timm(root):
    from headwater.integrations.timm import create_naflex_loader

    kept = {"patch_size": PATCH, "device": "cpu", "embedded": "threads", "is_training": True}
    loader = create_naflex_loader(str(root), **kept, train_seq_lens=(24,), batch_size=12)
    shapes = {inputs["patches"].shape[:2] for inputs, _ in loader}
    loader.close()
    assert shapes == {(8, 24)}


def test_a_training_of_timms_goes_on_with_fewer_ranks(root):
    from headwater.integrations.timm import create_naflex_loader

    kept = {"patch_size": PATCH, "device": "cpu", "embedded": "threads", "is_training": True, "train_seq_lens": (24, 12)}
    kept |= {"batch_divisor": 16, "distributed": True, "color_jitter": None}
    ranks = [create_naflex_loader(str(root), **kept, batch_size=8, rank=rank, world_size=2) for rank in range(2)]
    whole = [[inputs["patches"].clone() for inputs, _ in loader] for loader in ranks]
    state = None
    for loader in ranks:
        loader.loader.set_epoch(0)
        next(iter(loader))
        state = loader.state_dict()
        loader.close()
    rest = create_naflex_loader(str(root), **kept, batch_size=16)
    rest.load_state_dict(state)
    expected = [torch.cat(batches) for batches in zip(*whole)][1:]
    found = [inputs["patches"].clone() for inputs, _ in rest]
    rest.close()
    assert len(found) == len(expected) > 1 and all(map(torch.equal, found, expected))


def test_groups_of_a_list_are_no_lengths(root):
    tensor = {"name": "patches", "dtype": "f32", "patch_size": PATCH, "sequence_lengths": [24], "views": [{"crop": {"kind": "sequence"}}]}
    order, groups = list(range(64)), [number // 16 for number in range(64)]
    recipe = {"preset": "custom", "tensors": [tensor]}
    loader = headwater.Loader(str(root), recipe=recipe, batch_size=16, order=order, order_groups=groups, embedded="threads")
    with loader:
        assert sorted(batch.group for batch in loader) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ({"patch_size": (8, 16)}, r"`patch_size=\(8, 16\)` of create_naflex_loader .* squares"),
        ({"patch_size_choices": [8, 16], "is_training": True}, "`patch_size_choices"),
        ({"mixup_fn": object(), "is_training": True}, "sequences are not mixed"),
        ({"re_prob": 0.5, "is_training": True}, "timm erases whole patches"),
        ({"patchify_channels_last": False}, "`patchify_channels_last=False` .* permute patches in the model"),
        ({"batch_size": 4, "is_training": True}, "`batch_size=4` of create_naflex_loader .* give 8 or more"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_timm_has_and_we_do_not_is_refused_by_name(root, argument, named):
    from headwater.integrations.timm import create_naflex_loader

    with pytest.raises(headwater.ConfigError, match=named):
        create_naflex_loader(str(root), **argument, device="cpu", embedded="threads")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"epoch_end": "short_last"}, "ends with a short batch"),
        ({"order": list(range(40))}, "a list"),
        ({"batch_size": 6, "world_size": 3}, "`batch_divisor` is 4, which 3 ranks do not divide"),
        ({"batch_size": 3}, "fewer than `batch_divisor`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_schedule_is_refused(root, options, named):
    tensor = {"name": "patches", "dtype": "f32", "patch_size": 8, "sequence_lengths": LENGTHS, "batch_divisor": 4}
    recipe = {"preset": "custom", "tensors": [{**tensor, "views": [{"crop": {"kind": "sequence"}}]}]}
    with pytest.raises(headwater.ConfigError, match=named):
        headwater.Loader(str(root), recipe=recipe, **{"batch_size": 8, **options}, rank=0, embedded="threads")
