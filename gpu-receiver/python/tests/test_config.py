"""Where a loader's configuration comes from, and what is said when it is wrong."""

import os
import re
import sys
import warnings

import headwater
import numpy
import pytest
from conftest import SMALL
from headwater.distributed import launch


NO_DATASET = (
    "no dataset is named: write [[dataset]] in headwater.toml, or name one by `--dataset` (Python: give the "
    "path of your files, `Loader(\"photos/\")`, or a cluster's names by `datasets`)"
)
PRESETS = (
    "dinov2, dinov2-paper, dinov3, dinov3-gram, dinov3-vitl, imagenet-train, imagenet-eval, "
    "mae, clip-train, clip-eval, siglip, ijepa, supervised-timm, torchvision-v2, simclr, mocov3, byol, "
    "ibot, swav, raw"
)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, NO_DATASET),
        ({"datasets": []}, NO_DATASET),
        ({"datasets": "a", "batch": 4}, "unknown keyword `batch`: did you mean `batch_size`?"),
        ({"datasets": "a", "batchsize": 4}, "unknown keyword `batchsize`: did you mean `batch_size`?"),
        ({"datasets": "a", "worker": "a:1"}, "unknown keyword `worker`: did you mean `workers`?"),
        (
            {"datasets": "a", "bananas": True},
            "unknown keyword `bananas`: the keys of [receiver] and [links] in docs/configuration.md are "
            "keywords, and datasets, recipe, dtype, batch_size",
        ),
        (
            {"datasets": "a", "batch_size": "4"},
            'keyword batch_size: `receiver.batch_samples` is "4": give a whole number, 0 or more',
        ),
        (
            {"datasets": "a", "batch_size": 4, "batch_samples": 4},
            "`batch_size` and `batch_samples` are the same: leave one out",
        ),
        (
            {"datasets": "a", "batch_size": 70000},
            "receiver.batch_samples is 70000: must be from 1 to 65536",
        ),
        ({"datasets": "a", "rank": 3, "world_size": 3}, "receiver.rank is 3: must be below receiver.world_size"),
        (
            {"datasets": "a", "links": ["smoke"]},
            'receiver.links is "smoke": must be one of "cuda" "shm" "rdma" "ucx" "tcp"',
        ),
        ({"datasets": "a", "recipe": "dinov9"}, f"no recipe preset `dinov9`: known are {PRESETS}; did you mean `dinov3`?"),
        (
            {"datasets": "a", "recipe": 3},
            "`recipe` = 3: give a preset's name, the path of a TOML file or a table",
        ),
        (
            {"datasets": "a", "dtype": "bf17"},
            "keyword dtype: `recipe.dtype` is `bf17`: did you mean `bf16`? It must be one of `bf16`, `f16`, `f32`, `u8`, "
            "`fp8_e4m3`, `mxfp8_e4m3`",
        ),
        (
            {"datasets": "a", "recipe": SMALL, "dtype": "f32"},
            "keyword dtype: `recipe.dtype` goes with a preset: this recipe gives each tensor its own",
        ),
        (
            {"datasets": "a", "recipe": {"tensor": []}},
            "keyword recipe: unknown key `recipe.tensor`: did you mean `recipe.tensors`?",
        ),
        (
            {"datasets": "a", "recipe": {"preset": "dinov2", **SMALL}},
            'recipe.tensors are given beside recipe.preset `dinov2`: write preset = "custom", or leave '
            "them out",
        ),
        (
            {"datasets": [{"name": "a", "wheight": 1}]},
            "keyword datasets: unknown key `dataset[0].wheight`: did you mean `dataset[0].weight`?",
        ),
        (
            {"config": "/nowhere/headwater.toml"},
            "cannot read configuration file `/nowhere/headwater.toml` (keyword config): No such file or "
            "directory (os error 2)",
        ),
        (
            {"datasets": "a", "recipe": "/nowhere/recipe.toml"},
            "cannot read configuration file `/nowhere/recipe.toml` (keyword recipe): No such file or "
            "directory (os error 2)",
        ),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(headwater.ConfigError) as caught:
        headwater.Loader(**options)
    assert isinstance(caught.value, (ValueError, RuntimeError))
    assert str(caught.value) == message


def test_a_wrong_operation_of_a_view_is_named_by_its_path():
    view = SMALL["tensors"][0]["views"][0]
    for ops, message in [
        (
            [{"op": "flip", "p": 0.5}, {"op": "grayscale", "p": 1.0}, {"op": "solarise", "p": 1.0}],
            "keyword recipe: `recipe.tensors[0].views[1].ops[2].op` is `solarise`: did you mean `solarize`? It must be one of `flip`, "
            "`vertical_flip`, `color_jitter`, `grayscale`, `gaussian_blur`, `solarize`, "
            "`invert`, `posterize`, `equalize`, `auto_contrast`, `sharpness`, `pil_blur`, `gaussian_noise`, "
            "`rotation`, `affine`, `perspective`, `rand_augment`, `trivial_augment_wide`, `auto_augment`, "
            "`timm_rand_augment`, `timm_aug_mix`, `erase`, `python`",
        ),
        (
            [{"op": "flip", "p": 0.5}, {"op": "gaussian_blur", "p": 1.0, "sigma": [0.1, 200]}],
            "`recipe.tensors[0].views[1].ops[1].sigma` is [0.1, 200]: must be [least, greatest], from "
            "0.001 to 100",
        ),
        (
            [{"op": "flip"}],
            "keyword recipe: `recipe.tensors[0].views[1].ops[0]` needs a key `p`: write it",
        ),
        (
            [{"op": "flip", "p": 0.5, "q": 1}],
            "keyword recipe: unknown key `recipe.tensors[0].views[1].ops[0].q`: known keys of "
            "`recipe.tensors[0].views[1].ops[0]` are p",
        ),
    ]:
        tensor = {**SMALL["tensors"][0], "views": [view, {**view, "ops": ops}]}
        with pytest.raises(headwater.ConfigError) as caught:
            headwater.Loader(datasets="a", recipe={"tensors": [tensor]})
        assert str(caught.value) == message


def test_one_string_will_do_where_a_list_is_expected(make, tiers):
    loader = make(storage=tiers.storage, workers=",".join(tiers.workers), links="tcp")
    config = loader.config
    assert (config["storage"], config["workers"]) == ([tiers.storage], tiers.workers)
    assert config["links"] == ["tcp"]


class dtype:
    """What PyTorch's dtypes look like from outside; test_torch.py has the real ones."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


dtype.__module__ = "torch"


def test_a_dtype_of_pytorch_is_taken(make):
    for torchs, ours in [("bfloat16", "bf16"), ("float16", "f16"), ("float32", "f32"), ("uint8", "u8")]:
        loader = make(recipe="imagenet-eval", dtype=dtype(f"torch.{torchs}"))
        assert loader.recipe["tensors"][0]["dtype"] == ours
    with pytest.raises(headwater.ConfigError, match="`recipe.dtype` is `torch.float64`: must be one of"):
        make(recipe="imagenet-eval", dtype=dtype("torch.float64"))


STEP = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}
FILE = """
[[dataset]]
name = "photos"
shards = "photos-*.tar"
[[dataset]]
name = "others"
shards = ["others-*.tar"]
weight = 3.0
[recipe]
preset = "imagenet-eval"
dtype = "u8"
[storage]
listen = "127.0.0.1:7401"
[receiver]
seed = 5
batch_samples = 4
epoch_end = { steps = 9 }
"""


def test_keywords_go_before_the_environment_and_that_before_the_file(make, tmp_path, monkeypatch):
    file = tmp_path / "headwater.toml"
    file.write_text(FILE)
    monkeypatch.setenv("HEADWATER_CONFIG", str(file))
    monkeypatch.setenv("HEADWATER_RECEIVER__SEED", "6")
    monkeypatch.setenv("HEADWATER_RECEIVER__LINKS", "tcp")
    monkeypatch.setenv("HEADWATER_RECEIVER__JOB", "7")
    monkeypatch.setenv("HEADWATER_RECIPE__DTYPE", "f16")
    loader = make(config=None, batch_size=numpy.int64(2))
    config = loader.config
    assert [config[key] for key in ("seed", "links", "job", "batch_samples")] == [6, ["tcp"], "7", 2]
    assert loader.datasets == {"photos": 64, "others": 41}
    # The file says nothing of the photos' weight, so both are relative to 1.
    assert loader.weights == {"photos": 0.25, "others": 0.75}
    assert len(loader) == 9
    batch = next(iter(loader))
    assert (batch.images.dtype, batch.images.shape) == ("f16", (2, 3, 224, 224))
    assert batch.images.numpy().dtype == numpy.float16
    assert make(config=file, seed=8, dtype="u8").config["seed"] == 8


def test_settings_of_links_are_keywords_and_their_old_names_warn(make, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = make(tcp_listen="127.0.0.1:0", rdma_queue_pairs=2).config
    assert (config["tcp_listen"], config["rdma_queue_pairs"]) == ("127.0.0.1:0", 2)
    file = tmp_path / "headwater.toml"
    file.write_text(FILE + 'rdma_device = "mlx5_0"\n')
    with pytest.warns(UserWarning, match=r"`receiver.rdma_device` is `links.rdma_device` now"):
        assert make(config=file).config["rdma_device"] == "mlx5_0"


def test_a_service_on_ray_warns_of_old_names(tmp_path):
    from headwater._native import service_config

    file = tmp_path / "headwater.toml"
    file.write_text("[augment]\nshm_allow_uids = [7]\n")
    with pytest.warns(UserWarning, match=r"`augment.shm_allow_uids` is `links.shm_allow_uids` now"):
        text, _ = service_config({"photos": "photos.tar"}, file, {}, 1, False)
    assert "shm_allow_uids = [7]" in text


def test_a_recipe_given_by_keyword_stands_for_itself(make, tmp_path):
    file = tmp_path / "headwater.toml"
    file.write_text(FILE)
    recipe = make(config=file, recipe="imagenet-train").recipe
    assert recipe["tensors"][0]["dtype"] == "bf16"
    assert len(make(config=file, recipe=SMALL).recipe["tensors"]) == 2


def test_a_recipe_may_be_a_file_of_its_own(make, tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text("preset = 'imagenet-eval'\nmean = [0.5, 0.5, 0.5]\n")
    recipe = make(recipe=file).recipe
    assert recipe["mean"] == [0.5, 0.5, 0.5]
    assert [tensor["name"] for tensor in recipe["tensors"]] == ["images"]
    assert recipe["tensors"][0]["dtype"] == "bf16"


@pytest.mark.parametrize(
    "variables, options, expected",
    [
        ({}, {}, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {}, (1, 2)),
        (STEP, {}, (3, 4)),
        ({"RANK": "1", "WORLD_SIZE": "2", **STEP}, {}, (1, 2)),
        ({"RANK": "", "WORLD_SIZE": "4", **STEP}, {}, (3, 4)),
        ({"RANK": "", "WORLD_SIZE": ""}, {}, (0, 1)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, {}, (1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, {}, (1, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"rank": 0, "world_size": 1}, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"world_size": 1}, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"world_size": 2}, (1, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"rank": 1}, (1, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"rank": 2, "world_size": 3}, (2, 3)),
    ],
)
def test_the_launcher_says_the_rank(make, monkeypatch, variables, options, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = make(**options).config
    assert (config["rank"], config["world_size"]) == expected
    if not options:
        _, *distributed = launch._ranks(os.environ)
        assert tuple(distributed) == expected


@pytest.mark.parametrize(
    "variables, options, fault",
    [
        ({"WORLD_SIZE": "2"}, {}, "WORLD_SIZE says 2, and nothing says the rank"),
        ({"RANK": "1"}, {}, "RANK says 1, and nothing says the number of ranks"),
        ({"WORLD_SIZE": "8", **STEP}, {}, "WORLD_SIZE says 8, and SLURM_NTASKS says 4"),
        ({}, {"world_size": 4}, r"receiver.world_size \(keyword world_size\) says 4, and nothing says the rank"),
        (STEP, {"world_size": 8}, r"receiver.world_size \(keyword world_size\) says 8, and SLURM_NTASKS says 4"),
        (STEP, {"rank": 0}, r"receiver.rank \(keyword rank\) says 0, and SLURM_PROCID says 3"),
    ],
)
def test_a_rank_that_is_not_clear_is_refused(make, monkeypatch, variables, options, fault):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(headwater.ConfigError, match=f"not clear which rank this process is: {fault}; correct that, or set receiver.rank"):
        make(**options)
    if not options:
        with pytest.raises(headwater.ConfigError):
            launch._ranks(os.environ)


def test_a_batch_script_is_one_rank_and_hears_of_it(make, monkeypatch):
    for name, value in {**STEP, "SLURM_PROCID": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_STEP_ID")
    with pytest.warns(UserWarning, match="SLURM_NTASKS is 4, and this process was not started by srun"):
        loader = make()
    assert (loader.config["rank"], loader.config["world_size"]) == (0, 1)


def test_a_variable_that_looks_like_a_setting_is_named(make, monkeypatch):
    monkeypatch.setenv("HEADWATER_RECEIVER_SEED", "7")
    ignored = "HEADWATER_RECEIVER_SEED is ignored: did you mean HEADWATER_RECEIVER__SEED?"
    with pytest.warns(UserWarning, match=re.escape(ignored)):
        assert make().config["seed"] == 0


def test_a_service_on_ray_asks_for_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(headwater.ConfigError, match="Ray cannot be imported .*: pip install ray"):
        headwater.Loader(ray="headwater", datasets="photos")
