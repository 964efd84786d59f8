"""PyTorch, where it is installed."""

import copy
import gc
import io
import pickle

import headwater
import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize(
    "dtype, kind",
    [("bf16", "bfloat16"), ("f16", "float16"), ("f32", "float32"), ("u8", "uint8"),
     ("fp8_e4m3", "float8_e4m3fn")],
)
def test_every_type_comes_without_a_copy(make, dtype, kind):
    batch = next(iter(make(recipe="dinov2", dtype=dtype, batch_size=2)))
    tensors = batch.torch()
    crops = tensors["global_crops"]
    assert crops.dtype == getattr(torch, kind)
    assert crops.shape == (4, 3, 224, 224) and crops.is_contiguous()
    assert tensors["local_crops"].shape == (16, 3, 96, 96)
    assert tensors["labels"].dtype == torch.int64
    by_torchs_name = make(recipe="dinov2", dtype=crops.dtype, batch_size=2).recipe
    assert by_torchs_name["tensors"][0]["dtype"] == dtype
    for name, tensor in batch.tensors.items():
        again = tensor.torch()
        assert again.data_ptr() == tensors[name].data_ptr()
        if dtype != "fp8_e4m3":
            assert torch.from_dlpack(tensor).data_ptr() == again.data_ptr()


def test_bf16_values_are_the_f32_values_rounded(make):
    options = {"recipe": "dinov2", "batch_size": 2}
    exact = next(iter(make(dtype="f32", **options))).global_crops.torch()
    rounded = next(iter(make(dtype="bf16", **options))).global_crops.torch()
    assert torch.equal(exact.to(torch.bfloat16), rounded)


def test_a_torch_tensor_keeps_its_slot(make):
    loader = make(window_batches=1, slots_max=2)
    iteration = iter(loader)
    held = [next(iteration).global_crops.torch() for _ in range(2)]
    before = [tensor.clone() for tensor in held]
    with pytest.raises(headwater.SlotsError):
        next(iteration)
    assert all(torch.equal(*pair) for pair in zip(held, before))
    held.clear()
    gc.collect()
    assert next(iteration).step == 2


def test_a_batch_of_torchs_tensors_says_what_is_in_it(make):
    batch = next(iter(make(datasets=["photos", "others"])))
    tensors = batch.torch()
    assert isinstance(tensors, headwater.TorchBatch) and isinstance(tensors, dict)
    assert list(tensors) == [name for name, _ in batch.items()]
    assert tensors.labels is tensors["labels"]
    assert (tensors.epoch, tensors.step, tensors.samples) == (0, 0, batch.samples)
    with pytest.raises(AttributeError, match="no tensor `crops`: it has global_crops, local_crops"):
        tensors.crops


def test_to_moves_every_tensor_and_keeps_what_is_there_already(make):
    batch = next(iter(make()))
    here = batch.to("cpu")
    assert isinstance(here, headwater.TorchBatch)
    assert here.labels.data_ptr() == batch.labels.torch().data_ptr()
    # The one device besides the CPU that every PyTorch has; it holds shapes only.
    there = batch.to(torch.device("meta"), non_blocking=True)
    assert {name: (t.device.type, t.shape) for name, t in there.items()} == {
        name: ("meta", t.shape) for name, t in here.items()
    }
    assert there.samples == batch.samples


def test_a_moved_batch_lets_go_of_the_slot(make):
    loader = make(window_batches=1, slots_max=2)
    # More batches than there are slots.
    moved = [batch.to("meta") for _, batch in zip(range(5), loader)]
    assert [batch.step for batch in moved] == [0, 1, 2, 3, 4]


def test_labels_equal_numpys(make):
    batch = next(iter(make()))
    assert numpy.array_equal(batch.labels.torch().numpy(), batch.labels.numpy())


@pytest.mark.parametrize("again", [
    lambda batch: pickle.loads(pickle.dumps(batch)),
    copy.deepcopy,
    lambda batch: saved(batch),
], ids=["pickle", "deepcopy", "torch.save"])
def test_a_batch_can_be_copied_and_kept(make, again):
    batch = next(iter(make())).torch()
    other = again(batch)
    assert isinstance(other, headwater.TorchBatch)
    assert list(other) == list(batch) and all(torch.equal(other[name], batch[name]) for name in batch)
    assert (other.epoch, other.step, other.samples) == (batch.epoch, batch.step, batch.samples)
    assert other.labels.data_ptr() != batch.labels.data_ptr()


def saved(batch):
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


class Inside(torch.utils.data.IterableDataset):
    """What somebody may try: a loader inside a DataLoader's worker."""

    def __init__(self, use):
        self.use = use

    def __iter__(self):
        yield from self.use()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_dataloader_workers_are_told(make, tiers):
    loader = make()
    uses = [lambda: iter(loader), lambda: iter(headwater.Loader(**tiers.keywords()))]
    for use in uses:
        workers = torch.utils.data.DataLoader(Inside(use), batch_size=None, num_workers=1)
        with pytest.raises(Exception, match="ForkError|made in process|DataLoader worker"):
            next(iter(workers))
