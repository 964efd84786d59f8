"""Tensorcom's binary form of arrays: a header and the bytes, in C order, little-endian.

Source: `tensorcom/tenbin.py` of the PyPI package tensorcom 0.1.0.
"""

from __future__ import annotations

import math
import os
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

import numpy as np

from ..errors import MessageError

__all__: list[str] = []

_MAGIC = b"~TenBin~"
# Chunks are padded to multiples of this.
_ALIGN = 64
# Of a header: type, info, number of dimensions, sizes.
_FIELD = 8
_RANK_MAX = 9
_WIDE = ("float64", "int64", "uint64")
_CODES = {
    "float16": "f2", "float32": "f4", "float64": "f8", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint8": "u1", "uint16": "u2", "uint64": "u8",
}  # fmt: skip
# Tensorcom's own programs neither write `u4` nor read it; others may write it.
_DTYPES = {code: np.dtype("<" + code) for code in [*_CODES.values(), "u4"]}
# Types that Tensorcom does not know travel as integers of the same size, with their name as info.
_BITS = {"bfloat16": ("uint16", "bf16"), "float8_e4m3fn": ("uint8", "e4m3")}


def load(fname: Union[str, os.PathLike], infos: Any = False, nocheck: bool = False) -> Any:
    """The arrays of a `.ten` file, which share one memory; with `infos=True` a pair of arrays and infos.

    Raises `MessageError`, which names the file and the byte, if it is not in Tensorcom's format.
    """
    _check_name(fname, nocheck)
    data = np.fromfile(fname, np.uint8)
    try:
        return checked(*decode(chunks(data.data)), infos)
    except MessageError as error:
        raise MessageError(f"{os.fspath(fname)}: {error}") from None


def save(
    fname: Union[str, os.PathLike], *args: Any, infos: Optional[Sequence[str]] = None, nocheck: bool = False,
    allow64: bool = True,
) -> None:  # fmt: skip
    """Writes arrays to a `.ten` file that Tensorcom's programs read."""
    _check_name(fname, nocheck)
    encoded = encode(args, infos, allow64)
    with open(fname, "wb") as file:
        for part in framed(encoded):
            file.write(part)


def _check_name(fname: Union[str, os.PathLike], nocheck: bool) -> None:
    if not nocheck and not os.fspath(fname).endswith(".ten"):
        raise ValueError(f"{os.fspath(fname)} does not end with .ten: rename it, or set nocheck=True")


# === to bytes ===


def encode(arrays: Iterable[Any], infos: Optional[Sequence[str]], allow64: bool) -> list[Any]:
    """The header and the bytes of each array, one after the other."""
    arrays = list(arrays)
    infos = list(infos) if infos not in (None, True, False) else None
    if infos is not None and len(infos) != len(arrays):
        raise ValueError(f"{len(infos)} infos for {len(arrays)} arrays: give one for each")
    parts: list[Any] = []
    for number, given in enumerate(arrays):
        array, info = _plain(given, number, allow64)
        info = info if infos is None else infos[number]
        parts += [_header(array, info, number), _bytes(array)]
    return parts


def _plain(given: Any, number: int, allow64: bool) -> tuple[np.ndarray, str]:
    """The array in the form in which it is sent, and its info if it has one."""
    array = np.asarray(given.numpy() if hasattr(given, "numpy") else given)
    name, info = array.dtype.name, ""
    if name in _BITS:
        bits, info = _BITS[name]
        array = np.ascontiguousarray(array).view(bits)
    elif name not in _CODES:
        raise ValueError(f"array {number} is {name}, which Tensorcom's clients cannot read: send one of {', '.join(_CODES)}")
    elif name in _WIDE and not allow64:
        raise ValueError(f"array {number} is {name}: send 32 bits, or set allow64=True")
    if array.ndim > _RANK_MAX:
        raise ValueError(f"array {number} has {array.ndim} dimensions: {_RANK_MAX} at most")
    # An array without dimensions would get one by np.ascontiguousarray.
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C"), info


def _header(array: np.ndarray, info: str, number: int) -> bytes:
    if len(info) > _FIELD or not info.isascii():
        raise ValueError(f"info `{info}` of array {number}: {_FIELD} characters of ASCII at most")
    fields = struct.pack("<8s8sq", _CODES[array.dtype.name].encode(), info.encode(), array.ndim)
    return fields + struct.pack(f"<{array.ndim}q", *array.shape)


def _bytes(array: np.ndarray) -> Any:
    # A memoryview cannot be cast where there is no element.
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def framed(parts: Iterable[Any]) -> Iterable[Any]:
    """The bytes for each part in one frame, or in a file."""
    for part in parts:
        size = len(part)
        yield _MAGIC + struct.pack("<q", size)
        yield part
        yield bytes(-size % _ALIGN)


# === from bytes ===


def chunks(buffer: memoryview) -> list[memoryview]:
    """The parts of one frame, or of a file."""
    parts, at, end = [], 0, len(buffer)
    while at < end:
        if buffer[at : at + _FIELD] != _MAGIC:
            raise MessageError(f"the chunk at byte {at} does not begin with ~TenBin~: this is not Tensorcom's format")
        begin = at + 2 * _FIELD
        if begin > end:
            raise MessageError(f"the chunk at byte {at} ends in its length")
        (size,) = struct.unpack_from("<q", buffer, at + _FIELD)
        if not 0 <= size <= end - begin:
            raise MessageError(f"the chunk at byte {at} says that it has {size} bytes, and {end - begin} are left")
        parts.append(buffer[begin : begin + size])
        at = begin + size + -size % _ALIGN
    return parts


def decode(parts: Sequence[Any]) -> tuple[list[np.ndarray], list[str]]:
    """The arrays from alternating headers and bytes, without a copy, and their infos."""
    if len(parts) % 2:
        raise MessageError(f"{len(parts)} parts, an odd number: each tensor has a header and its bytes")
    arrays, infos = [], []
    for number, (header, data) in enumerate(zip(parts[::2], parts[1::2])):
        try:
            dtype, info, shape = _described(bytes(header))
            size = dtype.itemsize * math.prod(shape)
            if size != len(data):
                raise MessageError(f"{list(shape)} of {dtype.str[1:]} needs {size} bytes, but {len(data)} follow")
            # NumPy has a limit also for the other sizes of an array without elements.
            if dtype.itemsize * math.prod(dim for dim in shape if dim) > sys.maxsize:
                raise MessageError(f"{list(shape)} of {dtype.str[1:]}: no array can have these sizes")
        except MessageError as error:
            raise MessageError(f"tensor {number}: {error}") from None
        arrays.append(np.frombuffer(data, dtype).reshape(shape) if size else np.empty(shape, dtype))
        infos.append(info)
    return arrays, infos


def _described(header: bytes) -> tuple[np.dtype, str, tuple[int, ...]]:
    """Type, info and shape."""
    if len(header) % _FIELD:
        raise MessageError(f"a header of {len(header)} bytes, which are no whole fields")
    if len(header) < 3 * _FIELD:
        raise MessageError(f"a header of {len(header)} bytes is too short")
    code, info = _text(header[:_FIELD]), _text(header[_FIELD : 2 * _FIELD])
    if code not in _DTYPES:
        raise MessageError(f"{code!r} is no element type")
    rank, *dims = struct.unpack(f"<{len(header) // _FIELD - 2}q", header[2 * _FIELD :])
    if rank != len(dims) or rank > _RANK_MAX:
        raise MessageError(f"{rank} dimensions, with sizes of {len(dims)}; {_RANK_MAX} at most")
    if any(dim < 0 for dim in dims):
        raise MessageError(f"a dimension of {min(dims)}")
    return _DTYPES[code], info, tuple(dims)


def _text(field: bytes) -> str:
    try:
        return field.rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError:
        raise MessageError("a name that is not ASCII") from None


def checked(arrays: list[np.ndarray], infos: list[str], wanted: Any) -> Any:
    """As in Tensorcom: `wanted` is True for both, or the required infos."""
    if wanted is None or wanted is False:
        return arrays
    if wanted is True:
        return arrays, infos
    for number, (want, info) in enumerate(zip(wanted, infos)):
        if want != info:
            raise MessageError(f"tensor {number} has the info `{info}`, not `{want}`")
    return arrays
