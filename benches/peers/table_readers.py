"""Tables and arrays by their formats' own libraries, as the fields that docs/formats.md says.

Each reader yields a dict for each sample. A value is `bytes`, a number, a list of numbers or a `Json`; a value that is
missing is left out. `Unruled` says that docs/formats.md has no rule for what a file holds.
"""

import csv
import gzip
import importlib.util
import itertools
import json
import sys
import typing
from pathlib import Path


# Rows that are read at once.
BLOCK = 1024


class Unruled(Exception):
    pass


class Json(typing.NamedTuple):
    """A value whose text may be written in several ways."""

    value: typing.Any


def same(ours: bytes, theirs) -> bool:
    """Whether the bytes of a field are a value."""
    import numpy

    if isinstance(theirs, Json):
        # As text: `NaN` is not equal to itself, and `true` is not 1.
        return json.dumps(json.loads(ours)) == json.dumps(theirs.value)
    if isinstance(theirs, list):
        parts = ours.strip(b"[]").split(b",")
        return len(parts) == len(theirs) and all(same(*pair) for pair in zip(parts, theirs))
    if isinstance(theirs, (bool, numpy.bool_)):
        return ours == (b"1" if theirs else b"0")
    if isinstance(theirs, numpy.floating):
        found = type(theirs)(ours.decode())
        return found.tobytes() == theirs.tobytes() or bool(numpy.isnan(found) and numpy.isnan(theirs))
    if isinstance(theirs, (int, numpy.integer)):
        return ours == str(int(theirs)).encode()
    return ours == theirs


# === Parquet ===


def parquet(path: Path, column: "str | None"):
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    paths = list(leaf_paths(file.schema_arrow))
    served = {path: field_name(path, leaves, paths) for path, leaf in zip(paths, leaves) if is_served(leaf)}
    served = {path: name for path, name in served.items() if name is not None and column in (None, name)}
    classes = class_names(file.schema_arrow.metadata or {})
    read = 0
    for batch in file.iter_batches(batch_size=1024, columns=sorted({path[0] for path in served}) or None):
        columns = {}
        for path, name in served.items():
            array = batch.column(batch.schema.names.index(path[0]))
            columns[name] = list(cells(inner(array, path[1:])))
            if path in classes:
                number = [
                    None if value is None or not 0 <= value < len(classes[path]) else value for value in columns[name]
                ]
                columns[f"{name}.name"] = [None if at is None else classes[path][at].encode() for at in number]
        for row in range(batch.num_rows):
            yield {name: values[row] for name, values in columns.items() if values[row] is not None}
        read += batch.num_rows
    rows = sum(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
    if read != rows:
        raise ValueError(f"{read} rows of {rows}")


def parquet_columns(path: Path) -> "list[str]":
    """Names of the columns that are served."""
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    leaves, paths = (
        [file.schema.column(number) for number in range(len(file.schema))],
        list(leaf_paths(file.schema_arrow)),
    )
    names = [field_name(path, leaves, paths) for path, leaf in zip(paths, leaves) if is_served(leaf)]
    return [name for name in names if name is not None]


def leaf_paths(fields, above=()):
    """Paths of the leaves, in Parquet's order: their names may have dots."""
    import pyarrow.types as types

    for field in fields:
        path, kind = (*above, field.name), getattr(field.type, "storage_type", field.type)
        if types.is_struct(kind):
            yield from leaf_paths(kind, path)
        elif types.is_map(kind):
            yield from leaf_paths([kind.key_field, kind.item_field], path)
        elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            yield from leaf_paths([kind.value_field], path)
        else:
            yield path


def is_served(leaf) -> bool:
    numbers = leaf.logical_type.type not in ("DECIMAL", "FLOAT16") and leaf.converted_type != "DECIMAL"
    return leaf.max_repetition_level == 0 and leaf.physical_type != "INT96" and numbers


def field_name(path, leaves, paths) -> "str | None":
    """The name of a leaf's field; none for the path of an image."""
    group = {other: leaf for other, leaf in zip(paths, leaves) if other[0] == path[0]}
    bytes_and_path = {(path[0], name) for name in ("bytes", "path")}
    if set(group) == bytes_and_path and all(leaf.physical_type == "BYTE_ARRAY" for leaf in group.values()):
        return path[0] if path[1] == "bytes" else None
    return ".".join(path)


def class_names(metadata: dict) -> "dict[tuple, list[str]]":
    """Names of the classes of the hub, by column."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return {(name,): found["names"] for name, found in features.items() if found.get("_type") == "ClassLabel"}
    except (KeyError, TypeError, AttributeError, ValueError):
        return {}


def inner(array, path):
    """The array of a leaf, with the nulls of the groups around it."""
    for name in path:
        array = array.storage if hasattr(array, "storage") else array
        at = array.type.get_field_index(name)
        array = array.flatten()[at]
    return array


def cells(array):
    """The values of an Arrow array as they lie in the file."""
    import numpy
    import pyarrow
    import pyarrow.types as types

    array = array.storage if hasattr(array, "storage") else array
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        # They may be no UTF-8, which only the conversion to Python minds.
        return iter(array.cast(pyarrow.large_string()).view(pyarrow.large_binary()).to_pylist())
    if types.is_date64(kind):
        return (None if value is None else value // 86_400_000 for value in array.cast(pyarrow.int64()).to_pylist())
    if types.is_temporal(kind):
        whole = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
        return iter(array.view(whole).to_pylist())
    if types.is_floating(kind):
        number = numpy.float32 if types.is_float32(kind) else numpy.float64
        return (None if value is None else number(value) for value in array.to_pylist())
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind) or types.is_fixed_size_binary(kind):
        return iter(array.to_pylist())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return iter(array.to_pylist())
    raise Unruled(f"a column of {kind}")


# === Arrays ===


class Rows:
    """Arrays cut along their first axis."""

    def __init__(self, arrays: "dict[str, typing.Any]", of_bytes: bool = False) -> None:
        self.arrays, self.count = arrays, min(array.shape[0] for array in arrays.values())
        # Elements are arrays of bytes, each of a length of its own.
        self.of_bytes = of_bytes

    def __iter__(self):
        for start in range(0, self.count, BLOCK):
            blocks = {name: array[start : start + BLOCK] for name, array in self.arrays.items()}
            for number in range(min(BLOCK, self.count - start)):
                row = {}
                for name, block in blocks.items():
                    value = block[number]
                    row.update(row_fields(name, value.tobytes() if self.of_bytes else value))
                yield row


def row_fields(name: str, value) -> dict:
    import numpy

    if isinstance(value, str):
        return {name: value.encode()}
    if isinstance(value, bytes):
        return {name: bytes(value)}
    array = numpy.asarray(value)
    kind = array.dtype
    if kind.hasobject or kind.names:
        raise Unruled(f"an array of {kind}")
    if array.ndim == 0 and kind.kind in "biuf":
        return {name: array[()]}
    if array.ndim == 0 and kind.kind in "mM":
        return {name: int(array.view(kind.newbyteorder("=").str.split("[")[0].replace("M", "i").replace("m", "i")))}
    if array.ndim == 0 and kind.kind == "U":
        return {name: str(array).encode()}
    little = array.astype(kind.newbyteorder("<"))
    shape = ",".join(map(str, array.shape))
    # Times are written without their unit.
    note = little.dtype.str.split("[")[0].encode()
    return {name: little.tobytes(), f"{name}.dtype": note, f"{name}.shape": shape.encode()}


def npy(path: Path, _column):
    import numpy

    read = numpy.load(path, allow_pickle=False)
    arrays = {"bin": read} if path.suffix == ".npy" else {name: read[name] for name in read.files}
    arrays = {name: array for name, array in arrays.items() if array.ndim}
    if len({len(array) for array in arrays.values()}) != 1:
        raise Unruled("no array with an axis, or several of other lengths")
    return Rows(arrays)


def hdf5(path: Path, column: "str | None"):
    import h5py

    array = h5py.File(path, "r")[column]
    kind = array.id.get_type()
    if isinstance(kind, h5py.h5t.TypeOpaqueID):
        # Whatever the writer's tag says of them, they are bytes.
        return Rows({column: array[:].view(f"V{kind.get_size()}")})
    return Rows({column: array}, h5py.check_vlen_dtype(array.dtype) == "u1" and array.ndim == 1)


def hdf5_arrays(path: Path) -> "list[str]":
    """Paths of the arrays that have an axis."""
    import h5py

    found = []
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, node: found.append(name) if isinstance(node, h5py.Dataset) and node.shape else None
        )
    return found


def zarr_node(path: Path):
    import zarr

    return zarr.open(str(path), mode="r")


def zarr_folder(path: Path, column: "str | None"):
    node = zarr_node(path)
    return Rows({column: node[column]} if column else {"bin": node})


def zarr_arrays(path: Path) -> "list[str | None]":
    import zarr

    node = zarr_node(path)
    if isinstance(node, zarr.Array):
        return [None] if node.shape else []
    return [name for name, array in node.members(max_depth=None) if isinstance(array, zarr.Array) and array.shape]


# === Records and lines ===


def the_tables_of_the_tests():
    """tests/data/formats/make_tables.py: how `streaming` and `tfrecord` are read without torch."""
    path = Path(__file__).parents[2] / "tests" / "data" / "formats" / "make_tables.py"
    spec = importlib.util.spec_from_file_location("make_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tfrecord(path: Path, _column):
    import numpy
    from tfrecord import example_pb2, reader

    packed = "gzip" if path.suffix == ".gz" else None
    for record in reader.tfrecord_iterator(str(path), compression_type=packed):
        example, row = example_pb2.Example(), {}
        example.ParseFromString(bytes(record))
        for name, feature in example.features.feature.items():
            values = list(feature.bytes_list.value)
            if len(values) > 1:
                row.update({f"{name}.{number}": value for number, value in enumerate(values)})
                continue
            values += [numpy.float32(value) for value in feature.float_list.value]
            values += list(feature.int64_list.value)
            if values:
                row[name] = values[0] if len(values) == 1 else values
        yield row


def mds(path: Path, _column):
    import io
    import tempfile

    import numpy

    tools = the_tables_of_the_tests()
    reader = tools.only_the_module("streaming.base.format.mds.reader").MDSReader
    compression = tools.only_the_module("streaming.base.compression")
    index = json.loads((path / "index.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        for entry in index["shards"]:
            raw = Path(folder) / entry["raw_data"]["basename"]
            raw.parent.mkdir(parents=True, exist_ok=True)
            if entry["zip_data"]:
                packed = (path / entry["zip_data"]["basename"]).read_bytes()
                raw.write_bytes(compression.decompress(entry["compression"], packed))
            else:
                raw.symlink_to((path / entry["raw_data"]["basename"]).resolve())
            shard = reader.from_json(folder, None, entry)
            for number in range(len(shard)):
                data, row = shard.get_sample_data(number), {}
                encodings = dict(zip(shard.column_names, shard.column_encodings))
                for column, value in shard.decode_sample(data).items():
                    if isinstance(value, numpy.ndarray):
                        file = io.BytesIO()
                        numpy.save(file, value)
                        row[column] = file.getvalue()
                    elif isinstance(value, (int, numpy.generic)) and "str" not in encodings[column]:
                        row[column] = value
                    else:
                        row[column] = tools.raw_field(shard, data, column)
                yield row


def opened_text(path: Path):
    opened = gzip.open if path.suffix == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", newline="")


def lines_of_values(path: Path, _column):
    """CSV and TSV. A row of another length than the first one is an error."""
    csv.field_size_limit(64 << 20)
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    with opened_text(path) as file:
        rows = (row for row in csv.reader(file, delimiter=delimiter, strict=True) if row)
        header = next(rows)
        for row in rows:
            yield {name: value.encode() for name, value in zip(header, row, strict=True)}


def lines_of_json(path: Path, _column):
    with opened_text(path) as file:
        for line in file.read().split("\n"):
            if not line.strip():
                continue
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("a line is no object")
            values = {name: value.encode() if isinstance(value, str) else Json(value) for name, value in row.items()}
            yield {name: value for name, value in values.items() if value != Json(None)}


# For each format its library, a reader, and what lists the columns.
READERS = {
    "parquet": ("pyarrow", parquet, parquet_columns),
    "hdf5": ("h5py", hdf5, hdf5_arrays),
    "zarr": ("zarr", zarr_folder, zarr_arrays),
    "mds": ("streaming", mds, None),
    "tfrecord": ("tfrecord", tfrecord, None),
    "npy": ("numpy", npy, None),
    "csv": ("csv", lines_of_values, None),
    "tsv": ("csv", lines_of_values, None),
    "jsonl": ("json", lines_of_json, None),
}


def samples(form: str, path: Path, column: "str | None", most: int) -> "tuple[int, list[dict]]":
    """How many samples there are, and the first of them."""
    rows = READERS[form][1](path, column)
    samples = iter(rows)
    found = list(itertools.islice(samples, most))
    return rows.count if isinstance(rows, Rows) else len(found) + sum(1 for _ in samples), found
