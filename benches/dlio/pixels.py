"""Readers for DLIO's PyTorch loader that hand out what they read.

DLIO's own readers decode a file, or read its array, and then return one array of random numbers for every sample. These open the files with
the same calls and return the sample: an image in RGB, resized by Pillow to the side that `record_length_resize` gives, or the array.
"""

import math

import h5py
import numpy as np
from dlio_benchmark.reader.reader_handler import FormatReader
from PIL import Image


class Samples(FormatReader):
    def __init__(self, dataset_type, thread_index, epoch):
        super().__init__(dataset_type, thread_index)

    def read_index(self, number, step):
        # DLIO's own method also formats a text with the names of all files, for each sample.
        return self.get_sample(*self.global_index_map[number])

    def open(self, filename):
        raise NotImplementedError

    def close(self, filename):
        pass

    def next(self):
        raise NotImplementedError("this reader is for DLIO's PyTorch loader, which reads by number")

    def finalize(self):
        pass

    def is_index_based(self):
        return True

    def is_iterator_based(self):
        return False


class Images(Samples):
    def get_sample(self, filename, sample_index):
        side = math.isqrt(int(self._args.record_length_resize) // 3)
        image = Image.open(filename).convert("RGB")
        return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))


class Npz(Samples):
    def get_sample(self, filename, sample_index):
        with np.load(filename) as arrays:
            return arrays["x"][..., sample_index]


class Hdf5(Samples):
    def get_sample(self, filename, sample_index):
        with h5py.File(filename, "r") as file:
            return file["records"][sample_index]
