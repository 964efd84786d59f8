"""Recipes beyond the ones that other tests use."""

import headwater
import numpy
import pytest

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
        ({"preset": "dinov2", "dinov3": {}}, "`dinov3` is beside preset `dinov2`"),
        ({"preset": "dinov3", "dinov3": {"crops": 3}}, "recipe.dinov3.*crops"),
        ({"preset": "dinov3", "bases": []}, "recipe.tensors.*custom"),
    ]:
        with pytest.raises(headwater.ConfigError, match=message):
            make(recipe=given)
