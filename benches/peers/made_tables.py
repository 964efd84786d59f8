"""Makers of tables: Parquet, MDS, TFRecord and lines, by each format's own library."""

import datetime
import decimal
import gzip
import itertools
import json
import random
import shutil
import uuid
from pathlib import Path

import numpy

import table_readers
from attempts import attempt

DRAW = random.Random(40)
ROWS = 300


def jpeg(number: int) -> bytes:
    """Bytes with the frame of a JPEG image: no reader of tables decodes them."""
    return b"\xff\xd8\xff\xe0" + random.Random(number).randbytes(40 + number % 90) + b"\xff\xd9"


# === Parquet ===


def parquet_table():
    import pyarrow

    def or_null(values):
        return [None if number % 7 == 3 else value for number, value in enumerate(values)]

    numbers = range(ROWS)
    whole = {
        f"{sign}int{bits}": [DRAW.randrange(2**bits) for _ in numbers]
        for sign, bits in itertools.product(["u"], [8, 16, 32, 64])
    }
    signed = {
        f"int{bits}": [DRAW.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in numbers] for bits in [8, 16, 32, 64]
    }
    columns = {name: pyarrow.array(or_null(values), name) for name, values in (whole | signed).items()}
    floats = [0.0, -0.0, 1e-45, 3.4e38, float("nan"), float("inf"), -float("inf"), 0.1, 1 / 3]
    columns |= {
        name: pyarrow.array(or_null([floats[n % 9] * (1 + n // 9) for n in numbers]), name)
        for name in ["float32", "float64"]
    }
    columns["float16"] = pyarrow.array(numpy.arange(ROWS).astype("f2"))
    texts = [f"é{number % 11}" * (number % 5) for number in numbers]
    for kind in ["string", "large_string", "binary", "large_binary", "string_view", "binary_view"]:
        columns[kind] = pyarrow.array(or_null(texts), getattr(pyarrow, kind)())
    columns["fixed"] = pyarrow.array(or_null([DRAW.randbytes(5) for _ in numbers]), pyarrow.binary(5))
    columns["bool"] = pyarrow.array(or_null([number % 3 == 0 for number in numbers]))
    columns["words"] = pyarrow.array(or_null(texts)).dictionary_encode()
    columns["null"] = pyarrow.nulls(ROWS)
    for unit in ["s", "ms", "us", "ns"]:
        columns[f"timestamp_{unit}"] = pyarrow.array(
            or_null([number * 10**9 - 7 for number in numbers]), pyarrow.timestamp(unit)
        )
        columns[f"zone_{unit}"] = pyarrow.array(
            or_null([number * 10**9 for number in numbers]), pyarrow.timestamp(unit, "Asia/Tokyo")
        )
        columns[f"duration_{unit}"] = pyarrow.array(or_null(list(numbers)), pyarrow.duration(unit))
    columns["date32"] = pyarrow.array(or_null([number - 100 for number in numbers]), pyarrow.date32())
    columns["date64"] = pyarrow.array(
        or_null([datetime.date(1960, 1, 1 + number % 28) for number in numbers]), pyarrow.date64()
    )
    columns |= {f"time_{unit}": pyarrow.array(or_null(list(numbers)), pyarrow.time32(unit)) for unit in ["s", "ms"]}
    columns |= {f"time_{unit}": pyarrow.array(or_null(list(numbers)), pyarrow.time64(unit)) for unit in ["us", "ns"]}
    for digits in [5, 15, 30]:
        values = [decimal.Decimal(number).scaleb(-2) for number in numbers]
        columns[f"decimal_{digits}"] = pyarrow.array(or_null(values), pyarrow.decimal128(digits, 2))
    columns["uuid"] = pyarrow.array([uuid.UUID(int=number).bytes for number in numbers], pyarrow.uuid())
    columns["list"] = pyarrow.array(
        or_null([list(range(number % 4)) for number in numbers]), pyarrow.list_(pyarrow.int32())
    )
    columns["vector"] = pyarrow.array([[number, 1.5] for number in numbers], pyarrow.list_(pyarrow.float32(), 2))
    columns["map"] = pyarrow.array(
        [[("a", number)] for number in numbers], pyarrow.map_(pyarrow.string(), pyarrow.int64())
    )
    points = [{"x": number, "y": None if number % 5 == 0 else {"z": str(number)}} for number in numbers]
    columns["point"] = pyarrow.array(or_null(points))
    columns["image"] = pyarrow.array([{"bytes": jpeg(number), "path": f"{number}.jpg"} for number in numbers])
    columns["image_null"] = pyarrow.array(
        or_null([{"bytes": jpeg(number), "path": None} for number in numbers]), columns["image"].type
    )
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
            write(
                f"{codec}-v{page[0]}-plain",
                compression=codec,
                data_page_version=page,
                use_dictionary=False,
                data_page_size=300,
            )
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
        options = {
            "column_encoding": {column: encoding for column in columns},
            "use_dictionary": False,
            "data_page_version": page,
        }
        write(f"encoding-{name}-v{page[0]}", table_of, compression="zstd", data_page_size=120, **options)
    write("empty-between", table.slice(0, 10))
    with pyarrow.parquet.ParquetWriter(folder / "empty-between.parquet", table.schema) as writer:
        for size in [5, 0, 7]:
            writer.write_table(table.slice(0, size), row_group_size=max(size, 1))
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}
    hub = pyarrow.table({"image": table["image"], "label": pyarrow.array([n % 4 - 1 for n in range(ROWS)])})
    write(
        "hub",
        hub.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}),
        row_group_size=100,
    )
    write(
        "names",
        pyarrow.table({"a.b": [1, 2], "": ["x", "y"], "ü": [True, None], "path": ["p", "q"], "bytes": [b"1", b"2"]}),
    )
    required = pyarrow.schema([pyarrow.field("n", pyarrow.int32(), False), pyarrow.field("t", pyarrow.string(), False)])
    write("required", pyarrow.table({"n": pyarrow.array([1, 2, 3], pyarrow.int32()), "t": ["a", "b", ""]}, required))
    write(
        "large-values",
        pyarrow.table({"blob": [DRAW.randbytes(3 << 20), b"", DRAW.randbytes(1 << 20)]}),
        compression="snappy",
    )
    write("long-texts", pyarrow.table({"text": ["x" * 9_000_000] * 3}), compression="zstd")


# === Records ===


def mds(folder: Path) -> None:
    tools = table_readers.the_tables_of_the_tests()
    writer = tools.only_the_module("streaming.base.format.mds.writer").MDSWriter
    numbers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)] + ["float16", "float32", "float64"]
    columns = {"bytes": "bytes", "str": "str", "json": "json", "int": "int"} | {name: name for name in numbers}
    columns |= {"str_int": "str_int", "str_float": "str_float", "str_decimal": "str_decimal", "ndarray": "ndarray"}
    columns |= {f"ndarray_{kind}": f"ndarray:{kind}" for kind in numbers} | {
        "typed": "ndarray:int16:2,3",
        "one": "ndarray:float32:1",
    }

    def sample(number):
        whole = {name: numpy.dtype(name).type((number * 37) % 100) for name in numbers}
        arrays = {f"ndarray_{kind}": (numpy.arange(number + 1) % 100).astype(kind).reshape(-1, 1) for kind in numbers}
        array = numpy.arange(number * 2 + 2, dtype=numbers[number % 11]).reshape((2, -1) if number % 2 else (-1,))
        floats = {
            "float16": numpy.float16(number / 7),
            "float32": numpy.float32(number / 7),
            "float64": numpy.float64(number / 7),
        }
        texts = {"bytes": jpeg(number), "str": f"é{number}", "json": {"a": [number, None, "é"]}, "int": number - 5}
        digits = {
            "str_int": 10**30 + number,
            "str_float": number / 3,
            "str_decimal": decimal.Decimal(number).scaleb(-3),
        }
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


# === Lines ===


def lines(folder: Path) -> None:
    rows = [["file", "label", "text"]] + [
        [f"{n}.jpg", str(n % 10), t]
        for n, t in enumerate(["plain", "a,b", 'a "quoted" one', "two\nlines", "", "é", " space "])
    ]
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
        "lines.jsonl": "".join(
            json.dumps({"n": n, "t": "é\u2028" * n, "l": [n, None], "f": n / 3, "o": {"a": n}, "x": None}) + "\n"
            for n in range(20)
        ),
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
