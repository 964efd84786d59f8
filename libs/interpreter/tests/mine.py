"""What the tests call."""

import enum
import os
import time

import numpy


def invert(array, rng):
    return 255 - array


def invert_in_place(array, rng):
    numpy.subtract(255, array, out=array)
    return array


def noise(array, rng):
    print("printed to no harm")
    return rng.integers(0, 256, array.shape, numpy.uint8)


def fail_on_dark(array, rng):
    if array.max() < 10:
        array[...] = 77
        raise ValueError("too dark")
    return array


def nothing(array, rng):
    array[...] = 1


def floats(array, rng):
    return array / 255


def smaller(array, rng):
    return array[1:]


def die(array, rng):
    os._exit(3)


def hang(array, rng):
    time.sleep(1000)


def disk_error(array, rng):
    raise OSError(5, os.strerror(5))


def forks(array, rng):
    if os.fork() == 0:
        array[...] = 0
        return array
    time.sleep(0.3)
    return 255 - array


def no_memory(array, rng):
    raise MemoryError("that much")


class Squares:
    """A dataset of every kind of value."""

    def __init__(self, samples=5, name="squares"):
        self.samples, self.version = samples, f"{name} 1"

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        if index == 3:
            raise ValueError("a hole")
        if index == 4:
            return {"what": object()}
        return {
            "jpg": b"\xff\xd8" * (1 + 100_000 * index),
            "txt": f"caption {index} é",
            "cls": index * index,
            "height": 0.5 * index,
            "npy": numpy.arange(6, dtype=numpy.int16).reshape(2, 3),
            "json": {"boxes": [[1, 2, 3, 4]]},
        }


class Pairs(list):
    def __init__(self):
        super().__init__([(b"one", 1), (b"two", numpy.int64(2))])


class Tensor:
    """What is asked of a tensor of PyTorch."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.array


class One(enum.IntEnum):
    ONE = 1


class Scores(list):
    """The score 1.5 in every form."""

    def __init__(self):
        forms = [1.5, numpy.float64(1.5), numpy.float32(1.5), numpy.array(1.5), numpy.float16(1.5)]
        super().__init__((b"image", form) for form in forms)


class Labels(list):
    """The label 1 in every form."""

    def __init__(self):
        forms = [True, numpy.True_, numpy.bool_(1), numpy.uint8(1), numpy.array(1), numpy.array(True)]
        forms += [Tensor(numpy.array(1)), Tensor(numpy.array(True)), numpy.array("1"), One.ONE]
        super().__init__((b"image", form) for form in forms)
