"""A map-style dataset of one's own, in place of shards."""

import sys
import tarfile

import headwater
import numpy as np
import pytest
from conftest import PHOTOS, SMALL
from local_services import remove, short_folder

SHARD = PHOTOS / "photos-000001.tar"
MODULE = """
import tarfile


class Photos:
    '''The photographs of a tar, as (bytes, label).'''

    version = "1"

    def __init__(self, shard, broken=-1, why=None):
        self.broken = broken
        with tarfile.open(shard) as archive:
            files = [m for m in archive if m.name.endswith((".jpg", ".jpeg", ".png", ".webp"))]
            self.images = [archive.extractfile(member).read() for member in files]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if index == self.broken:
            raise ValueError("no such photograph")
        return self.images[index], index


class Tiles:
    '''Arrays and pictures of PIL.'''

    def __init__(self, of="array"):
        self.of = of

    def __len__(self):
        return 10

    def __getitem__(self, index):
        import numpy

        pixels = numpy.random.default_rng(index).integers(0, 256, (32, 32, 3), numpy.uint8)
        return {"image": pixels, "cls": numpy.int64(index), "note": None}


class Says(Photos):
    def __getitem__(self, index):
        if index == self.broken:
            import headwater

            raise headwater.BadSample("dark")
        return super().__getitem__(index)


class Outage(Photos):
    '''Its error says nothing about the sample.'''

    def __getitem__(self, index):
        if index == self.broken:
            raise OSError("the server is away")
        return super().__getitem__(index)


class Empty(list):
    pass


class Endless:
    def __len__(self):
        return 1 << 40
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    runtime = short_folder("hw-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "own_data.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("own_data", None)
    yield tmp_path / "own_data.py"
    remove(runtime)


def load(name, arguments=None, **options):
    keys = {"name": "own", "arguments": arguments or {}, "shard_samples": 4}
    given = {"recipe": SMALL, "batch_size": 4, "seed": 3, "embedded": "threads", **options}
    return headwater.Loader(f"python:own_data:{name}", datasets=[keys], **given)


def photos():
    with tarfile.open(SHARD) as archive:
        files = [m for m in archive if m.name.endswith((".jpg", ".jpeg", ".png", ".webp"))]
        return [archive.extractfile(member).read() for member in files]


def test_its_samples_are_decoded_and_come_once_each_with_their_labels():
    images = photos()
    with load("Photos", {"shard": str(SHARD)}) as loader:
        seen = []
        for batch in loader:
            numbers = [int(key) for key in batch.keys]
            assert batch.labels.numpy().tolist() == numbers
            ids = [sample.id for sample in batch.samples]
            rendered = headwater.render([images[number] for number in numbers], SMALL, seed=3, ids=ids)
            np.testing.assert_array_equal(batch.local_crops.numpy(), rendered["local_crops"].numpy())
            seen += numbers
    assert len(seen) == len(set(seen)) == len(images) // 4 * 4


def test_it_resumes_and_its_version_counts(module):
    arguments = {"shard": str(SHARD)}
    with load("Photos", arguments) as loader:
        batches = iter(loader)
        first, state = next(batches).digest, loader.state_dict()
        whole = [first, *(batch.digest for batch in batches)]
    with load("Photos", arguments) as loader:
        loader.load_state_dict(state)
        assert [first, *(batch.digest for batch in loader)] == whole
    module.write_text(MODULE.replace('version = "1"', 'version = "2"'))
    with load("Photos", arguments) as loader, pytest.raises(headwater.StateError):
        loader.load_state_dict(state)


def test_pixels_of_arrays_are_images():
    with load("Tiles", recipe="raw") as loader:
        for batch in loader:
            for number, size, row in zip(batch.labels.numpy(), batch.image_sizes.numpy(), batch.image_bytes.numpy(), strict=True):
                file = row[:size].tobytes()
                assert file[:8] == b"\x89PNG\r\n\x1a\n"
                pixels = headwater.decode([file])[0]
                expected = np.random.default_rng(number).integers(0, 256, (32, 32, 3), np.uint8)
                np.testing.assert_array_equal(np.asarray(pixels), expected)


@pytest.mark.parametrize("name", ["Photos", "Says"])
def test_a_sample_that_is_said_to_be_bad_is_replaced(name):
    with load(name, {"shard": str(SHARD), "broken": 2}) as loader:
        keys, reasons = set(), []
        for batch in loader:
            keys.update(map(int, batch.keys))
            reasons += batch.substituted.values()
    assert 2 not in keys
    assert reasons


def test_another_error_ends_the_stream_by_name_unless_the_configuration_names_it(monkeypatch):
    monkeypatch.setenv("HEADWATER_AUGMENT__STORAGE_WAIT_MS", "1000")
    arguments = {"shard": str(SHARD), "broken": 2}
    with load("Outage", arguments) as loader:
        with pytest.raises(headwater.errors.HeadwaterError, match=r"own_data:Outage\[2\]` raised OSError: the server is away"):
            for batch in loader:
                assert not batch.substituted
    monkeypatch.setenv("HEADWATER_STORAGE__PYTHON_BAD_SAMPLE_ERRORS", "ValueError,OSError")
    with load("Outage", {**arguments, "why": "another version"}) as loader:
        assert any(batch.substituted for batch in loader)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("Absent", {}, "own_data.*Absent"),
        ("Photos", {"path": "x"}, "unexpected keyword argument"),
        ("Photos", {"shard": "/nowhere.tar"}, "nowhere"),
        ("Empty", {}, "no samples"),
        ("Endless", {}, "1099511627776 samples are too many for one place"),
    ],
)
def test_what_cannot_be_opened_is_named(name, arguments, message):
    with pytest.raises(headwater.errors.HeadwaterError, match=message):
        load(name, arguments)
