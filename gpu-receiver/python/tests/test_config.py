"""Where a loader's configuration comes from, and what is said when it is wrong."""

import headwater
import numpy
import pytest
from conftest import SMALL


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "no dataset"),
        ({"datasets": []}, "no dataset"),
        ({"datasets": "a", "batchsize": 4}, "`batchsize` = 4: unknown field"),
        ({"datasets": "a", "batch_size": "4"}, '`batch_samples` = "4": invalid type'),
        ({"datasets": "a", "batch_size": 4, "batch_samples": 4}, "leave one out"),
        ({"datasets": "a", "rank": 3}, "receiver.rank is 3"),
        ({"datasets": "a", "links": ["smoke"]}, "receiver.links"),
        ({"datasets": "a", "recipe": "dinov9"}, "no recipe preset `dinov9`: known are dinov2"),
        ({"datasets": "a", "dtype": "bf17"}, '`dtype` = "bf17": unknown variant'),
        ({"datasets": "a", "recipe": SMALL, "dtype": "f32"}, "`dtype` goes with a preset"),
        ({"datasets": "a", "recipe": {"tensor": []}}, "`recipe.tensor` = .*: unknown field"),
        ({"datasets": "a", "recipe": {"preset": "dinov2", "tensors": []}}, "go together"),
        ({"datasets": [{"name": "a", "wheight": 1}]}, "wheight"),
        ({"config": "/nowhere/headwater.toml"}, "/nowhere/headwater.toml: No such file"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(headwater.ConfigError, match=message) as caught:
        headwater.Loader(**options)
    assert isinstance(caught.value, (ValueError, RuntimeError))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ("[reciever]", "unknown key `reciever`"),
        ("[receiver]\nbatch = 3", "`receiver.batch` = 3: unknown field"),
        ("[receiver]\nseed = 'x'", '`receiver.seed` = "x": invalid type'),
        ("[telemetry]\nlogs = 'x'", "`telemetry.logs`"),
        ("[[dataset]]\nname = 'a'\nweihgt = 1", "weihgt"),
        ("receiver = 1", "must be a section"),
        ("[receiver", "headwater.toml: TOML parse error at line 1"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path, text, message):
    file = tmp_path / "headwater.toml"
    file.write_text(text)
    with pytest.raises(headwater.ConfigError, match=message) as caught:
        headwater.Loader(file)
    assert str(file) in str(caught.value)


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
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, {}, (3, 4)),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, {}, (1, 2)),
        ({"RANK": "1", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, {}, (3, 4)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"rank": 0, "world_size": 1}, (0, 1)),
    ],
)
def test_the_launcher_says_the_rank(make, monkeypatch, variables, options, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = make(**options).config
    assert (config["rank"], config["world_size"]) == expected


def test_a_launchers_word_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setenv("RANK", "first")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(headwater.ConfigError, match=r"\$RANK is `first`"):
        headwater.Loader(datasets="photos")
