"""Takes batches on a GPU as an array library would: by DLPack's structures, on streams of its own.

Run by test_device.py in a process whose CUDA driver is the emulated one. Prints what it saw as JSON.
"""

import ctypes
import gc
import json
import sys

import headwater
from conftest import SMALL

LEGACY, PER_THREAD = 1, 2


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Driver:
    """The driver's functions, which fail aloud."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def allocate(self, count):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def copy_on(self, stream, to, address, count):
        self.call(
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_uint64(to),
            ctypes.c_uint64(address),
            ctypes.c_size_t(count),
            ctypes.c_void_p(stream),
        )

    def read(self, stream, address, count):
        """Bytes of device memory, read on the stream after all that it was asked for."""
        bytes_ = ctypes.create_string_buffer(count)
        size = ctypes.c_size_t(count)
        stream = ctypes.c_void_p(stream)
        self.call("cuMemcpyDtoHAsync_v2", bytes_, ctypes.c_uint64(address), size, stream)
        self.call("cuStreamSynchronize", stream)
        return bytes_.raw


def seen(tensor, stream):
    """The structure in a capsule, and the capsule, which keeps it."""
    capsule = tensor.__dlpack__(stream=stream)
    return DLTensor.from_address(pointer_of(capsule, b"dltensor")), capsule


def host_batches(options, steps):
    """What the same batches hold on the CPU: by name, dtype, shape and bytes."""
    with headwater.Loader(**options) as loader:
        batches = iter(loader)
        for _ in range(steps):
            batch = next(batches)
            yield {
                name: (tensor.dtype, tensor.shape, tensor.__dlpack__(copy=True), tensor.nbytes)
                for name, tensor in batch.tensors.items()
            }, batch.digest


def bytes_of(capsule, count):
    return ctypes.string_at(DLTensor.from_address(pointer_of(capsule, b"dltensor")).data, count)


def every_stream(driver, options, steps):
    """Each batch is read on each kind of stream and is the one that the CPU has."""
    streams = [None, LEGACY, PER_THREAD, driver.stream(), -1]
    expected = list(host_batches(options, steps))
    compared = 0
    with headwater.Loader(device="cuda:0", **options) as loader:
        for (wanted, digest), batch in zip(expected, loader):
            assert batch.digest == digest
            for name, (dtype, shape, capsule, count) in wanted.items():
                tensor = batch[name]
                assert (tensor.dtype, tensor.shape, tensor.nbytes) == (dtype, shape, count)
                assert tensor.device == "cuda:0" and tensor.__dlpack_device__() == (2, 0)
                for stream in streams:
                    there, kept = seen(tensor, stream)
                    assert (there.device_type, there.device_id) == (2, 0)
                    assert tuple(there.shape[: there.ndim]) == shape
                    on = LEGACY if stream in (None, -1) else stream
                    assert driver.read(on, there.data, count) == bytes_of(capsule, count), (
                        f"{name} on stream {stream}"
                    )
                    compared += 1
                    del kept
    return compared


def late_reads(driver, options, steps):
    """Copies that a stream was asked for and has not begun when their batch is let go of read that
    batch, though slots are used again and again meanwhile."""
    expected = [
        bytes_of(wanted["global_crops"][2], wanted["global_crops"][3])
        for wanted, _ in host_batches(options, steps)
    ]
    streams = [driver.stream() for _ in range(3)]
    kept = [driver.allocate(len(bytes_)) for bytes_ in expected]
    with headwater.Loader(device="cuda:0", window_batches=2, **options) as loader:
        for step, batch in zip(range(steps), loader):
            stream = streams[step % len(streams)]
            there, capsule = seen(batch.global_crops, stream)
            driver.copy_on(stream, kept[step], there.data, len(expected[step]))
            del there, capsule, batch
            gc.collect()
    for step, bytes_ in enumerate(expected):
        assert driver.read(streams[step % len(streams)], kept[step], len(bytes_)) == bytes_, step
    return steps


def normalised(driver, options, dtype):
    """Levels that the GPU normalises are what a worker makes of them."""
    levels, elements = ({"preset": "imagenet-eval", "dtype": name} for name in ("u8", dtype))
    with headwater.Loader(recipe=elements, **options) as loader:
        batch = next(iter(loader))
        tensor = batch.images
        wanted = bytes_of(tensor.__dlpack__(copy=True), tensor.nbytes)
        shape = tensor.shape
    stream = driver.stream()
    with headwater.Loader(recipe=levels, device="cuda:0", u8_as=dtype, **options) as loader:
        batch = next(iter(loader))
        tensor = batch.images
        assert (tensor.dtype, tensor.shape, tensor.nbytes) == (dtype, shape, len(wanted))
        there, kept = seen(tensor, stream)
        assert driver.read(stream, there.data, len(wanted)) == wanted
        labels, kept_too = seen(batch.labels, stream)
        assert len(driver.read(stream, labels.data, batch.labels.nbytes)) == 8 * len(batch)
        del kept, kept_too
    return len(wanted)


class Array:
    """Device memory as CuPy or PyTorch would show it."""

    def __init__(self, address, count, freed):
        self.freed = freed
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (count,),
            "typestr": "|u1",
            "strides": None,
            "version": 3,
        }

    def __del__(self):
        self.freed.append(self)


def allocated(driver, options):
    """Slots lie where an allocator says, and are given back to it."""
    asked, freed = [], []

    def allocate(count):
        asked.append((driver.allocate(count), count))
        return Array(*asked[-1], freed)

    stream = driver.stream()
    loader = headwater.Loader(device="cuda:0", device_allocator=allocate, **options)
    batch = next(iter(loader))
    there, kept = seen(batch.global_crops, stream)
    assert any(0 <= there.data - address < count for address, count in asked)
    loader.close()
    del there, kept, batch, loader
    gc.collect()
    assert len(freed) == len(asked) > 0, (freed, asked)
    return len(asked)


def refusals(options):
    """What cannot be had says so."""
    said = {}

    def refused(name, error, attempt):
        try:
            attempt()
        except error as refusal:
            said[name] = f"{type(refusal).__name__}: {refusal}"

    with headwater.Loader(device="cuda:0", **options) as loader:
        tensor = next(iter(loader)).global_crops
        refused("numpy", TypeError, tensor.numpy)
        refused("interface", AttributeError, lambda: tensor.__array_interface__)
        refused("stream 0", BufferError, lambda: tensor.__dlpack__(stream=0))
        refused("copy", BufferError, lambda: tensor.__dlpack__(stream=1, copy=True))
        refused("cpu", BufferError, lambda: tensor.__dlpack__(stream=1, dl_device=(1, 0)))
    for device in ("cuda:7", "gpu"):
        refused(device, RuntimeError, lambda d=device: headwater.Loader(device=d, **options))
    refused("u8_as", RuntimeError, lambda: headwater.Loader(u8_as="bf16", **options))
    host = lambda count: Array(4096, count, [])  # noqa: E731
    attempt = lambda: headwater.Loader(device="cuda:0", device_allocator=host, **options)  # noqa: E731
    refused("allocator", RuntimeError, attempt)
    problem = LookupError("the trainer has no room")

    def allocate(count):
        raise problem

    def attempt():
        try:
            headwater.Loader(device="cuda:0", device_allocator=allocate, **options)
        except LookupError as raised:
            assert raised is problem
            raise

    refused("an exception", LookupError, attempt)
    return said


def normalised_to_all(driver, options):
    return [normalised(driver, options, dtype) for dtype in ("bf16", "f16", "f32")]


def main():
    what, options = sys.argv[1], json.loads(sys.argv[2])
    small = {**options, "recipe": SMALL}
    work = {
        "every_stream": lambda: every_stream(Driver(), small, 4),
        "late_reads": lambda: late_reads(Driver(), small, 12),
        "normalised": lambda: normalised_to_all(Driver(), options),
        "allocated": lambda: allocated(Driver(), small),
        "refusals": lambda: refusals(small),
        "first_batch": lambda: next(iter(headwater.Loader(device="cuda:0", **small))).digest,
    }
    print(json.dumps(work[what]()))


main()
