"""A list of samples as the order: arrays, files, groups and weights."""

import io
import sys
import tarfile

import headwater
import numpy
import pytest
from test_render import members
from test_samples import SHARDS, keys_in_order

SIZES = {"photos": 64, "others": 41}


@pytest.fixture(scope="module")
def keys():
    """Keys of all samples of `photos`, then of `others`, by their numbers."""
    keys = [key for dataset in SIZES for key in keys_in_order(SHARDS[dataset])]
    assert len(keys) == sum(SIZES.values())
    return keys


@pytest.fixture
def both(make):
    return lambda **options: make(datasets=list(SIZES), **options)


def batches(loader):
    return [batch.keys for batch in loader]


def test_an_array_is_the_order(both, keys):
    order = numpy.random.default_rng(3).permutation(105)[:22]
    expected = [[keys[number] for number in order[at : at + 4]] for at in range(0, 20, 4)]
    loader = both(order=order)
    assert (len(loader), loader.weights, loader.config["order"]) == (5, {}, "list")
    assert batches(loader) == expected
    assert batches(loader) == expected, "each epoch"
    for same in (order.tolist(), order.astype("<u4"), order.astype(">i8"), order.astype("u1")):
        assert batches(both(order=same)) == expected
    assert batches(both(order="list", order_list=order)) == expected
    with pytest.raises(headwater.ConfigError, match="do not go together"):
        loader.set_weights([1, 2])
    with pytest.raises(headwater.ConfigError, match="do not go together"):
        loader.set_weight_by_name("photos", 2)


def test_tensors_and_lists_are_arrays_too(both, keys, monkeypatch):
    torch = pytest.importorskip("torch")
    expected = [[keys[9], keys[0], keys[104], keys[9]]]
    assert batches(both(order=torch.tensor([9, 0, 104, 9]))) == expected
    assert batches(both(order=(9, 0, 104, 9))) == expected
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert batches(both(order=[9, 0, 104, 9])) == expected
    with pytest.raises(TypeError, match="`order_list` must be a path or an array of numbers"):
        both(order=[[9, 0], [104, 9]])


def test_rows_are_epochs_and_files_are_arrays(both, keys, tmp_path):
    rows = numpy.arange(24).reshape(3, 8) * 4
    numpy.save(tmp_path / "rows.npy", rows)
    from_file = both(order="list", order_list=tmp_path / "rows.npy", epochs=4)
    expected = [[[keys[n] for n in row[:4]], [keys[n] for n in row[4:]]] for row in [*rows, rows[0]]]
    assert [batches(from_file) for _ in range(4)] == expected
    from_array = both(order=rows, epochs=4)
    assert from_array.state_dict()["list"] == both(order=rows.astype("i4")).state_dict()["list"]
    assert [batches(from_array) for _ in range(4)] == expected
    numpy.savetxt(tmp_path / "row.txt", rows[1], fmt="%d")
    assert batches(both(order="list", order_list=str(tmp_path / "row.txt"))) == expected[1]


def test_no_batch_mixes_groups(both, keys):
    order = numpy.arange(30)
    groups = numpy.array([0, 1, 2] * 10)
    of = {keys[number]: group for number, group in zip(order, groups)}
    taken = batches(both(order=order, order_groups=groups, epoch_end="short_last"))
    assert [len(batch) for batch in taken] == [4] * 6 + [2] * 3
    assert all(len({of[key] for key in batch}) == 1 for batch in taken)
    assert [of[batch[0]] for batch in taken] == [0, 1, 2] * 3
    assert sorted(key for batch in taken for key in batch) == sorted(keys[:30])
    with pytest.raises(headwater.ConfigError, match="the groups have 1 x 29, and the list has 1 x 30"):
        both(order=order, order_groups=groups[:29])


def test_ranks_draw_the_same_by_weights_and_never_a_sample_of_weight_zero(both, keys, tmp_path):
    weights = numpy.zeros(105)
    weights[[3, 70, 104]] = [1.0, 2.0, 0.5]
    options = {"order": "list", "order_weights": weights, "epoch_end": {"steps": 6}}
    alone = batches(both(**options, batch_size=8))
    assert {key for batch in alone for key in batch} == {keys[3], keys[70], keys[104]}
    ranks = [batches(both(**options, rank=rank, world_size=2, batch_size=4)) for rank in range(2)]
    assert [one + two for one, two in zip(*ranks)] == alone
    numpy.savetxt(tmp_path / "weights.txt", weights)
    assert batches(both(**{**options, "order_weights": tmp_path / "weights.txt"}, batch_size=8)) == alone
    only = numpy.zeros(105, "f4")
    only[70] = 0.1
    assert set(sum(batches(both(**{**options, "order_weights": only})), [])) == {keys[70]}


def test_a_state_goes_on_in_the_same_list_only(both, keys):
    order = numpy.random.default_rng(4).permutation(40)
    loader = both(order=order)
    iteration = iter(loader)
    [next(iteration) for _ in range(3)]
    state = loader.state_dict()
    assert (state["order"], state["step"], state["samples"]) == ("list", 3, 12)
    rest = batches(iteration)
    other = both(order=order, rank=1, world_size=2, batch_size=2)
    other.load_state_dict(state)
    assert batches(other) == [batch[2:] for batch in rest]
    changed = both(order=order[::-1])
    with pytest.raises(headwater.StateError, match=f"order-list is {state['list']} in the state and"):
        changed.load_state_dict(state)
    changed.load_state_dict(state, allow=["order-list"])
    assert next(iter(changed)).keys == [keys[number] for number in order[::-1][12:16]]


def test_what_is_no_list_is_refused_by_name(both, tmp_path):
    def refused(error=headwater.ConfigError, **options):
        with pytest.raises(error) as raised:
            both(**options)
        return str(raised.value)

    assert "number 105" in refused(order=[0, 105, 1, 2])
    assert "`photos` 64, `others` 41" in refused(order=[0, 105, 1, 2])
    assert "entry 1: -1 is negative" in refused(order=[0, -1])
    assert "0.5 is not a whole number" in refused(order=[0.5, 1.0])
    assert "its type `|b1`" in refused(order=numpy.ones(9, bool))
    assert "it has 3 axes" in refused(order=numpy.zeros((2, 2, 2), int))
    assert "the list is empty" in refused(order=numpy.zeros(0, int))
    assert "needs receiver.order_list or receiver.order_weights" in refused(order="list")
    assert "`order_list` is given, too" in refused(order=[0, 1], order_list=[0, 1])
    assert 'with a list of samples it must be "list"' in refused(order_list=[0, 1])
    assert "105 samples" in refused(order="list", order_weights=[1.0] * 104)
    assert "the weight of sample 1 is -1" in refused(order="list", order_weights=[1, -1] + [1] * 103)
    assert "cannot be read" in refused(order="list", order_list=tmp_path / "nowhere.npy")
    assert "give the list as a file" in refused(order=[0, 1, 2, 3], host_share=True)
    text = refused(order=[0, 1, 2, 3], curriculum=[{"step": 0, "weights": [1, 0]}])
    assert "does not go with a curriculum" in text


def test_the_group_of_a_batch_chooses_its_size(both, keys):
    sizes = [[32, 32], [24, 40], [40, 24]]
    crop = {"kind": "random_resized", "scale": [0.08, 1.0], "ratio": [0.75, 1.3333333333333333]}
    view = {"crop": crop, "ops": [{"op": "flip", "p": 0.5}]}
    tensor = {"name": "images", "dtype": "u8", "aspect_buckets": sizes, "views": [view]}
    recipe = {"tensors": [tensor]}
    order = numpy.arange(24)
    groups = numpy.array([0, 1, 2] * 8)
    loader = both(recipe=recipe, order=order, order_groups=groups, seed=7)
    seen = []
    for batch in loader:
        height, width = sizes[batch.group]
        assert batch.images.shape == (4, 3, height, width)
        assert {number % 3 for number in map(keys.index, batch.keys)} == {batch.group}
        seen.append((batch.group, batch.digest, batch.images.numpy().copy()))
        assert batch.torch().group == batch.group and batch.torch().to("cpu").group == batch.group
    assert [group for group, _, _ in seen] == [0, 1, 2] * 2
    # A recipe of that one size makes the same bytes; a batch of another order has no group.
    for number, (group, _, images) in enumerate(seen):
        height, width = sizes[group]
        fixed = {name: tensor[name] for name in ("name", "dtype", "views")}
        fixed = {"tensors": [{**fixed, "height": height, "width": width}]}
        own = order[groups == group]
        batch = list(both(recipe=fixed, order=own, seed=7))[number // 3]
        assert batch.group is None
        numpy.testing.assert_array_equal(batch.images.numpy(), images)
    with pytest.raises(headwater.ConfigError, match="order_groups"):
        both(recipe=recipe, order=order)
    with pytest.raises(headwater.ConfigError, match=r"group 2 \(row 0, place 2\) has no size"):
        both(recipe={"tensors": [{**tensor, "aspect_buckets": sizes[:2]}]}, order=order, order_groups=groups)


@pytest.mark.parametrize("world_size, batch_size", [(3, 7), (6, 9), (5, 4)])
def test_an_exact_epoch_evaluates_every_sample_once(make, world_size, batch_size):
    ranks = [
        make(rank=rank, world_size=world_size, batch_size=batch_size, epoch_end="exact", shuffle_block=0)
        for rank in range(world_size)
    ]
    seen = []
    for loader in ranks:
        batches = [batch.keys for batch in loader]
        assert len(batches) == len(loader) and all(batches)
        seen += sum(batches, [])
    assert len(seen) == len(set(seen)) == len(ranks[0].dataset)


def test_ranks_of_an_exact_epoch_say_the_same_of_where_they_are(make):
    # 64 samples in batches of 20 leave 4 for 5 ranks: the last one has ended when the others have a batch left.
    ranks = [make(rank=rank, world_size=5, batch_size=4, epoch_end="exact") for rank in range(5)]
    states = []
    for loader in ranks:
        batches = iter(loader)
        taken = [next(batches) for _ in range(3)]
        states.append(loader.state_dict())
        del taken
    assert [len(loader) for loader in ranks] == [4, 4, 4, 4, 3]
    assert all(state == states[0] for state in states) and (states[0]["epoch"], states[0]["step"]) == (0, 3)
    alone = make(batch_size=20, epoch_end="exact")
    alone.load_state_dict(states[4])
    assert sum(len(batch) for batch in alone) == 4
    # The last rank stands at its own end: its rest of the epoch is empty, and it goes on with the others.
    for rank, rest in ((0, 1), (4, 0)):
        resumed = make(rank=rank, world_size=5, batch_size=4, epoch_end="exact")
        resumed.load_state_dict(states[0])
        assert (resumed.epoch, sum(1 for _ in resumed)) == (0, rest)
        assert (sum(1 for _ in resumed), resumed.epoch) == (len(resumed), 2)
        resumed.load_state_dict(states[0])
        assert [sum(1 for _ in resumed) for _ in resumed.epochs(2)] == [rest, len(resumed)]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"datasets": list(SIZES)}, "does not go with several datasets, which are mixed by draws: open a receiver for each"),
        ({"order": "list", "order_weights": numpy.ones(64)}, "does not go with weights of samples: give the numbers of the samples"),
        ({"order": "per-rank", "datasets": "others"}, 'does not go with per-rank order: use `order = "global"`'),
        ({"rank": 1, "world_size": 65, "batch_size": 1}, "does not go with 64 samples on 65 ranks"),
    ],
)
def test_an_epoch_that_is_not_exact_is_refused(make, options, said):
    with pytest.raises(headwater.ConfigError, match=f'`epoch_end = "exact"` gives every sample once, and {said}'):
        make(epoch_end="exact", **options)


def shards_of(folder, classes, samples=24):
    """Tar shards of 24 images, whose label `classes` gives by the number of the sample."""
    photo = next(iter(members(SHARDS["photos"]).values()))
    for shard in range(12):
        with tarfile.open(folder / f"made-{shard:02}.tar", "w") as archive:
            for at in range(samples):
                number = shard * samples + at
                for ending, content in (("jpg", photo), ("cls", str(classes(number)).encode())):
                    member = tarfile.TarInfo(f"{number:06}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return folder / "made-*.tar"


SORTED = "the samples lie sorted by class: a batch has samples of about"


@pytest.mark.parametrize(
    "classes, options, is_said",
    [
        (lambda number: number // 24, {"shuffle_block": 1}, True),
        (lambda number: number // 24, {}, False),
        (lambda number: number % 12, {"shuffle_block": 1}, False),
        (lambda number: number // 24, {"shuffle": False}, False),
        (lambda number: number // 24, {"shuffle_block": 1, "rank": 1, "world_size": 2}, False),
    ],
    ids=["sorted", "over all shards", "mixed", "not shuffled", "another rank"],
)
def test_samples_that_lie_by_class_are_told_of_once(tmp_path, capfd, classes, options, is_said):
    path = shards_of(tmp_path, classes)
    small = {"tensors": [{"name": "images", "dtype": "u8", "height": 8, "width": 8, "views": [{"crop": {"kind": "resize"}}]}]}
    with headwater.Loader(path, 8, recipe=small, embedded="threads", **options) as loader:
        for _ in loader.epochs(2):
            assert sum(len(batch) for batch in loader) > 100
    assert capfd.readouterr().err.count(SORTED) == is_said
