"""Calls Python functions for a process that is no Python: one request at a time.

Descriptor 0 is a pipe that closes when the caller is gone, descriptor 1 a socket: a request is a line of JSON, and so
is its answer. Descriptor 2 goes to the caller's log. The memory that both have comes over the socket, with its first
byte. An answer has the number of its request and the process that gives it.
"""

import contextlib
import fcntl
import hashlib
import importlib
import importlib.util
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import traceback
import zlib

# The caller reads no longer answer.
ANSWER_BYTES_MAX = 1 << 20
# Characters of an error that are reported.
TEXT_MAX = 2000
# As many as the index of a shard has.
FIELDS_MAX = 4096


def own_descriptors():
    """Memory and wire, out of the way of what functions print, which goes to the log."""
    lifeline, wire = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    die_with(lifeline)
    with socket.socket(fileno=os.dup(wire)) as peer:
        control = peer.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)[1]
    # A child that a function forks has no wire: it cannot answer, and does not hold it open after this process's end.
    os.register_at_fork(after_in_child=lambda: os.dup2(nothing, wire, inheritable=False))
    return struct.unpack("i", control[0][2])[0], wire


def die_with(lifeline):
    """When the pipe closes, the system kills this process and its children, whatever they are doing."""
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(1)


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
        if length == 0:
            return lengths  # There is no map of nothing.
        if os.fstat(self.descriptor).st_size < length:
            os.ftruncate(self.descriptor, length)
        room, at = self.bytes(length), 0
        for part in parts:
            room[at : at + len(part)] = part
            at += len(part)
        return lengths


class NotLoaded(Exception):
    """A module or a name in it cannot be had, for the reason that is the cause: no fault of a sample."""


class Verdict(Exception):
    """The sample is bad, for the reason that is the cause. No other exception says that."""


class Sources:
    """The first finder of modules: notes the digest of each trusted one's file as it is found to be loaded, whoever
    imports it. Read at the first call of a function in it, the file may be newer than the module."""

    def __init__(self, modules):
        self.modules, self.found = modules, {}
        # Those that Python itself or this program has loaded, since this process was started.
        for name in filter(self.trusts, tuple(sys.modules)):
            # One whose file cannot be read, as in a zip, is none that was loaded from a file of source.
            with contextlib.suppress(OSError):
                self.note(name, getattr(sys.modules[name], "__spec__", None))

    def find_spec(self, name, path=None, target=None):
        if not self.trusts(name):
            return None
        finders = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        self.note(name, spec)
        return spec

    def trusts(self, name):
        return any(name == trusted or name.startswith(trusted + ".") for trusted in self.modules)

    def note(self, name, spec):
        if spec is not None and spec.has_location:
            self.found[name] = sha256_of(spec.origin)


def sha256_of(path):
    with open(path, "rb") as source:
        return hashlib.sha256(source.read()).hexdigest()


def names_of(path):
    """Names that a module's source gives to something; none where they cannot be known without running it."""
    if not path.endswith(".py"):
        return set()
    import ast

    with open(path, "rb") as source:
        left, names = [ast.parse(source.read(), path)], set()
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name):
            names.add(node.id)
        left += ast.iter_child_nodes(node)
    return set() if names & {"*", "__getattr__", "exec", "globals", "setattr", "vars"} else names


class Host:
    def __init__(self, memory, bad_sample_errors, modules):
        self.memory, self.pid = memory, os.getpid()
        self.bad = {"BadSample", "UnidentifiedImageError", *bad_sample_errors}
        self.sources, self.dataset = Sources(modules), None
        sys.meta_path.insert(0, self.sources)

    def find(self, name, sha256=""):
        module, _, path = name.partition(":")
        try:
            found = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
            source = self.sources.found.get(module)
            if source is None:
                raise ImportError(f"module `{module}` was not loaded from a file of source")
            if sha256 not in ("", source):
                raise ImportError(f"the source of {module} has SHA-256 {source}, and the recipe says {sha256}")
        except Exception as error:
            raise NotLoaded from error
        return found

    def digest(self, module, functions):
        """Of the module's source, which is not run, and has these functions."""
        spec = importlib.util.find_spec(module)
        if spec is None or not spec.has_location:
            raise ModuleNotFoundError(f"no module `{module}` with a file of source")
        there = names_of(spec.origin)
        for function in functions:
            first = function.split(".")[0]
            if there and first not in there:
                import difflib

                near = difflib.get_close_matches(first, there, 1)
                meant = f": did you mean `{near[0]}`?" if near else ""
                raise AttributeError(f"module `{module}` ({spec.origin}) has no `{first}`{meant}")
        return {"digest": sha256_of(spec.origin), "path": spec.origin}

    def call(self, function, sha256, shape, seed):
        import numpy

        function = self.find(function, sha256)
        height, width, channels = shape
        room = self.memory.bytes(height * width * channels)
        shared = numpy.frombuffer(room, numpy.uint8).reshape(shape)
        # A copy: what a function or its child keeps and changes later is not the image of another call.
        array = shared.copy()
        made = self.judged(lambda: function(array, numpy.random.default_rng(seed)))
        if not isinstance(made, numpy.ndarray):
            raise TypeError(f"gave {type(made).__name__}, not an array")
        if made.shape != array.shape or made.dtype != array.dtype:
            raise TypeError(f"gave {made.dtype}{list(made.shape)}, not {array.dtype}{list(array.shape)}")
        shared[...] = made
        return {}

    def open_dataset(self, dataset, arguments):
        module, _, _ = str.partition(dataset, ":")
        self.dataset = self.find(dataset)(**arguments)
        version = getattr(self.dataset, "version", None)
        version = None if version is None else str(version)
        return {"samples": len(self.dataset), "version": version, "source": self.sources.found[module]}

    def read(self, index):
        # A field that cannot be stored is the program's error, whatever the encoder raises.
        fields = encoded(self.judged(lambda: loaded(self.dataset[index])))
        lengths = self.memory.write(list(fields.values()))
        return {"fields": list(zip(fields, lengths))}

    def judged(self, work):
        """Does work of somebody else, of which only this process comes back."""
        try:
            return work()
        except Exception as error:
            if self.is_verdict(error):
                raise Verdict from error
            raise
        finally:
            self.end_if_forked()

    def is_verdict(self, error):
        """By the names of its classes: this process may not have the package that defines them."""
        kinds = type(error).__mro__
        names = {kind.__name__ for kind in kinds} | {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
        return not self.bad.isdisjoint(names) or is_pillows(error)

    def end_if_forked(self):
        if os.getpid() == self.pid:
            return
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):
            os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
        os.write(2, b"a forked child came back from a function: it is ended here, and its parent answers\n")
        os._exit(1)


def is_pillows(error):
    """Whether Pillow says of a file that it is damaged: by an `OSError` without the number of one of the system's."""
    if not isinstance(error, OSError) or error.errno is not None or error.__traceback__ is None:
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "PIL"


def is_image(value):
    return type(value).__module__.partition(".")[0] == "PIL"


def loaded(sample):
    """The fields of what `__getitem__` gave, after all that depends on the sample's own bytes."""
    if isinstance(sample, (tuple, list)):
        names = ("image", "cls") if len(sample) == 2 else tuple(map(str, range(len(sample))))
        sample = dict(zip(names, sample))
    elif not isinstance(sample, dict):
        sample = {"image": sample}
    for value in sample.values():
        if is_image(value):
            value.load()  # Pillow decodes a file when its pixels are asked for.
        elif isinstance(value, str):
            value.encode()
    return sample


def encoded(sample):
    """The fields, each as a file of it would be."""
    if len(sample) > FIELDS_MAX:
        raise TypeError(f"gave {len(sample)} fields, more than {FIELDS_MAX}")
    fields = {}
    for name, value in sample.items():
        try:
            str(name).encode()
        except UnicodeError as error:  # The name is wrong, not the sample.
            raise TypeError(f"gave a field named {ascii(str(name))}, which is no UTF-8") from error
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
    if is_image(value):
        return name, image_file(name, value)
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
        if value.dtype.hasobject:
            raise TypeError(f"field `{name}` is an array of Python objects: give one of numbers")
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


# Modes of Pillow that PNG does not have, and whose colours RGB has.
COLOURS = {"CMYK", "HSV", "LAB", "RGBX", "YCbCr"}


def image_file(name, image):
    """The pixels as PNG, quickly: they are sent over a fast link and decoded once."""
    import io

    file = io.BytesIO()
    try:
        image = image.convert("RGB") if image.mode in COLOURS else image
        image.save(file, "PNG", compress_level=1)
    except (OSError, ValueError) as error:
        raise TypeError(f"field `{name}` is no PNG: {error}; convert the image, or give an array") from error
    return file.getvalue()


def said(error):
    """The error, and the line that raised it."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException as odd:  # Its `__str__` is no better than the function.
        text = f"{type(error).__name__}, whose text raises {type(odd).__name__}"
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX] + "..."
    # Not by `extract_tb`, which reads the files.
    places = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
    inner = [place for place in places if place[0] != "<headwater>"]
    if inner:
        text += f" ({inner[-1][0]}:{inner[-1][1]})"
    return text


def line_of(number, kind, answer):
    """A line that the caller can read: UTF-8, and of limited length."""
    answer = {"id": number, "pid": os.getpid(), **answer}
    line = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    if len(line) > ANSWER_BYTES_MAX:
        return line_of(number, kind, {kind: f"an answer of {len(line)} bytes, more than {ANSWER_BYTES_MAX}"})
    return line


def answered(work, kind, request):
    try:
        return {"answer": work(**request)}
    except MemoryError as error:
        return {"short": said(error)}
    except Verdict as error:
        return {"bad": said(error.__cause__)}
    except NotLoaded as error:
        return {"raised": said(error.__cause__)}
    except BaseException as error:
        return {kind: said(error)}


def main():
    memory, wire = own_descriptors()
    host = Host(Memory(memory), **json.loads(sys.argv[1]))
    works = {"call": host.call, "digest": host.digest, "open": host.open_dataset, "read": host.read}
    sys.path[:0] = sys.argv[2:]
    with os.fdopen(wire, "r+b", buffering=0) as answers, os.fdopen(wire, "rb", closefd=False) as lines:
        for line in lines:
            request = json.loads(line)
            number, ask = request.pop("id"), request.pop("ask")
            # Of errors that are no verdict: in work on a sample, or before.
            kind = "passing" if ask in ("call", "read") else "raised"
            answer = answered(works[ask], kind, request)
            host.end_if_forked()
            answers.write(line_of(number, kind, answer))


main()
