"""JAX, where it is installed."""

import numpy
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")


@pytest.mark.parametrize("dtype, kind", [("bf16", "bfloat16"), ("f16", "float16"),
                                         ("f32", "float32"), ("u8", "uint8")])
def test_arrays_come_through_dlpack(make, dtype, kind):
    batch = next(iter(make(recipe="imagenet-eval", dtype=dtype, batch_size=4)))
    array = jax.dlpack.from_dlpack(batch.images)
    assert array.dtype == kind and array.shape == (4, 3, 224, 224)
    assert array.unsafe_buffer_pointer() == batch.images.numpy().ctypes.data
    assert numpy.array_equal(numpy.asarray(array), batch.images.numpy())


def test_a_jax_array_keeps_its_bytes(make):
    loader = make(window_batches=1, slots_max=3)
    iteration = iter(loader)
    array = jax.dlpack.from_dlpack(next(iteration).global_crops)
    before = numpy.array(array)
    for _ in iteration:
        pass
    assert numpy.array_equal(numpy.asarray(array), before)
