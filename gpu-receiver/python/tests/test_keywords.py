"""What users of other loaders type: keywords with an equal meaning are taken, others are errors that say what to do."""

import enum
import re
import types

import headwater
import numpy
import pytest
from conftest import PHOTOS, SMALL
from headwater._keywords import ACCEPTED, REFUSED
from local_services import photos

SHARD = PHOTOS / "photos-000001.tar"


def load(*arguments, **options):
    return headwater.Loader(*(arguments or [SHARD]), **{"recipe": SMALL, "embedded": "threads", **options})


@pytest.mark.parametrize(
    "given, config",
    [
        ({"shuffle": False}, {"shuffle_block": 0}),
        ({"shuffle": True, "random_shuffle": None}, {}),
        ({"random_shuffle": False}, {"shuffle_block": 0}),
        ({"drop_last": True}, {"epoch_end": "drop_last"}),
        ({"drop_last": False}, {"epoch_end": "short_last"}),
        ({"num_workers": 1, "prefetch_factor": 5}, {"window_batches": 5}),
        ({"num_workers": 0, "persistent_workers": False, "pin_memory": True}, {}),
        ({"num_threads": 1, "prefetch_queue_depth": 2}, {"window_batches": 2}),
        ({"timeout": 2.5}, {"worker_wait_ms": 2500}),
        ({"timeout": 0}, {}),
        ({"shard_id": 1, "num_shards": 2}, {"rank": 1, "world_size": 2}),
    ],
)
def test_keywords_with_an_equal_meaning_are_taken(given, config):
    with load(**given) as loader, load() as usual:
        own = {name: loader.config[name] for name in ("job", "storage", "workers")}
        assert loader.config == {**usual.config, **own, **config}


@pytest.mark.parametrize(
    "preset, given, shapes",
    [
        ("imagenet-train", {"image_size": 40}, {"images": (2, 3, 40, 40)}),
        ("imagenet-eval", {"img_size": 40, "resize_size": 44}, {"images": (2, 3, 40, 40)}),
        ("imagenet-train", {"crop_size": 40, "scale": (0.5, 1.0)}, {"images": (2, 3, 40, 40)}),
        (
            "dinov2",
            {"global_crops_size": 48, "local_crops_size": 24, "local_crops_number": 3},
            {"global_crops": (4, 3, 48, 48), "local_crops": (6, 3, 24, 24)},
        ),
        (
            "dinov3-gram",
            {"global_crops_size": 48, "local_crops_size": 24, "local_crops_number": 3},
            {"global_crops": (4, 3, 48, 48), "local_crops": (6, 3, 24, 24), "gram_crops": (4, 3, 512, 512)},
        ),
    ],
)
def test_sizes_of_a_preset_are_chosen(preset, given, shapes):
    said = "no longer the recipe as published .* the digest of this recipe is [0-9a-f]+$"
    with pytest.warns(UserWarning, match=f"^the recipe is `{preset}` with other values: {said}"):
        loader = load(batch_size=2, recipe=preset, **given)
    with loader:
        batch = next(iter(loader))
        assert {name: batch[name].shape for name in shapes} == shapes


def test_other_choices_of_a_preset_are_in_the_recipe():
    choices = {"interpolation": "bilinear", "mean": [0.5] * 3, "std": [0.25] * 3, "crop_scale": [0.35, 1.0], "exif_orientation": "apply"}
    with pytest.warns(UserWarning, match="the recipe is `imagenet-train` with other values"):
        loader = load(recipe="imagenet-train", **choices)
    with loader:
        recipe = loader.recipe
    assert (recipe["interpolation"], recipe["mean"], recipe["std"]) == ("bilinear", [0.5] * 3, [0.25] * 3)
    assert recipe["exif_orientation"] == "apply"
    assert recipe["tensors"][0]["views"][0]["crop"]["scale"] == [0.35, 1.0]


def test_a_loader_has_the_classes_of_its_datasets(tmp_path):
    folder = photos(tmp_path)
    with load(folder, batch_size=4) as loader:
        assert loader.classes == sorted(path.name for path in folder.iterdir())
    with load() as loader:
        assert loader.classes is None


def test_a_published_preset_is_taken_without_a_word(recwarn):
    with load(recipe="imagenet-train", dtype="u8", interpolation="bicubic"):
        assert not [warning for warning in recwarn.list if "the recipe is" in str(warning.message)]


@pytest.mark.parametrize(
    "recipe, given, said",
    [
        ("dinov2", {"image_size": 160}, "`recipe.image_size` is 160: preset `dinov2` does not have it (docs/recipes.md)"),
        ("imagenet-train", {"local_crops_number": 4}, "`recipe.local_crops_number` is 4: preset `imagenet-train` does not"),
        (SMALL, {"image_size": 160}, "`recipe.image_size` is 160: preset `custom` does not have it"),
        ("imagenet-train", {"image_size": 0}, "`recipe.image_size` is 0: must be from 1 to 4096"),
        ("imagenet-train", {"interpolation": "lanczos"}, "interpolation"),
    ],
)
def test_a_choice_that_a_preset_does_not_have_is_named(recipe, given, said):
    with pytest.raises(headwater.ConfigError, match=re.escape(said)):
        load(recipe=recipe, **given)


def test_every_word_is_tried():
    tried = {
        name
        for test in (test_keywords_with_an_equal_meaning_are_taken, test_sizes_of_a_preset_are_chosen)
        for parameters in test.pytestmark[0].args[1]
        for name in next(one for one in parameters if isinstance(one, dict))
    }
    assert set(ACCEPTED) <= tried


@pytest.mark.parametrize("name", REFUSED)
def test_a_keyword_without_a_meaning_says_what_there_is(name):
    with pytest.raises(headwater.ConfigError, match=f"^`{name}` is not a keyword of the loader: .{{10}}"):
        load(**{name: object()})


@pytest.mark.parametrize(
    "given, said",
    [
        ({"shuffle": 1}, "`shuffle` is 1: give True or False"),
        ({"num_workers": -1}, "`num_workers` is -1: give a whole number, 0 or more"),
        ({"num_workers": "2"}, "`num_workers` is '2': give a whole number, 0 or more"),
        ({"timeout": "1s"}, "`timeout` is '1s': give seconds, 0 for the usual time"),
        ({"shuffle": False, "shuffle_block": 3}, "`shuffle` and `shuffle_block` are the same: leave one out"),
        ({"num_workers": 2, "augment_threads": 2}, "`num_workers` and `augment_threads` are the same: leave one out"),
        ({"recipe": lambda image: image}, "`recipe` is a function, which runs in Python: `headwater.recipe_from(..)` makes a recipe of"),
    ],
)
def test_values_that_do_not_fit_are_named(given, said):
    with pytest.raises(headwater.ConfigError, match=re.escape(said)):
        load(**given)


def test_threads_of_a_cluster_are_not_the_loaders(make):
    with pytest.raises(headwater.ConfigError, match="`num_workers` goes with `data`"):
        make(num_workers=2)


@pytest.mark.parametrize("datasets", ["photos/", ["a", "data/photos-000001.tar"]])
def test_a_path_in_place_of_a_name_is_not_waited_for(datasets):
    with pytest.raises(headwater.ConfigError, match="is a path: give it as the first argument, `Loader"):
        headwater.Loader(datasets=datasets)


def test_an_object_in_place_of_a_path_is_named():
    folder = types.SimpleNamespace(root="photos/")
    with pytest.raises(headwater.ConfigError, match="an object of SimpleNamespace: give the path of its files, `Loader\\('photos/'\\)`"):
        load(folder)
    with pytest.raises(headwater.ConfigError, match="`data` is an object of range_iterator: give a path"):
        load(iter(range(3)))


def test_the_batch_size_may_come_second(monkeypatch):
    monkeypatch.setenv("HOME", str(PHOTOS))
    with load("~/photos-000001.tar", 8) as loader, load(["~/photos-000001.tar"], batch_size=8) as other:
        assert loader.batch_size == 8
        assert next(iter(loader)).digest == next(iter(other)).digest


@pytest.mark.parametrize("name, expected", [("float32", "f32"), ("bfloat16", "bf16"), ("float16", "f16"), ("uint8", "u8")])
def test_element_types_have_pytorchs_and_numpys_names_too(make, name, expected):
    assert make(recipe="imagenet-eval", dtype=name).recipe["tensors"][0]["dtype"] == expected


def test_a_batch_is_no_tuple_and_says_so(make):
    torch = pytest.importorskip("torch")
    loader = make()
    with pytest.raises(TypeError, match=r"loader\[0\]: batches come in order"):
        loader[0]
    batch = next(iter(loader))
    with pytest.raises(TypeError, match=r"`for images, labels in loader.tuples\(\)` gives"):
        images, labels = batch
    with pytest.raises(TypeError, match=r"batch\[0\]: a batch has its tensors by name"):
        batch[0]
    with pytest.raises(AttributeError, match=r'moved by `batch.to\("cuda"\)`'):
        batch.cuda()
    with pytest.raises(AttributeError, match=r"has no `float`: take `.torch\(\)`"):
        batch.global_crops.float()
    loader.set_epoch(0)
    for step, (crops, local, labels) in enumerate(loader.tuples()):
        if step == 0:
            assert torch.equal(crops, batch.global_crops.torch()) and torch.equal(labels, batch.labels.torch())
    assert step == len(loader) - 1


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.dtype("float32"), numpy.dtype("<f4"), "float32"])
def test_objects_of_numpy_and_torchvision_are_their_values(dtype):
    class Mode(enum.Enum):
        BILINEAR = "bilinear"

    choices = {"crop_scale": numpy.array([0.5, 1.0]), "mean": numpy.full(3, 0.25, "f4"), "interpolation": Mode.BILINEAR}
    with pytest.warns(UserWarning, match="with other values"):
        loader = load(recipe="imagenet-train", dtype=dtype, batch_size=numpy.int64(2), **choices)
    with loader:
        recipe = loader.recipe
        assert (loader.config["batch_samples"], recipe["tensors"][0]["dtype"]) == (2, "f32")
    assert (recipe["mean"], recipe["interpolation"]) == ([0.25] * 3, "bilinear")
    assert recipe["tensors"][0]["views"][0]["crop"]["scale"] == [0.5, 1.0]
