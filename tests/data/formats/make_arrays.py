#!/usr/bin/env python3
"""Writes the files of arrays/ and, by the formats' own packages, what is in them.

    pip install numpy==2.4.6 h5py==3.16.0 hdf5plugin==7.1.0 netCDF4==1.7.5.1.post1 zarr==3.1.6 numcodecs==0.16.6
    python3 tests/data/formats/make_arrays.py [FOLDER KIND..]

arrays/expected.json has for each file its samples, as the package READS them: key, and the first 16
digits of the SHA-256 of each field. For files that are refused it has words of the refusal. `options`
are keys of the dataset. Files of one kind lie in a folder. With FOLDER and some of npy, tokens, lines,
zarr, hdf5, only these are written, elsewhere; status 77 says that a package is missing.
"""

import csv
import gzip
import hashlib
import importlib
import json
import os
import shutil
import struct
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "arrays")
# What the functions below need; bound in main, so that a package that is missing skips its format.
PACKAGES = {
    "npy": ["numpy"],
    "tokens": ["numpy"],
    "lines": ["numpy"],
    "zarr": ["numpy", "numcodecs", "zarr"],
    "hdf5": ["numpy", "h5py", "hdf5plugin", "netCDF4"],
}
EXPECTED = {}


def path(name):
    """Where a file is written."""
    full = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return full


def expect(name, samples, **options):
    """Says what is in a file: a list of (key, {field: bytes})."""
    hashed = [
        [key, {field: hashlib.sha256(value).hexdigest()[:16] for field, value in fields.items()}]
        for key, fields in samples
    ]
    case = {"file": name.split("?")[0], "options": options, "samples": hashed}
    EXPECTED[name + json.dumps(options)] = case


def refuse(name, words, **options):
    """Says that a file is refused, and that the refusal holds these words."""
    EXPECTED[name + json.dumps(options)] = {"file": name, "options": options, "refused": words}


def value_text(value):
    """A value as label parsers read it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bool, np.bool_)):
        return b"1" if value else b"0"
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value.astype("i8")).encode()
    return str(value).encode()


def rows(name, arrays):
    """Samples of arrays of equal length."""
    stem = os.path.basename(name).rsplit(".", 1)[0]
    samples = []
    for row in range(len(next(iter(arrays.values())))):
        fields = {}
        for column, array in arrays.items():
            if array.ndim == 1 and array.dtype.kind not in "cV":
                fields[column] = value_text(array[row])
                continue
            little = array.dtype.newbyteorder("<") if array.dtype.kind != "V" else array.dtype
            data = np.ascontiguousarray(array[row]).astype(little)
            fields[column] = data.tobytes()
            fields[column + ".dtype"] = little.str.encode()
            fields[column + ".shape"] = ",".join(map(str, array.shape[1:])).encode()
        samples.append((f"{stem}/{row:08}", fields))
    return samples


def make_npy():
    random = np.random.default_rng(1)
    plain = {
        "rows": random.standard_normal((5, 3, 2)).astype("<f4"),
        "pixels": random.integers(0, 256, (4, 6, 6, 3), dtype=np.uint8),
        "labels": np.array([3, -1, 2**40], dtype="<i8"),
        "scores": np.array([0.5, -1.25, 3.0, 0.1], dtype="<f8"),
        "halves": np.array([0.5, -2.0], dtype="<f2"),
        "truth": np.array([True, False, True]),
        "words": np.array(["tench", "", "\u00e9t\u00e9"]),
        "codes": np.array([b"ab", b"c"]),
        "big-labels": np.array([1, 2, -3], dtype=">i4"),
        "days": np.array(["2020-01-01", "1969-12-31"], dtype="datetime64[D]"),
        "waves": (random.standard_normal(3) + 1j).astype("<c8"),
    }
    for name, array in plain.items():
        np.save(path(f"npy/{name}.npy"), array)
        read = np.load(path(f"npy/{name}.npy"))
        expect(f"npy/{name}.npy", rows(name + ".npy", {"bin": read}))
    expect("npy/rows.npy", rows("rows.npy", {"bin": plain["rows"]}), shard_samples=2)
    with open(path("npy/version2.npy"), "wb") as file:
        np.lib.format.write_array(file, plain["rows"], version=(2, 0))
    expect("npy/version2.npy", rows("version2.npy", {"bin": np.load(path("npy/version2.npy"))}))
    refused = {
        "fortran": (np.asfortranarray(plain["rows"]), "Fortran order"),
        "objects": (np.array([{}, []], dtype=object), "Python objects"),
        "records": (np.zeros(3, dtype=[("a", "<f4"), ("b", "<i2")]), "structured"),
        "big-endian": (plain["rows"].astype(">f4"), "little-endian"),
        "scalar": (np.float32(1), "has no axis"),
    }
    for name, (array, words) in refused.items():
        np.save(path(f"npy/{name}.npy"), array)
        refuse(f"npy/{name}.npy", words)
    together = {
        "image": random.integers(0, 40, (6, 5, 4, 3), dtype=np.uint8),
        "label": np.arange(6) % 4,
        "caption": np.array([f"picture {n}" for n in range(6)]),
        "scale": np.float32(2),
    }
    np.savez(path("npz/stored.npz"), **together)
    np.savez_compressed(path("npz/deflated.npz"), **together)
    np.savez(path("npz/uneven.npz"), a=np.zeros((3, 2)), b=np.zeros((4, 2)))
    for name in ("stored", "deflated"):
        with np.load(path(f"npz/{name}.npz")) as read:
            arrays = {column: read[column] for column in read.files if read[column].ndim}
        expect(f"npz/{name}.npz", rows(name + ".npz", arrays))
        some = {column: arrays[column] for column in ("label", "image")}
        expect(f"npz/{name}.npz", rows(name + ".npz", some), columns=["label", "image"])
        expect(f"npz/{name}.npz", rows(name + ".npz", arrays), shard_samples=4)
        refuse(f"npz/{name}.npz", "`columns` names `imagee`", columns=["imagee"])
    refuse("npz/uneven.npz", "array `a` has 3 rows and `b` has 4")
    expect("npz/uneven.npz", rows("uneven.npz", {"b": np.zeros((4, 2))}), columns=["b"])


def write_tokens(name, sequences, documents, dtype):
    """An indexed dataset, as documented in NVIDIA/Megatron-LM,
    megatron/core/datasets/indexed_dataset.py: `sequences` are lists of tokens, `documents` the number
    of sequences of each document."""
    codes = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "f8": 6, "f4": 7, "u2": 8}
    arrays = [np.array(tokens, dtype="<" + dtype) for tokens in sequences]
    with open(path(name + ".bin"), "wb") as file:
        for array in arrays:
            file.write(array.tobytes())
    lengths = np.array([len(array) for array in arrays], dtype="<i4")
    sizes = [array.nbytes for array in arrays]
    pointers = np.array([sum(sizes[:at]) for at in range(len(sizes))], dtype="<i8")
    firsts = np.array([sum(documents[:at]) for at in range(len(documents) + 1)], dtype="<i8")
    with open(path(name + ".idx"), "wb") as file:
        file.write(b"MMIDIDX\0\0")
        file.write(struct.pack("<QBQQ", 1, codes[dtype], len(lengths), len(firsts)))
        for array in (lengths, pointers, firsts):
            file.write(array.tobytes())


def token_rows(name, tokens, length):
    """Samples of GPTDataset in order: tokens, and the same one later."""
    samples = []
    for at in range((len(tokens) - 1) // length):
        fields = {}
        for field, start in (("tokens", at * length), ("labels", at * length + 1)):
            cut = np.ascontiguousarray(tokens[start : start + length])
            fields[field] = cut.tobytes()
            fields[field + ".dtype"] = cut.dtype.str.encode()
            fields[field + ".shape"] = str(length).encode()
        samples.append((f"{name}/{at:08}", fields))
    return samples


def make_tokens():
    random = np.random.default_rng(2)
    for name, dtype, documents in (("short", "u2", [2, 1, 3]), ("long", "i4", [1, 1, 1])):
        sequences = [random.integers(0, 30000, n) for n in random.integers(0, 60, sum(documents))]
        write_tokens(f"tokens/{name}", sequences, documents, dtype)
        read = np.fromfile(path(f"tokens/{name}.bin"), dtype="<" + dtype)
        for length in (7, 16):
            expect(f"tokens/{name}.bin", token_rows(name, read, length), sequence_length=length)
        samples = token_rows(name, read, 7)
        expect(f"tokens/{name}.bin", samples, sequence_length=7, shard_samples=5)
    refuse("tokens/short.bin", "needs `sequence_length`")
    write_tokens("tokens/floats", [[0.5]], [1], "f4")
    refuse("tokens/floats.bin", "no whole number", sequence_length=1)


def numbered(stem, records):
    """Samples of records."""
    return [
        (f"{stem}/{at:08}", {name: value.encode() for name, value in record.items()})
        for at, record in enumerate(records)
    ]


def json_records(opened):
    """JSON as Python's json reads it, numbers as they are written."""
    class Number(str):
        pass

    def text(value):
        if isinstance(value, (str, Number)):
            return str(value)
        return value

    # Nested values stay as they are written: the fixtures write them as json.dumps does.
    for line in opened:
        if line.strip():
            record = json.loads(line, parse_int=Number, parse_float=Number)
            plain = json.loads(line)
            yield {
                name: text(value) if isinstance(value, str) else json.dumps(plain[name])
                for name, value in record.items()
                if value is not None
            }


def make_lines():
    table = [
        {"name": "tench", "class": "0", "score": "0.50", "note": 'a "quoted", word'},
        {"name": "\u00e9t\u00e9", "class": "-3", "score": "1e-7", "note": "two\r\nlines"},
        {"name": "", "class": "12345678901234567890", "score": "+1", "note": " space "},
        {"name": "last", "class": "1", "score": "3.", "note": ""},
    ]
    for name, dialect in (("plain.csv", "excel"), ("plain.tsv", "excel-tab"), ("unix.csv", "unix")):
        with open(path("lines/" + name), "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, table[0], dialect=dialect)
            writer.writeheader()
            writer.writerows(table)
        with open(path("lines/" + name), newline="", encoding="utf-8") as file:
            read = list(csv.DictReader(file, dialect=dialect))
        expect("lines/" + name, numbered(name[:-4], read))
        expect("lines/" + name, numbered(name[:-4], read), shard_samples=3)
        some = [{"note": row["note"], "name": row["name"]} for row in read]
        expect("lines/" + name, numbered(name[:-4], some), columns=["note", "name"])
        refuse("lines/" + name, "`columns` names `nam`", columns=["nam"])
    with open(path("lines/plain.csv"), "rb") as file:
        plain = file.read()
    with open(path("lines/marked.csv"), "wb") as file:
        file.write(b"\xef\xbb\xbf" + plain)
    with open(path("lines/marked.csv"), newline="", encoding="utf-8-sig") as file:
        expect("lines/marked.csv", numbered("marked", csv.DictReader(file)))
    with open(path("lines/zipped.csv.gz"), "wb") as file:
        file.write(gzip.compress(plain, mtime=0))
    with gzip.open(path("lines/zipped.csv.gz"), "rt", newline="", encoding="utf-8") as file:
        expect("lines/zipped.csv.gz", numbered("zipped", csv.DictReader(file)), shard_samples=2)
    objects = [
        {"text": "a \"b\"\n\u00e9", "label": 7, "box": [1.5, {"x": None}], "ok": True},
        {"text": "", "label": 1e300, "none": None},
        {"label": -2, "text": "\U0001f600", "extra": {}},
    ]
    with open(path("lines/plain.jsonl"), "w", encoding="utf-8") as file:
        for at, record in enumerate(objects):
            file.write(json.dumps(record, ensure_ascii=at == 0) + ("\r\n" if at else "\n\n"))
    with open(path("lines/plain.jsonl"), newline="", encoding="utf-8") as file:
        read = list(json_records(file))
    expect("lines/plain.jsonl", numbered("plain", read))
    expect("lines/plain.jsonl", numbered("plain", read), shard_samples=1)
    some = [{"label": record["label"]} for record in read]
    expect("lines/plain.jsonl", numbered("plain", some), columns=["label"])
    with open(path("lines/plain.txt"), "wb") as file:
        file.write("one\r\n\n two \u00e9\nthree".encode())
    with open(path("lines/plain.txt"), encoding="utf-8") as file:
        read = [{"txt": line.rstrip("\n")} for line in file]
    expect("lines/plain.txt", numbered("plain", read))
    expect("lines/plain.txt", numbered("plain", read), shard_samples=3)


def make_zarr():
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
    make_zarr_values(np.random.default_rng(5))
    make_zarr_groups(np.random.default_rng(6))
    store = path("zarr/fortran.zarr")
    zarr.create_array(store, data=image, chunks=chunks, order="F", zarr_format=2)
    refuse("zarr/fortran.zarr", "Fortran order")
    store = path("zarr/blosclz.zarr")
    packed = blosc(cname="blosclz")
    zarr.create_array(store, data=image, chunks=chunks, zarr_format=2, compressors=packed)
    refuse("zarr/blosclz.zarr", "blosc with `blosclz` is not supported")


def make_zarr_values(random):
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


def make_zarr_groups(random):
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


def expect_hdf5(name, wanted, **options):
    """Says what h5py reads in a file."""
    with h5py.File(path(name), "r") as file:
        arrays = {column: file[column][()] for column in wanted}
    expect(name, rows(name, arrays), **options)


def make_hdf5():
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
    make_hdf5_values(np.random.default_rng(7), image, label)
    make_hdf5_groups(image, label)
    make_hdf5_filters()
    with netCDF4.Dataset(path("hdf5/netcdf.nc"), "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 4)
        file.createVariable("wind", "f4", ("time", "x"), zlib=True)[:] = random.random((5, 4))
        file.createVariable("station", "i4", ("time",))[:] = np.arange(5)
    with netCDF4.Dataset(path("hdf5/netcdf.nc")) as file:
        arrays = {name: file[name][:].data for name in ("station", "wind")}
    expect("hdf5/netcdf.nc", rows("netcdf.nc", arrays))


def make_hdf5_values(random, image, label):
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


def make_hdf5_groups(image, label):
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


def make_hdf5_filters():
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


def main(folder, kinds):
    """Writes the files of some kinds, and what is in them."""
    global HERE
    HERE = folder
    for kind in kinds:
        for package in PACKAGES[kind]:
            try:
                module = importlib.import_module(package)
            except ImportError as error:
                print(error)
                sys.exit(77)
            globals()["np" if package == "numpy" else package] = module
        globals()["make_" + kind]()
    with open(path("expected.json"), "w") as file:
        cases = sorted(EXPECTED.items())
        file.write("[\n" + ",\n".join(json.dumps(case, sort_keys=True) for _, case in cases) + "\n]\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1], sys.argv[2:])
    else:
        shutil.rmtree(HERE, ignore_errors=True)
        main(HERE, PACKAGES)
