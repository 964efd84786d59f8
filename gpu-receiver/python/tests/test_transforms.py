"""Recipes made of torchvision's transforms: the same pixels, the same distributions, or an error that names what there is not."""

import io
import re

import headwater
import numpy
import pytest
from conftest import PHOTOS
from PIL import Image
from test_render import members

torch = pytest.importorskip("torch")
transforms = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PASSES = "pillow-13" if int(Image.__version__.split(".")[0]) >= 13 else "horizontal-first"
FLOAT_V1 = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
FLOAT_V2 = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]


@pytest.fixture(scope="module")
def images():
    return list(members(PHOTOS / "photos-000001.tar").values())[:6]


def ours(transform, images, **options):
    recipe = {**headwater.recipe_from(transform, **options), "resize_passes": PASSES}
    return headwater.render(images, recipe)["images"].numpy()


CUT = [transforms.Resize((60, 44), transforms.InterpolationMode.BICUBIC)]


@pytest.mark.parametrize(
    "steps",
    [
        [transforms.Resize(64), transforms.CenterCrop(48)],
        [transforms.Resize(64, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop((40, 52))],
        [transforms.Resize(64, transforms.InterpolationMode.NEAREST), transforms.CenterCrop(48)],
        [transforms.Resize((60, 44), transforms.InterpolationMode.BOX)],
        [transforms.CenterCrop(700)],
        [*CUT, transforms.RandomHorizontalFlip(1.0)],
        [*CUT, transforms.RandomVerticalFlip(1.0)],
        [*CUT, transforms.RandomGrayscale(1.0)],
        [*CUT, transforms.Grayscale(3)],
        [*CUT, transforms.RandomSolarize(128, 1.0)],
        [*CUT, transforms.RandomPosterize(3, 1.0)],
        [*CUT, transforms.RandomInvert(1.0), transforms.RandomEqualize(1.0)],
        [*CUT, transforms.RandomAutocontrast(1.0)],
        [*CUT, transforms.RandomAdjustSharpness(2, 1.0)],
        [*CUT, transforms.ColorJitter((1.3, 1.3))],
        [*CUT, transforms.RandomRotation((30, 30), fill=(9, 8, 7))],
        [*CUT, transforms.RandomRotation((30, 30), transforms.InterpolationMode.BILINEAR, fill=5)],
        [*CUT, transforms.RandomAffine((9, 9), scale=(1.2, 1.2), shear=(5, 5, -3, -3))],
        [*CUT, transforms.RandomApply([transforms.RandomInvert(1.0)], p=1.0)],
    ],
    ids=lambda steps: " ".join(type(step).__name__ for step in steps),
)
def test_what_is_not_random_has_torchvisions_pixels(steps, images):
    whole = transforms.Compose([*steps, *FLOAT_V1])
    theirs = numpy.stack([whole(Image.open(io.BytesIO(image)).convert("RGB")).numpy() for image in images])
    numpy.testing.assert_array_equal(ours(whole, images), theirs)


def test_without_normalize_values_are_from_0_to_1_or_levels(images):
    cut = v2.Resize((32, 32))
    pictures = [cut(Image.open(io.BytesIO(image)).convert("RGB")) for image in images]
    levels = numpy.stack([numpy.asarray(picture).transpose(2, 0, 1) for picture in pictures])
    shares = numpy.stack([transforms.ToTensor()(picture).numpy() for picture in pictures])
    numpy.testing.assert_array_equal(ours(v2.Compose([cut, v2.ToImage()]), images, dtype="u8"), levels)
    numpy.testing.assert_array_equal(ours([cut, transforms.ToTensor()], images), shares)


def view(transform):
    recipe = headwater.recipe_from(transform)
    (tensor,) = recipe["tensors"]
    (only,) = tensor["views"]
    return recipe, tensor, only


@pytest.mark.parametrize("kit, floats", [(transforms, FLOAT_V1), (v2, FLOAT_V2)], ids=["v1", "v2"])
def test_a_training_of_torchvisions_is_read(kit, floats):
    steps = [kit.RandomResizedCrop(176), kit.RandomHorizontalFlip(), kit.TrivialAugmentWide(), *floats, kit.RandomErasing(0.1)]
    recipe, tensor, only = view(kit.Compose(steps))
    assert (recipe["mean"], recipe["std"], recipe["interpolation"]) == (MEAN, STD, "bilinear")
    assert (tensor["height"], tensor["width"], tensor["dtype"]) == (176, 176, "f32")
    assert only["crop"] == {"kind": "random_resized", "scale": [0.08, 1.0], "ratio": [3 / 4, 4 / 3]}
    assert [op["op"] for op in only["ops"]] == ["flip", "trivial_augment_wide", "erase"]
    assert only["ops"][1] == {
        "op": "trivial_augment_wide",
        "num_magnitude_bins": 31,
        "interpolation": "nearest",
        "fill": [0, 0, 0],
    }
    assert only["ops"][2] == {"op": "erase", "p": 0.1, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "mode": "zero"}


@pytest.mark.parametrize("kit, floats", [(transforms, FLOAT_V1), (v2, FLOAT_V2)], ids=["v1", "v2"])
def test_a_loader_takes_what_was_read(kit, floats):
    steps = [
        kit.RandomResizedCrop(32, scale=(0.2, 1.0), interpolation=kit.InterpolationMode.BICUBIC),
        kit.RandomApply([kit.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        kit.RandomApply([kit.GaussianBlur(9, (0.1, 2.0))], p=0.5),
        kit.RandomGrayscale(0.2),
        kit.RandomPerspective(0.3),
        kit.RandomAffine(10, translate=(0.1, 0.1)),
        kit.RandAugment(magnitude=7),
        kit.AutoAugment(),
        kit.RandomHorizontalFlip(),
        *floats,
        kit.RandomErasing(value="random"),
    ]
    recipe = headwater.recipe_from(kit.Compose(steps))
    with headwater.Loader(PHOTOS / "photos-000001.tar", 4, recipe=recipe, embedded="threads") as loader:
        batch = next(iter(loader))
        assert batch.images.shape == (4, 3, 32, 32)
        (only,) = loader.recipe["tensors"][0]["views"]
    jitter = only["ops"][0]
    assert jitter["p"] == 0.8 and jitter["brightness"] == pytest.approx([0.6, 1.4]) and jitter["hue"] == [-0.1, 0.1]
    assert only["ops"][1] == {"op": "gaussian_blur", "p": 0.5, "sigma": [0.1, 2.0]}


def test_cifar_crops_are_read():
    _, tensor, only = view([transforms.RandomCrop(32, padding=4, padding_mode="reflect"), transforms.ToTensor()])
    assert (tensor["height"], only["crop"]["padding"], only["crop"]["padding_mode"]) == (32, 4, "reflect")
    _, _, only = view([transforms.Resize(40), transforms.RandomCrop(32), transforms.ToTensor()])
    assert only["crop"] == {"kind": "random_after_resize", "resize": 40}
    recipe, _, _ = view([transforms.ColorJitter(0.4), transforms.RandomResizedCrop(32)])
    assert [op["op"] for op in recipe["image_ops"]] == ["color_jitter"]


class Own:
    """A transform of the user's own."""


@pytest.mark.parametrize(
    "steps, said",
    [
        ([transforms.ToTensor()], "no transform says the size of the images"),
        ([transforms.Resize(64)], "`Resize(64)` leaves images of many sizes: add a `CenterCrop`"),
        ([transforms.Resize(64, max_size=80)], "`Resize` has a `max_size`"),
        ([transforms.CenterCrop(8), transforms.CenterCrop(8)], "`CenterCrop` is a second crop"),
        ([transforms.RandomHorizontalFlip(), transforms.CenterCrop(8)], "`RandomHorizontalFlip` stands before the crop"),
        ([transforms.CenterCrop(8), transforms.FiveCrop(4)], "`FiveCrop` has no counterpart"),
        ([transforms.CenterCrop(8), transforms.Lambda(abs)], "`Lambda` has no counterpart"),
        ([Own()], "`Own` is not one of torchvision's: a function of your own is an operation"),
        ([transforms.CenterCrop(8), transforms.GaussianBlur(5)], "`GaussianBlur` has the kernel (5, 5): recipes have 9"),
        ([transforms.CenterCrop(8), transforms.Grayscale()], "`Grayscale` makes one channel"),
        ([transforms.CenterCrop(8), transforms.RandomRotation(9, expand=True)], "`RandomRotation` has `expand` or `center`"),
        ([transforms.CenterCrop(8), transforms.ToTensor(), transforms.RandomErasing(), FLOAT_V1[1]], "`Normalize` stands behind"),
        ([transforms.CenterCrop(8), *FLOAT_V1, transforms.RandomInvert()], "`RandomInvert` stands behind the conversion to floats"),
        ([transforms.CenterCrop(8), transforms.ToTensor(), transforms.ColorJitter(0.4)], "`ColorJitter` stands behind"),
        ([transforms.ToTensor(), transforms.RandomCrop(8, padding=2)], "`RandomCrop` stands behind the conversion to floats"),
        ([*FLOAT_V1, transforms.CenterCrop(8)], "`CenterCrop` stands behind the conversion to floats"),
        ([transforms.Resize(64), transforms.Resize((8, 8))], "`Resize` resizes what was resized"),
        ([transforms.Resize(64), transforms.RandomResizedCrop(8)], "`RandomResizedCrop` resizes what was resized"),
        ([transforms.CenterCrop(8), *FLOAT_V1, FLOAT_V1[1]], "`Normalize` is a second one"),
        ([transforms.CenterCrop(8), v2.ToDtype(torch.float32)], "`ToDtype` leaves values from 0 to 255"),
        ([transforms.CenterCrop(8), transforms.PILToTensor()], "the transforms end with levels from 0 to 255"),
        ([transforms.CenterCrop(8), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)], "`Normalize` cannot be read"),
        ([transforms.CenterCrop(8), transforms.RandomApply([Own()])], "`Own` is not one of torchvision's"),
        ([], "no transform says the size of the images"),
        (
            [transforms.CenterCrop(8), *FLOAT_V1, transforms.RandomErasing(value=(1.0, 2.0, 3.0))],
            "`RandomErasing` has the value (1.0, 2.0, 3.0)",
        ),
        (
            [transforms.CenterCrop(8), transforms.RandomApply([transforms.RandomInvert(), transforms.RandomEqualize()])],
            "`RandomApply` has RandomInvert, RandomEqualize: recipes give each operation a probability of its own",
        ),
        ([transforms.RandomCrop(8, padding=(1, 2))], "`RandomCrop` pads its sides by different numbers"),
        ([transforms.RandomResizedCrop(8, interpolation=transforms.InterpolationMode.LANCZOS)], "has the filter 'lanczos'"),
    ],
)
def test_what_recipes_do_not_have_is_named(steps, said):
    with pytest.raises(headwater.ConfigError, match=re.escape(said)):
        headwater.recipe_from(transforms.Compose(steps))


def test_the_transforms_of_weights_are_read(images):
    from torchvision.transforms import _presets as presets

    evaluation = presets.ImageClassification(crop_size=48, resize_size=64)
    theirs = numpy.stack([evaluation(Image.open(io.BytesIO(image)).convert("RGB")).numpy() for image in images])
    numpy.testing.assert_array_equal(ours(evaluation, images), theirs)


def test_erasing_without_normalize_is_to_black_and_nothing_is_above_255(images):
    steps = [*CUT, transforms.RandomSolarize(256, 1.0), transforms.ToTensor()]
    erased = ours([*steps, transforms.RandomErasing(1.0, value=[0, 0, 0])], images, dtype=torch.float32)
    plain = ours(steps, images, dtype="float32")
    theirs = numpy.stack([transforms.Compose(steps)(Image.open(io.BytesIO(image)).convert("RGB")).numpy() for image in images])
    numpy.testing.assert_array_equal(plain, theirs)
    assert ((erased == plain) | (erased == 0)).all() and (erased != plain).any()


def test_a_result_that_is_not_of_the_dtype_is_refused():
    with pytest.raises(headwater.ConfigError, match='`Normalize` makes floats, and `dtype` is "u8"'):
        headwater.recipe_from([transforms.CenterCrop(8), *FLOAT_V1], dtype="u8")
    with pytest.raises(headwater.ConfigError, match="`str` is not one of torchvision's"):
        headwater.recipe_from("imagenet-train")


def test_a_list_in_place_of_a_recipe_says_how_to_read_it():
    with pytest.raises(headwater.ConfigError, match=re.escape("`headwater.recipe_from(..)`")):
        headwater.Loader(PHOTOS, recipe=[transforms.CenterCrop(8), transforms.ToTensor()])


def test_a_compose_in_place_of_a_recipe_says_how_to_read_it():
    with pytest.raises(headwater.ConfigError, match=re.escape("`headwater.recipe_from(..)`")):
        headwater.Loader(PHOTOS, recipe=transforms.Compose([transforms.ToTensor()]))
