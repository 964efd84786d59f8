"""What the files of arrays/ are expected to have."""

import hashlib
import json
import os

import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "arrays")
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
