"""Decoding and augmenting alone: the worker's bytes without a worker."""

import multiprocessing
import pickle
import tarfile

import headwater
import numpy as np
import pytest
from conftest import PHOTOS, SMALL

SHARDS = {
    "photos": PHOTOS / "photos-000001.tar",
    "others": PHOTOS / "photos-000003.tar",
}
JPEG = "jpg"


def members(shard):
    """Bytes of a shard's photographs by their keys."""
    with tarfile.open(shard) as archive:
        files = (member for member in archive if member.name.endswith(JPEG))
        return {member.name.split(".")[0]: archive.extractfile(member).read() for member in files}


@pytest.fixture(scope="module")
def photos():
    return {dataset: members(shard) for dataset, shard in SHARDS.items()}


@pytest.fixture(scope="module")
def images(photos):
    return list(photos["photos"].values())[:4]


def same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        np.testing.assert_array_equal(tensor.numpy(), other[name].numpy(), err_msg=name)


def test_pixels_are_a_workers(make, photos):
    loader = make(datasets=["photos", "others"], seed=7)
    seen = set()
    for _ in range(2):
        for batch in loader:
            images = [photos[sample.dataset][sample.key] for sample in batch.samples]
            rendered = headwater.render(
                images,
                SMALL,
                seed=7,
                epoch=batch.epoch,
                ids=[sample.id for sample in batch.samples],
                passes=[sample.pass_index for sample in batch.samples],
                labels=[sample.label for sample in batch.samples],
            )
            assert list(rendered) == ["global_crops", "local_crops", "labels"]
            for name, tensor in rendered.items():
                assert tensor.dtype == batch[name].dtype
                np.testing.assert_array_equal(tensor.numpy(), batch[name].numpy())
            seen.update((sample.dataset, batch.epoch) for sample in batch.samples)
    assert len(seen) == 4


def test_draws_follow_from_seed_epoch_pass_and_id_alone(images):
    renderer = headwater.Renderer(SMALL, seed=3)
    assert repr(renderer) == "<headwater.Renderer global_crops, local_crops seed=3 threads=1>"
    plain = renderer(images)
    same(plain, renderer(images, ids=[0, 1, 2, 3], passes=[0] * 4))
    same(plain, headwater.Renderer(SMALL, seed=3, threads=3)(images))
    # Alone as beside others.
    alone = renderer(images[2:3], ids=[2])["local_crops"].numpy()
    np.testing.assert_array_equal(alone, plain["local_crops"].numpy()[2::4])
    for other in (
        renderer(images, epoch=1),
        renderer(images, passes=[1] * 4),
        renderer(images, ids=[4, 5, 6, 7]),
        headwater.render(images, SMALL, seed=4),
    ):
        assert (other["local_crops"].numpy() != plain["local_crops"].numpy()).any()
    assert renderer([])["local_crops"].shape == (0, 3, 16, 24)


def test_images_are_bytes_arrays_and_paths(images, tmp_path):
    path = tmp_path / "0.jpg"
    path.write_bytes(images[0])
    array = np.frombuffer(images[0], np.uint8)
    forms = [images[0], bytearray(images[0]), memoryview(images[0]), array, path, str(path)]
    decoded = headwater.decode(forms)
    for image in decoded:
        np.testing.assert_array_equal(image.numpy(), decoded[0].numpy())


def test_decoded_pixels_are_pillows(images):
    pillow = pytest.importorskip("PIL.Image")
    for bytes_, image in zip(images, headwater.decode(images, threads=2)):
        import io

        expected = np.asarray(pillow.open(io.BytesIO(bytes_)).convert("RGB"))
        np.testing.assert_array_equal(image.numpy(), expected)


def test_tensors_go_to_pytorch_and_fp8_has_its_scale(images):
    rendered = headwater.render(images, "imagenet-train", dtype="fp8_e4m3")["images"]
    assert rendered.shape == (4, 3, 224, 224)
    assert rendered.scale > 1.0 and rendered.amax > 0.5
    torch = pytest.importorskip("torch")
    if hasattr(torch, "float8_e4m3fn"):
        assert rendered.torch().shape == (4, 3, 224, 224)


def job(renderer, images, answer):
    answer.put({name: tensor.numpy() for name, tensor in renderer(images).items()})


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_render_the_same(images, method):
    """As a DataLoader's workers do, after the same was called here."""
    renderer = headwater.Renderer(SMALL, seed=5, threads=2)
    expected = renderer(images)
    context = multiprocessing.get_context(method)
    answer = context.SimpleQueue()
    process = context.Process(target=job, args=(renderer, images, answer))
    process.start()
    found = answer.get()
    process.join()
    assert process.exitcode == 0
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor.numpy())


def test_a_renderer_is_pickled_with_all_that_it_follows(images):
    renderer = headwater.Renderer("imagenet-eval", dtype="u8", seed=9, threads=2)
    again = pickle.loads(pickle.dumps(renderer))
    assert repr(again) == repr(renderer)
    same(renderer(images), again(images))


def test_errors_name_the_image_and_the_remedy(images, tmp_path):
    with pytest.raises(headwater.ImageError, match="image 2: "):
        headwater.render([*images[:2], b"no image"], SMALL)
    with pytest.raises(headwater.ImageError, match="image 1: "):
        headwater.decode([images[0], images[1][:100]], threads=4)
    with pytest.raises(FileNotFoundError, match="image 0: cannot read `.*absent.jpg`"):
        headwater.decode([tmp_path / "absent.jpg"])
    with pytest.raises(TypeError, match="give a list of images"):
        headwater.decode(images[0])
    with pytest.raises(TypeError, match="image 0 is a ndarray: give the bytes of its file"):
        headwater.decode([np.zeros((4, 4, 3), np.uint8)])
    with pytest.raises(ValueError, match="`ids` has 1 numbers for 4 images"):
        headwater.render(images, SMALL, ids=[1])
    with pytest.raises(headwater.ConfigError, match="dinov9"):
        headwater.Renderer("dinov9")
    with pytest.raises(headwater.ConfigError, match="a GPU's decoder"):
        headwater.Renderer({"preset": "dinov2", "decoder": "nvjpeg"})
    with pytest.raises(ValueError, match="`threads` = 0"):
        headwater.Renderer(SMALL, threads=0)


def test_a_group_chooses_the_size(images):
    crop = {"kind": "resize"}
    tensor = {"name": "images", "dtype": "u8", "views": [{"crop": crop}]}
    several = {"tensors": [{**tensor, "aspect_buckets": [[32, 32], [24, 40]]}]}
    one = {"tensors": [{**tensor, "height": 24, "width": 40}]}
    renderer = headwater.Renderer(several, group=1)
    same(renderer(images), headwater.render(images, one))
    same(headwater.render(images, several, group=1), headwater.render(images, one))
    same(pickle.loads(pickle.dumps(renderer))(images), headwater.render(images, one))
    for recipe, group, said in (
        (several, None, "give `group`, 0 to 1"),
        (several, 2, "`group` is 2"),
        (one, 0, "has no `aspect_buckets`"),
    ):
        with pytest.raises(headwater.ConfigError, match=said):
            headwater.Renderer(recipe, group=group)
