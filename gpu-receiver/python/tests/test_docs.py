"""docs/python.md and README.md say what there is."""

import importlib.util
import re

import headwater
import pytest
from conftest import PROJECT

GUIDE = (PROJECT / "docs" / "python.md").read_text()
BATCH_OF_GUIDE = 64


def test_the_sizes_of_the_preset_are_those_of_a_batch(make):
    row = re.compile(r"^\| `(\w+)` \| `\[([\d, ]+)\]` \| `(\w+)` \| ([\d,]+) \|$", re.MULTILINE)
    said = {
        name: (dtype, [int(size) for size in shape.split(",")], int(size.replace(",", "")))
        for name, shape, dtype, size in row.findall(GUIDE)
    }
    batch = next(iter(make(recipe="dinov2", dtype="bf16", batch_size=4)))
    times = BATCH_OF_GUIDE // len(batch)
    assert said == {
        name: (one.dtype, [one.shape[0] * times, *one.shape[1:]], one.nbytes * times)
        for name, one in batch.items()
    }
    total = sum(one.nbytes for _, one in batch.items()) * times
    assert f"a batch has {total / 1e6:.1f} MB, {total / 1e6 / BATCH_OF_GUIDE:.2f} MB a sample" in GUIDE


@pytest.mark.parametrize("document", ["docs/python.md", "README.md"])
def test_what_is_named_is_there_and_called_as_it_is(make, document):
    loader = make(recipe="dinov2", batch_size=2, masks={"patch": 16})
    batch = next(iter(loader))
    # What is drawn for a batch of views of one size.
    asked = [{"mixing": {}}, {"patches": {"kind": "ijepa", "patch": 16}}, {"patches": {"kind": "random", "patch": 16}}]
    drawn = [next(iter(make(recipe="imagenet-train", batch_size=2, **one))) for one in asked]
    captioned = {"preset": "imagenet-train", "fields": [{"name": "caption", "kind": "text", "field": "cls"}]}
    drawn.append(next(iter(make(recipe=captioned, batch_size=2))))
    objects = {"loader": [loader], "batch": [batch, *drawn], "tensor": [batch.global_crops]}
    named = re.findall(r"\b(loader|batch|tensor)\.(\w+)(\(?)", (PROJECT / document).read_text())
    assert named
    # With another dtype than this batch's.
    named = {one for one in named if not one[1].endswith("_scales")}
    for owner, name, call in named:
        things = [thing for thing in objects[owner] if hasattr(thing, name)]
        assert things, f"{owner}.{name}"
        assert callable(getattr(things[0], name)) == bool(call), f"{owner}.{name}{call}"
    for name in re.findall(r"\bheadwater\.(\w+)", GUIDE):
        module = importlib.util.find_spec(f"headwater.{name}")
        assert module or hasattr(headwater, name) or name == "toml", name
