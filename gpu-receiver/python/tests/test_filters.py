"""Filters: a loader has the samples that meet them, whoever reads them, and resumes among them."""

import io
import json
import tarfile

import headwater
import pytest

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

RECIPE = {"preset": "imagenet-eval", "image_size": 32, "resize_size": 32}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Two tars of 20 images each, whose widths and scores are known."""
    folder = tmp_path_factory.mktemp("filtered")
    for shard in range(2):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for number in range(20):
                key = 20 * shard + number
                image = io.BytesIO()
                Image.new("RGB", (40 + key, 50), (key, 2 * key, 3 * key)).save(image, "png")
                score = json.dumps({"scores": {"clip": key / 40}})
                for ending, data in [("png", image.getvalue()), ("cls", str(key).encode()), ("json", score.encode())]:
                    info = tarfile.TarInfo(f"{key:03}.{ending}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    return f"{folder}/{{0..1}}.tar"


def loader(shards, filters, **options):
    options = {"batch_size": 4, "recipe": RECIPE, "epoch_end": "exact", "epochs": 1, "embedded": "threads", **options}
    return headwater.Loader(shards, filters=filters, **options)


def labels(loader):
    return [label for batch in loader for label in batch.labels.numpy().tolist()]


@pytest.mark.parametrize("local_files", ["auto", "off"])
def test_an_epoch_has_the_samples_that_meet_all_filters(shards, local_files, monkeypatch):
    monkeypatch.setenv("HEADWATER_AUGMENT__LOCAL_FILES", local_files)
    wide = {"kind": "width", "min": 50, "max": 74}
    good = {"kind": "number", "field": "json", "path": "/scores/clip", "min": 0.5}
    with loader(shards, [wide, good]) as found:
        assert len(found) == 4
        assert sorted(labels(found)) == list(range(20, 35))


def test_a_state_goes_on_among_the_same_samples_and_with_others_it_is_refused(shards):
    filters = [{"kind": "aspect", "min": 1.0}]
    with loader(shards, filters) as whole:
        expected = labels(whole)
    assert sorted(expected) == list(range(10, 40))
    with loader(shards, filters) as first:
        batches = iter(first)
        seen = [label for _ in range(3) for label in next(batches).labels.numpy().tolist()]
        state = first.state_dict()
    with loader(shards, filters) as second:
        second.load_state_dict(state)
        assert seen + labels(second) == expected
    with loader(shards, [{"kind": "aspect", "min": 1.2}]) as other:
        with pytest.raises(headwater.errors.StateError):
            other.load_state_dict(state)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (float("inf"), r"`filters\[0\].min` is inf: leave out a bound that no value reaches"),
        (float("nan"), r"`filters\[0\].min` is nan: give a number"),
        (True, r"`filter\[0\].min` is true: give a number"),
        (numpy.bool_(True), r"`filter\[0\].min` is true: give a number"),
        (numpy.array(True), r"`filter\[0\].min` is true: give a number"),
        (2**53, r"`filter.min` = `9007199254740992`: .*2\^53"),
        (2**53 + 1, r"`filter.min` = `9007199254740992`: .*2\^53"),
        (-(2**63), r"`filter.min` = `-922337203685477.*: .*2\^53"),
        (10**400, "a number is beyond 1.8e308: give a smaller one"),
    ],
    ids=range(9),
)
def test_a_bound_that_is_no_exact_number_is_refused(shards, number, words):
    with pytest.raises(headwater.errors.ConfigError, match=words):
        loader(shards, [{"kind": "width", "min": number}]).close()


def test_numbers_of_numpy_are_bounds(shards):
    for number in (numpy.float32(70), numpy.int64(70), numpy.array(70)):
        with loader(shards, [{"kind": "width", "min": number}]) as found:
            assert sorted(labels(found)) == list(range(30, 40))


def test_large_whole_numbers_are_told_from_the_largest_bound(tmp_path):
    """Values that a float rounds lie beyond every bound."""
    with tarfile.open(tmp_path / "0.tar", "w") as archive:
        for key, number in enumerate([2**53 - 2, 2**53 - 1, 2**53 + 1, 2**64 + 1]):
            image = io.BytesIO()
            Image.new("RGB", (40, 50)).save(image, "png")
            for ending, data in [("png", image.getvalue()), ("cls", str(key).encode()), ("json", json.dumps(number).encode()), ("id", str(number).encode())]:
                info = tarfile.TarInfo(f"{key:03}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    for field in ("json", "id"):
        for side, stay in (("min", [1, 2, 3]), ("max", [0, 1])):
            with loader(str(tmp_path / "0.tar"), [{"kind": "number", "field": field, side: 2**53 - 1}], batch_size=1) as found:
                assert sorted(labels(found)) == stay


def test_what_cannot_work_is_named(shards):
    for filters, words in [
        ([{"kind": "width"}], "give `min`, `max` or both"),
        ([{"kind": "width", "min": 999}], "no sample of dataset"),
        ([{"kind": "wide", "min": 9}], "width"),
        ({"kind": "width", "min": 9}, "give a list"),
    ]:
        with pytest.raises(headwater.errors.HeadwaterError, match=words):
            loader(shards, filters).close()
    with pytest.raises(headwater.errors.ConfigError, match="`filters` goes with `data`"):
        headwater.Loader(storage=["127.0.0.1:1"], workers=["127.0.0.1:1"], datasets="a", filters=[])
