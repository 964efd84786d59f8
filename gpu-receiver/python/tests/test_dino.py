"""headwater.dino: the names, defaults and effects of dino_loader."""

import copy
import dataclasses
import hashlib
import inspect
import json
import re
import threading
import types
import warnings
from pathlib import Path

import headwater
import pytest
import stand_in_engine
from conftest import PHOTOS, PROJECT, program
from ranks import srun

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from headwater.dino import DatasetSpec, DINOAugConfig, DINODataLoader, LoaderConfig  # noqa: E402

STEPS = 16  # 64 photographs in batches of 4
SMALL = {"global_crop_size": 32, "local_crop_size": 16}
CONFIG = {
    "node_shm_gb": 128.0,
    "shard_prefetch_window": 64,
    "shard_timeout_s": 300.0,
    "shard_extraction_workers": 4,
    "dali_cpu_queue": 8,
    "dali_gpu_queue": 6,
    "dali_num_threads": 8,
    "hw_decoder_load": 0.90,
    "use_fp8_output": True,
    "output_dtype": "bf16",
    "checkpoint_dir": "/checkpoint/dino/dl",
    "checkpoint_every_steps": 500,
    "force_topology": None,
    "seed": 0,
    "shuffle_buffer": 2000,
}
AUGMENTATION = {
    "n_global_crops": 2,
    "n_local_crops": 8,
    "global_crop_size": 224,
    "local_crop_size": 96,
    "global_crops_scale": (0.32, 1.0),
    "local_crops_scale": (0.05, 0.32),
    "solarize_prob": 0.2,
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}


@pytest.fixture
def dino(tiers, tmp_path):
    """Makes loaders over the photographs and closes them. Words are fields of LoaderConfig or keywords."""
    made = []

    def dino(names=("photos",), aug_cfg=None, **words):
        fields = {name: words.pop(name) for name in list(words) if name in CONFIG}
        config = LoaderConfig(**{"checkpoint_dir": str(tmp_path), **fields})
        keywords = {"batch_size": 4, "storage": tiers.storage, "workers": tiers.workers, **words}
        specs = [DatasetSpec(name, shards=[f"{name}.tar"], weight=1.0) for name in names]
        aug_cfg = aug_cfg or DINOAugConfig(**SMALL)
        made.append(DINODataLoader(specs=specs, aug_cfg=aug_cfg, config=config, **keywords))
        return made[-1]

    yield dino
    for loader in made:
        loader.close()


def digests(loader):
    return [batch.batch.digest for batch in loader]


def test_arguments_and_their_defaults_are_dino_loaders():
    assert dataclasses.asdict(LoaderConfig()) == CONFIG
    assert dataclasses.asdict(DINOAugConfig()) == AUGMENTATION
    spec = DatasetSpec("photos", shards=["a.tar"], weight=0.5)
    assert (spec.name, spec.shards, spec.weight) == ("photos", ["a.tar"], 0.5)


def test_the_default_augmentation_is_the_released_one(dino, make):
    loader = dino(aug_cfg=DINOAugConfig())
    assert loader.loader.recipe == make(recipe="dinov2").recipe
    wide = dino(aug_cfg=DINOAugConfig(mean=(0.5, 0.5, 0.5), solarize_prob=0.5)).loader.recipe
    assert wide["mean"] == [0.5, 0.5, 0.5]
    assert wide["tensors"][0]["views"][1]["ops"][-1] == {"op": "solarize", "p": 0.5, "threshold": 128}


def test_crops_and_labels_are_views_of_the_batch(dino, labels):
    for _, batch in zip(range(3), dino()):
        whole = batch.batch.torch()
        for name, count, size in [("global_crops", 2, 32), ("local_crops", 8, 16)]:
            crops = getattr(batch, name)
            assert isinstance(crops, list) and len(crops) == count
            shape, step = (4, 3, size, size), 4 * 3 * size * size * 2
            assert {(crop.dtype, crop.shape) for crop in crops} == {(torch.bfloat16, shape)}
            begin = whole[name].data_ptr()
            assert [crop.data_ptr() for crop in crops] == [begin + n * step for n in range(count)]
        assert batch.labels.data_ptr() == whole["labels"].data_ptr()
        assert batch.labels.tolist() == [labels[key] for key in batch.batch.keys]


def test_a_batch_whose_crops_could_not_be_made_comes_again(dino, monkeypatch):
    expected = digests(dino())
    batches, left = iter(dino()), []
    taken = [next(batches).batch.digest]
    with monkeypatch.context() as patch:
        patch.setattr("headwater.dino.batch.Splitter._crops", lambda self, batch, name: left.append(name) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            next(batches)
    assert left == ["global_crops"] and taken + digests(batches) == expected


def test_the_config_reaches_the_loader(dino, make):
    loader = dino(seed=7, dali_gpu_queue=3, output_dtype="fp32", use_fp8_output=False, steps_per_epoch=5)
    assert len(loader) == 5
    config = loader.loader.config
    assert (config["seed"], config["window_batches"], config["device"]) == (7, 3, "cpu")
    first = next(iter(loader))
    assert first.global_crops[0].dtype == torch.float32
    # The same batch as that of a headwater.Loader.
    recipe = DINOAugConfig(**SMALL).recipe("f32")
    assert first.batch.digest == next(iter(make(recipe=recipe, seed=7, epoch_end={"steps": 5}))).digest


def test_fp8_crops_are_float8_tensors_over_the_batch_where_transformer_engine_is(dino, monkeypatch):
    exact = next(iter(dino(output_dtype="fp32", use_fp8_output=False)))
    assert next(iter(dino())).global_crops[0].dtype == torch.bfloat16
    stand_in_engine.install(monkeypatch)
    batch = next(iter(dino()))
    whole = batch.batch.local_crops
    assert whole.dtype == "fp8_e4m3" and len(batch.local_crops) == 8
    begin, step = whole.torch().data_ptr(), 4 * 3 * 16 * 16
    for number, (crop, values) in enumerate(zip(batch.local_crops, exact.local_crops)):
        assert crop.data.data_ptr() == begin + number * step
        assert (crop.quantizer.scale.item(), crop.quantizer.amax.item()) == (whole.scale, whole.amax)
        assert crop.values.dtype == torch.bfloat16
        assert torch.allclose(crop.values.float(), values, rtol=1 / 8, atol=0.02)


REPLACED = {
    "node_shm_gb": (64.0, "storage.cache"),
    "shard_prefetch_window": (8, "storage.shard_prefetch_window"),
    "shard_timeout_s": (60.0, "storage.cache_timeout_ms"),
    "shard_extraction_workers": (8, "storage.readers"),
    "dali_cpu_queue": (4, "dali_gpu_queue"),
    "dali_num_threads": (4, "augment.threads"),
    "hw_decoder_load": (0.5, "nvjpeg"),
    "shuffle_buffer": (100, "shuffle_block"),
}


def test_what_has_no_meaning_here_warns_once_and_names_what_has(dino):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            dino(**{name: value for name, (value, _) in REPLACED.items()})
    said = [str(one.message) for one in caught]
    assert len(said) == len(REPLACED)
    for name, (_, replacement) in REPLACED.items():
        assert [replacement in text for text in said if f"LoaderConfig.{name} " in text] == [True], name
    assert {one.filename for one in caught} == {__file__}


def test_what_has_a_meaning_does_not_warn(dino, recwarn):
    dino(seed=1, dali_gpu_queue=2, use_fp8_output=False, checkpoint_every_steps=3)
    assert not recwarn.list


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_checkpoints_are_written_at_intervals_and_the_newest_three_stay(dino, tmp_path):
    loader = dino(checkpoint_every_steps=2, steps_per_epoch=9)
    seen = []
    for step, _ in enumerate(loader):
        loader.checkpoint(step)
        seen.append(names(tmp_path))
    assert seen[0] == seen[1] == ["dl_state_000000000.json"]
    assert seen[-1] == [f"dl_state_{step:09}.json" for step in (4, 6, 8)]
    other = dino(checkpoint_every_steps=2, steps_per_epoch=9, rank=1, world_size=2)
    before = names(tmp_path)
    other.checkpoint(10)
    assert names(tmp_path) == before


def train(loader, first_epoch=0, stop_after=None):
    """A training loop whose steps begin at 0 in each epoch, and again after a resume.

    Gives the batches, and how many there were at the last checkpoint.
    """
    seen, kept = [], 0
    for epoch in range(first_epoch, 2):
        loader.set_epoch(epoch)
        for step, batch in enumerate(loader):
            seen.append((epoch, batch.batch.step, batch.batch.digest))
            loader.checkpoint(step)
            kept = len(seen) if step % 4 == 0 else kept
            if len(seen) == stop_after:
                return seen, kept
    return seen, kept


@pytest.mark.parametrize("stops", [[6], [21], [6, 2], [6, 14]])
def test_a_resume_goes_on_within_the_epoch_after_the_newest_checkpoint(dino, stops, tmp_path):
    whole, _ = train(dino(checkpoint_dir=str(tmp_path / "whole")))
    options = {"checkpoint_dir": str(tmp_path / "lost"), "checkpoint_every_steps": 4, "resume": True}
    done = 0
    for stop in stops:
        with dino(**options) as loader:
            seen, kept = train(loader, whole[done][0], stop_after=stop)
        assert seen == whole[done : done + stop]
        done += kept
    assert train(dino(**options), whole[done][0])[0] == whole[done:]


def test_the_loop_of_dino_loaders_readme_goes_on_after_a_resume_though_it_counts_from_0(dino, tmp_path):
    whole, _ = train(dino(checkpoint_dir=str(tmp_path / "whole")))
    options = {"checkpoint_dir": str(tmp_path / "lost"), "checkpoint_every_steps": 4, "resume": True}
    with dino(**options) as loader:
        _, kept = train(loader, stop_after=21)
    with dino(**options) as loader:
        with pytest.warns(UserWarning, match="epochs before 1 are done.*resumed at epoch 1 step .*range") as warned:
            again, _ = train(loader)
        assert len(warned) == 1
        assert again == whole[kept:]
        # From now on epochs are what they are called.
        loader.set_epoch(0)
        assert (next(iter(loader)).batch.epoch, loader.epoch) == (0, 0)


def test_weights_may_be_set_by_another_thread(dino):
    loader = dino(names=("photos", "others"))
    assert loader.loader.weights == {"photos": 0.5, "others": 0.5}
    batches = iter(loader)
    next(batches)
    for change in [lambda: loader.set_weights([0, 3]), lambda: loader.set_weight_by_name("photos", 6)]:
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        weights = loader.loader.weights
        datasets = {sample.dataset for sample in next(batches).batch.samples}
        assert datasets <= {name for name, weight in weights.items() if weight > 0}
    assert weights == {"photos": 6 / 9, "others": 3 / 9}
    with pytest.raises(headwater.ConfigError, match="no dataset `third`"):
        loader.set_weight_by_name("third", 1)


@dataclasses.dataclass
class Decorated(DINOAugConfig):
    global_crop_size: int = 32
    local_crop_size: int = 16
    n_local_crops: int = 3


class Plain(DINOAugConfig):
    global_crop_size = 32
    local_crop_size = 16
    n_local_crops = 3


class Own(DINOAugConfig):
    """Says itself what is done."""

    def recipe(self, dtype):
        recipe = super().recipe(dtype)
        for tensor in recipe["tensors"]:
            tensor.update(height=24, width=40)
        return recipe


@dataclasses.dataclass
class DecoratedPlain(Plain):
    solarize_prob = 0.0
    mean: tuple = (0.5, 0.5, 0.5)


@pytest.mark.parametrize("config", [DINOAugConfig, Decorated, Plain, DecoratedPlain])
def test_an_argument_wins_over_the_class_and_the_class_over_the_class_above(config):
    changed = {} if config is DINOAugConfig else {"global_crop_size": 32, "local_crop_size": 16, "n_local_crops": 3}
    if config is DecoratedPlain:
        changed |= {"solarize_prob": 0.0, "mean": (0.5, 0.5, 0.5)}
    defaults = {**AUGMENTATION, **changed}
    assert dataclasses.asdict(config()) == defaults
    # The arguments that are easily lost are those that equal the default of some class.
    for name, of_the_released_code in AUGMENTATION.items():
        for value in (of_the_released_code, defaults[name]):
            assert dataclasses.asdict(config(**{name: value})) == {**defaults, name: value}
            assert dataclasses.asdict(dataclasses.replace(config(), **{name: value})) == {**defaults, name: value}
    assert config(2, 8).n_local_crops == 8
    assert copy.deepcopy(config(solarize_prob=0.2)).solarize_prob == 0.2
    with pytest.raises(TypeError):
        config(2, n_global_crops=2)
    with pytest.raises(TypeError, match="unknown"):
        config(unknown=2)


REPLACEMENT = types.SimpleNamespace(**{**AUGMENTATION, **SMALL, "n_local_crops": 0})


@pytest.mark.parametrize(
    "aug_cfg, shapes",
    [
        (Decorated(), [(4, 3, 32, 32)] * 2 + [(4, 3, 16, 16)] * 3),
        (Plain(), [(4, 3, 32, 32)] * 2 + [(4, 3, 16, 16)] * 3),
        (Plain(n_global_crops=1), [(4, 3, 32, 32)] + [(4, 3, 16, 16)] * 3),
        (dataclasses.replace(Decorated(), n_local_crops=1), [(4, 3, 32, 32)] * 2 + [(4, 3, 16, 16)]),
        (Own(), [(4, 3, 24, 40)] * 10),
        (REPLACEMENT, [(4, 3, 32, 32)] * 2),
    ],
    ids=["dataclass", "plain", "plain-argument", "replaced", "recipe", "other-object"],
)
def test_the_augmentation_may_be_subclassed_or_replaced(dino, aug_cfg, shapes):
    batch = next(iter(dino(aug_cfg=aug_cfg)))
    assert [tuple(crop.shape) for crop in batch.global_crops + batch.local_crops] == shapes


def test_a_field_that_changes_nothing_warns(dino):
    @dataclasses.dataclass
    class More(DINOAugConfig):
        blur_prob: float = 1.0

    with pytest.warns(UserWarning, match="More.blur_prob changes nothing: override `recipe") as caught:
        dino(aug_cfg=More(**SMALL))
    assert [one.filename for one in caught] == [__file__]


def test_wrong_arguments_are_refused_by_name(dino, tiers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = {"storage": tiers.storage, "workers": tiers.workers}
    two = [DatasetSpec("photos"), DatasetSpec("photos")]
    for call, problem in [
        (lambda: DINODataLoader([], 4, **places), "`specs` is empty"),
        (lambda: DINODataLoader(two, 4, **places), "dataset `photos` twice"),
        (lambda: DINODataLoader(two[:1], 4), "dataset `photos` has no shards"),
        (lambda: dino(output_dtype="fp64"), "`output_dtype` = 'fp64': give \"bf16\" or \"fp32\""),
        (lambda: dino(checkpoint_every_steps=0), "`checkpoint_every_steps` = 0"),
        (lambda: dino(force_topology="nvl36"), "`force_topology` = 'nvl36'"),
        (lambda: dino(batchsize=3), "unknown keyword `batchsize`"),
        (lambda: dino(dali_gpu_queue=0), "window_batches"),
    ]:
        with pytest.raises(headwater.ConfigError) as refused:
            call()
        assert problem in str(refused.value)


def test_the_environment_says_where_the_services_are(tiers, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWATER_RECEIVER__STORAGE", tiers.storage)
    monkeypatch.setenv("HEADWATER_RECEIVER__WORKERS", ",".join(tiers.workers))
    config = LoaderConfig(checkpoint_dir=str(tmp_path))
    with DINODataLoader([DatasetSpec("photos")], 4, DINOAugConfig(**SMALL), config) as loader:
        assert loader.loader.config["workers"] == tiers.workers
        assert len(digests(loader)) == STEPS


def test_a_script_for_dino_loader_runs_on_two_ranks_and_goes_on_after_it_was_lost(tiers, make, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWATER_RECEIVER__STORAGE", tiers.storage)
    monkeypatch.setenv("HEADWATER_RECEIVER__WORKERS", ",".join(tiers.workers))
    script = Path(__file__).with_name("dino_train.py")
    # The last checkpoint before it is of step 0 of epoch 1.
    srun(script, tmp_path, 15, expect=9)
    srun(script, tmp_path, 0)
    for rank in range(2):
        whole = expected(make, rank)
        taken = [json.loads(line) for line in (tmp_path / f"taken-{rank}").read_text().splitlines()]
        assert len(whole) == 24
        assert taken == whole[:15] + whole[13:]
    # With folders of their own, one rank would go on and the other begin.
    (tmp_path / "0").symlink_to(tmp_path)
    (tmp_path / "1").mkdir()
    for error in srun(script, tmp_path / "%t", 0, expect=1):
        assert "StateError: rank 0 resumes at epoch 2 step 0, and rank 1 at epoch 0 step 0" in error
        assert "must be a folder that all ranks share" in error


def expected(make, rank):
    """What a rank is to be given, taken from a headwater.Loader."""
    recipe = DINOAugConfig(global_crop_size=32, local_crop_size=16, n_local_crops=3).recipe("bf16")
    datasets = [("photos", 0.7), ("others", 0.3)]
    place = {"rank": rank, "world_size": 2, "batch_size": 2, "epoch_end": {"steps": 12}}
    loader = make(datasets=datasets, recipe=recipe, seed=11, **place)
    taken = []
    for _ in range(2):
        for batch in loader:
            crops = [batch[name].torch().view(torch.uint8).numpy().tobytes() for name in ("global_crops", "local_crops")]
            taken.append([batch.epoch, hashlib.sha256(b"".join(crops)).hexdigest(), batch.labels.numpy().tolist()])
    return taken



def test_an_augmentation_of_the_guide_is_what_it_says(dino):
    blocks = re.findall(r"^```python\n(.*?)^```$", (PROJECT / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
    names = {"DINOAugConfig": DINOAugConfig}
    exec(next(block for block in blocks if "class Paper(DINOAugConfig)" in block), names)
    tensors = dino(aug_cfg=names["Paper"]()).loader.recipe["tensors"]
    assert [len(tensor["views"]) for tensor in tensors] == [2, 10]
    blur = {"op": "gaussian_blur", "p": 1.0, "sigma": [0.1, 2.0]}
    assert [blur in view["ops"] for tensor in tensors for view in tensor["views"]] == [True] + [False] * 11


def test_without_addresses_the_loader_starts_services_for_the_shards(tmp_path, monkeypatch, labels):
    if "data" not in inspect.signature(headwater.Loader).parameters:
        pytest.skip("this headwater.Loader starts no services")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_PROGRAM", program())
    specs = [
        DatasetSpec("photos", shards=[str(PHOTOS / "photos-000001.tar")], weight=1.0),
        DatasetSpec("others", shards=[PHOTOS / "photos-000003.tar"], weight=0.0),
    ]
    config = LoaderConfig(checkpoint_dir=str(tmp_path), dali_num_threads=1)
    with DINODataLoader(specs, 4, DINOAugConfig(**SMALL), config, steps_per_epoch=STEPS) as loader:
        assert loader.loader.datasets == {"photos": 64, "others": 41}
        keys = [key for batch in loader for key in batch.batch.keys]
    assert sorted(keys) == sorted(labels)
