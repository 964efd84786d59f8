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
presets = pytest.importorskip("torchvision.transforms._presets")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

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


def torchvisions(steps, images):
    whole = transforms.Compose(steps)
    return numpy.stack([whole(Image.open(io.BytesIO(image)).convert("RGB")).numpy() for image in images])


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
    whole = [*steps, *FLOAT_V1]
    numpy.testing.assert_array_equal(ours(transforms.Compose(whole), images), torchvisions(whole, images))


@pytest.mark.parametrize(
    "steps",
    [
        [transforms.Resize(64), transforms.ToTensor(), transforms.CenterCrop(48)],
        [transforms.Resize(64), *FLOAT_V1, transforms.CenterCrop((40, 52))],
        [transforms.ToTensor(), transforms.CenterCrop(700)],
        [transforms.Resize((60, 60)), transforms.ToTensor()],
    ],
    ids=lambda steps: " ".join(type(step).__name__ for step in steps),
)
def test_a_crop_that_only_moves_pixels_may_stand_behind_the_conversion_to_floats(steps, images):
    numpy.testing.assert_array_equal(ours(steps, images), torchvisions(steps, images))


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_a_random_crop_of_floats_pads_with_black_or_with_pixels(mode, images):
    (image,) = images[:1]
    height, width = numpy.asarray(Image.open(io.BytesIO(image))).shape[:2]
    # There is one place for a crop of the padded image's size.
    steps = [transforms.ToTensor(), transforms.RandomCrop((height + 8, width + 8), padding=4, padding_mode=mode)]
    numpy.testing.assert_array_equal(ours(steps, [image]), torchvisions(steps, [image]))


FILLS = [
    {tv_tensors.Mask: 255, tv_tensors.Image: 7, "others": 9},
    {tv_tensors.Mask: 255, Image.Image: 7},
    {tv_tensors.Mask: 255, "others": (7, 8, 9)},
    {tv_tensors.Mask: 255},
    254.6,
]


@pytest.mark.parametrize("fill", FILLS, ids=str)
def test_the_fill_is_that_of_images_in_whole_levels(fill, images):
    steps = [v2.Resize((60, 44), v2.InterpolationMode.BICUBIC), v2.RandomRotation((30, 30), fill=fill)]
    found = ours([*steps, v2.ToImage()], images[:1], dtype="u8")
    if isinstance(fill, dict) and tv_tensors.Image in fill:
        # torchvision gives Pillow's images what the dict has for others.
        assert found[0, :, 0, 0].tolist() == [7, 7, 7]
    else:
        numpy.testing.assert_array_equal(found, torchvisions([*steps, transforms.PILToTensor()], images[:1]))


def test_the_dtype_is_that_of_images(images):
    cut = v2.Resize((32, 32))
    floats = v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True)
    unchanged = v2.ToDtype({tv_tensors.Mask: torch.float32, "others": None}, scale=True)
    theirs = torchvisions([cut, v2.ToImage(), floats, v2.ToPureTensor()], images)
    # `v2` multiplies by the reciprocal of 255, where `ToTensor` divides.
    numpy.testing.assert_allclose(ours([cut, v2.ToImage(), floats], images), theirs, rtol=0, atol=1e-7)
    with pytest.raises(headwater.ConfigError, match="the transforms end with levels from 0 to 255"):
        headwater.recipe_from([cut, v2.ToImage(), unchanged])
    numpy.testing.assert_array_equal(
        ours([cut, v2.ToImage(), unchanged], images, dtype="u8"), torchvisions([cut, v2.ToImage(), v2.ToPureTensor()], images)
    )


def test_an_augmentation_without_operations_is_left_out():
    _, _, only = view([transforms.CenterCrop(8), transforms.RandAugment(num_ops=0), transforms.ToTensor()])
    assert only["ops"] == []


def test_a_box_may_be_erased_twice():
    erasing = transforms.RandomErasing(1.0)
    _, _, only = view([transforms.CenterCrop(8), transforms.ToTensor(), erasing, erasing])
    assert [op["op"] for op in only["ops"]] == ["erase", "erase"]


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


WEIGHTS = presets.ImageClassification(crop_size=48, resize_size=64)


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
        ([transforms.ToTensor(), transforms.RandomCrop(8, padding=2, fill=0.5)], "`RandomCrop` pads with another colour"),
        ([*FLOAT_V1, transforms.CenterCrop(8)], "`CenterCrop` pads with another colour behind the conversion to floats"),
        ([transforms.ToTensor(), transforms.RandomResizedCrop(8)], "`RandomResizedCrop` stands behind the conversion to floats"),
        ([transforms.Resize(48), transforms.CenterCrop(64)], "`CenterCrop` takes 64 x 64 pixels behind `Resize(48)`"),
        ([transforms.Resize(48), transforms.RandomCrop((40, 50))], "`RandomCrop` takes 40 x 50 pixels behind `Resize(48)`"),
        ([transforms.CenterCrop(60), WEIGHTS], "`ImageClassification` resizes and cuts what was resized or cut"),
        ([transforms.Resize(60), WEIGHTS], "`ImageClassification` resizes and cuts what was resized or cut"),
        ([transforms.ToTensor(), WEIGHTS], "`ImageClassification` stands behind the conversion to floats"),
        (
            [presets.ImageClassification(crop_size=64, resize_size=48)],
            "`ImageClassification` takes 64 x 64 pixels behind `Resize(48)`, and recipes do not pad what was resized: give `Resize(64)`",
        ),
        (
            [transforms.CenterCrop(8), transforms.ToTensor(), transforms.RandomErasing(), transforms.RandomHorizontalFlip()],
            "`RandomHorizontalFlip` stands behind `RandomErasing`",
        ),
        ([transforms.CenterCrop(8), v2.ToImage(), v2.RandomErasing(), v2.RandomInvert()], "`RandomInvert` stands behind `RandomErasing`"),
        ([transforms.CenterCrop(8), FLOAT_V1[1]], "`Normalize` takes floats: put `ToTensor()`"),
        ([transforms.CenterCrop(8), transforms.PILToTensor(), FLOAT_V1[1]], "`Normalize` takes floats: put `ToTensor()`"),
        ([transforms.CenterCrop(8), transforms.RandomPosterize(0)], "`RandomPosterize` has 0 bits: Pillow takes 1 to 8"),
        (
            [v2.CenterCrop(8), v2.RandomRotation(9, fill={tv_tensors.Image: 0, Image.Image: 7})],
            "`RandomRotation` has different values for two types of images",
        ),
        ([v2.CenterCrop(8), *FLOAT_V2[:2], v2.ToDtype(torch.uint8)], "`ToDtype` leaves values from 0 to 1 as they are"),
        ([v2.CenterCrop(8), v2.ToImage(), v2.ToDtype(torch.int32, scale=True)], "`ToDtype` scales levels to the range of int32"),
        (
            [v2.CenterCrop(8), v2.ToImage(), v2.ToDtype({tv_tensors.Image: torch.float32, "others": None})],
            "`ToDtype` leaves values from 0 to 255",
        ),
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
    numpy.testing.assert_array_equal(ours(WEIGHTS, images), torchvisions([WEIGHTS], images))


def test_erasing_without_normalize_is_to_black_and_nothing_is_above_255(images):
    steps = [*CUT, transforms.RandomSolarize(256, 1.0), transforms.ToTensor()]
    erased = ours([*steps, transforms.RandomErasing(1.0, value=[0, 0, 0])], images, dtype=torch.float32)
    plain = ours(steps, images, dtype="float32")
    numpy.testing.assert_array_equal(plain, torchvisions(steps, images))
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
