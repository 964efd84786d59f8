"""`headwater.integrations.open_clip.get_data` beside open_clip's own, in open_clip's training."""

import collections
import io
import json

import pytest

pytestmark = pytest.mark.long
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("open_clip_train", reason="open_clip_torch is not installed")
pytest.importorskip("webdataset", reason="webdataset is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

import headwater  # noqa: E402
import open_clip  # noqa: E402
import torch  # noqa: E402
from adapters import figures, open_clip_runs, photos  # noqa: E402
from headwater.integrations._clip_tokens import is_plain  # noqa: E402
from PIL import Image  # noqa: E402
from open_clip.transform import AugmentationCfg, image_transform  # noqa: E402

#: What open_clip's tokenizer repairs, folds, cuts off or takes as its own signs, with a number each.
HOSTILE = [
    "a photograph of a class, number {}", "It's <b>bold</b> &amp; {}", "naïve café {} — “x”", "x" * 300 + " {}", "don't  stop   12345 {}",
    "word " * 120 + "{}", "🟣 {}", "<start_of_text> {} <end_of_text>", "tab\tand\nline {}", "ABC... ?!'s can't'll {}", "schoolâ€™s {}",
    " led by spaces {} ", "ﬁ Ǆ ① {}", "~{}~ $%^*() [x]",
]


def described(number, label):
    return f"a photo of class {label}, number {number}"


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return photos.write_captioned(tmp_path_factory.mktemp("captioned"), described)


@pytest.fixture
def get_data():
    """Opens the data of this module, and closes them."""
    opened = []

    def get_data(args, kind="headwater", **options):
        opened.append(open_clip_runs.get_data(kind, args, **options))
        return opened[-1]

    yield get_data
    for one in opened:
        open_clip_runs.close(one)


def test_ids_are_those_of_open_clips_tokenizer_for_any_caption(get_data, tmp_path):
    shards = photos.write_captioned(tmp_path, lambda number, _: HOSTILE[number % len(HOSTILE)].format(number))
    tokenizer = open_clip.get_tokenizer("ViT-B-32")
    batches = get_data(open_clip_runs.arguments(shards))["train"].dataloader
    plain = 0
    for batch in batches.loader:
        captions, ids = list(batch.caption), tokenizer(list(batch.caption))
        rows = [row for row, caption in enumerate(captions) if is_plain(caption)]
        # The workers' own, and then all of them.
        assert torch.equal(batch.ids.torch()[rows], ids[rows])
        assert torch.equal(batches._captions.ids(batch.torch(), 0), ids)
        plain += len(rows)
    assert 0 < plain < photos.SAMPLES


def test_another_tokenizer_is_called_itself(get_data, shards):
    masked = open_clip.tokenizer.SimpleTokenizer(context_length=16, clean="canonicalize")
    batches = get_data(open_clip_runs.arguments(shards), tokenizer=masked)["train"].dataloader
    batch = next(iter(batches.loader))
    assert "ids" not in batch
    assert torch.equal(batches._captions.ids(batch.torch(), 0), masked(list(batch.caption)))


def test_an_epoch_has_each_image_once_with_its_caption_in_upstreams_counts(get_data, shards):
    args = open_clip_runs.arguments(shards)
    mine, theirs = get_data(args)["train"], get_data(args, "upstream")["train"]
    tokenizer = open_clip.get_tokenizer("ViT-B-32")
    assert type(mine) is type(theirs)
    assert mine.dataloader.num_batches == theirs.dataloader.num_batches == len(mine.dataloader) == 16
    assert mine.dataloader.num_samples == theirs.dataloader.num_samples == photos.SAMPLES
    epochs = []
    for epoch in (0, 1):
        mine.set_epoch(epoch)
        assert mine.shared_epoch.get_value() == epoch
        epochs.append([tuple(row.tolist()) for images, texts in mine.dataloader for row in texts])
    expected = collections.Counter(tuple(tokenizer(described(number, one[3]))[0].tolist()) for number, one in enumerate(photos.photographs()))
    assert collections.Counter(epochs[0]) == collections.Counter(epochs[1]) == expected
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("samples", [40, 250, 300])
def test_the_number_of_samples_of_an_epoch_is_rounded_as_upstream_does(get_data, shards, samples):
    args = open_clip_runs.arguments(shards, train_num_samples=samples)
    mine, theirs = get_data(args)["train"].dataloader, get_data(args, "upstream")["train"].dataloader
    assert (mine.num_batches, mine.num_samples) == (theirs.num_batches, theirs.num_samples)
    assert sum(len(images) for images, _ in mine) == mine.num_samples


WIDE = {"kind": "aspect", "min": 1.2}


def counted_wide():
    """Photographs that meet `WIDE`."""
    sizes = [Image.open(io.BytesIO(one[2])).size for one in photos.photographs()]
    return sum(width / height >= WIDE["min"] for width, height in sizes)


@pytest.mark.filterwarnings("error::UserWarning")
def test_with_filters_an_epoch_has_the_samples_that_meet_them(get_data, tmp_path):
    shards = photos.write_captioned(tmp_path, described)
    # As img2dataset writes it, of all samples.
    (tmp_path / "sizes.json").write_text(json.dumps({f"photos-{number:06}.tar": 64 for number in range(4)}))
    everything = get_data(open_clip_runs.arguments(shards, train_num_samples=None))["train"].dataloader
    assert (everything.num_batches, everything.num_samples) == (16, photos.SAMPLES)
    batches = get_data(open_clip_runs.arguments(shards, train_num_samples=None), filters=[WIDE])["train"].dataloader
    whole = counted_wide() // figures.BATCH
    assert 0 < whole < 16 and (batches.num_batches, batches.num_samples) == (whole, whole * figures.BATCH)
    texts = [tuple(row.tolist()) for _, rows in batches for row in rows]
    assert len(set(texts)) == len(texts) == batches.num_samples


def test_filters_of_a_file_are_not_overlooked(get_data, tmp_path):
    shards = photos.write_captioned(tmp_path, described)
    (tmp_path / "__len__").write_text(str(photos.SAMPLES))
    config = tmp_path / "headwater.toml"
    config.write_text('[[filter]]\nkind = "aspect"\nmin = 1.2\n')
    with pytest.warns(UserWarning, match=rf"`--train-data` has {counted_wide()} samples here, and 256 by `sizes.json` or `__len__`"):
        batches = get_data(open_clip_runs.arguments(shards, train_num_samples=None), config=config)["train"].dataloader
    assert batches.num_batches == counted_wide() // figures.BATCH


def test_a_number_of_all_samples_does_not_go_with_filters(get_data, shards):
    with pytest.raises(headwater.ConfigError, match=r"`--train-num-samples 256` with `filters` of open_clip has no counterpart: leave it out"):
        get_data(open_clip_runs.arguments(shards), filters=[WIDE])
    batches = get_data(open_clip_runs.arguments(shards), filters=[WIDE], epoch_end={"steps": 3})["train"].dataloader
    assert batches.num_batches == 3


def test_validation_has_upstreams_batches_each_time(get_data, shards):
    shard = shards.replace("{000000..000003}", "000001")
    args = open_clip_runs.arguments(shards, val_data=shard)
    mine, theirs = get_data(args)["val"].dataloader, get_data(args, "upstream")["val"].dataloader
    for _ in range(2):
        # Shards of others may have their members in another order: a caption says which photograph it is.
        looks = [{tuple(text.tolist()): image for images, texts in one for image, text in zip(images, texts)} for one in (mine, theirs)]
        assert looks[0].keys() == looks[1].keys() and len(looks[0]) == mine.num_samples
        assert all((looks[0][text] - looks[1][text]).abs().max() < 1e-5 for text in looks[0])


def test_on_a_cluster_validation_is_of_its_own_dataset():
    from headwater.integrations.open_clip import _Captions, _Validation

    args = open_clip_runs.arguments("train", val_data="val")
    captions = _Captions(open_clip.get_tokenizer("ViT-B-32"), "txt", None, 4096)
    options = {"storage": ["a:1"], "workers": ["b:1"], "datasets": [("one", 2.0), ("two", 1.0)]}
    assert _Validation(args, image_transform(32, is_train=False), captions, options)._keywords["datasets"] == "val"


def test_one_of_several_captions_is_drawn_for_each_epoch_and_again_after_a_resume(get_data, shards):
    args, tokenizer = open_clip_runs.arguments(shards), open_clip.get_tokenizer("ViT-B-32")

    def opened():
        return get_data(args, text="json", text_path="/captions")["train"].dataloader

    def texts(batches):
        return [tokenizer.decode(row[1:].tolist()).split("<")[0].split() for _, rows in batches for row in rows]

    first = opened()
    epochs = [texts(first), texts(first)]
    for epoch in epochs:
        names = collections.Counter(text[0] for text in epoch)
        # 256 draws of three: beyond 5 deviations of 7.5.
        assert set(names) == {"one", "two", "three"} and all(48 < count < 123 for count in names.values())
        assert len({" ".join(text[3:]) for text in epoch}) == photos.SAMPLES
    chosen = [{" ".join(text[3:]): text[0] for text in epoch} for epoch in epochs]
    assert sum(chosen[0][photograph] != chosen[1][photograph] for photograph in chosen[0]) > 100
    halfway = opened()
    batches = iter(halfway)
    for _ in range(5):
        next(batches)
    state = halfway.state_dict()
    batches.close()
    resumed = opened()
    resumed.load_state_dict(state)
    assert resumed.step == 5
    assert texts(resumed) == epochs[0][5 * figures.BATCH :]


def test_a_sample_without_a_caption_at_the_path_is_named(get_data, shards):
    batches = get_data(open_clip_runs.arguments(shards), text="json", text_path="/title")["train"].dataloader
    with pytest.raises(headwater.ConfigError, match=r"sample 000\d+ of .* has no caption at `text_path='/title'`: give"):
        next(iter(batches))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dataset_resampled": True}, "--dataset-resampled"),
        ({"train_data_upsampling_factors": "1::2"}, "--train-data-upsampling-factors"),
        ({"dataset_type": "csv"}, "--train-data of CSV"),
        ({"train_data": "captions.tsv"}, "--train-data of CSV"),
        ({"dataset_type": "synthetic"}, "--dataset-type synthetic"),
    ],
)
def test_an_argument_without_a_counterpart_is_refused_by_its_name(shards, arguments, named):
    with pytest.raises(headwater.ConfigError, match=f"`{named}` of open_clip has no counterpart: .+"):
        open_clip_runs.get_data("headwater", open_clip_runs.arguments(**{"shards": shards, **arguments}))


def test_transforms_become_a_recipe_or_are_refused():
    from headwater.integrations.open_clip import _Captions, _recipe

    captions = _Captions(lambda texts: texts, "txt", None, 99)
    jittered = AugmentationCfg(scale=(0.5, 1.0), color_jitter=(0.4, 0.4, 0.4, 0.1), color_jitter_prob=0.8, gray_scale_prob=0.2)
    recipe = _recipe(image_transform(32, True, aug_cfg=jittered), captions)
    (view,) = recipe["tensors"][0]["views"]
    assert view["crop"]["scale"] == [0.5, 1.0]
    assert [(one["op"], one["p"]) for one in view["ops"]] == [("color_jitter", 0.8), ("grayscale", 0.2)]
    with pytest.raises(headwater.ConfigError, match=r"open_clip's transforms: .*ResizeKeepRatio.*--image-resize-mode"):
        _recipe(image_transform(32, False, resize_mode="longest"), captions)
    with pytest.raises(headwater.ConfigError, match="open_clip's transforms: .*RandomResizedCropAndInterpolation"):
        _recipe(image_transform(32, True, aug_cfg=AugmentationCfg(use_timm=True)), captions)


def test_the_loss_is_within_the_spread_of_upstreams_seeds(shards):
    found = figures.losses(open_clip_runs.losses, shards)
    assert found.apart <= found.spread, found


def test_a_killed_training_that_is_resumed_repeats_and_loses_no_sample(shards, tmp_path):
    upstream, mine = (
        figures.resumed("open_clip_runs", kind, shards, tmp_path / kind, photos.SAMPLES, seed=7) for kind in figures.KINDS
    )
    assert (mine.repeated, mine.lost) == (0, 0)
    # open_clip begins the epoch again.
    assert (upstream.repeated, upstream.lost) == (upstream.saved * figures.BATCH, 0)


def test_a_checkpoint_of_an_epochs_last_step_goes_on_with_the_next_epoch(shards, tmp_path):
    last = photos.SAMPLES // figures.BATCH
    resumed = figures.resumed("open_clip_runs", "headwater", shards, tmp_path / "run", photos.SAMPLES, seed=0, kill_after=last + 1)
    assert (resumed.saved, resumed.repeated, resumed.lost) == (last, 0, 0)
