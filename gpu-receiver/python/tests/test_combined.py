"""headwater.CombinedLoader: the loaders that DINOv3's own class draws, and a resume between any two steps."""

import headwater
import numpy
import pytest
from conftest import SMALL

RATIOS = (0.3, 0.3, 0.3, 0.05, 0.05)


def at(size):
    """SMALL with global crops of another size."""
    large, local = SMALL["tensors"]
    return {"tensors": [{**large, "height": size, "width": size}, local]}


@pytest.fixture
def combined(tiers):
    """Makes combined loaders of two sizes, and closes them."""
    made = []

    def make(ratios=(0.7, 0.3), **options):
        loaders = [headwater.Loader(**tiers.keywords(recipe=at(size), seed=number, **options)) for number, size in enumerate((32, 48))]
        made.append(headwater.CombinedLoader(loaders, ratios))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def taken(loader, steps):
    """Size and keys of the next batches."""
    batches = iter(loader)
    return [(batch.global_crops.shape[-1], tuple(batch.keys)) for _, batch in zip(range(steps), batches)]


def test_the_loaders_are_those_that_dinov3_draws():
    # homogeneous_iterator of dinov3/data/meta_loaders.py, in its own words.
    rng = numpy.random.default_rng(seed=65537)
    theirs = [rng.choice(5, p=RATIOS) for _ in range(1000)]
    ours = headwater.CombinedLoader([None] * 5, RATIOS)
    assert [ours.loader_of(step) for step in range(1000)] == theirs
    assert headwater.CombinedLoader([None] * 5, [6, 6, 6, 1, 1]).loader_of(999) == theirs[999]


def test_batches_come_of_both_and_a_run_goes_on_where_its_state_was_taken(combined):
    whole = taken(combined(), 24)
    assert {size for size, _ in whole} == {32, 48}
    # Each loader's batches are its own, in order.
    for number, size in enumerate((32, 48)):
        own = [keys for of_size, keys in whole if of_size == size]
        with combined().loaders[number] as loader:
            first_epoch = own[: len(loader)]
            assert first_epoch == [tuple(batch.keys) for batch, _ in zip(loader, range(len(first_epoch)))]
    for cut in (0, 7, 23):
        before = combined()
        assert taken(before, cut) == whole[:cut] and before.step == cut
        after = combined()
        after.load_state_dict(before.state_dict())
        assert taken(after, 24 - cut) == whole[cut:]


def test_a_step_is_found_without_a_state(combined):
    whole = taken(combined(), 44)
    # An epoch has 16 batches: by step 40 a loader is in its second one.
    for cut in (0, 1, 17, 40):
        after = combined()
        after.seek(cut)
        assert after.step == cut and taken(after, 44 - cut) == whole[cut:]
    after.seek(3)
    assert taken(after, 4) == whole[3:7]


def test_an_epoch_that_ends_is_followed_by_the_next_one(combined):
    loader = combined(ratios=(1, 0))
    steps = len(loader.loaders[0])
    keys = [keys for _, keys in taken(loader, 2 * steps)]
    flat = [sorted(key for batch in keys[at : at + steps] for key in batch) for at in (0, steps)]
    assert flat[0] == flat[1] and len(set(flat[0])) == len(flat[0])


def test_a_loader_without_a_further_epoch_says_so(combined):
    loader = combined(ratios=(1, 0), epochs=1)
    with pytest.raises(headwater.ConfigError, match="this loader has no epoch 1"):
        taken(loader, 1000)
    assert loader.step == len(loader.loaders[0])
    state = loader.state_dict()
    for again in (loader, combined(ratios=(1, 0), epochs=1)):
        again.load_state_dict(state)
        batches = iter(again)
        for _ in range(2):
            with pytest.raises(headwater.ConfigError, match="no further epoch|no epoch 1"):
                next(batches)


def test_what_does_not_fit_is_refused(combined):
    for loaders, ratios in (([], []), ([None], [0.5, 0.5]), ([None], [0]), ([None, None], [1, float("nan")])):
        with pytest.raises(headwater.ConfigError, match="ratios"):
            headwater.CombinedLoader(loaders, ratios)
    state = combined().state_dict()
    with pytest.raises(headwater.StateError, match=r"the state's ratios is \[0.7, 0.3\], here it is \[0.5, 0.5\]"):
        combined(ratios=(0.5, 0.5)).load_state_dict(state)
    with pytest.raises(headwater.StateError, match="has `ratios`, and this one does not"):
        combined().load_state_dict(state["loaders"][0])
