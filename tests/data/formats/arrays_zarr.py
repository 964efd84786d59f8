"""Folders of Zarr."""

import os

import numcodecs
import numpy as np
import zarr
from arrays_expected import expect, path, refuse, rows


def make():
    random = np.random.default_rng(3)
    image = random.integers(0, 40, (11, 10, 6), dtype=np.uint16)
    chunks = (4, 5, 4)
    blosc = numcodecs.Blosc
    second = {
        "plain": None,
        "zlib": numcodecs.Zlib(),
        "zstd": numcodecs.Zstd(),
        "lz4": blosc(cname="lz4", shuffle=blosc.SHUFFLE),
        "bits": blosc(cname="zstd", shuffle=blosc.BITSHUFFLE),
        "blosc-zlib": blosc(cname="zlib", shuffle=blosc.NOSHUFFLE),
    }
    for name, compressor in second.items():
        store = path(f"zarr/v2-{name}.zarr")
        array = zarr.create_array(
            store, shape=image.shape, chunks=chunks, dtype=image.dtype, zarr_format=2,
            compressors=compressor, fill_value=7,
        )
        array[:] = image
        # Chunks that are not there have the fill value.
        if name == "plain":
            os.remove(os.path.join(store, "1.0.1"))
        read = {"bin": zarr.open(store)[:]}
        expect(f"zarr/v2-{name}.zarr", rows(f"v2-{name}.zarr", read))
    third = {
        "plain": {"compressors": None},
        "zstd": {},
        "gzip": {"compressors": zarr.codecs.GzipCodec()},
        "blosc": {"compressors": zarr.codecs.BloscCodec(cname="lz4hc", typesize=2)},
        "checked": {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
        "sharded": {"shards": (8, 10, 8)},
    }
    for name, options in third.items():
        store = path(f"zarr/v3-{name}.zarr")
        array = zarr.create_array(
            store, shape=image.shape, chunks=chunks, dtype=image.dtype, fill_value=9, **options
        )
        array[:] = image
        if name == "plain":
            os.remove(os.path.join(store, "c/2/1/0"))
        if name == "sharded":
            array[8:] = 9  # Chunks of fill values are left out.
        read = {"bin": zarr.open(store)[:]}
        expect(f"zarr/v3-{name}.zarr", rows(f"v3-{name}.zarr", read))
        expect(f"zarr/v3-{name}.zarr", rows(f"v3-{name}.zarr", read), shard_samples=3)
    refuse("zarr/v3-plain.zarr", "`columns` names `image`, and it has `bin`", columns=["bin", "image"])
    for version in (2, 3):
        store = path(f"zarr/group-v{version}.zarr")
        group = zarr.open_group(store, mode="w", zarr_format=version)
        group.create_array("image", data=image, chunks=chunks)
        group.create_array("label", data=np.arange(11) % 3, chunks=(4,))
        group.create_array("noise", data=random.standard_normal((11, 2)).astype("f4"), chunks=(2, 2))
        group.create_array("scale", data=np.array(2.5))
        group.create_group("more").create_array("deep", data=np.arange(11), chunks=(11,))
        read = zarr.open_group(store, mode="r")
        arrays = {name: read[name][:] for name in ("image", "label", "noise")}
        name = f"group-v{version}.zarr"
        expect("zarr/" + name, rows(name, arrays))
        some = {"noise": arrays["noise"], "more/deep": read["more/deep"][:]}
        expect("zarr/" + name, rows(name, some), columns=["noise", "more/deep"])
        refuse("zarr/" + name, "`columns` names `nois`, and it has `image`, `label`", columns=["nois"])
    # Chunks large enough that blosc cuts them into blocks, and blocks into streams.
    wide = np.repeat(random.integers(0, 9, (3, 1000)), 97, axis=1)[:, :90_001].astype("<u4")
    for name, codec in (("streams", "lz4"), ("blocks", "zstd")):
        store = path(f"zarr/wide-{name}.zarr")
        shuffle = blosc.SHUFFLE if name == "streams" else blosc.BITSHUFFLE
        packed = blosc(cname=codec, shuffle=shuffle, blocksize=65536)
        zarr.create_array(store, data=wide, chunks=(2, 90_001), zarr_format=2, compressors=packed)
        expect(f"zarr/wide-{name}.zarr", rows(f"wide-{name}.zarr", {"bin": zarr.open(store)[:]}))
    make_values(np.random.default_rng(5))
    make_groups(np.random.default_rng(6))
    store = path("zarr/fortran.zarr")
    zarr.create_array(store, data=image, chunks=chunks, order="F", zarr_format=2)
    refuse("zarr/fortran.zarr", "Fortran order")
    store = path("zarr/blosclz.zarr")
    packed = blosc(cname="blosclz")
    zarr.create_array(store, data=image, chunks=chunks, zarr_format=2, compressors=packed)
    refuse("zarr/blosclz.zarr", "blosc with `blosclz` is not supported")


def make_values(random):
    """Strings and bytes of any length, and metadata as Python's json writes it."""
    words = np.array(["tench", "", "\u00e9t\u00e9 \U0001f600"] * 3 + ["last", "x" * 300], dtype=object)
    pixels = np.array([random.bytes(n) for n in range(5, 16)], dtype=object)
    image = random.integers(0, 40, (11, 3, 2), dtype=np.uint8)
    text, data = zarr.dtype.VariableLengthUTF8(), zarr.dtype.VariableLengthBytes()
    for version in (2, 3):
        store = path(f"zarr/values-v{version}.zarr")
        group = zarr.open_group(store, mode="w", zarr_format=version)
        group.create_array("image", data=image, chunks=(4, 3, 2))
        if version == 2:
            group.create_array("caption", shape=(11,), chunks=(4,), dtype=text)[:] = words
            group.create_array("jpg", shape=(11,), chunks=(4,), dtype=data)[:] = pixels
        else:
            group.create_array("caption", shape=(11,), chunks=(4,), dtype=text)[:] = words
            shards = {"chunks": (2,), "shards": (4,)}
            group.create_array("jpg", shape=(11,), dtype=data, **shards)[:] = pixels
            width = np.array([f"w{n}" for n in range(11)])
            group.create_array("width", data=width, chunks=(4,))
            # The last chunk is not there.
            os.remove(os.path.join(store, "caption/c/2"))
        read = zarr.open_group(store, mode="r")
        arrays = {name: read[name][:] for name in sorted(read.array_keys())}
        name = f"values-v{version}.zarr"
        expect("zarr/" + name, rows(name, arrays))
        expect("zarr/" + name, rows(name, arrays), shard_samples=3)
    store = path("zarr/nan.zarr")
    array = zarr.create_array(store, data=image, chunks=(4, 3, 2))
    array.attrs.update({"missing": float("nan"), "range": [-float("inf"), float("inf")], "NaN": "NaN"})
    with open(os.path.join(store, "zarr.json")) as file:
        assert "NaN," in file.read()
    expect("zarr/nan.zarr", rows("nan.zarr", {"bin": zarr.open(store)[:]}))


def make_groups(random):
    """Arrays in groups only."""
    for version in (2, 3):
        store = path(f"zarr/groups-v{version}.zarr")
        group = zarr.open_group(store, mode="w", zarr_format=version)
        image = random.integers(0, 40, (5, 3, 2), dtype=np.uint8)
        group.create_group("train").create_array("image", data=image, chunks=(4, 3, 2))
        group["train"].create_group("more").create_array("label", data=np.arange(5), chunks=(4,))
        read = zarr.open_group(store, mode="r")
        arrays = {name: read[name][:] for name in ("train/image", "train/more/label")}
        name = f"groups-v{version}.zarr"
        expect("zarr/" + name, rows(name, arrays))
        words = "`columns` names `train`, and it has `train/image`, `train/more/label`"
        refuse("zarr/" + name, words, columns=["train"])
