"""The six names of TensorFlow that dlio_benchmark's generator of TFRecord files uses, so that it runs without 1.6 GB of packages.

The files are TFRecords of `tf.train.Example`, as TensorFlow writes them: records have their masked CRC-32C.
"""

import struct
import types

import google_crc32c


def _varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _message(field, content):
    return _varint(field << 3 | 2) + _varint(len(content)) + content


class BytesList:
    def __init__(self, value):
        self.encoded = _message(1, b"".join(_message(1, one) for one in value))


class Int64List:
    def __init__(self, value):
        self.encoded = _message(3, _message(1, b"".join(_varint(one) for one in value)))


class Feature:
    def __init__(self, bytes_list=None, int64_list=None):
        self.encoded = (bytes_list or int64_list).encoded


class Features:
    def __init__(self, feature):
        entries = ((name.encode(), one.encoded) for name, one in feature.items())
        self.encoded = b"".join(_message(1, _message(1, name) + _message(2, encoded)) for name, encoded in entries)


class Example:
    def __init__(self, features):
        self.features = features

    def SerializeToString(self):
        return _message(1, self.features.encoded)


def _masked(content):
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class TFRecordWriter:
    def __init__(self, path):
        self.file = open(path, "wb")

    def write(self, record):
        length = struct.pack("<Q", len(record))
        self.file.write(length + _masked(length) + record + _masked(record))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


io = types.SimpleNamespace(TFRecordWriter=TFRecordWriter)
train = types.SimpleNamespace(
    BytesList=BytesList, Int64List=Int64List, Feature=Feature, Features=Features, Example=Example
)
