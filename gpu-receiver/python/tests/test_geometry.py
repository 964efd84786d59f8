"""Masks and boxes of a shard, from its files to the tensors of a batch."""

import io
import json
import tarfile

import headwater
import numpy as np
import pytest
from conftest import program
from PIL import Image

SIDE, SAMPLES = 96, 24
FLIP = [{"op": "flip", "p": 0.5}]
VIEW = {"crop": {"kind": "random_resized", "scale": [0.2, 1.0], "ratio": [0.75, 1.33]}, "ops": FLIP}
RECIPE = {
    "tensors": [
        {"name": "images", "dtype": "u8", "height": 48, "width": 48, "views": [VIEW, VIEW]},
        {"name": "cuts", "dtype": "u8", "height": 64, "width": 56, "views": [{"crop": {"kind": "random"}, "ops": FLIP}]},
        {"name": "masks", "field": "png", "like": "images", "dtype": "i64", "height": 24, "width": 24},
        {"name": "cut_masks", "field": "png", "like": "cuts", "dtype": "u8"},
        {"name": "depth", "field": "depth.png", "like": "cuts", "dtype": "f32", "interpolation": "bilinear", "scale": 0.5},
    ],
    "fields": [
        {"name": "boxes", "kind": "boxes", "field": "json", "path": "/boxes", "labels_path": "/classes",
         "like": "cuts", "boxes_max": 5},
        {"name": "found", "kind": "boxes", "field": "json", "path": "/boxes", "like": "images", "boxes_max": 3,
         "truncate": True},
    ],
}  # fmt: skip


def encoded(array, form, **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, form, **options)
    return file.getvalue()


def sample(number, mask_side=SIDE):
    """Four rectangles that do not touch, of levels 1 to 4; the boxes about them and their classes."""
    rng = np.random.default_rng(number)
    mask = np.zeros((mask_side, mask_side), np.uint8)
    boxes = []
    for level in range(1, 5):
        left, top = ((level - 1) % 2) * SIDE // 2 + rng.integers(1, 12), (level - 1) // 2 * SIDE // 2 + rng.integers(1, 12)
        right, bottom = left + rng.integers(8, 32), top + rng.integers(8, 32)
        mask[top:bottom, left:right] = level
        boxes.append([int(left), int(top), int(right), int(bottom)])
    ys, xs = np.mgrid[0:mask_side, 0:mask_side]
    return {
        "jpg": encoded(np.repeat(mask[:, :, None] * 60, 3, axis=2), "JPEG", quality=95, subsampling=0),
        "png": encoded(mask, "PNG"),
        "depth.png": encoded((ys * 500 + xs).astype(np.uint16), "PNG"),
        "json": json.dumps({"boxes": boxes, "classes": [10 * level for level in range(1, 5)]}).encode(),
        "cls": str(number).encode(),
    }


def shard(path, samples):
    with tarfile.open(path, "w") as tar:
        for number, fields in enumerate(samples):
            for name, data in fields.items():
                member = tarfile.TarInfo(f"{number:04}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("geometry") / "sorted.tar"
    return shard(path, [sample(number) for number in range(SAMPLES)])


@pytest.fixture(autouse=True)
def services(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWATER_PROGRAM", program())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def load(data, **options):
    given = {"recipe": RECIPE, "batch_size": 6, "seed": 11, "embedded": "threads", **options}
    return headwater.Loader(data, **{key: value for key, value in given.items() if value is not None})


def array(tensor):
    return np.from_dlpack(tensor).copy()


def test_masks_boxes_and_labels_belong_to_the_pixels_of_their_views(data):
    seen = 0
    with load(data) as loader:
        for batch in loader:
            masks, cuts, images = array(batch.cut_masks), array(batch.cuts), array(batch.images)
            assert masks.shape == (6, 1, 64, 56) and array(batch.masks).shape == (12, 1, 24, 24)
            assert array(batch.masks).dtype == np.int64 and images.shape == (12, 3, 48, 48)
            # The image has 60 times the mask's level, but for what JPEG does at edges.
            assert np.mean(np.abs(masks.astype(int) * 60 - cuts[:, :1]) > 30) < 0.02
            small = array(batch.masks).repeat(2, axis=2).repeat(2, axis=3)
            assert np.mean(np.abs(small * 60 - images[:, :1]) > 60) < 0.15
            boxes, counts = array(batch.boxes), array(batch.boxes_count)
            indices, labels = array(batch.boxes_index), array(batch.boxes_labels)
            assert boxes.shape == (6, 5, 4) and boxes.dtype == np.float32
            for row, count in enumerate(counts):
                shown = set(np.unique(masks[row])) - {0}
                assert {index + 1 for index in indices[row, :count]} == shown
                for number in range(count):
                    left, top, right, bottom = boxes[row, number].astype(int)
                    level = indices[row, number] + 1
                    ys, xs = np.nonzero(masks[row, 0] == level)
                    assert [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1] == [left, top, right, bottom]
                    assert labels[row, number] == 10 * level
                    seen += 1
                assert (indices[row, count:] == -1).all() and (labels[row, count:] == -1).all()
                assert (boxes[row, count:] == 0).all()
            assert array(batch.found).shape == (12, 3, 4) and array(batch.found_count).max() <= 3
            depth = array(batch.depth)
            assert depth.dtype == np.float32 and depth.shape == (6, 1, 64, 56)
            # One column is one level of the ramp, one row 500; times 0.5.
            assert set(np.unique(np.diff(depth, axis=3))) <= {-0.5, 0.5}
            assert set(np.unique(np.diff(depth, axis=2))) == {250.0}
    assert seen > SAMPLES


def test_digests_do_not_depend_on_workers_and_go_on_after_a_stop(data):
    with load(data, epochs=2) as loader:
        whole = [batch.digest for batch in loader]
        whole += [batch.digest for batch in loader]
    assert len(set(whole)) == len(whole) == 8
    # A process of its own with several threads; and parts of one sample each, which go where there is room.
    for options in ({"embedded": None, "augment_threads": 3}, {"augment_threads": 2, "part_samples": 1}):
        with load(data, epochs=2, **options) as loader:
            assert [batch.digest for batch in loader] == whole[:4], options
    with load(data, epochs=2) as loader:
        iteration = iter(loader)
        assert [next(iteration).digest for _ in range(3)] == whole[:3]
        state = loader.state_dict()
    with load(data, epochs=2) as loader:
        loader.load_state_dict(state)
        assert [batch.digest for batch in loader] == whole[3:4]


PLACES = ("geometry", "geometry_box", "geometry_flip", "geometry_size")


def placed(crop, flip_p=0.0, has_geometry=True):
    """Two views of each image, and where they lie."""
    view = {"crop": crop, "ops": [{"op": "flip", "p": flip_p}]}
    images = {"name": "images", "dtype": "u8", "height": 48, "width": 48, "views": [view, view]}
    fields = [{"name": "geometry", "kind": "geometry", "like": "images"}]
    return {"tensors": [images], "fields": fields if has_geometry else []}


RANDOM = {"kind": "random_resized", "scale": [0.2, 1.0], "ratio": [0.75, 1.33]}


def flat(path, side):
    """Images of one colour each: every view of one has the same pixels, wherever it lies."""
    return shard(path, [{"jpg": encoded(np.full((side, side, 3), 8 * number, np.uint8), "JPEG")} for number in range(SAMPLES)])


@pytest.mark.parametrize(
    ("changed", "side", "differing"),
    [
        ({"crop": {**RANDOM, "scale": [0.1, 0.15]}}, SIDE, {"geometry", "geometry_box"}),
        ({"crop": RANDOM, "flip_p": 1.0}, SIDE, {"geometry", "geometry_flip"}),
        ({"crop": RANDOM}, 2 * SIDE, {"geometry", "geometry_box", "geometry_size"}),
    ],
    ids=["crop", "flip", "size"],
)
def test_the_digest_of_a_batch_covers_where_its_views_lie(tmp_path, changed, side, differing):
    files = {size: flat(tmp_path / f"flat-{size}.tar", size) for size in {SIDE, side}}

    def batches(names, side, **given):
        with load(files[side], recipe=placed(**given, has_geometry="geometry" in names)) as loader:
            return [({name: array(batch[name]) for name in names}, batch.digest) for batch in loader]

    def digests(found):
        return [digest for _, digest in found]

    # The views have the same pixels, so without their places the digests are the same.
    assert digests(batches(["images"], SIDE, crop=RANDOM)) == digests(batches(["images"], side, **changed))
    one, other = batches(["images", *PLACES], SIDE, crop=RANDOM), batches(["images", *PLACES], side, **changed)
    assert len(one) == len(other) == SAMPLES // 6
    for (tensors, digest), (others, other_digest) in zip(one, other):
        assert {name for name in tensors if not np.array_equal(tensors[name], others[name])} == differing
        assert digest != other_digest
    assert digests(one) == digests(batches(["images", *PLACES], SIDE, crop=RANDOM))


@pytest.mark.parametrize("taken", [1, 4, 6])
def test_a_resumed_loader_gives_the_same_places(data, taken):
    def rest(loader):
        """Of both epochs: the rest of the first one, and the second one."""
        for epoch in loader.epochs(2):
            for batch in loader:
                yield epoch, {name: array(batch[name]) for name in (*PLACES, "images")}, batch.digest

    with load(data, recipe=placed(RANDOM, 0.5)) as loader:
        whole = list(rest(loader))
    with load(data, recipe=placed(RANDOM, 0.5)) as loader:
        for _ in zip(range(taken), rest(loader)):
            pass
        state = loader.state_dict()
    # Rendered by a process of its own, with several threads.
    with load(data, recipe=placed(RANDOM, 0.5), embedded=None, augment_threads=2) as loader:
        loader.load_state_dict(state)
        resumed = list(rest(loader))
    assert len(whole) == 8 and len(resumed) == 8 - taken
    for (epoch, tensors, digest), (of_resumed, others, other_digest) in zip(whole[taken:], resumed):
        assert (epoch, digest) == (of_resumed, other_digest)
        assert all(np.array_equal(tensors[name], others[name]) for name in tensors)
    # No two batches have the same places.
    assert len({tensors["geometry"].tobytes() for _, tensors, _ in whole}) == 8


def test_a_mask_of_another_size_is_a_bad_sample(tmp_path):
    samples = [sample(number) for number in range(6)]
    samples[2]["png"] = sample(2, SIDE + 1)["png"]
    samples[4]["png"] = b"no image"
    data = shard(tmp_path / "bad.tar", samples)
    with load(data) as loader:
        (batch,) = loader
        text = " ".join(batch.substituted.values())
    assert "`png` has 97x97 pixels, the sample's image 96x96" in text
    assert "`png` cannot be used" in text


def test_tensors_are_tensors_of_pytorch(data):
    torch = pytest.importorskip("torch")
    with load(data) as loader:
        batch = next(iter(loader)).torch()
        assert batch.masks.dtype == torch.int64 and batch.depth.dtype == torch.float32
        assert batch.boxes.shape == (6, 5, 4) and batch.boxes_count.dtype == torch.int64


def test_the_contact_sheet_has_masks_and_boxes(data):
    with load(data) as loader:
        sheet = np.asarray(Image.open(io.BytesIO(next(iter(loader)).contact_sheet(samples=4))))
    colours = {tuple(colour) for colour in sheet.reshape(-1, 3)}
    # Classes 1 to 4, and the outline of box 0.
    assert {(128, 0, 0), (0, 128, 0), (128, 128, 0), (0, 0, 128)} <= colours


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"like": "other"}, "must be the name of an image tensor"),
        ({"dtype": "bf16"}, "must be u8, i64 or f32"),
        ({"interpolation": "bilinear", "dtype": "u8"}, "must be f32 with interpolation"),
        ({"views": [VIEW]}, "beside `like`"),
        ({"like": None}, "give both, or `views`"),
        ({"channels": 2}, "must be 1, for levels, or 3"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(data, change, said):
    masks = {key: value for key, value in {**RECIPE["tensors"][2], **change}.items() if value is not None}
    recipe = {**RECIPE, "tensors": [*RECIPE["tensors"][:2], masks, *RECIPE["tensors"][3:]]}
    with pytest.raises(headwater.ConfigError, match="masks") as raised:
        load(data, recipe=recipe)
    assert said in str(raised.value)
