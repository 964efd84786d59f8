"""Calls Python functions for a process that is no Python: one request at a time.

Descriptor 0 is the memory that both have, descriptor 1 a socket: a request is a line of JSON, and so is its answer.
"""

import hashlib
import importlib
import importlib.util
import json
import mmap
import os
import struct
import sys
import traceback
import zlib


def own_descriptors():
    """Memory and socket, out of the way of what functions print, which goes to the log."""
    memory, socket = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return memory, socket


class Memory:
    """The memory, mapped anew when it has grown. What a function keeps of the old map stays valid."""

    def __init__(self, descriptor):
        self.descriptor, self.map = descriptor, None

    def bytes(self, length):
        if self.map is None or len(self.map) < length:
            self.map = mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size)
        return memoryview(self.map)[:length]

    def write(self, parts):
        """Writes parts one behind the other, and says how long each is."""
        lengths = [len(part) for part in parts]
        length = sum(lengths)
        if os.fstat(self.descriptor).st_size < length:
            os.ftruncate(self.descriptor, length)
        room, at = self.bytes(length), 0
        for part in parts:
            room[at : at + len(part)] = part
            at += len(part)
        return lengths


class NotLoaded(Exception):
    """A module or a name in it cannot be had, for the reason that is the cause: no fault of a sample."""


class Host:
    def __init__(self, memory):
        self.memory, self.functions, self.dataset = memory, {}, None

    def find(self, name):
        if name not in self.functions:
            module, _, path = name.partition(":")
            try:
                found = importlib.import_module(module)
                for part in path.split("."):
                    found = getattr(found, part)
            except Exception as error:
                raise NotLoaded from error
            self.functions[name] = found
        return self.functions[name]

    def digest(self, module):
        """Of the module's source, which is not run."""
        spec = importlib.util.find_spec(module)
        if spec is None or not spec.has_location:
            raise ModuleNotFoundError(f"no module `{module}` with a file of source")
        with open(spec.origin, "rb") as source:
            return {"digest": hashlib.sha256(source.read()).hexdigest(), "path": spec.origin}

    def call(self, function, shape, seed):
        import numpy

        function = self.find(function)
        height, width, channels = shape
        room = self.memory.bytes(height * width * channels)
        array = numpy.frombuffer(room, numpy.uint8).reshape(shape)
        made = function(array, numpy.random.default_rng(seed))
        if not isinstance(made, numpy.ndarray):
            raise TypeError(f"gave {type(made).__name__}, not an array")
        if made.shape != array.shape or made.dtype != array.dtype:
            raise TypeError(f"gave {made.dtype}{list(made.shape)}, not {array.dtype}{list(array.shape)}")
        if made is not array:
            array[...] = made
        return {}

    def open_dataset(self, dataset, arguments):
        self.dataset = self.find(dataset)(**arguments)
        version = getattr(self.dataset, "version", None)
        return {"samples": len(self.dataset), "version": None if version is None else str(version)}

    def read(self, index):
        fields = {} if self.dataset is None else encoded(self.dataset[index])
        lengths = self.memory.write(list(fields.values()))
        return {"fields": list(zip(fields, lengths))}


def encoded(sample):
    """The fields of what `__getitem__` gave, each as a file of it would be."""
    if isinstance(sample, (tuple, list)):
        names = ("image", "cls") if len(sample) == 2 else tuple(map(str, range(len(sample))))
        sample = dict(zip(names, sample))
    elif not isinstance(sample, dict):
        sample = {"image": sample}
    fields = {}
    for name, value in sample.items():
        name, value = as_bytes(str(name), value)
        fields[name] = value
    return fields


def as_bytes(name, value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return name, bytes(value)
    if isinstance(value, str):
        return name, value.encode()
    if isinstance(value, bool):
        return name, str(int(value)).encode()
    if isinstance(value, int):
        return name, repr(int(value)).encode()
    if isinstance(value, float):
        # As a plain one: `numpy.float64` is a float and says its own name.
        return name, repr(float(value)).encode()
    if hasattr(value, "numpy") and not isinstance(value, type):
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else value.numpy()
    if type(value).__module__.partition(".")[0] == "PIL":
        return name, image_file(value)
    import io

    import numpy

    if isinstance(value, (numpy.generic, numpy.ndarray)) and value.ndim == 0:
        # A number, as for PyTorch's `default_collate`.
        plain = value.item()
        if isinstance(plain, (bool, int, float, str, bytes)):
            return as_bytes(name, plain)
    if isinstance(value, numpy.generic):
        return name, repr(value.item()).encode()
    if isinstance(value, numpy.ndarray) and is_picture(name, value):
        return name, png(value)
    if isinstance(value, numpy.ndarray):
        file = io.BytesIO()
        numpy.save(file, value, allow_pickle=False)
        return name, file.getvalue()
    if isinstance(value, (dict, list, tuple)) or value is None:
        return name, json.dumps(value).encode()
    raise TypeError(
        f"field `{name}` is {type(value).__name__}: give bytes, text, a number, an array, a PIL image, or what JSON has"
    )


# Names of fields that decoders are given.
PICTURES = {"image", "img", "jpg", "jpeg", "png", "webp"}


def is_picture(name, array):
    """Whether an array is pixels, gray or RGB."""
    of_colours = array.ndim == 3 and array.shape[2] == 3
    return name in PICTURES and array.dtype == "uint8" and array.size > 0 and (array.ndim == 2 or of_colours)


def png(array):
    """A file of these pixels, by the PNG specification: one stream of rows without a filter."""
    import numpy

    height, width = array.shape[:2]
    rows = numpy.zeros((height, 1 + array[0].size), numpy.uint8)
    rows[:, 1:] = array.reshape(height, -1)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if array.ndim == 3 else 0, 0, 0, 0)
    chunks = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def image_file(image):
    """The pixels as PNG, quickly: they are sent over a fast link and decoded once."""
    import io

    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def said(error):
    """The error, and the line that raised it."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if frame.filename != "<headwater>"]
    if inner:
        text += f" ({inner[-1].filename}:{inner[-1].lineno})"
    return text


def main():
    memory, socket = own_descriptors()
    host = Host(Memory(memory))
    answer_to = {"call": host.call, "digest": host.digest, "open": host.open_dataset, "read": host.read}
    sys.path[:0] = sys.argv[1:]
    with os.fdopen(socket, "r+b", buffering=0) as wire, os.fdopen(os.dup(wire.fileno()), "rb") as lines:
        for line in lines:
            request = json.loads(line)
            try:
                answer = {"answer": answer_to[request.pop("ask")](**request)}
            except MemoryError as error:
                answer = {"short": said(error)}
            except NotLoaded as error:
                answer = {"passing": said(error.__cause__)}
            except OSError as error:
                # With a number it is the system's: a file that cannot be read now, descriptors that are used up.
                # Pillow and gzip raise it without one for a file that is damaged.
                answer = {"raised" if error.errno is None else "passing": said(error)}
            except Exception as error:  # Whatever a function raises is its caller's to judge.
                answer = {"raised": said(error)}
            wire.write(json.dumps(answer).encode() + b"\n")


main()
