"""Recipes beyond the ones that other tests use."""

import tarfile

import headwater
import numpy
import pytest
from conftest import PHOTOS

SMALL = {
    "global_crops_size": 48,
    "local_crops_size": 24,
    "patch_size": 8,
    "local_crops_number": 4,
    "localcrops_subset_of_globalcrops": True,
    "share_color_jitter": True,
}


def recipe(**options):
    return {"preset": "dinov3", "dtype": "u8", "dinov3": {**SMALL, **options}}


def test_local_views_of_dinov3_are_windows_of_the_global_ones(make):
    # Without blur nothing but the window differs; where it was drawn, it changes at most much.
    batch = next(iter(make(recipe=recipe())))
    globals_, locals_ = batch.global_crops.numpy(), batch.local_crops.numpy()
    assert globals_.shape == (8, 3, 48, 48) and locals_.shape == (16, 3, 24, 24)
    found = 0
    # Global view 0 is never blurred, so a local view that is not either lies in it as it is.
    for view in range(2):
        for sample in range(4):
            whole, window = globals_[sample], locals_[view * 4 + sample]
            places = [(y, x) for y in range(0, 24, 8) for x in range(0, 24, 8)]
            found += any(
                numpy.array_equal(whole[:, y : y + 24, x : x + 24], window) for y, x in places
            )
    # One half of the local views is not blurred.
    assert 1 <= found <= 7


def test_gram_views_are_the_global_ones_at_another_size(make):
    batch = next(iter(make(recipe=recipe(gram_crops_size=96))))
    gram = batch.gram_crops.numpy().astype("f4")
    assert gram.shape == (8, 3, 96, 96)
    smaller = gram.reshape(8, 3, 48, 2, 48, 2).mean(axis=(3, 5))
    difference = numpy.abs(smaller - batch.global_crops.numpy())[:4]
    # Global view 0 has no distortion of its own; bicubic and box filters differ a little.
    assert difference.mean() < 4, difference.mean()


def test_dinov3_for_a_vit_l_is_dinov2(make):
    digests = [next(iter(make(recipe=name, batch_size=2))).digest for name in ("dinov2", "dinov3-vitl")]
    assert digests[0] == digests[1]


def test_options_are_refused_by_their_key(make):
    for given, message in [
        (recipe(local_crops_number=3), "dinov3.local_crops_number` is 3: must be even"),
        ({"preset": "dinov2", "dinov3": {}}, "`recipe.dinov3` is beside preset `dinov2`"),
        ({"preset": "dinov3", "dinov3": {"crops": 3}}, "unknown key `recipe.dinov3.crops`: known keys"),
        ({"preset": "dinov3", "image_ops": [{"op": "grayscale", "p": 1}]}, "recipe.image_ops.*custom"),
    ]:
        with pytest.raises(headwater.ConfigError, match=message):
            make(recipe=given)


def photos():
    """Encoded bytes of each sample of `photos` by its key."""
    with tarfile.open(PHOTOS / "photos-000001.tar") as shard:
        images = (".jpg", ".jpeg", ".png", ".webp")
        members = [member for member in shard if member.name.endswith(images)]
        return {m.name.split(".")[0]: shard.extractfile(m).read() for m in members}


def delivered(batch):
    sizes = batch.image_sizes.numpy()
    rows = batch.image_bytes.numpy()
    assert all((row[size:] == 0).all() for row, size in zip(rows, sizes))
    return [row[:size].tobytes() for row, size in zip(rows, sizes)]


def test_raw_samples_are_the_shards_own_bytes(make, labels):
    known = photos()
    loader = make(recipe="raw")
    assert [loader.recipe["raw"]["bytes_max"], loader.recipe["tensors"]] == [1 << 20, []]
    for _, batch in zip(range(3), loader):
        assert set(batch.tensors) == {"image_bytes", "image_sizes", "labels"}
        assert batch.image_bytes.shape == (4, 1 << 20) and batch.image_sizes.dtype == "i64"
        assert delivered(batch) == [known[key] for key in batch.keys]
        assert batch.labels.numpy().tolist() == [labels[key] for key in batch.keys]


def test_raw_samples_that_are_too_large_are_replaced_or_refused(make):
    known = photos()
    limit = sorted(map(len, known.values()))[len(known) * 3 // 4]
    recipe = {"preset": "raw", "raw_bytes_max": limit}
    replaced = {}
    for batch in make(recipe=recipe):
        assert delivered(batch) == [known[key] for key in batch.keys]
        assert all(len(known[key]) <= limit for key in batch.keys)
        replaced.update(batch.substituted)
    assert any(f"more than {limit}: raise recipe.raw_bytes_max" in r for r in replaced.values())
    with pytest.raises(headwater.WorkerError, match=f"bytes, more than {limit}"):
        list(make(recipe=recipe, on_bad_sample="fail"))
    with pytest.raises(headwater.ConfigError, match="`recipe.raw_bytes_max` is 0: must be from 1 to 67108864"):
        make(recipe={"preset": "raw", "raw_bytes_max": 0})
