"""Fields of a sample beside its image and its label, in Python's hands."""

import json

import headwater
import numpy
import pytest
from conftest import PROJECT, SMALL
from local_services import remove, short_folder

DATA = PROJECT / "tests" / "data" / "fields"
FIELDS = [
    {"name": "count", "kind": "int", "default": -1},
    {"name": "score", "kind": "float"},
    {"name": "exact", "kind": "float", "field": "score", "dtype": "f64"},
    {"name": "caption", "kind": "text", "field": "txt", "bytes_max": 200},
    {"name": "blob", "kind": "bytes", "bytes_max": 64},
    {"name": "good", "kind": "json", "field": "json", "path": "/good", "as": "bool"},
    {"name": "said", "kind": "json", "field": "json", "path": "/caption", "as": "text"},
    {
        "name": "places",
        "kind": "json",
        "field": "json",
        "path": "/deep/0/boxes",
        "as": "array",
        "shape": [2, 4],
    },
    {"name": "frame", "kind": "npy", "field": "box.npy", "dtype": "f32", "shape": [2, 3]},
    {
        "name": "latent",
        "kind": "npz",
        "field": "latent.npz",
        "member": "latent",
        "dtype": "i16",
        "shape": [4, 2],
    },
    {"name": "tags", "kind": "multi_hot", "classes": 7, "dtype": "f32"},
    {
        "name": "ids",
        "kind": "tokens",
        "field": "txt",
        "tokenizer": str(DATA / "clip-tokenizer.json"),
        "length": 12,
        "pad_id": 1,
        "dtype": "i32",
    },
]
RECIPE = {**SMALL, "preset": "custom", "fields": FIELDS}


@pytest.fixture(autouse=True)
def runtime(monkeypatch):
    """The user's runtime folder."""
    folder = short_folder("hw-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    remove(folder)


@pytest.fixture
def make():
    """Makes loaders with local services over the shard of fields, and closes them."""
    made = []

    def make(recipe=RECIPE, **options):
        options.setdefault("batch_size", 5)
        made.append(headwater.Loader(str(DATA / "fields.tar"), recipe=recipe, seed=3, **options))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


@pytest.fixture(scope="module")
def expected():
    """What numpy, Python's json and the package `tokenizers` made of each sample."""
    read = json.loads((DATA / "expected.json").read_text())
    for number, sample in enumerate(read["samples"]):
        sample["ids"], sample["mask"] = read["tokens"]["clip"][number]
    return {sample["key"]: sample for sample in read["samples"]}


def test_each_sample_has_the_values_that_python_makes_of_it(make, expected):
    seen = 0
    for batch in make():
        of = {name: tensor.numpy() for name, tensor in batch.items()}
        for at, key in enumerate(batch.keys):
            wanted = expected[key]
            assert of["count"][at] == wanted["count"]
            assert of["score"][at] == numpy.float32(wanted["score"])
            assert of["exact"][at] == wanted["score64"]
            assert of["good"][at] == wanted["good"]
            assert (of["places"][at] == numpy.array(wanted["boxes"], "f4")).all()
            assert (of["frame"][at] == numpy.array(wanted["box"], "f4")).all()
            assert (of["latent"][at] == numpy.array(wanted["latent"], "i2")).all()
            assert (of["tags"][at] == wanted["tags"]).all()
            assert (of["ids"][at] == wanted["ids"]).all()
            assert (of["ids_mask"][at] == wanted["mask"]).all()
            assert batch.caption[at] == batch["said"][at] == wanted["caption"]
            assert batch.blob[at] == bytes(wanted["blob"])
            seen += 1
    assert seen == 20
    dtypes = {name: of[name].dtype.name for name in ("ids", "ids_mask", "latent", "exact", "good")}
    assert dtypes == {
        "ids": "int32",
        "ids_mask": "bool",
        "latent": "int16",
        "exact": "float64",
        "good": "bool",
    }


def test_a_field_of_texts_is_a_list_over_one_tensor(make, expected):
    batch = next(iter(make()))
    texts = [expected[key]["caption"] for key in batch.keys]
    caption = batch.caption
    assert isinstance(caption, headwater.Packed) and len(caption) == 5
    assert list(caption) == texts and caption[-1] == texts[-1]
    assert caption[1:4] == texts[1:4] and caption[::-2] == texts[::-2] and caption[5:] == []
    with pytest.raises(IndexError, match="`caption` has 5 samples"):
        caption[5]
    with pytest.raises(TypeError, match="a number or a slice, not str"):
        caption["a"]
    data, offsets = caption.data.numpy(), caption.offsets.numpy()
    assert data.tobytes() == "".join(texts).encode() and data.dtype == numpy.uint8
    assert offsets.dtype == numpy.int64
    assert offsets.tolist() == numpy.cumsum([0] + [len(text.encode()) for text in texts]).tolist()
    assert "caption" not in batch.tensors and "caption_sizes" not in batch.tensors
    assert {"caption_data", "caption_offsets"} <= set(batch.tensors)
    assert "caption" in batch and "caption_data" in batch and "caption_sizes" not in batch
    assert repr(caption) == "<headwater.Packed caption texts[5]>"
    # It is in memory of its own.
    del batch
    assert list(caption) == texts


def test_torch_has_the_tensors_and_the_lists(make, expected):
    torch = pytest.importorskip("torch")
    batch = next(iter(make()))
    moved = batch.to("cpu")
    assert list(moved.caption) == list(batch.caption) and moved.blob[0] == batch.blob[0]
    assert moved.ids.dtype == torch.int32 and moved.ids_mask.dtype == torch.bool
    assert moved.exact.dtype == torch.float64 and moved.latent.dtype == torch.int16
    assert moved["caption_offsets"].tolist() == batch.caption.offsets.numpy().tolist()
    assert list(moved.to("cpu").caption) == list(batch.caption)


def test_digests_hold_fields_and_do_not_depend_on_who_made_them(make):
    digests = [batch.digest for batch in make()]
    loader = make(part_samples=1)
    iteration = iter(loader)
    assert [next(iteration).digest for _ in range(2)] == digests[:2]
    state = loader.state_dict()
    resumed = make(part_samples=2)
    resumed.load_state_dict(state)
    assert [batch.digest for batch in resumed] == digests[2:]
    fields = [dict(field) for field in FIELDS]
    fields[0]["default"] = -2
    other = [batch.digest for batch in make({**RECIPE, "fields": fields})]
    assert other != digests


def test_a_default_may_be_a_number_that_json_lacks(make):
    def digests(default):
        fields = [{"name": "score", "kind": "float", "default": default}]
        return [batch.digest for batch in make({**RECIPE, "fields": fields})]

    numbers = (float("nan"), numpy.float64("inf"), -numpy.inf)
    found = [digests(default) for default in numbers]
    assert found == [digests(name) for name in ("nan", "inf", "-inf")]
    ring = {}
    ring["itself"] = ring
    with pytest.raises(ValueError, match="Circular"):
        make(ring)


def test_what_is_wrong_is_said_before_anything_is_read(make):
    with pytest.raises(headwater.ConfigError, match=r"(?s)fields.*`caption`.*unknown key `byte_max`"):
        make({**RECIPE, "fields": [{"name": "caption", "kind": "text", "byte_max": 3}]})
    with pytest.raises(headwater.ConfigError, match="has a field `caption`.*only .*`jpg`.* and 2 more"):
        make({**RECIPE, "fields": [{"name": "caption", "kind": "text"}]})
    tokens = {"name": "ids", "kind": "tokens", "field": "txt", "tokenizer": "/no/such.json", "length": 3}
    with pytest.raises(headwater.ConfigError, match="/no/such.json"):
        make({**RECIPE, "fields": [tokens]})
    with pytest.raises(headwater.ConfigError, match="only images are given here"):
        headwater.Renderer(RECIPE)
