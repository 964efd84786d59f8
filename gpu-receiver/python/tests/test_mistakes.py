"""What the loader says of mistakes: the key, the value, what there may be, and never a name of Rust's types."""

import copy
import re

import headwater
import pytest
from conftest import PHOTOS

SMALL = {
    "preset": "custom",
    "tensors": [{"name": "images", "dtype": "u8", "height": 8, "width": 8, "views": [{"crop": {"kind": "resize"}, "ops": []}]}],
}
# Words of serde and pyo3.
INNER = re.compile(
    r"\b(struct|enum|[iu](8|16|32|64|128|size)|f(32|64)|invalid (type|value|length)|sequence|expected|integer)\b(?!`)"
)


def custom(**keys):
    """A recipe of one small tensor with other keys, of the tensor or of its view."""
    recipe = copy.deepcopy(SMALL)
    tensor = recipe["tensors"][0]
    for key, value in keys.items():
        where = tensor["views"][0] if key in ("ops", "crop") else recipe if key == "tensors" else tensor
        where[key] = value
    return recipe


def jitter(**keys):
    """One operation with four ranges."""
    ranges = {"brightness": [1, 1], "contrast": [1, 1], "saturation": [1, 1], "hue": [0, 0]}
    return custom(ops=[{"op": "color_jitter", "p": 0.5, **ranges, **keys}])


def dinov2(**keys):
    return {"preset": "dinov2", **keys}


OPERATIONS = (
    "`flip`, `vertical_flip`, `color_jitter`, `grayscale`, `gaussian_blur`, `solarize`, `invert`, `posterize`, `equalize`, "
    "`auto_contrast`, `sharpness`, `pil_blur`, `gaussian_noise`,"
    " `rotation`, `affine`, `perspective`, `rand_augment`, `trivial_augment_wide`, `auto_augment`, "
    "`timm_rand_augment`, `timm_aug_mix`, `erase`, `python`"
)
PRESETS = (
    "dinov2, dinov2-paper, dinov3, dinov3-gram, dinov3-vitl, imagenet-train, imagenet-eval, mae, "
    "clip-train, clip-eval, siglip, ijepa, supervised-timm, torchvision-v2, simclr, mocov3, byol, ibot, swav, raw"
)

MISTAKES = [
    ({"seed": "x"}, 'keyword seed: `receiver.seed` is "x": give a whole number, 0 or more'),
    ({"seed": -1}, "keyword seed: `receiver.seed` is -1: give a whole number, 0 or more"),
    ({"seed": 1.5}, "keyword seed: `receiver.seed` is 1.5: give a whole number, 0 or more"),
    ({"batch_size": 0}, "receiver.batch_samples is 0: must be from 1 to 65536"),
    ({"batch_size": "8"}, 'keyword batch_size: `receiver.batch_samples` is "8": give a whole number, 0 or more'),
    ({"batch_size": 2.5}, "keyword batch_size: `receiver.batch_samples` is 2.5: give a whole number, 0 or more"),
    ({"batch_size": -3}, "keyword batch_size: `receiver.batch_samples` is -3: give a whole number, 0 or more"),
    ({"batch_size": None, "seed": [1]}, "keyword seed: `receiver.seed` is a list: give a whole number, 0 or more"),
    ({"rank": "a"}, 'keyword rank: `receiver.rank` is "a": give a whole number, 0 or more'),
    ({"rank": 3, "world_size": 2}, "receiver.rank is 3: must be below receiver.world_size"),
    (
        {"world_size": 0},
        "it is not clear which rank this process is: receiver.world_size (keyword world_size) says 0, and "
        "nothing says the rank; correct that, or set receiver.rank and receiver.world_size",
    ),
    ({"epochs": "ten"}, 'keyword epochs: `receiver.epochs` is "ten": give a whole number, 0 or more'),
    ({"window_batches": 0}, "receiver.window_batches is 0: must be from 1 to 1020"),
    ({"window_batches": "x"}, 'keyword window_batches: `receiver.window_batches` is "x": give a whole number, 0 or more'),
    ({"masks": 5}, "keyword masks: `receiver.masks` is 5: give a table of keys and values"),
    (
        {"masks": {"kind": "x"}},
        "keyword masks: unknown key `receiver.masks.kind`: known keys of `receiver.masks` are patch, tensor, "
        "style, sample_probability, ratio_min, ratio_max, random_circular_shift",
    ),
    (
        {"masks": {"height": 3}},
        "keyword masks: unknown key `receiver.masks.height`: known keys of `receiver.masks` are patch, tensor, "
        "style, sample_probability, ratio_min, ratio_max, random_circular_shift",
    ),
    ({"masks": [1]}, "receiver.masks.tensor is `global_crops`: the recipe has no tensor of this name"),
    ({"mixing": 1}, "keyword mixing: `receiver.mixing` is 1: give a table of keys and values"),
    ({"mixing": {"style": "foo"}}, "keyword mixing: `receiver.mixing.style` is `foo`: must be one of `timm`, `torchvision`"),
    ({"mixing": {"mixup_alpha": "a"}}, 'keyword mixing: `receiver.mixing.mixup_alpha` is "a": give a number'),
    ({"patches": 3}, "keyword patches: `receiver.patches` is 3: give a table of keys and values"),
    (
        {"patches": {"size": "x"}},
        "keyword patches: unknown key `receiver.patches.size`: known keys of `receiver.patches` are kind, patch, "
        "tensor, ratio, enc_mask_scale, pred_mask_scale, aspect_ratio, num_enc_masks, num_pred_masks, min_keep, allow_overlap",
    ),
    ({"curriculum": 5}, "keyword curriculum: `curriculum` is 5: give a list"),
    (
        {"curriculum": [{"at": 1}]},
        "keyword curriculum: unknown key `curriculum[0].at`: known keys of `curriculum[0]` are step, weights",
    ),
    (
        {"curriculum": [{"epoch": "x"}]},
        "keyword curriculum: unknown key `curriculum[0].epoch`: known keys of `curriculum[0]` are step, weights",
    ),
    ({"recipe": 5}, "`recipe` = 5: give a preset's name, the path of a TOML file or a table"),
    ({"recipe": "dinov9"}, f"no recipe preset `dinov9`: known are {PRESETS}; did you mean `dinov3`?"),
    (
        {"recipe": "nofile.toml"},
        "cannot read configuration file `nofile.toml` (keyword recipe): No such file or directory (os error 2)",
    ),
    ({"recipe": ["dinov2"]}, '`recipe` = ["dinov2"]: give a preset\'s name, the path of a TOML file or a table'),
    ({"recipe": {"preset": 5}}, "keyword recipe: `recipe.preset` is 5: give a string"),
    ({"recipe": {"presett": "dinov2"}}, "keyword recipe: unknown key `recipe.presett`: did you mean `recipe.preset`?"),
    ({"recipe": dinov2(mean="x")}, 'keyword recipe: `recipe.mean` is "x": give a list of 3'),
    ({"recipe": dinov2(mean=[1, 2])}, "keyword recipe: `recipe.mean` has 2 values: give a list of 3"),
    ({"recipe": dinov2(mean=[0.5, 0.5, "x"])}, 'keyword recipe: `recipe.mean[2]` is "x": give a number'),
    (
        {"recipe": dinov2(dtype="float33")},
        "keyword recipe: `recipe.dtype` is `float33`: must be one of `bf16`, `f16`, `f32`, `u8`, `fp8_e4m3`, `mxfp8_e4m3`",
    ),
    (
        {"recipe": dinov2(interpolation="cubic")},
        "keyword recipe: `recipe.interpolation` is `cubic`: must be one of `nearest`, `box`, `bilinear`, `bicubic`, `random`",
    ),
    ({"recipe": dinov2(fp8="x")}, 'keyword recipe: `recipe.fp8` is "x": give a table of keys and values'),
    (
        {"recipe": dinov2(fp8={"scaling": "delay"})},
        "keyword recipe: `recipe.fp8.scaling` is `delay`: did you mean `delayed`? It must be one of `static`, `delayed`",
    ),
    (
        {"recipe": custom(ops=[{"op": "flipp", "p": 0.5}])},
        f"keyword recipe: `recipe.tensors[0].views[0].ops[0].op` is `flipp`: did you mean `flip`? It must be one "
        f"of {OPERATIONS}",
    ),
    (
        {"recipe": custom(ops=[{"op": "flip", "p": "half"}])},
        'keyword recipe: `recipe.tensors[0].views[0].ops[0].p` is "half": give a number',
    ),
    (
        {"recipe": custom(ops=[{"op": "flip"}])},
        "keyword recipe: `recipe.tensors[0].views[0].ops[0]` needs a key `p`: write it",
    ),
    ({"recipe": custom(ops=[{"p": 0.5}])}, "keyword recipe: `recipe.tensors[0].views[0].ops[0]` needs a key `op`: write it"),
    (
        {"recipe": custom(ops=["flip"])},
        'keyword recipe: `recipe.tensors[0].views[0].ops[0]` is "flip": give a table of keys and values',
    ),
    ({"recipe": custom(ops="flip")}, 'keyword recipe: `recipe.tensors[0].views[0].ops` is "flip": give a list'),
    ({"recipe": custom(ops=[{"op": "flip", "p": 2}])}, "`recipe.tensors[0].views[0].ops[0].p` is 2: must be from 0 to 1"),
    (
        {"recipe": custom(ops=[{"op": "flip", "q": 0.5, "p": 0.1}])},
        "keyword recipe: unknown key `recipe.tensors[0].views[0].ops[0].q`: known keys of "
        "`recipe.tensors[0].views[0].ops[0]` are p",
    ),
    (
        {"recipe": jitter(brightness=[1, "x"])},
        'keyword recipe: `recipe.tensors[0].views[0].ops[0].brightness[1]` is "x": give a number',
    ),
    (
        {"recipe": jitter(brightness=0.4)},
        "keyword recipe: `recipe.tensors[0].views[0].ops[0].brightness` is 0.4: give a list of 2",
    ),
    (
        {"recipe": jitter(brightness=[1, 1, 1])},
        "keyword recipe: `recipe.tensors[0].views[0].ops[0].brightness` has 3 values: give a list of 2",
    ),
    (
        {"recipe": custom(ops=[{"op": "solarize", "p": 0.5, "threshold": 300}])},
        "keyword recipe: `recipe.tensors[0].views[0].ops[0].threshold` is 300: give a whole number, from 0 to 255",
    ),
    (
        {"recipe": custom(ops=[{"op": "solarize", "p": 0.5, "threshold": -3}])},
        "keyword recipe: `recipe.tensors[0].views[0].ops[0].threshold` is -3: give a whole number, from 0 to 255",
    ),
    (
        {"recipe": custom(crop="resize")},
        'keyword recipe: `recipe.tensors[0].views[0].crop` is "resize": give a table of keys and values',
    ),
    (
        {"recipe": custom(crop={"kind": "rezise"})},
        "keyword recipe: `recipe.tensors[0].views[0].crop.kind` is `rezise`: did you mean `resize`? It must be "
        "one of `random_resized`, `center_after_resize`, `random_after_resize`, `resize`, `random`, `center`, "
        "`sequence`, `random_resized_sequence`, `base`, `window_of_base`",
    ),
    (
        {"recipe": custom(crop={"kind": "random_resized", "scale": 0.5, "ratio": [1, 1]})},
        "keyword recipe: `recipe.tensors[0].views[0].crop.scale` is 0.5: give a list of 2",
    ),
    ({"recipe": custom(crop={})}, "keyword recipe: `recipe.tensors[0].views[0].crop` needs a key `kind`: write it"),
    ({"recipe": custom(height="x")}, 'keyword recipe: `recipe.tensors[0].height` is "x": give a whole number, 0 or more'),
    ({"recipe": custom(height=-4)}, "keyword recipe: `recipe.tensors[0].height` is -4: give a whole number, 0 or more"),
    ({"recipe": custom(dtype=7)}, "keyword recipe: `recipe.tensors[0].dtype` is 7: give a string"),
    ({"recipe": custom(views={})}, "keyword recipe: `recipe.tensors[0].views` is a table: give a list"),
    ({"recipe": custom(tensors={})}, "keyword recipe: `recipe.tensors` is a table: give a list"),
    ({"recipe": custom(tensors=5)}, "keyword recipe: `recipe.tensors` is 5: give a list"),
    ({"recipe": custom(views=[])}, "`recipe.tensors[0].views` is empty: give one view at least"),
    (
        {"recipe": dinov2(fields=[{"name": "x"}])},
        "keyword recipe: `recipe.fields[0]` cannot be read: field `x`: needs a key `kind`",
    ),
    (
        {"recipe": dinov2(fields=[{"name": "x", "field": "json", "kind": "foo"}])},
        "keyword recipe: `recipe.fields[0]` cannot be read: field `x`: `foo` is not known: must be one of `int`, "
        "`float`, `json`, `npy`, `npz`, `multi_hot`, `bytes`, `text`, `tokens`, `sequence`, `pack`",
    ),
    ({"recipe": dinov2(fields="x")}, 'keyword recipe: `recipe.fields` is "x": give a list'),
    (
        {"recipe": dinov2(fields=[{"name": "x", "field": "json", "kind": "int", "length": "x"}])},
        "keyword recipe: `recipe.fields[0]` cannot be read: field `x`: unknown key `length`: known are `default`",
    ),
    (
        {"recipe": dinov2(fields=[{"name": "x", "field": "json", "kind": "json", "value": {"a": 1}}])},
        "keyword recipe: `recipe.fields[0]` cannot be read: field `x`: unknown key `value`: known are `path`, "
        "`as`, `dtype`, `shape`, `bytes_max`, `truncate`",
    ),
    (
        {"recipe": {"preset": "dinov3", "dinov3": {"patch_size": "x"}}},
        'keyword recipe: `recipe.dinov3.patch_size` is "x": give a whole number, 0 or more',
    ),
    ({"recipe": {"preset": "dinov3", "dinov3": 5}}, "keyword recipe: `recipe.dinov3` is 5: give a table of keys and values"),
    ({"shuffle_block": "x"}, 'keyword shuffle_block: `receiver.shuffle_block` is "x": give a whole number, 0 or more'),
    ({"shuffle_block": -1}, "keyword shuffle_block: `receiver.shuffle_block` is -1: give a whole number, 0 or more"),
    (
        {"order": "globl"},
        "keyword order: `receiver.order` is `globl`: did you mean `global`? It must be one of `global`, `per-rank`, `list`",
    ),
    ({"order": 5}, "receiver.order_list (array): it has 0 axes: give one, or two for a row each epoch"),
    ({"order": "list"}, 'receiver.order is "list": needs receiver.order_list or receiver.order_weights'),
    (
        {"order": [0.5, 1]},
        'receiver.order_list (array): entry 0: 0.5 is not a whole number: write integers, '
        '`array.astype(numpy.int64)` or `numpy.savetxt(path, array, fmt="%d")`',
    ),
    ({"order": [-1]}, "receiver.order_list (array): entry 0: -1 is negative: numbers begin at 0"),
    (
        {"epoch_end": "drop"},
        "keyword epoch_end: `receiver.epoch_end` is `drop`: did you mean `drop_last`? It must be one of "
        "`drop_last`, `short_last`, `exact`, `steps`",
    ),
    ({"links": "tcpp"}, 'receiver.links is "tcpp": must be one of "cuda" "shm" "rdma" "ucx" "tcp"'),
    ({"links": 5}, "keyword links: `receiver.links` is 5: give a list"),
    ({"links": [1]}, "keyword links: `receiver.links[0]` is 1: give a string"),
    (
        {"on_bad_sample": "skip"},
        "keyword on_bad_sample: `receiver.on_bad_sample` is `skip`: must be one of `substitute`, `fail`",
    ),
    ({"device": "gpu"}, 'receiver.device is "gpu": must be "cpu", or "cuda:0" and so on'),
    ({"device": 5}, 'receiver.device is "5": must be "cpu", or "cuda:0" and so on'),
    ({"progress": 5}, "`progress` is a int: give a function of two numbers, indexed shards and all shards"),
    ({"embedded": "process"}, '`embedded` = "process": give "threads", or leave it out'),
    ({"augment_threads": "x"}, 'keyword augment_threads: `augment.threads` is "x": give a whole number, 0 or more'),
    ({"augment_threads": -1}, "keyword augment_threads: `augment.threads` is -1: give a whole number, 0 or more"),
    ({"host_share": "yes"}, 'keyword host_share: `receiver.host_share` is "yes": give true or false'),
    ({"resume": "yes"}, 'keyword resume: `receiver.resume` cannot be read: `yes` is not true, false or "fresh"'),
    ({"checkpoint_dir": 5}, "keyword checkpoint_dir: `receiver.checkpoint_dir` is 5: give a string"),
    (
        {"checkpoint_every_steps": "x"},
        'keyword checkpoint_every_steps: `receiver.checkpoint_every_steps` is "x": give a whole number, 0 or more',
    ),
    (
        {"foo": 1},
        "unknown keyword `foo`: the keys of [receiver] and [links] in docs/configuration.md are keywords, and "
        "datasets, recipe, dtype, batch_size",
    ),
    ({"batchsize": 4}, "unknown keyword `batchsize`: did you mean `batch_size`?"),
    ({"image_field": 5}, "keyword image_field: `receiver.image_field` is 5: give a string"),
    ({"label_field": ["a"]}, "keyword label_field: `receiver.label_field` is a list: give a string"),
    (
        {"start_epoch": "x"},
        "unknown keyword `start_epoch`: the keys of [receiver] and [links] in docs/configuration.md are "
        "keywords, and datasets, recipe, dtype, batch_size",
    ),
]


@pytest.mark.parametrize("given, said", MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_what_there_may_be(given, said):
    with pytest.raises(headwater.ConfigError) as caught:
        headwater.Loader(PHOTOS / "photos-000001.tar", **{"recipe": SMALL, "embedded": "threads", **given})
    assert str(caught.value) == said
    assert not INNER.search(said)


@pytest.mark.parametrize(
    "state, said",
    [
        ({}, "the state is not usable: needs a key `version`"),
        (5, "the state is not usable: is 5: give a table of keys and values"),
    ],
)
def test_what_is_no_state_is_named(state, said):
    with headwater.Loader(PHOTOS / "photos-000001.tar", recipe=SMALL, embedded="threads") as loader:
        with pytest.raises(headwater.StateError) as caught:
            loader.load_state_dict(state)
    assert str(caught.value) == said


def test_functions_and_lists_are_asked_for_by_name():
    with pytest.raises(headwater.ConfigError, match="^`progress` is a int: give a function of two numbers"):
        headwater.Loader(PHOTOS, progress=5)
    with pytest.raises(TypeError, match="^give a list of images"):
        headwater.decode(5)
