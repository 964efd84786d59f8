"""Files of HDF5 and NetCDF-4."""

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
        file.create_dataset("word", data=[b"\xe9"], dtype=h5py.string_dtype("ascii"))
    refuse("hdf5/latin.h5", "array `word`, row 0: the text is not UTF-8")


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
