"""TensorFlow, where it is installed. The tests' own environment is without it: it takes 1.6 GB."""

import types

import numpy
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


@pytest.mark.parametrize("dtype, kind", [("bf16", "bfloat16"), ("f16", "float16"),
                                         ("f32", "float32"), ("u8", "uint8")])
def test_tensors_come_through_dlpack(make, dtype, kind):
    batch = next(iter(make(recipe="imagenet-eval", dtype=dtype, batch_size=4)))
    tensor = tf.experimental.dlpack.from_dlpack(batch.images.__dlpack__())
    assert tensor.dtype == tf.as_dtype(kind) and tensor.shape == (4, 3, 224, 224)
    assert numpy.array_equal(tensor.numpy(), batch.images.numpy())


def test_a_tensor_is_the_batchs_memory_and_keeps_its_bytes(make):
    iteration = iter(make(window_batches=1, slots_max=3))
    crops = next(iteration).global_crops
    tensor, address = tf.experimental.dlpack.from_dlpack(crops.__dlpack__()), crops.numpy().ctypes.data
    del crops
    before = tensor.numpy().copy()
    for _ in iteration:
        pass
    capsule = tf.experimental.dlpack.to_dlpack(tensor)
    array = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
    after = numpy.from_dlpack(array)
    assert after.ctypes.data == address and numpy.array_equal(after, before)
