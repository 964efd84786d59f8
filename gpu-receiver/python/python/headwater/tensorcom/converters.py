"""Converters of received arrays, with Tensorcom's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

# Channels of an image, by which Tensorcom tells where they stand.
_CHANNELS = (3, 4)


def to_torch(device: str = "cpu") -> Callable[[Any], Any]:
    """Makes tensors: of `float32` and `int64`, except for bytes, and with an image's channels in front."""

    def convert(array: Any) -> Any:
        import torch

        if not isinstance(array, np.ndarray):
            return array
        dtype = None
        if array.dtype.kind == "f":
            dtype = torch.float32
        elif array.dtype.name in ("int16", "uint16", "int32", "int64"):
            dtype = torch.int64
            # PyTorch of before 2.3 has no uint16.
            array = array.astype(np.int64, copy=False)
        if array.ndim in (3, 4) and array.shape[-1] in _CHANNELS:
            array = np.moveaxis(array, -1, -3)
        return torch.as_tensor(array, device=device, dtype=dtype)

    return convert


def as_torch(device: str) -> Callable[[Any], Any]:
    """Makes tensors on a device, of the arrays' own types and shapes."""

    def convert(array: Any) -> Any:
        import torch

        return torch.as_tensor(array, device=device) if isinstance(array, np.ndarray) else array

    return convert


def to_numpy(tensor: Any) -> Any:
    """Makes arrays of tensors, with an image's channels at the end."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return tensor
    if tensor.ndim in (3, 4) and tensor.shape[-3] in _CHANNELS:
        tensor = tensor.movedim(-3, -1)
    return tensor.detach().cpu().numpy()


NAMED = {"torch": to_torch(), "torch_cuda": to_torch("cuda"), "numpy": to_numpy}


def listed(given: Any) -> Optional[Sequence[Any]]:
    """The argument as a list: None, one function or several."""
    return given if given is None or isinstance(given, (list, tuple)) else [given]


def applied(sample: list[Any], functions: Optional[Sequence[Any]]) -> list[Any]:
    """Each array through its function; fewer functions than arrays begin again."""
    if not functions:
        return sample
    each = [functions[number % len(functions)] for number in range(len(sample))]
    return [one if function is None else function(one) for one, function in zip(sample, each)]
