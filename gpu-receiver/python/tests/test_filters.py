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


def test_a_filter_without_a_field_is_about_the_image_that_the_loader_takes(tmp_path):
    with tarfile.open(tmp_path / "two.tar", "w") as archive:
        for key in range(8):
            for name, width in [("jpg", 100), ("large.jpg", 500 if key % 2 else 200)]:
                image = io.BytesIO()
                Image.new("RGB", (width, 50), (key, 0, 0)).save(image, "jpeg")
                info = tarfile.TarInfo(f"{key}.{name}")
                info.size = len(image.getvalue())
                archive.addfile(info, io.BytesIO(image.getvalue()))
    for least, expected in [(300, ["1", "3", "5", "7"]), (150, [str(key) for key in range(8)])]:
        filters = [{"kind": "width", "min": least}]
        with loader(str(tmp_path / "two.tar"), filters, image_field="large.jpg", label_field="") as found:
            assert sorted({key for batch in found for key in batch.keys}) == expected


def test_filters_are_refused_where_services_run_elsewhere(tmp_path, monkeypatch):
    cluster = {"storage": ["127.0.0.1:1"], "workers": ["127.0.0.1:1"]}
    file = tmp_path / "train.toml"
    file.write_text('[[dataset]]\nname = "d"\n[[filter]]\nkind = "width"\nmin = 9\n')
    with pytest.raises(headwater.ConfigError, match="train.toml: .*filter.* goes with shards.*storage nodes"):
        headwater.Loader(config=str(file), **cluster)
    monkeypatch.setenv("HEADWATER_FILTER", "[{kind = 'width', min = 9}]")
    with pytest.raises(headwater.ConfigError, match="HEADWATER_FILTER: .*filter.* goes with shards"):
        headwater.Loader(datasets="d", **cluster)
    # One file for all tiers says where the shards are, too: then nobody answers at these addresses.
    file.write_text(file.read_text().replace('name = "d"', 'name = "d"\nshards = "/a.tar"'))
    with pytest.raises(headwater.errors.HeadwaterError, match="127.0.0.1:1"):
        headwater.Loader(config=str(file), worker_wait_ms=200, **cluster)


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
