#!/usr/bin/env python3
"""Writes tables and arrays into a folder, by each format's own library, in the combinations that people use.

    benches/peers/tables_made.py FOLDER

The same versions of the libraries write the same values. `tables.py` compares what Headwater reads of them. A combination that
a library does not have is named and left out.
"""

import argparse
import datetime
import decimal
import gzip
import itertools
import json
import random
import shutil
import sys
import uuid
import warnings
from pathlib import Path

import numpy

import table_readers

DRAW = random.Random(40)
ROWS = 300


def attempt(name: str, write, *given, **options) -> None:
    try:
        write(*given, **options)
    except Exception as error:
        print(f"left out: {name}: {type(error).__name__}: {error}".splitlines()[0][:160], file=sys.stderr)


def jpeg(number: int) -> bytes:
    """Bytes with the frame of a JPEG image: no reader of tables decodes them."""
    return b"\xff\xd8\xff\xe0" + random.Random(number).randbytes(40 + number % 90) + b"\xff\xd9"


# === Parquet ===


def parquet_table():
    import pyarrow

    def or_null(values):
        return [None if number % 7 == 3 else value for number, value in enumerate(values)]

    numbers = range(ROWS)
    whole = {f"{sign}int{bits}": [DRAW.randrange(2**bits) for _ in numbers] for sign, bits in itertools.product(["u"], [8, 16, 32, 64])}
    signed = {f"int{bits}": [DRAW.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in numbers] for bits in [8, 16, 32, 64]}
    columns = {name: pyarrow.array(or_null(values), name) for name, values in (whole | signed).items()}
    floats = [0.0, -0.0, 1e-45, 3.4e38, float("nan"), float("inf"), -float("inf"), 0.1, 1 / 3]
    columns |= {name: pyarrow.array(or_null([floats[n % 9] * (1 + n // 9) for n in numbers]), name) for name in ["float32", "float64"]}
    columns["float16"] = pyarrow.array(numpy.arange(ROWS).astype("f2"))
    texts = [f"é{number % 11}" * (number % 5) for number in numbers]
    for kind in ["string", "large_string", "binary", "large_binary", "string_view", "binary_view"]:
        columns[kind] = pyarrow.array(or_null(texts), getattr(pyarrow, kind)())
    columns["fixed"] = pyarrow.array(or_null([DRAW.randbytes(5) for _ in numbers]), pyarrow.binary(5))
    columns["bool"] = pyarrow.array(or_null([number % 3 == 0 for number in numbers]))
    columns["words"] = pyarrow.array(or_null(texts)).dictionary_encode()
    columns["null"] = pyarrow.nulls(ROWS)
    for unit in ["s", "ms", "us", "ns"]:
        columns[f"timestamp_{unit}"] = pyarrow.array(or_null([number * 10**9 - 7 for number in numbers]), pyarrow.timestamp(unit))
        columns[f"zone_{unit}"] = pyarrow.array(or_null([number * 10**9 for number in numbers]), pyarrow.timestamp(unit, "Asia/Tokyo"))
        columns[f"duration_{unit}"] = pyarrow.array(or_null(list(numbers)), pyarrow.duration(unit))
    columns["date32"] = pyarrow.array(or_null([number - 100 for number in numbers]), pyarrow.date32())
    columns["date64"] = pyarrow.array(or_null([datetime.date(1960, 1, 1 + number % 28) for number in numbers]), pyarrow.date64())
    columns |= {f"time_{unit}": pyarrow.array(or_null(list(numbers)), pyarrow.time32(unit)) for unit in ["s", "ms"]}
    columns |= {f"time_{unit}": pyarrow.array(or_null(list(numbers)), pyarrow.time64(unit)) for unit in ["us", "ns"]}
    for digits in [5, 15, 30]:
        values = [decimal.Decimal(number).scaleb(-2) for number in numbers]
        columns[f"decimal_{digits}"] = pyarrow.array(or_null(values), pyarrow.decimal128(digits, 2))
    columns["uuid"] = pyarrow.array([uuid.UUID(int=number).bytes for number in numbers], pyarrow.uuid())
    columns["list"] = pyarrow.array(or_null([list(range(number % 4)) for number in numbers]), pyarrow.list_(pyarrow.int32()))
    columns["vector"] = pyarrow.array([[number, 1.5] for number in numbers], pyarrow.list_(pyarrow.float32(), 2))
    columns["map"] = pyarrow.array([[("a", number)] for number in numbers], pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    points = [{"x": number, "y": None if number % 5 == 0 else {"z": str(number)}} for number in numbers]
    columns["point"] = pyarrow.array(or_null(points))
    columns["image"] = pyarrow.array([{"bytes": jpeg(number), "path": f"{number}.jpg"} for number in numbers])
    columns["image_null"] = pyarrow.array(or_null([{"bytes": jpeg(number), "path": None} for number in numbers]), columns["image"].type)
    return pyarrow.table(columns)


def parquet(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = parquet_table()

    def write(name, table=table, **options):
        attempt(f"parquet {name}", pyarrow.parquet.write_table, table, folder / f"{name}.parquet", **options)

    for codec in ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]:
        for page in ["1.0", "2.0"]:
            write(f"{codec}-v{page[0]}", compression=codec, data_page_version=page, row_group_size=77)
            write(f"{codec}-v{page[0]}-plain", compression=codec, data_page_version=page, use_dictionary=False, data_page_size=300)
    for version in ["1.0", "2.4", "2.6"]:
        whole = [name for name in table.column_names if not name.endswith("_ns")]
        write(f"version-{version}", table.select(whole), version=version)
    for size in [1, 2, 3, 31, 32, 33, 64, 299, 300, 1000]:
        write(f"groups-of-{size}", table.slice(0, 50 * size), row_group_size=size, write_page_checksum=True)
    write("checksums-v2", data_page_version="2.0", write_page_checksum=True, data_page_size=100, compression="zstd")
    write("dictionary-that-overflows", dictionary_pagesize_limit=100, data_page_size=100)
    write("index", write_page_index=True, store_schema=False)
    write("int96", use_deprecated_int96_timestamps=True)
    write("decimal-integer", store_decimal_as_integer=True)
    write("statistics-off", write_statistics=False)
    write("empty", table.slice(0, 0))
    write("row", table.slice(0, 1))
    whole = [name for name in table.column_names if name.startswith(("int", "uint", "time", "date"))]
    texts = ["string", "large_string", "binary", "large_binary"]
    encodings = {
        "delta": (whole, "DELTA_BINARY_PACKED"),
        "delta-length": (texts, "DELTA_LENGTH_BYTE_ARRAY"),
        "delta-text": (texts + ["fixed"], "DELTA_BYTE_ARRAY"),
        "split": (["float32", "float64", "int32", "int64", "fixed"], "BYTE_STREAM_SPLIT"),
        "rle-bool": (["bool"], "RLE"),
    }
    for (name, (columns, encoding)), page in itertools.product(encodings.items(), ["1.0", "2.0"]):
        table_of = table.select([column for column in columns if column != "int8" or encoding != "BYTE_STREAM_SPLIT"])
        options = {"column_encoding": {column: encoding for column in columns}, "use_dictionary": False, "data_page_version": page}
        write(f"encoding-{name}-v{page[0]}", table_of, compression="zstd", data_page_size=120, **options)
    write("empty-between", table.slice(0, 10))
    with pyarrow.parquet.ParquetWriter(folder / "empty-between.parquet", table.schema) as writer:
        for size in [5, 0, 7]:
            writer.write_table(table.slice(0, size), row_group_size=max(size, 1))
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}
    hub = pyarrow.table({"image": table["image"], "label": pyarrow.array([n % 4 - 1 for n in range(ROWS)])})
    write("hub", hub.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), row_group_size=100)
    write("names", pyarrow.table({"a.b": [1, 2], "": ["x", "y"], "ü": [True, None], "path": ["p", "q"], "bytes": [b"1", b"2"]}))
    required = pyarrow.schema([pyarrow.field("n", pyarrow.int32(), False), pyarrow.field("t", pyarrow.string(), False)])
    write("required", pyarrow.table({"n": pyarrow.array([1, 2, 3], pyarrow.int32()), "t": ["a", "b", ""]}, required))
    write("large-values", pyarrow.table({"blob": [DRAW.randbytes(3 << 20), b"", DRAW.randbytes(1 << 20)]}), compression="snappy")


# === HDF5 ===


def hdf5(folder: Path) -> None:
    import h5py

    pixels = numpy.random.default_rng(40).integers(0, 255, (ROWS, 6, 5, 3), dtype=numpy.uint8)
    ramp = numpy.arange(ROWS * 4, dtype="<i4").reshape(ROWS, 4) - 90
    for latest in ["earliest", "v108", "v110", "v112", "v114", "latest"]:
        with h5py.File(folder / f"libver-{latest}.h5", "w", libver=(latest, "latest") if latest == "earliest" else latest) as file:
            hdf5_layouts(file, h5py, pixels, ramp)
    with h5py.File(folder / "filters.h5", "w") as file:
        hdf5_filters(file, pixels, ramp)
    for latest in ["earliest", "latest"]:
        with h5py.File(folder / f"types-{latest}.h5", "w", libver=latest) as file:
            hdf5_types(file, h5py)
        with h5py.File(folder / f"groups-{latest}.h5", "w", libver=latest, track_order=latest == "latest") as file:
            for number in range(40):
                file[f"train/part{number:02}/images"] = pixels[number : number + 2]
            file["labels"] = numpy.arange(ROWS)
            file["train/soft"] = h5py.SoftLink("/labels")
            file["hard"] = file["labels"]
    with h5py.File(folder / "user-block.h5", "w", userblock_size=1024) as file:
        hdf5_layouts(file, h5py, pixels, ramp)
    with h5py.File(folder / "pages.h5", "w", fs_strategy="page", fs_page_size=4096, libver="latest") as file:
        hdf5_layouts(file, h5py, pixels, ramp)
    with h5py.File(folder / "elsewhere.h5", "w") as file:
        file["link"] = h5py.ExternalLink("filters.h5", "gzip-9")
        layout = h5py.VirtualLayout((2, ROWS, 4), "<i4")
        layout[0] = h5py.VirtualSource("filters.h5", "gzip-9", (ROWS, 4))
        file.create_virtual_dataset("virtual", layout, fillvalue=-1)
        file.create_dataset("external", (10,), "<i4", external=[("raw.bin", 0, 40)])
        file["external"][:] = numpy.arange(10)
    with h5py.File(folder / "images.h5", "w") as file:
        file["image"], file["label"] = pixels, numpy.arange(ROWS) % 10
        file["scalar"], file["text"] = 7, "a scalar"
    with h5py.File(folder / "jpegs.h5", "w") as file:
        images = file.create_dataset("jpeg", (50,), h5py.vlen_dtype("u1"))
        for number in range(50):
            images[number] = numpy.frombuffer(jpeg(number), "u1")
        file["label"] = numpy.arange(50)


def hdf5_layouts(file, h5py, pixels, ramp) -> None:
    file["contiguous"] = pixels
    file.create_dataset("empty", (0, 4), "<f4")
    file.create_dataset("empty-chunked", (0, 4), "<f4", maxshape=(None, 4))
    file.create_dataset("never-written", (20, 3), "<i2", fillvalue=-7)
    file.create_dataset("never-written-chunked", (20, 3), "<i2", fillvalue=-7, chunks=(6, 2))
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((9, 4))
    h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, space, compact).write(h5py.h5s.ALL, h5py.h5s.ALL, ramp[:9].copy())
    # The index of chunks is another one for a single chunk, fixed sizes, one axis that grows, and two.
    for name, shape in {"one": None, "fixed": (ROWS, 4), "grows": (None, 4), "grows-twice": (None, None)}.items():
        chunks = (ROWS, 4) if name == "one" else (7, 3)
        file.create_dataset(f"chunks-{name}", data=ramp, chunks=chunks, maxshape=shape)
        file.create_dataset(f"chunks-{name}-gzip", data=ramp, chunks=chunks, maxshape=shape, compression="gzip")
    many = file.create_dataset("chunks-many", (5000, 3), "<i4", chunks=(1, 3), maxshape=(None, 3))
    many[:] = numpy.arange(15000).reshape(5000, 3)
    fixed = file.create_dataset("chunks-many-fixed", (5000, 3), "<i4", chunks=(1, 3))
    fixed[:] = numpy.arange(15000).reshape(5000, 3)
    sparse = file.create_dataset("chunks-missing", (100, 8), "<f4", chunks=(10, 3), fillvalue=2.5)
    sparse[33:41, 2:5] = 1
    grown = file.create_dataset("grown", data=ramp[:50], chunks=(16, 4), maxshape=(None, 4), fillvalue=9)
    grown.resize(90, axis=0)
    shrunk = file.create_dataset("shrunk", data=ramp, chunks=(16, 4), maxshape=(None, 4))
    shrunk.resize(21, axis=0)
    file.create_dataset("one-axis", data=numpy.linspace(-1, 1, 501), chunks=(100,))
    file.create_dataset("four-axes", data=pixels, chunks=(4, 3, 5, 2), compression="gzip", shuffle=True)


def hdf5_filters(file, pixels, ramp) -> None:
    for level in range(10):
        file.create_dataset(f"gzip-{level}", data=ramp, chunks=(50, 4), compression="gzip", compression_opts=level)
    for shuffle, sums, codec in itertools.product([False, True], [False, True], [None, "gzip", "lzf", "szip"]):
        name = f"{codec}-shuffle-{shuffle}-sums-{sums}"
        options = {"chunks": (32, 6, 5, 3), "shuffle": shuffle, "fletcher32": sums, "compression": codec}
        attempt(f"hdf5 {name}", file.create_dataset, name, data=pixels, **options)
        attempt(f"hdf5 {name} wide", file.create_dataset, f"{name}-wide", data=ramp.astype("<i8"), **options | {"chunks": (33, 3)})
    noise = numpy.random.default_rng(1).integers(0, 2**60, (100, 7))
    file.create_dataset("lzf-noise", data=noise, chunks=(10, 7), compression="lzf")
    file.create_dataset("odd-sums", data=pixels, chunks=(1, 1, 1, 3), fletcher32=True)
    for bits in [0, 1, 5, 16]:
        file.create_dataset(f"scale-{bits}", data=ramp, chunks=(40, 4), scaleoffset=bits)
    for kind in ["<u1", "<u2", "<i8", ">i2", ">u4"]:
        file.create_dataset(f"scale-{kind}", data=(ramp % 100).astype(kind), chunks=(40, 4), scaleoffset=0)
    for digits, kind in itertools.product([0, 2], ["<f4", "<f8"]):
        file.create_dataset(f"scale-{kind}-{digits}", data=(ramp / 7).astype(kind), chunks=(40, 4), scaleoffset=digits)
    filled = file.create_dataset("scale-fill", (40, 4), "<i4", chunks=(10, 4), scaleoffset=0, fillvalue=-5)
    filled[5:15] = ramp[5:15]
    for kind, codec in itertools.product([">i4", ">f8", "<f2", "<c8", "S5"], ["gzip", "lzf"]):
        data = ramp.astype(kind)
        file.create_dataset(f"{codec}-{kind}", data=data, chunks=(40, 4), compression=codec, shuffle=True)


def hdf5_types(file, h5py) -> None:
    for order, kind in itertools.product("<>", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]):
        name = f"{'big' if order == '>' else 'little'}-{kind}"
        values = (numpy.arange(60) * 1.25 - 20).astype("f8").astype("i8" if kind[0] in "iu" else "f8")
        file[name], file[f"{name}-rows"] = values.astype(order + kind), values.astype(order + kind).reshape(20, 3)
        file.create_dataset(f"{name}-chunks", data=values.astype(order + kind), chunks=(7,), compression="gzip")
    file["bool"], file["bool-rows"] = numpy.arange(10) % 3 == 0, numpy.arange(12).reshape(4, 3) % 3 == 0
    file.create_dataset("enum", data=numpy.arange(10) % 2, dtype=h5py.enum_dtype({"A": 0, "B": 1}, "i2"))
    file.create_dataset("enum-byte", data=numpy.arange(10) % 2, dtype=h5py.enum_dtype({"NO": 0, "YES": 1}, "i1"))
    file["compound"] = numpy.zeros(10, [("a", "<i4"), ("b", "<f8")])
    file["opaque"] = numpy.array([b"\0ab\0"] * 3, "V4")
    file["array-type"] = numpy.zeros(5, numpy.dtype(("<i4", (2, 3)))) if False else numpy.arange(30, dtype="<i4").reshape(5, 2, 3)
    kind = h5py.h5t.array_create(h5py.h5t.STD_I16LE, (2, 3))
    h5py.h5d.create(file.id, b"elements-with-axes", kind, h5py.h5s.create_simple((4,))).write(
        h5py.h5s.ALL, h5py.h5s.ALL, numpy.arange(24, dtype="<i2").reshape(4, 2, 3), kind
    )
    file["fixed"] = numpy.array([b"abc", b"", b"\xc3\xa9x", b"longer"], "S8")
    for pad, name in [(h5py.h5t.STR_NULLTERM, "null-end"), (h5py.h5t.STR_NULLPAD, "null-pad"), (h5py.h5t.STR_SPACEPAD, "space-pad")]:
        for size in [4, 6]:
            kind = h5py.h5t.C_S1.copy()
            kind.set_size(size)
            kind.set_strpad(pad)
            texts = numpy.array([b"abcd", b"ab", b"", b"a b "], "S4")
            memory = kind.copy()
            data = h5py.h5d.create(file.id, f"{name}-{size}".encode(), kind, h5py.h5s.create_simple((4,)))
            data.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.array(texts, f"S{size}"), memory)
    file.create_dataset("texts", data=["a", "", "é" * 30], dtype=h5py.string_dtype())
    file.create_dataset("ragged", (3,), h5py.vlen_dtype("<i4"))
    for number in range(3):
        file["ragged"][number] = numpy.arange(number)
    file["reference"] = numpy.array([file["bool"].ref, file["enum"].ref], h5py.ref_dtype)
    # Numbers of other bits than their bytes have.
    odd = {"bits-12-of-16": (h5py.h5t.STD_U16LE, 12, 0), "bits-10-from-4": (h5py.h5t.STD_U16LE, 10, 4), "signed-7-of-8": (h5py.h5t.STD_I8LE, 7, 0)}
    for name, (base, bits, offset) in odd.items():
        kind = base.copy()
        kind.set_precision(bits)
        kind.set_offset(offset)
        data = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((6,)))
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.array([0, 1, 5, 60, -1, 33]).astype("i8"))
    three = h5py.h5t.STD_U32LE.copy()
    three.set_size(3)
    data = h5py.h5d.create(file.id, b"three-bytes", three, h5py.h5s.create_simple((3,)))
    data.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.array([1, 70000, 2**24 - 1]))
    bfloat = h5py.h5t.IEEE_F32LE.copy()
    bfloat.set_fields(15, 7, 8, 0, 7)
    bfloat.set_size(2)
    data = h5py.h5d.create(file.id, b"bfloat16", bfloat, h5py.h5s.create_simple((4,)))
    data.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.array([1.0, -2.5, 0.0, 3e38], "f4"))
    bits = h5py.h5d.create(file.id, b"bitfield", h5py.h5t.STD_B16LE, h5py.h5s.create_simple((4,)))
    bits.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.array([1, 2, 3, 65535], "u2"), h5py.h5t.STD_B16LE)
    file["long-double"] = numpy.arange(4, dtype=numpy.longdouble)
    vax = h5py.h5t.STD_I32LE.copy()
    file["half"] = numpy.array([6e-8, 65504, numpy.inf, numpy.nan], "f2")
    del vax


# === Zarr ===


def zarr(folder: Path) -> None:
    for version in [2, 3]:
        zarr_arrays(folder, version)
    zarr_codecs(folder)
    zarr_group(folder)


def zarr_arrays(folder: Path, version: int) -> None:
    import zarr

    ramp = numpy.arange(ROWS * 4, dtype="<i4").reshape(ROWS, 4) - 90

    def write(name, data, **options):
        store = str(folder / f"v{version}-{name}.zarr")
        options.setdefault("chunks", tuple(max(1, min(7, length)) for length in data.shape))
        attempt(f"zarr v{version} {name}", lambda: zarr.create_array(store, data=data, zarr_format=version, **options))

    for kind in ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]:
        write(kind, ramp[:40].astype(kind))
        write(f"{kind}-one-axis", ramp[:40, 0].astype(kind))
    for kind in [">i2", ">i4", ">f8", ">u1"]:
        write(f"big-{kind[1:]}", ramp[:40].astype(kind))
        write(f"big-{kind[1:]}-one-axis", ramp[:40, 0].astype(kind))
    write("order-f", ramp, order="F")
    write("one-chunk", ramp, chunks=ramp.shape)
    write("plain", ramp, compressors=None)
    write("empty", ramp[:0], chunks=(5, 4))
    write("texts", numpy.array(["a", "", "é", "longer text"] * 5, dtype="U12"))
    write("bytes", numpy.array([b"a", b"", b"\0b", b"longer"] * 5, dtype="S6"))
    write("objects", numpy.array(["a", "", "é", "x" * 40] * 5, dtype=object))
    write("strings", numpy.array(["a", "", "é", "x" * 40] * 5, dtype=numpy.dtypes.StringDType()))
    write("times", numpy.arange(20).astype("<M8[s]"))
    write("durations", numpy.arange(20).astype("<m8[ms]"))
    write("times-rows", numpy.arange(20).astype("<M8[ns]").reshape(10, 2))
    write("structure", numpy.zeros(20, [("a", "<i4"), ("b", "<f8")]))
    fills = {"i4": [0, -7, None], "u8": [2**64 - 1], "f4": [0.5, float("nan"), float("inf"), -float("inf"), 0.1, 1e-40], "f2": [0.1], "f8": [0.1]}
    fills |= {"bool": [True], "c8": [0, 1 + 2j], "M8[s]": [5], "S4": [b"ab"], "U3": ["xy"]}
    for kind, values in fills.items():
        for value in values:
            zarr_missing(folder, f"v{version}-fill-{kind.replace('[', '-').replace(']', '')}-{value}", kind, value, version)
    for separator in "./":
        key = {"name": "v2" if version == 2 else "default", "separator": separator}
        write(f"separator-{'dot' if separator == '.' else 'slash'}", ramp, chunk_key_encoding=key)
    if version == 3:
        for separator in "./":
            write(f"keys-v2-{'dot' if separator == '.' else 'slash'}", ramp, chunk_key_encoding={"name": "v2", "separator": separator})


def zarr_missing(folder: Path, name: str, kind: str, value, version: int) -> None:
    """An array of whose chunks only some are there."""
    import zarr

    def write():
        array = zarr.create_array(str(folder / f"{name}.zarr"), shape=(30, 5), chunks=(4, 3), dtype=kind, fill_value=value, zarr_format=version)
        array[9:13, 1:4] = numpy.ones((4, 3)).astype(kind)

    attempt(f"zarr {name}", write)


def zarr_codecs(folder: Path) -> None:
    import numcodecs
    import zarr
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

    ramp = (numpy.arange(ROWS * 4, dtype="<i4").reshape(ROWS, 4) // 3) - 90

    def write(name, version, **options):
        options = {"chunks": (50, 3)} | options
        attempt(f"zarr {name}", lambda: zarr.create_array(str(folder / f"{name}.zarr"), data=ramp, zarr_format=version, **options))

    old = {"zlib": numcodecs.Zlib(4), "gzip": numcodecs.GZip(), "zstd": numcodecs.Zstd(), "zstd-sum": numcodecs.Zstd(3, checksum=True)}
    old |= {"bz2": numcodecs.BZ2(), "lz4": numcodecs.LZ4(), "lzma": numcodecs.LZMA()}
    for cname, shuffle in itertools.product(["lz4", "lz4hc", "blosclz", "zlib", "zstd"], [0, 1, 2]):
        old[f"blosc-{cname}-{shuffle}"] = numcodecs.Blosc(cname, 5, shuffle)
        names = ["noshuffle", "shuffle", "bitshuffle"]
        write(f"v3-blosc-{cname}-{shuffle}", 3, compressors=BloscCodec(cname=cname, shuffle=names[shuffle]))
        small = BloscCodec(cname=cname, shuffle=names[shuffle], blocksize=128)
        write(f"v3-blosc-{cname}-{shuffle}-blocks", 3, compressors=small)
    for name, codec in old.items():
        write(f"v2-{name}", 2, compressors=codec)
    write("v2-delta", 2, filters=[numcodecs.Delta("<i4")])
    write("v2-shuffle", 2, filters=[numcodecs.Shuffle(4)])
    write("v2-checksum", 2, filters=[numcodecs.CRC32()])
    new = {"gzip": [GzipCodec()], "zstd": [ZstdCodec(checksum=True)], "crc": [Crc32cCodec()], "zstd-crc": [ZstdCodec(), Crc32cCodec()]}
    new["gzip-zstd"] = [GzipCodec(), ZstdCodec()]
    for name, codecs in new.items():
        write(f"v3-{name}", 3, compressors=codecs)
    write("v3-big", 3, serializer=BytesCodec(endian="big"))
    write("v3-transpose", 3, filters=[TransposeCodec(order=(1, 0))])
    write("v3-transpose-plain", 3, filters=[TransposeCodec(order=(0, 1))])
    for place, inner in itertools.product(["start", "end"], [(10, 2), (20, 4), (5, 1)]):
        options = {"chunks": inner, "shards": {"shape": (60, 4), "index_location": place}}
        write(f"v3-shards-{place}-{inner[0]}", 3, **options)
        write(f"v3-shards-{place}-{inner[0]}-plain", 3, compressors=None, **options)
    def sharded(name, codec):
        options = {"shape": ramp.shape, "chunks": (60, 4), "dtype": "i4", "zarr_format": 3, "fill_value": 3}
        array = zarr.create(store=str(folder / f"{name}.zarr"), codecs=[codec], **options)
        array[20:100, 1:3] = ramp[20:100, 1:3]
    attempt("nested", sharded, "v3-shards-nested", ShardingCodec(chunk_shape=(30, 4), codecs=[ShardingCodec(chunk_shape=(10, 2))]))
    attempt("no sum", sharded, "v3-shards-index-plain", ShardingCodec(chunk_shape=(10, 2), index_codecs=[BytesCodec()]))
    attempt("missing", sharded, "v3-shards-missing", ShardingCodec(chunk_shape=(10, 1), codecs=[BytesCodec(), GzipCodec()]))
    attempt("big", sharded, "v3-shards-big", ShardingCodec(chunk_shape=(10, 1), codecs=[BytesCodec(endian="big"), GzipCodec()]))
    attempt("transpose", sharded, "v3-shards-transpose", ShardingCodec(chunk_shape=(10, 2), codecs=[TransposeCodec(order=(1, 0)), BytesCodec()]))


def zarr_group(folder: Path) -> None:
    import zarr

    for version, consolidated in itertools.product([2, 3], [False, True]):
        store = folder / f"v{version}-group-{'consolidated' if consolidated else 'plain'}.zarr"
        group = zarr.open_group(str(store), mode="w", zarr_format=version, attributes={"title": "a group"})
        for name in ["image", "deep/label"]:
            array = group.create_array(name, shape=(20, 3), chunks=(6, 2), dtype="<f4", attributes={"units": "m"})
            array[:] = numpy.arange(60).reshape(20, 3)
        group.create_array("scalar", shape=(), dtype="i4")
        if consolidated:
            zarr.consolidate_metadata(str(store))


# === Records ===


def mds(folder: Path) -> None:
    tools = table_readers.the_tables_of_the_tests()
    writer = tools.only_the_module("streaming.base.format.mds.writer").MDSWriter
    numbers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)] + ["float16", "float32", "float64"]
    columns = {"bytes": "bytes", "str": "str", "json": "json", "int": "int"} | {name: name for name in numbers}
    columns |= {"str_int": "str_int", "str_float": "str_float", "str_decimal": "str_decimal", "ndarray": "ndarray"}
    columns |= {f"ndarray_{kind}": f"ndarray:{kind}" for kind in numbers} | {"typed": "ndarray:int16:2,3", "one": "ndarray:float32:1"}

    def sample(number):
        whole = {name: numpy.dtype(name).type((number * 37) % 100) for name in numbers}
        arrays = {f"ndarray_{kind}": (numpy.arange(number + 1) % 100).astype(kind).reshape(-1, 1) for kind in numbers}
        array = numpy.arange(number * 2 + 2, dtype=numbers[number % 11]).reshape((2, -1) if number % 2 else (-1,))
        floats = {"float16": numpy.float16(number / 7), "float32": numpy.float32(number / 7), "float64": numpy.float64(number / 7)}
        texts = {"bytes": jpeg(number), "str": f"é{number}", "json": {"a": [number, None, "é"]}, "int": number - 5}
        digits = {"str_int": 10**30 + number, "str_float": number / 3, "str_decimal": decimal.Decimal(number).scaleb(-3)}
        fixed = {"typed": numpy.full((2, 3), number, "i2"), "one": numpy.full((1,), number / 3, "f4")}
        return whole | floats | texts | digits | fixed | arrays | {"ndarray": array}

    def write(out, columns=columns, count=60, **options):
        shutil.rmtree(out, ignore_errors=True)
        with writer(out=str(out), columns=columns, **options) as file:
            for number in range(count):
                file.write({name: value for name, value in sample(number).items() if name in columns})

    for codec in [None, "zstd", "zstd:1", "zstd:19", "gz", "bz2", "snappy", "br"]:
        attempt(f"mds {codec}", write, folder / str(codec).replace(":", "-"), compression=codec, size_limit=40_000)
    for sum in ["sha1", "sha256", "md5", "sha512", "blake2b", "xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128"]:
        attempt(f"mds {sum}", write, folder / f"sum-{sum}", count=5, hashes=[sum], compression="zstd")
        attempt(f"mds {sum}", write, folder / f"sum-{sum}-plain", count=5, hashes=[sum])
    for name, encoding in columns.items():
        attempt(f"mds {name}", write, folder / f"only-{name}", {name: encoding}, 9)
    attempt("mds one", write, folder / "one-sample", count=1)
    attempt("mds small", write, folder / "sample-for-each-shard", {"int": "int"}, 9, size_limit=60)
    for part in "ab":
        attempt("mds part", write, folder / "merged" / part, {"bytes": "bytes", "int": "int"}, 7, size_limit=500)
    entries = []
    for part in "ab":
        for shard in json.loads((folder / "merged" / part / "index.json").read_text())["shards"]:
            shard["raw_data"]["basename"] = f"{part}/{shard['raw_data']['basename']}"
            entries.append(shard)
    # As `streaming.base.util.merge_index` writes it.
    (folder / "merged" / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))


def tfrecord(folder: Path) -> None:
    from tfrecord import example_pb2, writer

    def write(name, samples):
        file = writer.TFRecordWriter(str(folder / f"{name}.tfrecord"))
        for sample in samples:
            file.write(sample)
        file.close()
        packed = gzip.compress((folder / f"{name}.tfrecord").read_bytes(), mtime=0)
        (folder / f"{name}.tfrecord.gz").write_bytes(packed)

    floats = [0.0, -0.0, 1e-45, 3.4e38, float("nan"), float("inf"), 0.1]
    samples = [
        {
            "image/encoded": (jpeg(number), "byte"),
            "label": (number - 40, "int"),
            "large": ((-1) ** number * 2**62, "int"),
            "score": (floats[number % 7], "float"),
            "box": ([number / 7, 0.25, 1e30, -1], "float"),
            "ids": (list(range(number % 5)), "int"),
            "parts": ([b"a" * part for part in range(number % 4)], "byte"),
            "": (b"no name", "byte"),
            "é": ("text é".encode(), "byte"),
        }
        for number in range(ROWS)
    ]
    write("many", samples)
    write("one", samples[:1])
    write("empty-record", [{}, {}])
    write("long-list", [{"numbers": (list(range(60_000)), "int"), "floats": ([0.5] * 60_000, "float")}])
    write("longer-list", [{"numbers": (list(range(70_000)), "int")}])
    write("missing", [{"a": (1, "int")}, {"b": (2, "int")}, {"a": (3, "int"), "b": (4, "int")}])
    (folder / "none.tfrecord").write_bytes(b"")
    # Protobuf permits numbers one by one, the last of two values of a map, and unknown fields.
    feature = b"\x1a\x06" + b"\x08\x05" + b"\x08\x06" + b"\x08\x07"
    entry = b"\x0a\x01n" + bytes([0x12, len(feature)]) + feature
    features = bytes([0x0A, len(entry)]) + entry
    unpacked = bytes([0x0A, len(features)]) + features + b"\x50\x01"
    twice = example_pb2.Example()
    twice.features.feature["n"].int64_list.value.append(9)
    raw_records(folder / "unpacked.tfrecord", [unpacked, unpacked + twice.SerializeToString(), b""])


def raw_records(path: Path, records: "list[bytes]") -> None:
    import struct

    import crc32c

    def masked(data):
        sum = crc32c.crc32c(data)
        return struct.pack("<I", ((sum >> 15 | sum << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    lengths = [struct.pack("<Q", len(record)) for record in records]
    path.write_bytes(b"".join(length + masked(length) + data + masked(data) for length, data in zip(lengths, records)))


# === NumPy and lines ===


def npy(folder: Path) -> None:
    ramp = numpy.arange(ROWS * 4).reshape(ROWS, 4) % 120
    for order, kind in itertools.product("<>", ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "U3", "S3", "M8[ns]", "m8[s]"]):
        data = ramp.astype("f8").astype(order + kind) if kind[0] in "fc" else ramp.astype(order + kind)
        name = ("big-" if order == ">" else "") + kind.replace("[", "-").replace("]", "")
        numpy.save(folder / f"{name}.npy", data)
        numpy.save(folder / f"{name}-one-axis.npy", data[:, 0].copy())
    for version in [(1, 0), (2, 0), (3, 0)]:
        with (folder / f"version-{version[0]}.npy").open("wb") as file:
            numpy.lib.format.write_array(file, ramp, version)
    numpy.save(folder / "order-f.npy", numpy.asfortranarray(ramp))
    numpy.save(folder / "order-f-one-axis.npy", numpy.asfortranarray(ramp[:, 0]))
    numpy.save(folder / "structure.npy", numpy.zeros(5, [("é", "<i4"), ("b", "<f8")]))
    numpy.save(folder / "opaque.npy", numpy.array([b"\0ab\0"] * 3, "V4"))
    numpy.save(folder / "long-double.npy", numpy.arange(4, dtype=numpy.longdouble))
    numpy.save(folder / "objects.npy", numpy.array([1, "a"], dtype=object))
    numpy.save(folder / "scalar.npy", numpy.float32(3))
    numpy.save(folder / "empty.npy", ramp[:0])
    numpy.save(folder / "no-columns.npy", ramp[:, :0])
    special = numpy.array([0.0, -0.0, 1e-320, numpy.nan, numpy.inf, -numpy.inf, 0.1, 1e22, 123456789.123])
    for kind in ["f2", "f4", "f8"]:
        numpy.save(folder / f"special-{kind}.npy", special.astype(kind))
    arrays = {"image": ramp, "label": ramp[:, 1], "a/b": ramp[:, 0].astype("f2"), "scalar": numpy.int64(5)}
    for name, write in {"stored": numpy.savez, "deflated": numpy.savez_compressed}.items():
        write(folder / f"{name}.npz", **arrays)
        write(folder / f"{name}-f.npz", image=numpy.asfortranarray(ramp))
        write(folder / f"{name}-none.npz")


def lines(folder: Path) -> None:
    rows = [["file", "label", "text"]] + [[f"{n}.jpg", str(n % 10), t] for n, t in enumerate(["plain", "a,b", 'a "quoted" one', "two\nlines", "", "é", " space "])]
    quoted = "\r\n".join(",".join('"' + value.replace('"', '""') + '"' for value in row) for row in rows)
    texts = {
        "quoted.csv": quoted + "\r\n",
        "no-end.csv": quoted,
        "mark.csv": "\ufeff" + quoted,
        "plain.csv": "a,b\n1,2\n\n3,4\n",
        "ragged.csv": "a,b\n1\n2,3\n",
        "header.csv": "a,b\n",
        "quote-inside.csv": 'a,b\nx "y" z,2\n',
        "carriage.csv": "a,b\r1,2\r3,4\r",
        "blank-line-quoted.csv": 'a\n""\nx\n',
        "tabs.tsv": "a\tb\n1\tx y\n2\t\n",
        "lines.jsonl": "".join(json.dumps({"n": n, "t": "é\u2028" * n, "l": [n, None], "f": n / 3, "o": {"a": n}, "x": None}) + "\n" for n in range(20)),
        "escapes.jsonl": '{"a": "\\ud83d\\ude00 \\u0000 \\/", "b": 1e400, "c": -0, "d": true}\n\n{"a": ""}',
        "half-pair.jsonl": '{"a": "\\ud83d"}\n',
        "nan.jsonl": '{"a": NaN}\n',
        "twice.jsonl": '{"a": 1, "a": 2}\n',
        "list.jsonl": "[1]\n",
        "broken.jsonl": '{"a": 1}\n{"a": \n',
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


FORMATS = {"parquet": parquet, "hdf5": hdf5, "zarr": zarr, "mds": mds, "tfrecord": tfrecord, "npy": npy, "lines": lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("formats", nargs="*", default=list(FORMATS), help="formats to write")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.formats:
        folder = given.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        FORMATS[name](folder)


if __name__ == "__main__":
    main()
