"""Datasets that misbehave. They need no package."""

import ctypes
import os
import re
import sys
import time


class BadSample(Exception):
    """As `headwater.BadSample`, which this process may not have."""


class Dark(BadSample):
    pass


class Torn(Exception):
    pass


class Away(OSError):
    """As those of HTTP clients: an `OSError` without a number, for an outage."""


class UnidentifiedImageError(OSError):
    """As Pillow's."""


def of_pillow():
    """Pillow's error for a damaged file, raised in one of its modules."""
    module = {"__name__": "PIL.ImageFile"}
    exec("def load(): raise OSError('image file is truncated')", module)
    module["load"]()


# As Pillow's: a file is decoded when its pixels are asked for, and PNG does not have all modes.
IMAGE = """
class Image:
    def __init__(self, mode, is_whole):
        self.mode, self.is_whole = mode, is_whole

    def load(self):
        if not self.is_whole:
            raise OSError("image file is truncated")

    def convert(self, mode):
        return Image(mode, self.is_whole)

    def save(self, file, format, **options):
        self.load()
        if self.mode not in ("L", "RGB"):
            raise OSError(f"cannot write mode {self.mode} as {format}")
        file.write(self.mode.encode())
"""


def image(mode, is_whole=True):
    module = {"__name__": "PIL.Image"}
    exec(IMAGE, module)
    return lambda: module["Image"](mode, is_whole)


def undecodable():
    b"\xff".decode()


def raising(error):
    def work():
        raise error

    return work


# What is raised, and whether it says that the sample is bad.
ERRORS = [
    (raising(ValueError("not a number")), True),
    (undecodable, True),
    (raising(BadSample("dark")), True),
    (raising(Dark("dark")), True),
    (raising(Torn("torn")), True),
    (raising(UnidentifiedImageError("what is it")), True),
    (of_pillow, True),
    (image("CMYK", is_whole=False), True),
    (image("F"), False),
    (lambda: "lone \ud800", True),
    (raising(KeyError("a hole")), False),
    (raising(Exception("BadSample")), False),
    (raising(OSError("the server is away")), False),
    (raising(OSError(5, "Input/output error")), False),
    (raising(Away("the server is away")), False),
    (raising(TimeoutError("timed out")), False),
    (raising(ImportError("no codec")), False),
    (raising(RuntimeError("CUDA")), False),
    (raising(KeyboardInterrupt()), False),
    (raising(SystemExit(3)), False),
    (object, False),
]


class Raises:
    def __len__(self):
        return len(ERRORS)

    def __getitem__(self, index):
        return {"what": ERRORS[index][0]()}


class Expected(list):
    """What `Raises` means."""

    def __init__(self):
        super().__init__({"bad": str(bad)} for _, bad in ERRORS)


class Images(list):
    """Good ones of some modes."""

    def __init__(self):
        super().__init__(image(mode)() for mode in ("L", "RGB", "CMYK", "HSV", "LAB"))


class Unspeakable(KeyError):
    def __str__(self):
        raise RuntimeError("no text")


class Odd:
    """Errors and samples that are hard to report."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 0:
            raise RuntimeError("lone \ud800 surrogate")
        if index == 1:
            raise Unspeakable()
        if index == 2:
            raise KeyError("x" * (1 << 20))
        if index == 3:
            return {f"field {number}": b"" for number in range(100_000)}
        if index == 4:
            return {"lone \ud800": b""}
        return {"n" * 600 + str(number): b"" for number in range(2000)}


class Forks:
    """A child comes back from the call before the process that was asked, and would take the next requests."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        child = os.fork() == 0
        if not child:
            time.sleep(0.3)
        return {"n": f"child's {index}" if child else f"{index}"}


class Forges:
    """Answers by itself, to a request of before."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and re.match("socket:", os.readlink(f"/proc/self/fd/{number}")):
                os.write(number, b'{"id": 1, "pid": %d, "answer": {"fields": []}}\n' % os.getpid())
        return {"n": b"own"}


class Changing:
    """Of the length and version in a file. Its last sample ends the process."""

    def __init__(self, path):
        with open(path) as file:
            samples, self.version = file.read().split()
        self.samples = int(samples)

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        if index == self.samples - 1:
            os._exit(3)
        return {"n": f"{self.version} {index}"}


class Hangs:
    """It and a child of its own never end, and it says who they are."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 1

    def __getitem__(self, index):
        child = os.fork()
        if child:
            with open(self.path + ".new", "w") as file:
                file.write(f"{os.getpid()} {child}")
            os.rename(self.path + ".new", self.path)
        sys.stderr.close()
        while True:
            time.sleep(1000)


class Unkillable:
    """A process of another group traces it, so that the system does not tell its parent that it was killed."""

    def __init__(self):
        seize, any_process = 0x4206, ctypes.c_ulong(-1)
        libc, traced = ctypes.CDLL(None), os.getpid()
        libc.prctl(0x59616D61, any_process, 0, 0, 0)
        told, tell = os.pipe()
        if os.fork() == 0:
            os.setsid()
            os.write(tell, b"no" if libc.ptrace(seize, traced, None, None) else b"yes")
            os.closerange(0, 3)
            time.sleep(40)
            os._exit(0)
        if os.read(told, 3) != b"yes":
            raise RuntimeError("ptrace is refused")
        time.sleep(1000)
