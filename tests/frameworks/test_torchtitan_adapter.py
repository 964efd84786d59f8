"""`headwater.integrations.torchtitan.FluxDataLoader` beside torchtitan's own, in Flux's own step."""

import collections
import io
import math
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchtitan", reason="torchtitan is not installed")

import headwater  # noqa: E402
import torch  # noqa: E402
from adapters import figures, photos, torchtitan_runs  # noqa: E402
from headwater.integrations.torchtitan import FluxDataLoader  # noqa: E402
from PIL import Image  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.config.manager import ConfigManager  # noqa: E402
from torchtitan.models.flux import config_registry, flux_datasets  # noqa: E402
from torchtitan.models.flux.tokenizer import FluxTokenizerContainer  # noqa: E402

#: Longer than a tokenizer takes, with signs that it does not have, with spaces, and empty.
PROMPTS = ["a dog", "", "  led by spaces ", "x" * 400, "naïve café — “x” 🟣", "two\nlines\tand a tab", "CAPITALS & <b>HTML</b>", "0123456789"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return torchtitan_runs.parts(str(tmp_path_factory.mktemp("parts")))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    photos.write_captioned(tmp_path_factory.mktemp("captioned") / "shards", torchtitan_runs.described)
    return str(next(tmp_path_factory.getbasetemp().glob("captioned*/shards")))


@pytest.fixture
def create(tokenizer):
    """Opens loaders of this module, and closes them."""
    opened = []

    def create(data, kind="headwater", **settings):
        opened.append(torchtitan_runs.create(kind, str(data), settings.pop("tokenizer", tokenizer), **settings))
        return opened[-1]

    yield create
    for one in opened:
        torchtitan_runs.close(one)


def write(folder, samples):
    """A shard with these images and prompts."""
    folder.mkdir(parents=True)
    with tarfile.open(folder / "samples.tar", "w") as archive:
        for number, (image, prompt) in enumerate(samples):
            file = io.BytesIO()
            image.save(file, "PNG")
            for ending, content in (("jpg", file.getvalue()), ("txt", prompt.encode())):
                member = tarfile.TarInfo(f"{number:04}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return folder


def noise(width, height, number):
    levels = torch.randint(0, 256, (height, width, 3), generator=torch.Generator().manual_seed(number), dtype=torch.uint8)
    return Image.fromarray(levels.numpy())


def by_prompt(batches):
    return {prompt: (inputs, row, images[row].clone()) for inputs, images in batches for row, prompt in enumerate(inputs["prompt"])}


def prompts(batches):
    return [prompt for inputs, _ in batches for prompt in inputs["prompt"]]


def test_it_is_a_dataloader_of_torchtitan_that_its_configuration_builds(monkeypatch, create, shards, tokenizer):
    monkeypatch.setattr(config_registry, "FluxDataLoader", FluxDataLoader)
    given = ["--module", "flux", "--config", "flux_debugmodel", "--dataloader.dataset_path", shards, "--dataloader.img_size", "64"]
    config = ConfigManager().parse_args([*given, "--dataloader.seed", "5"])
    assert isinstance(config.dataloader, FluxDataLoader.Config) and config.dataloader.prompt_dropout_prob == 0.447
    # As FluxValidator asks.
    assert isinstance(config.validator.dataloader, flux_datasets.FluxDataLoader.Config)
    config.dataloader.options = {"embedded": "threads"}
    loader = config.dataloader.build(dp_world_size=1, dp_rank=0, tokenizer=tokenizer, seq_len=9, local_batch_size=4, snapshot_every_n_steps=None)
    assert isinstance(loader, BaseDataLoader) and loader.loader.config["seed"] == 5
    loader.close()


@pytest.mark.parametrize("timesteps", [False, True])
def test_a_batch_has_the_keys_shapes_and_types_of_upstreams_collate(create, shards, timesteps):
    given = {"generate_timesteps": timesteps, "prompt_dropout_prob": 0.0 if timesteps else 0.5}
    (mine, images), (theirs, labels) = (next(iter(create(shards, kind, **given))) for kind in ("headwater", "upstream"))
    assert list(mine) == list(theirs) and type(mine["prompt"]) is type(theirs["prompt"])
    for name in {*mine} - {"prompt"}:
        assert (mine[name].shape, mine[name].dtype) == (theirs[name].shape, theirs[name].dtype), name
    assert (images.shape, images.dtype) == (labels.shape, labels.dtype)
    if timesteps:
        assert torch.equal(mine["timestep"], theirs["timestep"])


def test_ids_are_those_of_upstreams_tokenizers_for_any_prompt(create, tmp_path):
    data = write(tmp_path / "shards", [(noise(64, 64, number), prompt) for number, prompt in enumerate(PROMPTS)])
    mine, theirs = (by_prompt(create(data, kind, prompt_dropout_prob=0.0, infinite=False, batch=4)) for kind in ("headwater", "upstream"))
    assert set(mine) == set(theirs) == set(PROMPTS)
    for prompt in PROMPTS:
        for name in ("clip", "t5"):
            assert torch.equal(mine[prompt][0][name][mine[prompt][1]], theirs[prompt][0][name][theirs[prompt][1]]), prompt


def test_upstreams_tokenizer_for_tests_gives_its_shapes(create, shards, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "photo": 1, "class": 2, "number": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    paths = {"t5_tokenizer_path": str(tmp_path), "clip_tokenizer_path": str(tmp_path)}
    container = FluxTokenizerContainer.Config(**paths, max_t5_encoding_len=12, test_mode=True).build()
    given = {"tokenizer": container, "prompt_dropout_prob": 0.0, "infinite": False}
    mine, theirs = (by_prompt(create(shards, kind, **given)) for kind in ("headwater", "upstream"))
    assert len(mine) == photos.SAMPLES
    for prompt, (inputs, row, _) in mine.items():
        for name in ("clip", "t5"):
            assert torch.equal(inputs[name][row], theirs[prompt][0][name][theirs[prompt][1]])


def test_square_images_are_upstreams_to_a_rounding(create, tmp_path):
    data = write(tmp_path / "shards", [(noise(side, side, side), f"side {side}") for side in range(64, 80)])
    mine, theirs = (by_prompt(create(data, kind, infinite=False)) for kind in ("headwater", "upstream"))
    assert set(mine) == set(theirs) and len(mine) == 16
    for prompt in mine:
        assert (mine[prompt][2] - theirs[prompt][2]).abs().max() < 1e-6, prompt


def test_other_images_are_a_window_of_the_one_that_upstream_resizes(create, tmp_path):
    """With sides of 2 to 1, where no side is rounded."""
    samples = [(noise(160, 80, 1), "wide"), (noise(80, 160, 2), "tall")]
    data = write(tmp_path / "shards", samples * 4)
    loader = create(data, batch=2)
    starts = collections.defaultdict(set)
    for _, (inputs, images) in zip(range(16), loader):
        for prompt, image in zip(inputs["prompt"], images):
            whole = dict((name, one) for one, name in samples)[prompt]
            whole = whole.resize((128, 64) if prompt == "wide" else (64, 128))
            levels = torch.frombuffer(bytearray(whole.tobytes()), dtype=torch.uint8).reshape(whole.height, whole.width, 3).permute(2, 0, 1)
            places = (levels / 255 * 2 - 1).unfold(2 if prompt == "wide" else 1, 64, 1)
            places = places.permute(2, 0, 1, 3) if prompt == "wide" else places.permute(1, 0, 3, 2)
            apart = (places - image).abs().amax((1, 2, 3))
            assert apart.min() < 1e-6
            starts[prompt].add(int(apart.argmin()))
    assert all(len(found) > 8 and max(found) <= 64 for found in starts.values())


def test_small_images_are_left_out_as_upstream_does_and_filters_leave_out_more(create, tmp_path):
    sizes = [(64, 64), (63, 100), (100, 63), (64, 200), (40, 40), (65, 64), (150, 150), (64, 63)]
    data = write(tmp_path / "shards", [(noise(*size, number), f"{size}") for number, size in enumerate(sizes)])
    mine, theirs = (by_prompt(create(data, kind, infinite=False, batch=1)) for kind in ("headwater", "upstream"))
    assert set(mine) == set(theirs) and len(mine) == 4
    fewer = by_prompt(create(data, infinite=False, batch=1, filters=[{"kind": "aspect", "min": 0.9, "max": 1.01}]))
    assert set(fewer) == {"(64, 64)", "(150, 150)"}


def dropped(loader, tokenizer, steps):
    """Which encoders' prompts were dropped, by epoch and prompt."""
    empty, found = tokenizer.encode(""), {}
    for number, (inputs, _) in zip(range(steps), loader):
        for row, prompt in enumerate(inputs["prompt"]):
            epoch = number // len(loader)
            found[epoch, prompt] = tuple(bool(torch.equal(inputs[name][row], empty[name])) for name in ("t5", "clip"))
    return found


def test_dropout_of_prompts_follows_from_the_samples_coordinates(create, shards, tokenizer):
    whole = dropped(create(shards, batch=16), tokenizer, 32)
    assert len(whole) == 2 * photos.SAMPLES
    # Of another process, where the generator has drawn something else, and of other batches and ranks.
    torch.manual_seed(99)
    torch.rand(7)
    assert dropped(create(shards, batch=16), tokenizer, 32) == whole
    of_ranks = [dropped(create(shards, batch=4, dp_rank=rank, dp_world_size=4), tokenizer, 32) for rank in range(4)]
    assert {key: value for one in of_ranks for key, value in one.items()} == whole
    assert dropped(create(shards, batch=16, seed=1), tokenizer, 32) != whole
    # 512 samples, two encoders each by itself: within 5 deviations.
    counts, p = collections.Counter(whole.values()), torchtitan_runs.DROPOUT
    for both, share in {(True, True): p * p, (True, False): p * (1 - p), (False, True): p * (1 - p), (False, False): (1 - p) ** 2}.items():
        assert abs(counts[both] - 512 * share) < 5 * math.sqrt(512 * share * (1 - share))
    epochs = [{prompt: value for (epoch, prompt), value in whole.items() if epoch == number} for number in (0, 1)]
    assert sum(epochs[0][prompt] != epochs[1][prompt] for prompt in epochs[0]) > 100


def resumed(create, shards, kind, before, steps, after):
    """Prompts of all ranks before and after a checkpoint, which goes from one data-parallel degree to another."""
    found = []
    loaders = [create(shards, kind, batch=4, dp_rank=rank, dp_world_size=before) for rank in range(before)]
    for loader in loaders:
        found += prompts(batch for _, batch in zip(range(steps), loader))
    states = [loader.state_dict() for loader in loaders]
    merged = {name: value for state in states for name, value in state.items()}
    rest = []
    for rank in range(after):
        loader = create(shards, kind, batch=4, dp_rank=rank, dp_world_size=after)
        loader.load_state_dict(merged)
        left = (photos.SAMPLES - before * steps * 4) // (4 * after)
        rest += prompts(batch for _, batch in zip(range(left), loader))
    return states, found, rest


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 4), (2, 2)])
def test_a_run_of_another_data_parallel_degree_goes_on_with_the_next_sample(create, shards, before, after):
    states, found, rest = resumed(create, shards, "headwater", before, 6, after)
    assert all(state == states[0] for state in states)
    assert len(found) == before * 24 and len(found) + len(rest) == len(set(found + rest)) == photos.SAMPLES


def test_upstreams_dataloader_refuses_another_degree(create, shards):
    with pytest.raises(AssertionError, match="resharding is not supported"):
        resumed(create, shards, "upstream", 2, 6, 1)


def test_a_checkpoint_of_torch_holds_the_state(create, shards, tmp_path):
    """Saved by the program of two ranks, as rank 0 writes it, and read by that of one."""
    loader = create(shards, batch=4, dp_rank=0, dp_world_size=2)
    first = prompts(batch for _, batch in zip(range(5), loader))
    torchtitan_runs.save({"dataloader": loader}, tmp_path / "step-5")
    again = create(shards, batch=8)
    torchtitan_runs.load({"dataloader": again}, tmp_path / "step-5")
    rest = prompts(batch for _, batch in zip(range(len(again) - 5), again))
    assert len(rest) == photos.SAMPLES - 40 and not set(first) & set(rest)


def test_a_state_of_upstreams_dataloader_is_refused_by_name_and_an_empty_one_is_none(create, shards):
    theirs, mine = create(shards, "upstream"), create(shards)
    next(iter(theirs))
    with pytest.raises(headwater.ConfigError, match="state of torchtitan's own dataloader.*exclude_from_loading"):
        mine.load_state_dict(theirs.state_dict())
    mine.load_state_dict({})
    assert mine.step == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"dataset_path": None, "dataset": "cc12m-wds"}, "dataset=cc12m-wds"),
        ({"options": {"storage": ["a:1"], "workers": ["b:1"]}, "filters": [{"kind": "present", "field": "json"}]}, "filters"),
    ],
)
def test_a_setting_without_a_counterpart_is_refused_by_its_name(create, shards, settings, named):
    with pytest.raises(headwater.ConfigError, match=f"`{named}` of FluxDataLoader.Config has no counterpart: .+"):
        create(**{"data": shards, **settings})


def test_another_tokenizer_is_refused(tokenizer):
    for other in (None, tokenizer.t5_tokenizer):
        with pytest.raises(headwater.ConfigError, match="FluxTokenizerContainer.Config"):
            FluxDataLoader.Config(dataset_path="nowhere").build(dp_world_size=1, dp_rank=0, local_batch_size=1, tokenizer=other)


def test_a_validation_has_upstreams_samples_in_upstreams_order_each_time(create, shards):
    one = str(Path(shards) / "photos-000001.tar")
    given = {"prompt_dropout_prob": 0.0, "generate_timesteps": True, "infinite": False}
    mine = create(one, **given)
    first, again = prompts(mine), prompts(create(one, **given))
    with tarfile.open(one) as shard:
        names = [member.name for member in shard if member.name.endswith(".txt")]
        expected = [shard.extractfile(name).read().decode() for name in names]
    assert first == again == expected


def test_the_loss_is_within_the_spread_of_upstreams_seeds(shards):
    """Of six, as the noise of three moves their mean by as much as their spread at times."""
    found = figures.losses(torchtitan_runs.losses, shards, seeds=range(6))
    assert found.apart <= found.spread, found


def test_a_killed_training_that_is_resumed_repeats_and_loses_no_sample(shards, tmp_path):
    for kind in figures.KINDS:
        found = figures.resumed("torchtitan_runs", kind, shards, tmp_path / kind, photos.SAMPLES, seed=7)
        assert (found.repeated, found.lost) == (0, 0), kind


def test_a_checkpoint_of_an_epochs_last_step_goes_on_with_the_next_epoch(shards, tmp_path):
    last = photos.SAMPLES // figures.BATCH
    found = figures.resumed("torchtitan_runs", "headwater", shards, tmp_path / "run", photos.SAMPLES, seed=0, kill_after=last + 1)
    assert (found.saved, found.repeated, found.lost) == (last, 0, 0)
