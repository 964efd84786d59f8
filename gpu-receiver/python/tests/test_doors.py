"""The program and the wheel read one configuration: equal values, equal errors."""

import json
import os
import subprocess
import sys
import tomllib

import headwater
import pytest
from conftest import PROJECT, SMALL, program

PHOTOS = '[[dataset]]\nname = "photos"\n'
# A table of `[recipe]` with small views, as TOML.
EVAL = 'preset = "imagenet-eval"\ndtype = "u8"'
LAUNCHED = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
VIEW = {"crop": {"kind": "random_resized", "scale": [0.3, 1.0], "ratio": [0.75, 1.3]}}


def run(*arguments, **options):
    command = [program(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def text_of(value):
    """A value as `--set` takes it."""
    return value if isinstance(value, str) else json.dumps(value).replace('":', '" =')


def flags(settings):
    return [f for key, value in settings.items() for f in ("--set", f"{key}={text_of(value)}")]


def keywords(settings):
    """The same settings as keywords of the loader."""
    given = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        if section == "recipe":
            given.setdefault("recipe", {})[name] = value
        else:
            given[{"dataset": "datasets"}.get(key, name or section)] = value
    return given


# File, environment, and what is set on top of them: by `--set` here, by keyword there.
SETTINGS = [
    ("", {}, {}),
    (f"[recipe]\n{EVAL}\n[receiver]\nseed = 5\nstorage = 'a:1'\nepoch_end = {{ steps = 9 }}", {}, {}),
    (f"[recipe]\n{EVAL}\nmean = [0.5, 0.5, 0.5]\n[telemetry]\nlog = 'error'", {}, {"receiver.seed": 6}),
    ("", {"HEADWATER_RECEIVER__SEED": "7", "HEADWATER_RECIPE__DTYPE": "f16"}, {}),
    ("", {"HEADWATER_RECEIVER__JOB": "2026", "HEADWATER_RECEIVER__LINKS": "tcp,shm"}, {}),
    ("", {"HEADWATER_RECEIVER__MASKS": "{patch = 14}", "HEADWATER_RECIPE__PRESET": "dinov2"}, {}),
    ("", {"HEADWATER_RECEIVER__MASKS__PATCH": "14", "HEADWATER_RECIPE__PRESET": "dinov2"}, {}),
    ("[publish]\nqueue_batches = 2\n[scaling]\nworkers_max = 3\n[autoscale]\nlook_ms = 5", {}, {}),
    ("", LAUNCHED, {}),
    ("", LAUNCHED, {"receiver.rank": 0, "receiver.world_size": 1}),
    ("[receiver]\nworld_size = 2\nbatch_samples = 8", LAUNCHED, {}),
    ("", {}, {"receiver.links": "tcp", "receiver.resume_allow": ["seed", "order"]}),
    ("", {}, {"receiver.epoch_end": {"steps": 605}, "receiver.window_batches": 3}),
    ("", {}, {"receiver.epoch_end": "short_last", "receiver.hedge_median_multiple": 2.5}),
    ("", {}, {"recipe.preset": "imagenet-train", "recipe.dtype": "f32"}),
    ("", {}, {"recipe.tensors": SMALL["tensors"]}),
    (f"[recipe]\n{EVAL}\n[[curriculum]]\nstep = 4\nweights = [2.0]", {}, {}),
    ("", {}, {"curriculum": [{"step": 7, "weights": [1.0]}]}),
]


def told(text):
    """What `headwater config` prints, as tables."""
    return tomllib.loads(text)


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_the_same_settings_have_the_same_effect_in_both(tiers, tmp_path, monkeypatch, number):
    file, env, settings = SETTINGS[number]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headwater.toml").write_text(f"{PHOTOS}{file}\n")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    # Where the tiers are is told by both in the same way; it is not what is compared.
    tiers_at = {"storage": tiers.storage, "workers": ",".join(tiers.workers)}
    places = [f for k, v in tiers_at.items() for f in ("--set", f"receiver.{k}={v}")]
    shown = run("config", *flags(settings), *places)
    assert shown.returncode == 0, shown.stderr
    expected = told(shown.stdout)
    given = keywords(settings)
    with headwater.Loader(**given, **tiers_at) as loader:
        config = dict(loader.config)
        curriculum = config.pop("curriculum")
        # A loader calls functions of its trainer, with the trainer's Python.
        ours = {key: config.pop(key) for key in ("python", "python_path")}
        assert ours == {"python": sys.executable, "python_path": sys.path[:1]}
        assert [expected["receiver"].pop(key) for key in ours] == ["python3", []]
        assert config == {**expected["receiver"], **expected["links"]}
        assert curriculum == expected.get("curriculum", [])
        assert loader.datasets == {"photos": 64}


# What the order and the bytes of all batches follow from, as a checkpoint has it.
RECIPES = [
    (f"[recipe]\n{EVAL}", {}, {}),
    (f"[recipe]\n{EVAL}", {"HEADWATER_RECIPE__STD": "[0.25, 0.25, 0.25]"}, {}),
    ("[recipe]\npreset = 'raw'\nraw_bytes_max = 300000", {}, {}),
    ("", {}, {"recipe.tensors": SMALL["tensors"]}),
    ("", {}, {"recipe.preset": "custom", "recipe.tensors": SMALL["tensors"], "recipe.mean": [0.5, 0.4, 0.3]}),
    ("", {}, {"recipe.preset": "dinov3", "recipe.dinov3": {"local_crops_number": 2}, "recipe.dtype": "u8"}),
]


@pytest.mark.parametrize("number", range(len(RECIPES)))
def test_the_same_recipe_is_made_of_the_same_settings_in_both(tiers, tmp_path, monkeypatch, number):
    file, env, settings = RECIPES[number]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headwater.toml").write_text(f"{PHOTOS}{file}\n[receiver]\nbatch_samples = 2\n")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    tiers_at = {"storage": tiers.storage, "workers": ",".join(tiers.workers)}
    places = [f for k, v in tiers_at.items() for f in ("--set", f"receiver.{k}={v}")]
    # A checkpoint of step 1 is written when the second batch is asked for.
    kept = ["--set", "receiver.checkpoint_dir=kept", "--set", "receiver.checkpoint_every_steps=1"]
    received = run("receive", "--batches", "2", *flags(settings), *places, *kept)
    assert received.returncode == 0, received.stderr
    state = json.loads((tmp_path / "kept" / "dl_state_000000001.json").read_text())
    with headwater.Loader(**keywords(settings), **tiers_at) as loader:
        next(iter(loader))
        # A file says besides when it was written.
        assert loader.state_dict() == {key: state[key] for key in state if key != "written"}


# File, environment, settings on top, and the error of both, after who set the key.
ERRORS = [
    ("[reciever]", {}, {}, "headwater.toml: unknown key `reciever`: did you mean `receiver`?"),
    (
        "[receiver]\nbatch = 3",
        {},
        {},
        "headwater.toml: unknown key `receiver.batch`: did you mean `receiver.batch_samples`?",
    ),
    (
        "[receiver]\nseed = 'x'",
        {},
        {},
        'headwater.toml: `receiver.seed` is "x": give a whole number, 0 or more',
    ),
    ("[receiver", {}, {}, "headwater.toml line 3 is not TOML: unclosed table, expected `]`"),
    (
        "[[dataset]]\nname = 'a'\nweihgt = 1",
        {},
        {},
        "headwater.toml: unknown key `dataset[1].weihgt`: did you mean `dataset[1].weight`?",
    ),
    (
        "",
        {"HEADWATER_RECEIVER__WINDOW": "3"},
        {},
        "HEADWATER_RECEIVER__WINDOW: unknown key `receiver.window`: did you mean "
        "`receiver.window_batches`?",
    ),
    (
        "",
        {"RANK": "first", "WORLD_SIZE": "2"},
        {},
        "it is not clear which rank this process is: RANK: `first` is not a number of ranks: invalid digit found in string; correct that, or set "
        "receiver.rank and receiver.world_size",
    ),
    ("[receiver]\nbatch_samples = 0", {}, {}, "receiver.batch_samples is 0: must be from 1 to 65536"),
    ("[receiver]\nrank = 3", {}, {}, "it is not clear which rank this process is: receiver.rank (headwater.toml) says 3, and nothing says the number of ranks; "
     "correct that, or set receiver.rank and receiver.world_size"),
    ("[receiver]\nworkers = []", {}, {}, "receiver.workers is []: give one address at least, host:port"),
    ("[security]\ntcp_tls = true", {}, {}, "security.tcp_tls = true: needs ca_file, cert_file, key_file"),
    (
        "[recipe]\npreset = 'dinov9'",
        {},
        {},
        "no recipe preset `dinov9`: known are dinov2, dinov2-paper, dinov3, dinov3-gram, dinov3-vitl, "
        "imagenet-train, imagenet-eval, mae, clip-train, clip-eval, siglip, ijepa, "
        "supervised-timm, torchvision-v2, simclr, mocov3, byol, ibot, swav, raw; did you mean `dinov3`?",
    ),
    (
        "[recipe]\npreset = 'dinov2'\nbases = [{height = 8, width = 8, view = {crop = "
        "{kind = 'center_after_resize', resize = 8}}}]",
        {},
        {},
        'recipe.bases are given beside recipe.preset `dinov2`: write preset = "custom", or leave them out',
    ),
    (
        "",
        {},
        {"receiver.batch_samples": "many"},
        ": `receiver.batch_samples` is \"many\": give a whole number, 0 or more",
    ),
    (
        "",
        {},
        {"recipe.tensors": [{**SMALL["tensors"][0], "views": [VIEW, {**VIEW, "ops": [{"op": "blurr", "p": 1}]}]}]},
        ": `recipe.tensors[0].views[1].ops[0].op` is `blurr`: must be one of `flip`, `vertical_flip`, `color_jitter`, "
        "`grayscale`, `gaussian_blur`, `solarize`, "
            "`invert`, `posterize`, `equalize`, `auto_contrast`, `sharpness`, `pil_blur`, `gaussian_noise`, "
            "`rotation`, `affine`, `perspective`, `rand_augment`, `trivial_augment_wide`, `auto_augment`, "
            "`timm_rand_augment`, `timm_aug_mix`, `erase`, `python`",
    ),
    (
        "",
        {},
        {"recipe.tensors": [{**SMALL["tensors"][0], "views": [{**VIEW, "ops": [{"op": "gaussian_blur", "p": 1, "sigma": [0.0001, 2]}]}]}]},
        "`recipe.tensors[0].views[0].ops[0].sigma` is [0.0001, 2]: must be [least, greatest], from 0.001 "
        "to 100",
    ),
    (
        "",
        {},
        {"recipe.preset": "custom", "recipe.dtype": "u8", "recipe.tensors": SMALL["tensors"]},
        ": `recipe.dtype` goes with a preset: this recipe gives each tensor its own",
    ),
    ("[[dataset]]\nhub = 'cats'", {}, {}, "no dataset `cats` in the hub `HUB` (HEADWATER_DATASETS_ROOT), there are: none"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_the_same_fault_is_reported_in_the_same_words_by_both(tmp_path, monkeypatch, number):
    file, env, settings, said = ERRORS[number]
    hub = tmp_path / "hub"
    hub.mkdir()
    monkeypatch.setenv("HEADWATER_DATASETS_ROOT", str(hub))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headwater.toml").write_text(f"{PHOTOS}{file}\n")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    said = said.replace("HUB`", f"{hub}`")
    refused = run("receive", *flags(settings))
    assert refused.returncode == 1
    with pytest.raises(headwater.ConfigError) as caught:
        headwater.Loader(**keywords(settings))
    by_program = refused.stderr.strip().removeprefix("headwater: ")
    by_wheel = str(caught.value)
    if said.startswith(": "):
        # A flag here, a keyword there.
        assert by_program.startswith("--set ") and by_wheel.startswith("keyword "), by_wheel
        by_program = by_program[by_program.index(": ") :]
        by_wheel = by_wheel[by_wheel.index(": ") :]
    assert [by_program, by_wheel] == [said, said]


def test_the_wheel_loads_the_example_of_every_key(tiers):
    example = PROJECT / "headwater.example.toml"
    with headwater.Loader(example, storage=tiers.storage, workers=tiers.workers) as loader:
        assert loader.datasets == {"photos": 64}
        assert loader.config["batch_samples"] == 32
        shown = run("--config", str(example), "config")
        written = told(shown.stdout)["receiver"]
        ours = {key: value for key, value in loader.config.items() if key in written}
        places = {"storage": [tiers.storage], "workers": tiers.workers}
        assert ours == {**written, **places}


def test_a_file_of_the_working_directory_is_read_unless_another_is_named(tiers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headwater.toml").write_text(f"{PHOTOS}[receiver]\nseed = 11\n")
    other = tmp_path / "other.toml"
    other.write_text(f"{PHOTOS}[receiver]\nseed = 12\n")
    named = {"storage": tiers.storage, "workers": tiers.workers, "recipe": SMALL}
    with headwater.Loader(**named) as loader:
        assert loader.config["seed"] == 11
    monkeypatch.setenv("HEADWATER_CONFIG", str(other))
    with headwater.Loader(**named) as loader:
        assert loader.config["seed"] == 12
    with headwater.Loader("headwater.toml", **named) as loader:
        assert loader.config["seed"] == 11
    assert "HEADWATER_CONFIG" in os.environ
