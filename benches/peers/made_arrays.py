"""Makers of arrays: HDF5, Zarr and NumPy, by each format's own library."""

import itertools
from pathlib import Path

import numpy

from attempts import attempt
from made_tables import jpeg

ROWS = 300
# Texts of a fixed width in Latin-1, which are not UTF-8.
LATIN = numpy.array(["caf\xe9".encode("latin-1"), b"plain"] * 4, "S5")


# === HDF5 ===


def hdf5(folder: Path) -> None:
    import h5py

    pixels = numpy.random.default_rng(40).integers(0, 255, (ROWS, 6, 5, 3), dtype=numpy.uint8)
    ramp = numpy.arange(ROWS * 4, dtype="<i4").reshape(ROWS, 4) - 90
    for latest in ["earliest", "v108", "v110", "v112", "v114", "latest"]:
        with h5py.File(
            folder / f"libver-{latest}.h5", "w", libver=(latest, "latest") if latest == "earliest" else latest
        ) as file:
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
    for width in [2, 4]:
        create = h5py.h5p.create(h5py.h5p.FILE_CREATE)
        create.set_sizes(width, width)
        with h5py.File(h5py.h5f.create(str(folder / f"offsets-of-{width}.h5").encode(), fcpl=create)) as file:
            small = ramp[:40] if width == 2 else ramp
            file["contiguous"], file["one-axis"] = small, small[:, 0].copy()
            file.create_dataset("chunks", data=small, chunks=(7, 3), compression="gzip")
            file.create_dataset("never-written", (20, 3), "<i2", fillvalue=-7)
    for latest in ["earliest", "latest"]:
        with h5py.File(folder / f"odd-{latest}.h5", "w", libver=latest) as file:
            hdf5_odd(file, h5py, ramp)
    with h5py.File(folder / "elsewhere.h5", "w") as file:
        file["link"] = h5py.ExternalLink("filters.h5", "gzip-9")
        layout = h5py.VirtualLayout((2, ROWS, 4), "<i4")
        layout[0] = h5py.VirtualSource("filters.h5", "gzip-9", (ROWS, 4))
        file.create_virtual_dataset("virtual", layout, fillvalue=-1)
        # The library looks for the other file in the process's folder.
        file.create_dataset("external", (10,), "<i4", external=[(str(folder / "raw.bin"), 0, 40)])
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
    h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, space, compact).write(
        h5py.h5s.ALL, h5py.h5s.ALL, ramp[:9].copy()
    )
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


def hdf5_odd(file, h5py, ramp) -> None:
    """Chunks that skip filters, deep indices of chunks, shared types, many attributes, odd names, N-bit."""
    import zlib

    skipping = file.create_dataset("skips-filters", (40, 4), "<i4", chunks=(10, 4), compression="gzip", shuffle=True)
    shuffled = ramp[:10].copy().view("u1").reshape(-1, 4).T.tobytes()
    skipping.id.write_direct_chunk((0, 0), zlib.compress(shuffled), 0)
    skipping.id.write_direct_chunk((10, 0), ramp[10:20].tobytes(), 0b11)
    skipping.id.write_direct_chunk((20, 0), zlib.compress(ramp[20:30].tobytes()), 0b01)
    skipping.id.write_direct_chunk((30, 0), ramp[30:40].copy().view("u1").reshape(-1, 4).T.tobytes(), 0b10)
    many = numpy.arange(4000).reshape(2000, 2)
    for name, grows in {"fixed": None, "one": (None, 2), "two": (None, None)}.items():
        file.create_dataset(f"deep-{name}", data=many, chunks=(1, 1), maxshape=grows)
        file.create_dataset(
            f"deep-{name}-gzip", data=many, chunks=(2, 1), maxshape=grows, compression="gzip", fletcher32=True
        )
        sparse = file.create_dataset(
            f"deep-{name}-sparse", (90_000, 2), "<i4", chunks=(10, 2), maxshape=grows, fillvalue=4
        )
        for row in [0, 333, 41_111, 89_999]:
            sparse[row] = row
    file["a type"] = numpy.dtype("<f4")
    file.create_dataset("shared-type", (9, 2), file["a type"], ramp[:9, :2])
    noted = file.create_dataset("attributes", data=ramp)
    for number in range(60):
        noted.attrs[f"attribute {number}"] = "x" * number
    attempt("a large attribute", noted.attrs.create, "large", numpy.zeros(10_000))
    file["é/ü ñ"], file[" space "], file["a.b,c"], file["quo'te\"s"] = ramp, ramp, ramp, ramp
    for bits, base in itertools.product([9, 12], ["STD_I16LE", "STD_U16LE", "STD_I32LE"]):
        attempt(
            f"hdf5 nbit {bits} {base}",
            hdf5_nbit,
            file,
            h5py,
            bits,
            getattr(h5py.h5t, base).copy(),
            f"nbit-{bits}-{base}",
        )


def hdf5_nbit(file, h5py, bits: int, kind, name: str) -> None:
    kind.set_precision(bits)
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_chunk((20, 4))
    create.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
    data = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((60, 4)), create)
    values = numpy.arange(240, dtype="i4").reshape(60, 4) % 11 - 5 * kind.get_sign()
    data.write(h5py.h5s.ALL, h5py.h5s.ALL, values)


def hdf5_filters(file, pixels, ramp) -> None:
    for level in range(10):
        file.create_dataset(f"gzip-{level}", data=ramp, chunks=(50, 4), compression="gzip", compression_opts=level)
    for shuffle, sums, codec in itertools.product([False, True], [False, True], [None, "gzip", "lzf", "szip"]):
        name = f"{codec}-shuffle-{shuffle}-sums-{sums}"
        options = {"chunks": (32, 6, 5, 3), "shuffle": shuffle, "fletcher32": sums, "compression": codec}
        attempt(f"hdf5 {name}", file.create_dataset, name, data=pixels, **options)
        attempt(
            f"hdf5 {name} wide",
            file.create_dataset,
            f"{name}-wide",
            data=ramp.astype("<i8"),
            **options | {"chunks": (33, 3)},
        )
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
    for order, kind in itertools.product(
        "<>", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
    ):
        name = f"{'big' if order == '>' else 'little'}-{kind}"
        values = (numpy.arange(60) * 1.25 - 20).astype("f8").astype("i8" if kind[0] in "iu" else "f8")
        file[name], file[f"{name}-rows"] = values.astype(order + kind), values.astype(order + kind).reshape(20, 3)
        file.create_dataset(f"{name}-chunks", data=values.astype(order + kind), chunks=(7,), compression="gzip")
    file["bool"], file["bool-rows"] = numpy.arange(10) % 3 == 0, numpy.arange(12).reshape(4, 3) % 3 == 0
    file.create_dataset("enum", data=numpy.arange(10) % 2, dtype=h5py.enum_dtype({"A": 0, "B": 1}, "i2"))
    file.create_dataset("enum-byte", data=numpy.arange(10) % 2, dtype=h5py.enum_dtype({"NO": 0, "YES": 1}, "i1"))
    file["compound"] = numpy.zeros(10, [("a", "<i4"), ("b", "<f8")])
    file["opaque"] = numpy.array([b"\0ab\0"] * 3, "V4")
    kind = h5py.h5t.array_create(h5py.h5t.STD_I16LE, (2, 3))
    h5py.h5d.create(file.id, b"elements-with-axes", kind, h5py.h5s.create_simple((4,))).write(
        h5py.h5s.ALL, h5py.h5s.ALL, numpy.arange(24, dtype="<i2").reshape(4, 2, 3), kind
    )
    file["latin"] = LATIN
    file.create_dataset("latin-chunks", data=LATIN, chunks=(3,))
    file["fixed"] = numpy.array([b"abc", b"", b"\xc3\xa9x", b"longer"], "S8")
    for pad, name in [
        (h5py.h5t.STR_NULLTERM, "null-end"),
        (h5py.h5t.STR_NULLPAD, "null-pad"),
        (h5py.h5t.STR_SPACEPAD, "space-pad"),
    ]:
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
    odd = {
        "bits-12-of-16": (h5py.h5t.STD_U16LE, 12, 0),
        "bits-10-from-4": (h5py.h5t.STD_U16LE, 10, 4),
        "signed-7-of-8": (h5py.h5t.STD_I8LE, 7, 0),
    }
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
    file["half"] = numpy.array([6e-8, 65504, numpy.inf, numpy.nan], "f2")


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
    write("latin", LATIN)
    write("bytes", numpy.array([b"a", b"", b"\0b", b"longer"] * 5, dtype="S6"))
    write("strings", numpy.array(["a", "", "é", "x" * 40] * 5, dtype=numpy.dtypes.StringDType()))
    write("times", numpy.arange(20).astype("<M8[s]"))
    write("durations", numpy.arange(20).astype("<m8[ms]"))
    write("times-rows", numpy.arange(20).astype("<M8[ns]").reshape(10, 2))
    write("structure", numpy.zeros(20, [("a", "<i4"), ("b", "<f8")]))
    fills = {
        "i4": [0, -7, None],
        "u8": [2**64 - 1],
        "f4": [0.5, float("nan"), float("inf"), -float("inf"), 0.1, 1e-40],
        "f2": [0.1],
        "f8": [0.1],
    }
    fills |= {"bool": [True], "c8": [0, 1 + 2j], "M8[s]": [5], "S4": [b"ab"], "U3": ["xy"]}
    for kind, values in fills.items():
        for value in values:
            zarr_missing(
                folder, f"v{version}-fill-{kind.replace('[', '-').replace(']', '')}-{value}", kind, value, version
            )
    for separator in "./":
        key = {"name": "v2" if version == 2 else "default", "separator": separator}
        write(f"separator-{'dot' if separator == '.' else 'slash'}", ramp, chunk_key_encoding=key)
    if version == 3:
        for separator in "./":
            write(
                f"keys-v2-{'dot' if separator == '.' else 'slash'}",
                ramp,
                chunk_key_encoding={"name": "v2", "separator": separator},
            )


def zarr_missing(folder: Path, name: str, kind: str, value, version: int) -> None:
    """An array of whose chunks only some are there."""
    import zarr

    def write():
        array = zarr.create_array(
            str(folder / f"{name}.zarr"),
            shape=(30, 5),
            chunks=(4, 3),
            dtype=kind,
            fill_value=value,
            zarr_format=version,
        )
        array[9:13, 1:4] = numpy.ones((4, 3)).astype(kind)

    attempt(f"zarr {name}", write)


def zarr_codecs(folder: Path) -> None:
    import numcodecs
    import zarr
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

    ramp = (numpy.arange(ROWS * 4, dtype="<i4").reshape(ROWS, 4) // 3) - 90

    def write(name, version, **options):
        options = {"chunks": (50, 3)} | options
        attempt(
            f"zarr {name}",
            lambda: zarr.create_array(str(folder / f"{name}.zarr"), data=ramp, zarr_format=version, **options),
        )

    old = {
        "zlib": numcodecs.Zlib(4),
        "gzip": numcodecs.GZip(),
        "zstd": numcodecs.Zstd(),
        "zstd-sum": numcodecs.Zstd(3, checksum=True),
    }
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
    new = {
        "gzip": [GzipCodec()],
        "zstd": [ZstdCodec(checksum=True)],
        "crc": [Crc32cCodec()],
        "zstd-crc": [ZstdCodec(), Crc32cCodec()],
    }
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

    attempt(
        "nested",
        sharded,
        "v3-shards-nested",
        ShardingCodec(chunk_shape=(30, 4), codecs=[ShardingCodec(chunk_shape=(10, 2))]),
    )
    attempt("no sum", sharded, "v3-shards-index-plain", ShardingCodec(chunk_shape=(10, 2), index_codecs=[BytesCodec()]))
    attempt(
        "missing", sharded, "v3-shards-missing", ShardingCodec(chunk_shape=(10, 1), codecs=[BytesCodec(), GzipCodec()])
    )
    attempt(
        "big",
        sharded,
        "v3-shards-big",
        ShardingCodec(chunk_shape=(10, 1), codecs=[BytesCodec(endian="big"), GzipCodec()]),
    )
    attempt(
        "transpose",
        sharded,
        "v3-shards-transpose",
        ShardingCodec(chunk_shape=(10, 2), codecs=[TransposeCodec(order=(1, 0)), BytesCodec()]),
    )


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


# === NumPy ===


def npy(folder: Path) -> None:
    ramp = numpy.arange(ROWS * 4).reshape(ROWS, 4) % 120
    for order, kind in itertools.product(
        "<>",
        [
            "b1",
            "i1",
            "i2",
            "i4",
            "i8",
            "u1",
            "u2",
            "u4",
            "u8",
            "f2",
            "f4",
            "f8",
            "c8",
            "c16",
            "U3",
            "S3",
            "M8[ns]",
            "m8[s]",
        ],
    ):
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
        write(folder / f"{name}-latin.npz", text=LATIN)
        write(folder / f"{name}-f.npz", image=numpy.asfortranarray(ramp))
        write(folder / f"{name}-none.npz")
