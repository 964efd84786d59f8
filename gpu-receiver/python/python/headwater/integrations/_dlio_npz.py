"""The samples of DLIO's `.npz` files, as a dataset that a storage node reads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["Samples"]


class Samples:
    """Sample `i` is that of number `i % samples_per_file` along the last axis of the array `x`, in file `i // samples_per_file`.

    `version` follows from the path, the size and the time of the last change of each file: it changes when one is written again.
    """

    def __init__(self, folder: str, names: Sequence[str], samples_per_file: int) -> None:
        self._paths = [os.path.join(folder, name) for name in names]
        self.version = _version(self._paths)
        self._samples_per_file = samples_per_file
        self._file = -1
        self._samples = np.empty(0)

    def __len__(self) -> int:
        return len(self._paths) * self._samples_per_file

    def __getitem__(self, number: int) -> dict[str, bytes]:
        file, sample = divmod(number, self._samples_per_file)
        if file != self._file:
            with np.load(self._paths[file]) as arrays:
                self._samples, self._file = arrays["x"], file
        return {"x": self._samples[..., sample].tobytes()}


def _version(paths: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        found = os.stat(path)
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()
