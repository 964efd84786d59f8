#!/usr/bin/env python3
"""Writes the samples of Parquet, TFRecord and MDS in this folder, by these formats' own packages.

    pip install numpy==2.4.6 pillow==13.0.0 xxhash==3.6.0
    pip install --no-deps -r scripts/requirements-formats.txt
    python tests/data/formats/make_tables.py tests/data/formats

With a format's name behind the folder only that is written. `--seed N` gives other values, for tests
that write their own: status 77 where a package is not installed.

Beside the files of a format lies NAME.json, made by the package when it READS them: for each file (or
folder) its shards, for each shard its samples, for each sample its key and the SHA-256 of each field.
"""

import argparse
import glob
import gzip
import hashlib
import importlib
import importlib.util
import json
import os
import random
import shutil
import sys
import tarfile
import tempfile
import types

# Beside this script lie folders that have packages' names: a package that is not installed must not be
# taken for one of them.
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path = [path for path in sys.path if os.path.abspath(path) != HERE]

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
NAMES = ["cat", "dog", "a horse, grey"]


def photos(count):
    """The smallest photographs of tests/data, in the order of their keys."""
    found = []
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/data/photos/*.tar"))):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    found.append((member.name, tar.extractfile(member).read()))
    found.sort(key=lambda photo: len(photo[1]))
    return sorted(found[:count])


def digested(key, fields):
    """A sample as it is written down; what is None is missing."""
    fields = {name: value for name, value in fields.items() if value is not None}
    return {"key": key, "fields": {n: hashlib.sha256(v).hexdigest() for n, v in fields.items()}}


def text(value):
    """A value as the bytes of a field."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if hasattr(value, "tobytes"):
        # A number of numpy: shortest text that gives the same one of its own width.
        return str(value).encode()
    return value.encode() if isinstance(value, str) else repr(value).encode()


def write_json(folder, name, expected):
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump(expected, file, indent=1, sort_keys=True)
        file.write("\n")


# === Parquet ===


def parquet(folder, draw):
    import numpy
    import pyarrow
    import pyarrow.parquet as pq

    images = photos(10)
    rows = range(10)
    features = {
        "image": {"_type": "Image"},
        "label": {"_type": "ClassLabel", "names": NAMES},
        "caption": {"_type": "Value", "dtype": "string"},
    }
    hub = pyarrow.table(
        {
            "image": pyarrow.array(
                [{"bytes": data, "path": name} for name, data in images],
                pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())]),
            ),
            "label": pyarrow.array([draw.choice([0, 1, 2, -1]) for _ in rows], pyarrow.int64()),
            "caption": pyarrow.array([None if i % 4 == 2 else f"n° {draw.random()}" for i in rows]),
            "score": pyarrow.array([draw.uniform(0.25, 1) for _ in rows], pyarrow.float64()),
            "weight": pyarrow.array([draw.uniform(0.25, 1) for _ in rows], pyarrow.float32()),
            "small": pyarrow.array([draw.randrange(256) for _ in rows], pyarrow.uint8()),
            "large": pyarrow.array([2**64 - 1 - i for i in rows], pyarrow.uint64()),
            "good": pyarrow.array([draw.random() < 0.5 for _ in rows]),
            "boxes": pyarrow.array([[1, 2], [], None, [3]] * 2 + [[4]] * 2, pyarrow.list_(pyarrow.int32())),
        }
    ).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(hub, f"{folder}/hub.parquet", row_group_size=4, compression="snappy")

    rows = range(100)
    nested = pyarrow.struct([("x", pyarrow.float32()), ("y", pyarrow.float32())])
    plain = pyarrow.table(
        {
            "number": pyarrow.array([draw.randrange(-(2**40), 2**40) for _ in rows], pyarrow.int64()),
            "words": pyarrow.array([f"common start {draw.randrange(50)}" for _ in rows]),
            "point": pyarrow.array(
                [None if i % 9 == 1 else {"x": i / 4, "y": None} for i in rows], nested
            ),
            "fixed": pyarrow.array([draw.randbytes(6) for _ in rows], pyarrow.binary(6)),
            "repeated": pyarrow.array([draw.choice(NAMES) * 20 for _ in rows]),
        }
    )
    pq.write_table(
        plain,
        f"{folder}/encodings.parquet",
        row_group_size=60,
        compression={name: "gzip" for name in ["number", "point.x", "point.y"]}
        | {name: "zstd" for name in ["words", "fixed", "repeated"]},
        use_dictionary=["repeated"],
        column_encoding={"number": "DELTA_BINARY_PACKED", "words": "DELTA_BYTE_ARRAY"},
        data_page_version="2.0",
        data_page_size=200,
        write_page_checksum=True,
    )
    pq.write_table(
        plain.slice(0, 40),
        f"{folder}/codecs.parquet",
        row_group_size=25,
        # What it calls lz4 is LZ4_RAW in the file.
        compression={name: "brotli" for name in ["number", "repeated"]}
        | {name: "lz4" for name in ["words", "fixed", "point.x", "point.y"]},
    )
    names = ["hub", "encodings", "codecs"]
    write_json(folder, "parquet", {n: read_parquet(pq, numpy, folder, n) for n in names})


def read_parquet(pq, numpy, folder, name):
    file = pq.ParquetFile(f"{folder}/{name}.parquet")
    shards, number = [], 0
    for group in range(file.num_row_groups):
        samples = []
        for row in file.read_row_group(group).to_pylist():
            key, fields = f"{name}/{number}", {}
            for field, value in row.items():
                if field == "boxes":
                    continue
                kind = str(file.schema_arrow.field(field).type)
                if field == "image":
                    key, fields[field] = value["path"], value["bytes"]
                elif field == "point":
                    for part, coordinate in (value or {}).items():
                        if coordinate is not None:
                            fields[f"point.{part}"] = text(numpy.float32(coordinate))
                else:
                    value = numpy.float32(value) if kind == "float" else value
                    fields[field] = text(value)
                if field == "label" and value >= 0:
                    fields["label.name"] = NAMES[value].encode()
            samples.append(digested(key, fields))
            number += 1
        shards.append({"name": f"{name}.parquet#{group}", "samples": samples})
    return {"place": f"{name}.parquet", "shards": shards}


# === TFRecord ===


def tfrecords(folder, draw):
    from tfrecord import example_pb2, reader, writer
    from tfrecord.tools import tfrecord2idx

    def write(name, count, of_sequences=False):
        file = writer.TFRecordWriter(f"{folder}/{name}.tfrecord")
        for number, (path, data) in enumerate(photos(count)):
            datum = {
                "image/encoded": (data, "byte"),
                "image/class/label": (draw.randrange(-5, 1000), "int"),
                "image/filename": (path.encode(), "byte"),
                "box": ([draw.uniform(0.25, 1) for _ in range(number % 4)], "float"),
                "ids": ([draw.randrange(-(2**62), 2**62) for _ in range(3)], "int"),
                "parts": ([draw.randbytes(3) for _ in range(2)], "byte"),
            }
            file.write(datum, {"frames": ([[1], [2]], "int")} if of_sequences else None)
        file.close()

    write("photos", 6)
    tfrecord2idx.create_index(f"{folder}/photos.tfrecord", f"{folder}/photos.idx")
    shutil.copyfile(f"{folder}/photos.tfrecord", f"{folder}/unindexed.tfrecord")
    with open(f"{folder}/photos.tfrecord", "rb") as raw:
        with gzip.GzipFile(f"{folder}/packed.tfrecord.gz", "wb", mtime=0) as packed:
            packed.write(raw.read())
    write("sequences", 1, of_sequences=True)

    expected = {}
    for name, ending in [("photos", ""), ("unindexed", ""), ("packed", ".gz")]:
        path = f"{name}.tfrecord{ending}"
        records = reader.tfrecord_iterator(
            f"{folder}/{path}", compression_type="gzip" if ending else None
        )
        samples = []
        for number, record in enumerate(records):
            example = example_pb2.Example()
            example.ParseFromString(bytes(record))
            fields = {}
            for feature, value in example.features.feature.items():
                fields.update(feature_fields(feature, value))
            samples.append(digested(f"{name}/{number}", fields))
        expected[name] = {"place": path, "shards": [{"name": path, "samples": samples}]}
    write_json(folder, "tfrecord", expected)


def feature_fields(name, value):
    import numpy

    if value.bytes_list.value:
        values = list(value.bytes_list.value)
        return {name: values[0]} if len(values) == 1 else {f"{name}.{i}": v for i, v in enumerate(values)}
    if value.float_list.value:
        values = [str(numpy.float32(number)) for number in value.float_list.value]
    else:
        values = [str(number) for number in value.int64_list.value]
    if not values:
        return {}
    return {name: (values[0] if len(values) == 1 else "[" + ",".join(values) + "]").encode()}


# === MDS ===


class Unused(types.ModuleType):
    """A module that is imported for names that nothing here calls."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return object


def only_the_module(name):
    """Imports a module of `streaming` without what its packages import: torch and transformers."""
    spec = importlib.util.find_spec("streaming")
    if spec is None:
        raise ModuleNotFoundError("No module named 'streaming'", name="streaming")
    if "streaming.base" not in sys.modules:
        for package, folder in [("streaming", "."), ("streaming.base", "base")]:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = [os.path.join(os.path.dirname(spec.origin), folder)]
            sys.modules[package].__spec__ = spec
        for unused in ["torch", "torch.distributed"] + [
            "streaming.base." + part for part in ["distributed", "shared", "shared.prefix"]
        ]:
            sys.modules[unused] = Unused(unused)
    return importlib.import_module(name)


def mds(folder, draw):
    import numpy
    from PIL import Image

    writer = only_the_module("streaming.base.format.mds.writer").MDSWriter
    reader = only_the_module("streaming.base.format.mds.reader").MDSReader
    def opened(data):
        # Of a file, the package keeps the bytes as they are.
        with tempfile.NamedTemporaryFile(suffix=".jpg", dir=folder, delete=False) as file:
            file.write(data)
        files.append(file.name)
        return Image.open(file.name)

    files = []

    columns = {
        "image": "jpeg",
        "label": "int",
        "name": "str",
        "ratio": "float32",
        "half": "float16",
        "byte": "uint8",
        "meta": "json",
        "blob": "bytes",
        "array": "ndarray",
        "typed": "ndarray:int16:2,3",
        "digits": "str_int",
    }
    expected = {}
    for name, options in [
        ("raw", {"size_limit": 12000}),
        ("zstd", {"compression": "zstd:7", "hashes": ["sha1", "xxh64"], "size_limit": 12000}),
    ]:
        out = f"{folder}/{name}"
        shutil.rmtree(out, ignore_errors=True)
        with writer(out=out, columns=columns, **options) as file:
            for number, (path, data) in enumerate(photos(8)):
                file.write(
                    {
                        "image": opened(data),
                        "label": draw.randrange(-3, 1000),
                        "name": path,
                        "ratio": numpy.float32(draw.uniform(0.25, 1)),
                        "half": numpy.float16(number / 4),
                        "byte": numpy.uint8(draw.randrange(256)),
                        "meta": {"crop": [draw.randrange(9)]},
                        "blob": draw.randbytes(number),
                        "array": numpy.arange(2 * number + 2, dtype=numpy.float32).reshape(2, -1),
                        "typed": numpy.full((2, 3), number - 3, numpy.int16),
                        "digits": draw.randrange(10**20),
                    }
                )
        expected[name] = {"place": name, "shards": read_mds(reader, numpy, folder, name)}
    for path in files:
        os.remove(path)
    write_json(folder, "mds", expected)


def read_mds(reader, numpy, folder, name):
    import io

    shards = []
    with open(f"{folder}/{name}/index.json") as file:
        index = json.load(file)
    for entry in index["shards"]:
        stem = entry["raw_data"]["basename"].removesuffix(".mds")
        if entry["zip_data"]:
            import zstd

            packed = f"{folder}/{name}/{entry['zip_data']['basename']}"
            raw = f"{folder}/{name}/{entry['raw_data']['basename']}"
            with open(packed, "rb") as source, open(raw, "wb") as target:
                target.write(zstd.decompress(source.read()))
        shard = reader.from_json(folder, name, entry)
        samples = []
        for number in range(len(shard)):
            data = shard.get_sample_data(number)
            fields = {}
            # The bytes as they lie there; numbers and arrays as the package makes them of these.
            for column, value in shard.decode_sample(data).items():
                if column in ("image", "meta"):
                    fields[column] = raw_field(shard, data, column)
                elif isinstance(value, numpy.ndarray):
                    out = io.BytesIO()
                    numpy.save(out, value)
                    fields[column] = out.getvalue()
                else:
                    fields[column] = text(value)
            samples.append(digested(f"{stem}/{number}", fields))
        shown = entry["zip_data"] or entry["raw_data"]
        shards.append({"name": f"{name}/{shown['basename']}", "samples": samples})
        if entry["zip_data"]:
            os.remove(raw)
    return shards


def raw_field(shard, data, column):
    """A column's bytes before they are decoded."""
    import numpy

    sizes, at = [], 0
    for size in shard.column_sizes:
        if not size:
            size = int(numpy.frombuffer(data[at : at + 4], numpy.uint32)[0])
            at += 4
        sizes.append(size)
    place = shard.column_names.index(column)
    at += sum(sizes[:place])
    return data[at : at + sizes[place]]


FORMATS = {"parquet": parquet, "tfrecord": tfrecords, "mds": mds}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder")
    arguments.add_argument("formats", nargs="*")
    arguments.add_argument("--seed", type=int, default=16)
    arguments = arguments.parse_args()
    for name in arguments.formats or FORMATS:
        folder = os.path.join(arguments.folder, name)
        os.makedirs(folder, exist_ok=True)
        try:
            FORMATS[name](folder, random.Random(arguments.seed))
        except ModuleNotFoundError as error:
            print(f"{name}: the package `{error.name}` is not installed", file=sys.stderr)
            sys.exit(77)


if __name__ == "__main__":
    main()
