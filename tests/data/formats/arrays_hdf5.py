"""Files of HDF5 and NetCDF-4."""

import struct

import h5py
import hdf5plugin
import netCDF4
import numpy as np
from arrays_expected import expect, path, refuse, rows


def expect_hdf5(name, wanted, **options):
    """Says what h5py reads in a file."""
    with h5py.File(path(name), "r") as file:
        arrays = {column: file[column][()] for column in wanted}
    expect(name, rows(name, arrays), **options)


def make():
    random = np.random.default_rng(4)
    image = random.integers(0, 40, (11, 5, 4), dtype=np.uint16)
    label = np.arange(11) % 3
    with h5py.File(path("hdf5/contiguous.h5"), "w") as file:
        file["image"], file["label"], file["name"] = image, label, np.array([b"x", b"yz"] * 5 + [b""])
        file["truth"] = label > 0
        file["scale"] = 2.5
        file["more/deep"] = label * 2
    columns = ["image", "label", "name", "truth"]
    expect_hdf5("hdf5/contiguous.h5", columns)
    expect_hdf5("hdf5/contiguous.h5", columns, shard_samples=4)
    expect_hdf5("hdf5/contiguous.h5", ["more/deep", "image"], columns=["more/deep", "image"])
    there = "`columns` names `imag`, and it has `image`, `label`, `more/deep`, `name`, `truth`"
    refuse("hdf5/contiguous.h5", there, columns=["imag"])
    chunked = {
        "gzip": {"compression": "gzip", "shuffle": True, "chunks": (4, 5, 2)},
        "lzf": {"compression": "lzf", "chunks": (3, 5, 4)},
        "checked": {"fletcher32": True, "chunks": (2, 2, 2)},
    }
    for name, options in chunked.items():
        with h5py.File(path(f"hdf5/{name}.h5"), "w", userblock_size=512) as file:
            file.create_dataset("image", data=image, **options)
            file["label"] = label
            # Chunks that were never written have the fill value.
            file.create_dataset("noise", (11, 3), "<f4", chunks=(2, 3), fillvalue=0.5)[3] = 1
        expect_hdf5(f"hdf5/{name}.h5", ["image", "label", "noise"])
        expect_hdf5(f"hdf5/{name}.h5", ["image", "label", "noise"], shard_samples=3)
    with h5py.File(path("hdf5/latest.h5"), "w", libver="latest") as file:
        file.create_dataset("fixed", data=image, chunks=(4, 5, 2), compression="gzip")
        file.create_dataset("grows", data=image, chunks=(4, 5, 4), maxshape=(None, 5, 4))
        file.create_dataset("grows2", data=image, chunks=(4, 5, 2), maxshape=(None, None, 4))
        file.create_dataset("single", data=image, chunks=image.shape)
        file.create_dataset("words", data=np.array([b"abc", b"d"] * 5 + [b""]), chunks=(4,))
        file.create_dataset("empty", (11, 2), "<i4")
    expect_hdf5("hdf5/latest.h5", ["empty", "fixed", "grows", "grows2", "single", "words"])
    with h5py.File(path("hdf5/large.h5"), "w") as file:
        data = random.integers(0, 256, (100, 400), dtype=np.uint8)
        file.create_dataset("rows", data=data, chunks=(100, 400))
    expect_hdf5("hdf5/large.h5", ["rows"])
    with h5py.File(path("hdf5/odd.h5"), "w") as file:
        file["big"] = image.astype(">u2")
        file["records"] = np.zeros(11, dtype=[("a", "<f4"), ("b", "<i2")])
        file["numbers"] = np.array([np.arange(n) for n in range(11)], dtype=h5py.vlen_dtype("<i4"))
        file["pairs"] = [["a", "b"]] * 11
    refuse("hdf5/odd.h5", "little-endian", columns=["big"])
    refuse("hdf5/odd.h5", "array `records`: its type", columns=["records"])
    refuse("hdf5/odd.h5", "array `numbers`: its type", columns=["numbers"])
    refuse("hdf5/odd.h5", "array `pairs` of values that vary in length has 2 axes", columns=["pairs"])
    make_values(np.random.default_rng(7), image, label)
    make_groups(image, label)
    make_filters()
    make_numbers()
    make_padded()
    make_limits()
    with netCDF4.Dataset(path("hdf5/netcdf.nc"), "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 4)
        file.createVariable("wind", "f4", ("time", "x"), zlib=True)[:] = random.random((5, 4))
        file.createVariable("station", "i4", ("time",))[:] = np.arange(5)
    with netCDF4.Dataset(path("hdf5/netcdf.nc")) as file:
        arrays = {name: file[name][:].data for name in ("station", "wind")}
    expect("hdf5/netcdf.nc", rows("netcdf.nc", arrays))


def make_values(random, image, label):
    """Strings and bytes of any length."""
    words = ["tench", "", "\u00e9t\u00e9 \U0001f600"] * 3 + ["last", "x" * 300]
    pixels = [np.frombuffer(random.bytes(n), "u1") for n in (*range(10), 9000)]
    layouts = {"plain": {}, "packed": {"chunks": (4,), "compression": "gzip"}}
    for name, options in layouts.items():
        with h5py.File(path(f"hdf5/values-{name}.h5"), "w") as file:
            file["image"], file["label"] = image, label
            file.create_dataset("caption", data=words, dtype=h5py.string_dtype(), **options)
            file.create_dataset("ascii", data=["a%d" % n for n in label], dtype=h5py.string_dtype("ascii"))
            jpg = file.create_dataset("jpg", (11,), h5py.vlen_dtype(np.uint8), **options)
            for at, value in enumerate(pixels):
                jpg[at] = value
            # Never written: values of no byte.
            file.create_dataset("none", (11,), h5py.vlen_dtype(np.uint8), **options)
        names = ["ascii", "caption", "image", "jpg", "label", "none"]
        for options in ({}, {"shard_samples": 3}):
            with h5py.File(path(f"hdf5/values-{name}.h5"), "r") as file:
                arrays = {column: file[column][()] for column in names}
            for column in ("jpg", "none"):
                arrays[column] = np.array([value.tobytes() for value in arrays[column]], dtype=object)
            expect(f"hdf5/values-{name}.h5", rows(f"values-{name}.h5", arrays), **options)
    with h5py.File(path("hdf5/latin.h5"), "w") as file:
        file.create_dataset("word", data=[b"\xe9", b"a"], dtype=h5py.string_dtype("ascii"))
        file["fixed"] = np.array([b"caf\xe9", b"a"])
        file.create_dataset("chunks", data=file["fixed"][()], chunks=(1,))
    expect_hdf5("hdf5/latin.h5", ["chunks", "fixed", "word"])
    expect_hdf5("hdf5/latin.h5", ["fixed"], columns=["fixed"])


def make_groups(image, label):
    """Arrays in groups only."""
    with h5py.File(path("hdf5/groups.h5"), "w") as file:
        file["train/image"], file["train/more/label"] = image, label
        file["scale"] = 2.5
        # A group in itself.
        file["train/again"] = file["train"]
    expect_hdf5("hdf5/groups.h5", ["train/image", "train/more/label"])
    with h5py.File(path("hdf5/splits.h5"), "w") as file:
        file["train/image"], file["test/image"] = image, image[:4]
    words = "choose those that belong together with `columns`, out of `test/image`, `train/image`"
    refuse("hdf5/splits.h5", words)
    expect_hdf5("hdf5/splits.h5", ["test/image"], columns=["test/image"])


def make_filters():
    """Filters that are not undone, as their plug-ins write them."""
    filters = {
        "blosc": hdf5plugin.Blosc(),
        "blosc2": hdf5plugin.Blosc2(),
        "zstd": hdf5plugin.Zstd(),
        "lz4": hdf5plugin.LZ4(),
        "bitshuffle": hdf5plugin.Bitshuffle(),
    }
    words = {
        "blosc": "Blosc (filter 32001)",
        "blosc2": "Blosc2 (filter 32026)",
        "zstd": "Zstandard (filter 32015)",
        "lz4": "LZ4 (filter 32004)",
        "bitshuffle": "bitshuffle (filter 32008)",
    }
    data = np.arange(40, dtype="<i4").reshape(10, 4)
    for name, options in filters.items():
        with h5py.File(path(f"hdf5/{name}.h5"), "w") as file:
            file.create_dataset("rows", data=data, chunks=(5, 4), **options)
        refuse(f"hdf5/{name}.h5", f"array `rows`: it is packed with {words[name]}, which is not read")


def make_numbers():
    """Numbers whose bits are not those of a plain type."""
    types = {}
    for name, base, bits, first in [
        ("signed9", "STD_I16LE", 9, 0),
        ("signed7", "STD_I8LE", 7, 0),
        ("middle", "STD_U16LE", 10, 4),
        ("big", "STD_U32BE", 31, 0),
    ]:
        types[name] = getattr(h5py.h5t, base).copy()
        types[name].set_precision(bits)
        types[name].set_offset(first)
    types["nbit"] = types["signed9"]
    types["bfloat16"] = h5py.h5t.IEEE_F32LE.copy()
    types["bfloat16"].set_fields(15, 7, 8, 0, 7)
    types["bfloat16"].set_size(2)
    types["bias"] = h5py.h5t.IEEE_F64BE.copy()
    types["bias"].set_ebias(1000)
    types["pairs"] = h5py.h5t.array_create(types["signed7"], (2,))
    types["enum"] = h5py.h5t.enum_create(types["signed7"])
    types["enum"].enum_insert(b"A", 1)
    with h5py.File(path("hdf5/numbers.h5"), "w") as file:
        for name, kind in types.items():
            create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if name == "nbit":
                create.set_chunk((2,))
                create.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
            data = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((3,)), create)
            if name in ("signed9", "nbit"):
                data.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([-5, 0, 5]))
        plain = ["<i1", "<u2", "<i4", ">i8", ">u8", "<f2", ">f4", "<f8"]
        for kind in plain:
            file["plain/" + kind] = np.arange(3).astype(kind)
        whole = h5py.h5d.create(
            file.id, b"plain/bits", h5py.h5t.STD_B16LE, h5py.h5s.create_simple((3,))
        )
        whole.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, 2, 65535], "u2"), h5py.h5t.STD_B16LE)
    words = {
        "signed9": "integers of 9 bits from bit 0 in 2 bytes",
        "nbit": "integers of 9 bits from bit 0 in 2 bytes, which are not read: write it anew",
        "signed7": "integers of 7 bits from bit 0 in 1 bytes",
        "pairs": "integers of 7 bits from bit 0 in 1 bytes",
        "enum": "integers of 7 bits from bit 0 in 1 bytes",
        "middle": "integers of 10 bits from bit 4 in 2 bytes",
        "big": "integers of 31 bits from bit 0 in 4 bytes",
        "bfloat16": "floats of 2 bytes, with 8 bits of exponent and 7 of mantissa",
        "bias": "floats of 8 bytes, with 11 bits of exponent and 52 of mantissa",
    }
    for name, said in words.items():
        refuse("hdf5/numbers.h5", f"array `{name}`: it has {said}", columns=[name])
    columns = ["plain/" + kind for kind in plain]
    expect_hdf5("hdf5/numbers.h5", columns, columns=columns)


def make_padded():
    """Strings of a fixed width that are not filled up with nulls."""
    spaces, ended = h5py.h5t.C_S1.copy(), h5py.h5t.C_S1.copy()
    spaces.set_size(6)
    spaces.set_strpad(h5py.h5t.STR_SPACEPAD)
    ended.set_size(6)
    ended.set_strpad(h5py.h5t.STR_NULLTERM)
    words = {
        "spaces": (spaces, [b"ab    ", b" a b  ", b"      ", b"abcdef", b"ab\0\0  ", b"a \0 \0\0"]),
        "ended": (ended, [b"ab\0xyz", b"abcdef", b"\0bcdef", b"a\0   \0", b"", b"a \0\0"]),
    }
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_chunk((3,))
    with h5py.File(path("hdf5/padded.h5"), "w") as file:
        for name, (kind, texts) in words.items():
            texts = np.array(texts, "S6")
            for suffix, shape, how in [("", (6,), None), ("-chunks", (6,), create), ("-rows", (6, 2), None)]:
                space = h5py.h5s.create_simple(shape)
                data = h5py.h5d.create(file.id, (name + suffix).encode(), kind, space, how)
                held = np.repeat(texts, 2).reshape(shape) if len(shape) == 2 else texts
                data.write(h5py.h5s.ALL, h5py.h5s.ALL, held, kind)
    names = sorted(name + suffix for name in words for suffix in ("", "-chunks", "-rows"))
    expect_hdf5("hdf5/padded.h5", names)
    for name in ("ended", "ended-rows", "spaces", "spaces-rows"):
        expect_hdf5("hdf5/padded.h5", [name], columns=[name])


def make_limits():
    """What is never read, whenever it is tried."""
    with h5py.File(path("hdf5/limits.h5"), "w") as file:
        file.create_dataset("chunk", (40_000_000, 8), "u1", chunks=(40_000_000, 8))
        file.create_dataset("raw", (10,), "<i4", external=[("raw.bin", 0, 40)])
        file["link"] = h5py.ExternalLink("other.h5", "rows")
        layout = h5py.VirtualLayout((1, 4), "<i4")
        layout[0] = h5py.VirtualSource("other.h5", "rows", (4,))
        file.create_virtual_dataset("virtual", layout)
        file["type"], file["noted"] = np.dtype("<f4"), np.arange(4)
        file["noted"].attrs.create("scale", 1.5, dtype=file["type"])
    make_old_layouts()
    refuse("hdf5/limits.h5", "array `chunk`: its chunks have 320000000 bytes, limit 268435456", columns=["chunk"])
    refuse("hdf5/limits.h5", "array `raw`: its elements lie in other files", columns=["raw"])
    refuse("hdf5/limits.h5", "array `link`: it is a link into another file", columns=["link"])
    refuse("hdf5/limits.h5", "in attribute v2 is not supported: write the file anew", columns=["noted"])
    refuse("hdf5/limits.h5", "'virtual' at 0x", columns=["virtual"])


def make_old_layouts():
    """Layouts of version 2, as HDF5 1.6 wrote them: h5py writes version 3, which is rewritten here."""
    with h5py.File(path("hdf5/layouts.h5"), "w") as file:
        file.create_dataset("never", (5,), "<i4", fillvalue=-7)
        file["written"] = np.arange(5, dtype="<i4")
        at = file["written"].id.get_offset()
    with open(path("hdf5/layouts.h5"), "rb") as file:
        held = file.read()
    for where in (2**64 - 1, at):
        third = struct.pack("<BBQQ6x", 3, 1, where, 20)
        assert held.count(third) == 1
        held = held.replace(third, struct.pack("<BBB5xQII", 2, 2, 1, where, 5, 4))
    with open(path("hdf5/layouts.h5"), "wb") as file:
        file.write(held)
    expect_hdf5("hdf5/layouts.h5", ["never"], columns=["never"])
    refuse("hdf5/layouts.h5", "array `written`: its layout is of version 2", columns=["written"])
