"""Reads from ELF files, of any processor, what they need, and finds it in a folder that is laid out like `/`.

`ldd` runs the program's own loader, so it can't answer for another processor.
"""

import platform
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
NEEDED, STRINGS = 1, 5


@dataclass(frozen=True)
class Processor:
    """A processor, by its name in images, in Linux and in Debian's folders."""

    image: str
    linux: str

    @property
    def triple(self) -> str:
        return f"{self.linux}-linux-gnu"


# By `e_machine`.
PROCESSORS = {62: Processor("amd64", "x86_64"), 183: Processor("arm64", "aarch64")}


@dataclass(frozen=True)
class Elf:
    """What the headers of one file say."""

    processor: Processor
    interpreter: str
    needed: tuple[str, ...]


def read(path: Path) -> Elf:
    """Headers of a program or a shared library."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        sys.exit(f"{path} is not an ELF file of 64 bits, little-endian")
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine not in PROCESSORS:
        names = ", ".join(one.linux for one in PROCESSORS.values())
        sys.exit(f"{path} is for the ELF machine {machine}; images are made for {names}")
    try:
        interpreter, dynamic, loads = segments(data)
        entries = dynamic_entries(data, dynamic)
    except struct.error:
        sys.exit(f"{path} ends within its headers")
    texts = next((value for tag, value in entries if tag == STRINGS), 0)
    texts = next((offset + texts - at for offset, at, size in loads if at <= texts < at + size), 0)
    return Elf(PROCESSORS[machine], interpreter, tuple(text(data, texts + value) for tag, value in entries if tag == NEEDED))


def segments(data: bytes) -> tuple[str, "tuple[int, int] | None", list[tuple[int, int, int]]]:
    """The loader's path, the place of the dynamic section, and what is loaded: offset, address and size."""
    table, entry_size, count = (struct.unpack_from(format, data, at)[0] for format, at in (("<Q", 32), ("<H", 54), ("<H", 56)))
    interpreter, dynamic, loads = "", None, []
    for index in range(count):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, table + index * entry_size)
        if kind == LOAD:
            loads.append((offset, address, size))
        elif kind == DYNAMIC:
            dynamic = (offset, size)
        elif kind == INTERPRETER:
            interpreter = text(data, offset)
    return interpreter, dynamic, loads


def dynamic_entries(data: bytes, place: "tuple[int, int] | None") -> list[tuple[int, int]]:
    """Tags and values of the dynamic section; none of a static program."""
    found = []
    offset, size = place or (0, 0)
    for at in range(offset, offset + size, 16):
        tag, value = struct.unpack_from("<QQ", data, at)
        if tag == 0:
            break
        found.append((tag, value))
    return found


def text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


class Sysroot:
    """A folder with the libraries of one processor, laid out like `/`."""

    def __init__(self, processor: Processor, folder: "Path | None" = None) -> None:
        own = Path("/") if processor.linux == platform.machine() else Path("/usr", processor.triple)
        self.processor = processor
        self.folder = folder or own
        triple = processor.triple
        # Where loaders of Debian, and those of others, look without being asked. An image has no cache for its loader.
        self.standard = (f"usr/lib/{triple}", f"lib/{triple}", "usr/lib64", "lib64", "usr/lib", "lib")

    def find(self, name: str) -> "str | None":
        """Path of a library within the folder."""
        for folder in self.standard:
            if (self.folder / folder / name).is_file():
                return f"{folder}/{name}"
        return None

    def loader(self, interpreter: str) -> Path:
        """The file of a loader, which merged systems have below `usr` too."""
        for path in (self.folder / interpreter.lstrip("/"), self.folder / "usr" / interpreter.lstrip("/")):
            if path.is_file():
                return path
        sys.exit(f"{self.folder} has no {interpreter}; --sysroot names a folder with libraries of {self.processor.linux}")

    def complete(self, program: Path, files: dict[str, Path]) -> dict[str, Path]:
        """Shared libraries by path within an image: these files, and all that they and the program need."""
        found = dict(files)
        names = {Path(path).name for path in found}
        waiting = [*files.values(), program]
        while waiting:
            path = waiting.pop()
            headers = read(path)
            if headers.processor != self.processor:
                sys.exit(f"{path} is for {headers.processor.linux}, the program for {self.processor.linux}")
            # The loader has itself open when a library asks for it by name.
            if headers.interpreter and Path(headers.interpreter).name not in names:
                names.add(Path(headers.interpreter).name)
                found[headers.interpreter.lstrip("/")] = self.loader(headers.interpreter)
            for name in headers.needed:
                if name in names:
                    continue
                place = self.find(name)
                if place is None:
                    sys.exit(f"{path} needs {name}, which {self.folder} does not have")
                names.add(name)
                found[place] = self.folder / place
                waiting.append(self.folder / place)
        return found
