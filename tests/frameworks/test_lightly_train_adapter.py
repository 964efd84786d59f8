"""`headwater.integrations.lightly_train.pretrain` beside lightly-train's own."""

import collections
import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("lightly", reason="Lightly is not installed")
pytest.importorskip("lightly_train", reason="lightly-train is not installed")

import headwater  # noqa: E402
import torch  # noqa: E402
from adapters import figures, lightly_train_runs, photos  # noqa: E402
from headwater.integrations import lightly_train as adapter  # noqa: E402
from headwater.integrations._lightly_views import recipe  # noqa: E402
from lightly_train._commands import common_helpers, train_helpers  # noqa: E402
from lightly_train._data import file_helpers  # noqa: E402
from lightly_train._data.image_dataset import ImageDataset  # noqa: E402
from lightly_train._methods.dinov31.constrained_crop import render_augmented_local, render_clean_global  # noqa: E402

BATCH = 8
METHODS = ("densecl", "dino", "dinov2", "dinov31", "distillation", "distillationv1", "distillationv2", "distillationv3", "simclr")
SIDE, LOCAL = 64, 32
#: Nothing but crops and flips.
PLAIN = {"color_jitter": None, "random_gray_scale": None, "gaussian_blur": None, "solarize": None}
PLAIN_DINO = {**PLAIN, "global_view_1": {"gaussian_blur": None, "solarize": None}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photos.write_folder(tmp_path_factory.mktemp("photos") / "images", one_class_each=True)


def transform_of(method, **arguments):
    found = train_helpers.get_transform_args(method, {"image_size": (SIDE, SIDE), **arguments})
    return train_helpers.get_transform(method, found)


def upstream(folder, transform, batch_size=BATCH):
    names = list(file_helpers.list_image_filenames_from_dir(folder))
    return train_helpers.get_dataloader(ImageDataset(folder, names, transform, 3), batch_size, 0, None)


@pytest.fixture
def opened(folder):
    """Opens the batches of a transform, and closes them."""
    kept = []

    def opened(transform, data=folder, **options):
        keywords = {"data": str(data), "recipe": recipe(transform, paka_windows=True), "batch_size": BATCH, "label_field": ""}
        keywords |= {"epoch_end": "drop_last", "embedded": "threads", **options}
        kept.append(adapter._Batches(keywords, photos.SAMPLES))
        return kept[-1]

    yield opened
    for one in kept:
        one.close()


def look(batch):
    tensors = {name: [(tuple(one.shape), one.dtype) for one in batch.get(name, ())] for name in ("views", "geometries", "masks")}
    return list(batch), type(batch["filename"]), len(batch["filename"]), tensors


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_has_the_keys_shapes_and_types_of_upstreams_collate(opened, folder, method):
    transform = transform_of(method, **({"local_view": {"view_size": (LOCAL, LOCAL)}} if "dinov" in method else {}))
    mine, theirs = next(iter(opened(transform))), next(iter(upstream(folder, transform)))
    assert look(mine) == look(theirs)
    assert len(mine["views"]) >= 1 and (method == "dinov31") == ("geometries" in mine)


def test_an_epoch_has_each_image_once_with_upstreams_name_in_a_new_order(opened, folder):
    transform = transform_of("distillation")
    batches = opened(transform)
    epochs = [[name for batch in batches for name in batch["filename"]] for _ in range(2)]
    named = list(file_helpers.list_image_filenames_from_dir(folder))
    assert len(batches) == len(named) // BATCH == photos.SAMPLES // BATCH
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(named)
    assert epochs[0] != epochs[1]


def whole_images(folder, names):
    return [{"image": file_helpers.open_image_numpy(Path(folder) / name)} for name in names]


def levels_apart(mine, theirs):
    """Mean difference in levels of 256, where values are normalised by 0.5."""
    return ((mine - theirs).abs().mean() * 127.5).item()


def test_whole_images_are_upstreams_within_two_levels(opened, folder):
    """On average: a recipe resizes with Pillow's bicubic filter, upstream with the area's mean."""
    normalize = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    transform = transform_of("simclr", **PLAIN, random_resize=None, random_flip=None, normalize=normalize)
    batch = next(iter(opened(transform)))
    theirs = [transform(one) for one in whole_images(folder, batch["filename"])]
    for number in range(2):
        expected = torch.stack([views[number]["image"] for views in theirs])
        assert levels_apart(batch["views"][number], expected) < 2
        # Another image's is not near.
        assert levels_apart(batch["views"][number], expected.roll(1, 0)) > 20


@pytest.mark.parametrize("flips", [(0.5, 0.0), (0.5, 0.5)])
def test_geometries_are_the_places_that_upstream_renders_these_views_from(opened, folder, flips):
    """For DINOv3.1: upstream's own functions cut the places out of the files again."""
    normalize = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    local = {"num_views": 2, "view_size": (LOCAL, LOCAL), "gaussian_blur": None}
    given = {**PLAIN_DINO, "normalize": normalize, "local_view": local, "paka_num_local": 4}
    transform = transform_of("dinov31", **given, random_flip={"horizontal_prob": flips[0], "vertical_prob": flips[1]})
    batch = next(iter(opened(transform)))
    views, geometries, args = batch["views"], batch["geometries"], transform.transform_args
    inputs = whole_images(folder, batch["filename"])
    assert len(views) == 2 + 2 + 2 + 4
    seen_flips = set()
    for row, image in enumerate(inputs):
        height, width = image["image"].shape[:2]
        for number in (0, 1):
            geometry = geometries[number][row]
            assert geometry[4:6].tolist() == [width, height]
            seen_flips.add(tuple(geometry[6:].tolist()))
            # The teacher's view without colours has the place of the one with colours.
            assert torch.equal(geometries[4 + number][row], geometry)
            theirs = render_clean_global(image, geometry, args.image_size, args.normalize)["image"]
            for mine in (views[number][row], views[4 + number][row]):
                assert levels_apart(mine, theirs) < 4
        for number in (2, 3, *range(6, 10)):
            left, top, right, bottom, _, _, *flipped = geometries[number][row].tolist()
            box = (round(left), round(top), round(right), round(bottom))
            theirs = render_augmented_local(image, box, (LOCAL, LOCAL), *map(bool, flipped), None, None, None, None, args.normalize)
            assert levels_apart(views[number][row], theirs["image"]) < 16
    assert len(seen_flips) == (2 if flips[1] == 0 else 4)


def test_pakas_windows_lie_in_the_global_view_of_their_turn(opened):
    transform = transform_of("dinov31", local_view={"num_views": 2, "view_size": (LOCAL, LOCAL)}, paka_num_local=4)
    places = []
    for batch in opened(transform):
        for number in range(4):
            outer, inner = batch["geometries"][number % 2], batch["geometries"][6 + number]
            assert (inner[:, :2] >= outer[:, :2] - 1e-3).all() and (inner[:, 2:4] <= outer[:, 2:4] + 1e-3).all()
            share = (inner[:, 2:4] - inner[:, :2]).prod(1) / (outer[:, 2:4] - outer[:, :2]).prod(1)
            assert torch.allclose(share, torch.tensor((LOCAL / SIDE) ** 2), atol=1e-4)
            places.append((inner[:, :2] - outer[:, :2]) / (outer[:, 2:4] - outer[:, :2]))
    places = torch.cat(places)
    # Anywhere in it: of 1,024 windows, beyond 5 deviations of a uniform place's mean.
    assert (places.mean(0) - 0.25).abs().max() < 0.025 and places.min() < 0.02 and places.max() > 0.48


def test_colours_are_those_of_upstreams_settings():
    """DINO's of lightly-train 0.18.0, by view: blur and solarisation differ, and the strength is within the shares."""
    first, second, *locals_ = (view for tensor in recipe(transform_of("dino"), False)["tensors"] for view in tensor["views"])
    flip, jitter, grey = {"op": "flip", "p": 0.5}, {"op": "color_jitter", "p": 0.8}, {"op": "grayscale", "p": 0.2}
    jitter |= {"brightness": [0.6, 1.4], "contrast": [0.6, 1.4], "saturation": [0.8, 1.2], "hue": [-0.1, 0.1]}

    def blur(p):
        return {"op": "pil_blur", "p": p, "radius": [0.1, 2.0]}

    # 0.5 of 255 and all above are inverted.
    assert first["ops"] == [flip, jitter, grey, blur(1.0)]
    assert second["ops"] == [flip, jitter, grey, blur(0.1), {"op": "solarize", "p": 0.2, "threshold": 128}]
    assert [view["ops"] for view in locals_] == [[flip, jitter, grey, blur(0.5)]] * 6
    # A blur whose kernel has one pixel changes nothing.
    (view,) = recipe(transform_of("distillation"), False)["tensors"][0]["views"]
    assert view["ops"] == [flip, jitter, grey]


@pytest.mark.parametrize(
    ("method", "arguments", "options", "named"),
    [
        ("simclr", {"channel_drop": {"num_channels_keep": 3, "weight_drop": (1.0, 1.0, 1.0, 0.0)}}, {}, "channel_drop"),
        ("simclr", {"num_channels": 4}, {}, "num_channels=4"),
        ("simclr", {"random_rotation": {"prob": 0.5, "degrees": 20}}, {}, "random_rotation"),
        ("simclr", {"gaussian_blur": {"blur_limit": (3, 7)}}, {}, "blur_limit="),
        ("simclr", {}, {"loader_args": {"shuffle": False}}, "loader_args"),
        ("dinov31", {}, {}, "paka_num_local=8"),
        ("dinov31", {"image_size": (56, 84)}, {"paka_windows": True}, "image_size="),
        ("dinov31", {"image_size": (56, 56)}, {"paka_windows": True}, "image_size="),
    ],
)
def test_an_argument_without_a_counterpart_is_refused_by_its_name(folder, tmp_path, method, arguments, options, named):
    model = "dinov2/_vittest14" if method == "dinov31" else lightly_train_runs.Network()
    given = {"out": tmp_path / "out", "data": folder, "model": model, "method": method, "accelerator": "cpu", "devices": 1, "epochs": 1}
    with pytest.raises(headwater.ConfigError, match=f"`{named}.* of lightly_train.pretrain has no counterpart: .+"):
        adapter.pretrain(**given, batch_size=16, transform_args=arguments, **options)


def test_masks_of_files_are_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LIGHTLY_TRAIN_MASK_DIR", str(tmp_path))
    with pytest.raises(headwater.ConfigError, match="`LIGHTLY_TRAIN_MASK_DIR`"):
        adapter.pretrain(out=tmp_path / "out", data=folder, model="torchvision/resnet18")


def test_upstreams_functions_are_in_place_again_after_the_call_and_after_an_error(folder, tmp_path):
    own = common_helpers.get_dataset, train_helpers.get_dataloader, train_helpers.get_trainer
    lightly_train_runs.pretrain("headwater", folder, tmp_path / "out", steps=1)
    with pytest.raises(ValueError, match="is not empty"):
        lightly_train_runs.pretrain("headwater", folder, tmp_path / "out", steps=1)
    assert own == (common_helpers.get_dataset, train_helpers.get_dataloader, train_helpers.get_trainer)


@pytest.mark.parametrize(("kind", "least"), [("shards", 400), ("folder", 140)])
def test_shards_that_upstream_cannot_read_and_folders_are_filtered(folder, tmp_path, kind, least):
    # A node leaves what it has found beside them.
    shards = shutil.copytree(photos.SHARDS, tmp_path / "shards") / "photos-{000000..000003}.tar"
    data = str(shards) if kind == "shards" else shutil.copytree(folder, tmp_path / "images")
    filters, found = [{"kind": "width", "min": least}], []
    with lightly_train_runs.Watched(lambda method, _, batch: found.extend(batch["filename"])):
        lightly_train_runs.pretrain("headwater", data, tmp_path / "out", filters=filters)
    sizes = collections.Counter(found)
    loader = headwater.Loader(data, recipe="imagenet-eval", batch_size=1, filters=filters, embedded="threads")
    left = len(loader.dataset)
    loader.close()
    assert 16 < left < photos.SAMPLES
    assert sum(sizes.values()) == left // 16 * 16 * figures.EPOCHS and max(sizes.values()) <= figures.EPOCHS
    if kind == "folder":
        assert all(file_helpers.open_image_numpy(Path(folder) / name).shape[1] >= least for name in sizes)


def test_several_folders_are_trained_on(folder, tmp_path):
    halves = [tmp_path / name for name in ("first", "second")]
    for number, of_class in enumerate(sorted(folder.iterdir())):
        shutil.copytree(of_class, halves[number % 2] / of_class.name)
    found = []
    with lightly_train_runs.Watched(lambda method, _, batch: found.extend(batch["filename"])):
        lightly_train_runs.pretrain("headwater", [str(half) for half in halves], tmp_path / "out")
    assert len(found) == photos.SAMPLES * figures.EPOCHS and set(collections.Counter(found).values()) == {figures.EPOCHS}


def test_a_recipe_of_your_own_gives_the_views(folder, tmp_path):
    view = {"crop": {"kind": "random_resized", "scale": [0.5, 1.0], "ratio": [1.0, 1.0]}, "ops": []}
    own = {"preset": "custom", "mean": [0.5] * 3, "std": [0.5] * 3}
    own["tensors"] = [{"name": "images", "dtype": "f32", "height": 40, "width": 40, "views": [view, view]}]
    found = []
    with lightly_train_runs.Watched(lambda method, _, batch: found.append([tuple(one.shape) for one in batch["views"]])):
        lightly_train_runs.pretrain("headwater", folder, tmp_path / "out", steps=2, recipe=own)
    assert found == [[(figures.BATCH, 3, 40, 40)] * 2] * 2


def test_ranks_have_each_image_once(folder, tmp_path):
    """Lightning starts the second process within `fit`: the loader opens after that."""
    command = [sys.executable, "-m", "adapters.lightly_train_runs", "ranks", str(folder), str(tmp_path), "2"]
    ran = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    of_ranks = [(tmp_path / f"rank-{rank}.txt").read_text().splitlines() for rank in (0, 1)]
    assert [len(one) for one in of_ranks] == [photos.SAMPLES] * 2
    assert len(set(of_ranks[0]) | set(of_ranks[1])) == photos.SAMPLES * figures.EPOCHS


@pytest.mark.parametrize("method", ["simclr", "dinov31"])
def test_the_loss_is_within_the_spread_of_upstreams_seeds(folder, method):
    found = figures.losses(functools.partial(lightly_train_runs.losses, method=method), folder)
    assert found.apart <= found.spread, found


def test_a_killed_training_that_is_resumed_repeats_and_loses_no_image(folder, tmp_path):
    upstream, mine = (
        figures.resumed("lightly_train_runs", kind, str(folder), tmp_path / kind, photos.SAMPLES, seed=7) for kind in figures.KINDS
    )
    assert (mine.repeated, mine.lost) == (0, 0)
    # Lightning begins the order of the epoch again, for as many steps as are left of it.
    assert upstream.repeated == upstream.lost == upstream.saved * figures.BATCH


def test_a_checkpoint_of_an_epochs_last_step_goes_on_with_the_next_epoch(folder, tmp_path):
    last = photos.SAMPLES // figures.BATCH
    resumed = figures.resumed("lightly_train_runs", "headwater", str(folder), tmp_path / "run", photos.SAMPLES, seed=0, kill_after=last + 1)
    assert (resumed.saved, resumed.repeated, resumed.lost) == (last, 0, 0)
