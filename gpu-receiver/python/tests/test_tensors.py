"""Tensors in NumPy's hands, and the memory under them."""

import ctypes
import gc
import sys
import threading
import time

import headwater
import numpy
import pytest

CAPSULE = ctypes.pythonapi


def address(array):
    return array.__array_interface__["data"][0]


def capsule_name(capsule):
    CAPSULE.PyCapsule_GetName.restype = ctypes.c_char_p
    CAPSULE.PyCapsule_GetName.argtypes = [ctypes.py_object]
    return CAPSULE.PyCapsule_GetName(capsule)


@pytest.fixture
def batch(make):
    return next(iter(make()))


def test_tensors_have_the_recipes_names_shapes_and_types(batch):
    assert {name: (t.dtype, t.shape) for name, t in batch.tensors.items()} == {
        "global_crops": ("f32", (8, 3, 32, 32)),
        "local_crops": ("u8", (12, 3, 16, 24)),
        "labels": ("i64", (4,)),
    }
    assert batch["labels"].name == batch.labels.name == "labels"
    assert batch.local_crops.nbytes == 12 * 3 * 16 * 24
    assert "labels" in batch and "crops" not in batch
    assert "global_crops=f32[8, 3, 32, 32]" in repr(batch)


def test_a_missing_tensor_is_an_error_that_names_those_there_are(batch):
    with pytest.raises(AttributeError, match="no tensor `crops`: it has global_crops, local_crops"):
        batch.crops
    with pytest.raises(KeyError, match="crops"):
        batch["crops"]


def test_arrays_share_the_memory_and_are_read_only(batch):
    for tensor in batch.tensors.values():
        array = tensor.numpy()
        assert array.shape == tensor.shape and array.flags.c_contiguous
        assert not array.flags.writeable
        assert address(array) % 256 == 0
        for other in [tensor.numpy(), numpy.asarray(tensor), numpy.from_dlpack(tensor)]:
            assert address(other) == address(array)
            assert other.dtype == array.dtype
            assert not other.flags.writeable
            assert (other == array).all()


def test_pixels_are_normalised_and_not_all_alike(batch):
    crops = batch.global_crops.numpy()
    assert crops.dtype == numpy.float32
    # ImageNet's mean and deviation put [0, 255] between these.
    assert -2.2 < crops.min() < crops.max() < 2.7
    assert (crops.std(axis=(1, 2, 3)) > 0.01).mean() > 0.9
    raw = batch.local_crops.numpy()
    assert raw.dtype == numpy.uint8 and raw.max() > 128


def test_a_copy_is_the_consumers_own(batch):
    tensor = batch.labels
    array, copy = tensor.numpy(), numpy.array(tensor)
    assert address(copy) != address(array) and copy.flags.writeable
    taken = numpy.from_dlpack(tensor, copy=True)
    assert address(taken) not in (address(array), address(copy))
    assert (taken == array).all()
    assert numpy.asarray(tensor, dtype="f4").dtype == numpy.float32


def test_capsules_are_of_the_version_that_the_consumer_knows(batch):
    tensor = batch.labels
    assert capsule_name(tensor.__dlpack__()) == b"dltensor"
    assert capsule_name(tensor.__dlpack__(max_version=(0, 8))) == b"dltensor"
    assert capsule_name(tensor.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
    assert tensor.__dlpack_device__() == (1, 0)


def test_what_the_cpu_cannot_do_is_a_buffer_error(batch):
    tensor = batch.labels
    tensor.__dlpack__(stream=None, dl_device=(1, 0), copy=False)
    tensor.__dlpack__(stream=-1)
    with pytest.raises(BufferError, match="stream"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="not copied to"):
        tensor.__dlpack__(dl_device=(2, 0))


def test_bytes_stay_as_long_as_an_array_does(make):
    # Few slots, so that every one is used again many times.
    loader = make(window_batches=2, slots_max=4)
    iteration = iter(loader)
    array = next(iteration).global_crops.numpy()
    before = array.copy()
    assert sum(1 for _ in iteration) == 15
    for _ in loader:
        pass
    assert (array == before).all()


HOLDERS = [
    lambda batch: batch,
    lambda batch: batch.global_crops,
    lambda batch: batch.global_crops.numpy(),
    lambda batch: numpy.from_dlpack(batch.global_crops),
    lambda batch: batch.global_crops.__dlpack__(max_version=(1, 0)),
    lambda batch: batch.global_crops.__dlpack__(),
]


def test_every_kind_of_holder_keeps_its_slot_and_gives_it_back(make):
    loader = make(window_batches=1, slots_max=len(HOLDERS))
    iteration = iter(loader)
    held = [hold(next(iteration)) for hold in HOLDERS]
    with pytest.raises(headwater.SlotsError, match="holds all 6 slots"):
        next(iteration)
    later = []
    for step in range(len(HOLDERS), 2 * len(HOLDERS)):
        held.pop()
        gc.collect()
        # One slot came back, so there is just one more batch.
        later.append(next(iteration))
        assert later[-1].step == step


def test_labels_that_are_kept_hold_no_slot(make):
    loader = make(window_batches=1, slots_max=2)
    kept = [(batch.labels, batch.labels.numpy(), [sample.label for sample in batch.samples]) for batch in loader]
    assert len(kept) == len(loader)
    for tensor, array, labels in kept:
        assert tensor.numpy().tolist() == array.tolist() == labels


class DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        # ctypes gives the interpreter's lock away while it calls such a function.
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


def test_a_consumer_may_let_go_on_any_thread_without_the_interpreters_lock(make):
    loader = make(window_batches=1, slots_max=2)
    iteration = iter(loader)
    batch = next(iteration)
    capsule = batch.global_crops.__dlpack__()
    pointer = CAPSULE.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = pointer(capsule, b"dltensor")
    rename = CAPSULE.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    rename(capsule, b"used_dltensor")
    tensor = DLManagedTensor.from_address(managed)
    assert tensor.shape[: tensor.ndim] == list(batch.global_crops.shape)
    assert tensor.strides[: tensor.ndim] == [3 * 32 * 32, 32 * 32, 32, 1]
    assert tensor.data == address(batch.global_crops.numpy())
    del batch, capsule
    held = next(iteration)
    with pytest.raises(headwater.SlotsError):
        next(iteration)
    # Long enough to be found still stuck: what is reported then must not outlive the cause.
    time.sleep(0.2)
    thread = threading.Thread(target=tensor.deleter, args=(managed,))
    thread.start()
    thread.join()
    assert next(iteration).step == held.step + 1


@pytest.mark.parametrize("dtype, name", [("bf16", "bfloat16"), ("fp8_e4m3", "float8_e4m3fn")])
def test_types_that_numpy_has_not_come_from_ml_dtypes(make, dtype, name, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    exact = next(iter(make(recipe="imagenet-eval", dtype="f32", batch_size=4))).images.numpy()
    batch = next(iter(make(recipe="imagenet-eval", dtype=dtype, batch_size=4)))
    array = batch.images.numpy()
    assert array.dtype == numpy.dtype(getattr(ml_dtypes, name))
    assert address(array) == address(batch.images.numpy()) and not array.flags.writeable
    assert numpy.asarray(batch.images).dtype == array.dtype
    values = array.astype("f4") * batch.images.scale_inv
    # Rounded to 8 bits of a significand, or to 4.
    assert numpy.allclose(values, exact, rtol={"bf16": 2**-8, "fp8_e4m3": 2**-4}[dtype], atol=0.01)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=f"NumPy has no {dtype}: install `ml_dtypes`, or .*torch"):
        batch.images.numpy()
    with pytest.raises(AttributeError):
        batch.images.__array_interface__
