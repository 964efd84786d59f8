#!/usr/bin/env python3
"""Holds wheels to what their names promise.

    scripts/check-wheel.py TAG WHEEL..

TAG is a platform's, such as manylinux_2_17_aarch64. Library and program are both in the wheel, are for
that processor, and need no library and no symbol that the platform does not have: auditwheel says so.
Its licence and those of what is linked into it are there.
The wheel is not larger than 40 MB.
"""

import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

PROGRAM = re.compile(r"headwater-[^/]+\.data/scripts/headwater")
LIBRARY = "headwater/_native.abi3.so"
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
LICENCES = ("LICENSE", "THIRD-PARTY-NOTICES.txt")
UNWINDER = "libgcc_s.so.1"
LARGEST_BYTES = 40_000_000


def c_library(tag: str) -> tuple[int, int]:
    """The version of the C library that a platform has at least."""
    match = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    if match is None:
        sys.exit(f"{tag} is no platform with a C library of a known version")
    return int(match[1]), int(match[2])


def audited(wheel: Path) -> str:
    """The oldest platform that has all that a wheel needs, as auditwheel sees it."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(shown)["overall_tag"]


def needed(elf: ELFFile) -> list[str]:
    """The libraries that a program or library names."""
    tags = elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
    return [tag.needed for tag in tags]


def contents(tag: str, wheel: Path) -> list[str]:
    """What is wrong with the files of a wheel. auditwheel passes over those for another processor."""
    wrong = []
    machine = MACHINES[next(arch for arch in MACHINES if tag.endswith(arch))]
    with zipfile.ZipFile(wheel) as packed:
        programs = [entry for entry in packed.infolist() if PROGRAM.fullmatch(entry.filename)]
        if [bool(entry.external_attr >> 16 & 0o111) for entry in programs] != [True]:
            wrong.append("has no program `headwater` that can be run")
        ends = [name.rpartition(".dist-info/licenses/")[2] for name in packed.namelist() if ".dist-info/licenses/" in name]
        wrong += [f"has no {name}" for name in LICENCES if name not in ends]
        for name in [entry.filename for entry in programs] + [LIBRARY]:
            elf = ELFFile(io.BytesIO(packed.read(name)))
            if elf["e_machine"] != machine:
                wrong.append(f"{name} is for {elf['e_machine']}")
            if elf.get_section_by_name(".symtab"):
                wrong.append(f"{name} is not stripped")
            if UNWINDER not in needed(elf):
                wrong.append(f"{name} has an unwinder of its own, see scripts/workspace-cargo.sh")
    return wrong


def check(tag: str, wheel: Path) -> None:
    wrong = contents(tag, wheel)
    needs = audited(wheel)
    if needs.startswith("linux") or c_library(needs) > c_library(tag):
        wrong.append(f"needs {needs}")
    if tag not in wheel.name:
        wrong.append(f"is not named {tag}")
    size = wheel.stat().st_size
    if size > LARGEST_BYTES:
        wrong.append(f"has {size} bytes: {LARGEST_BYTES} are enough")
    if wrong:
        sys.exit(f"{wheel}: {'; '.join(wrong)}")
    print(f"{wheel}: {size / 1e6:.1f} MB, {needs} and later")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for path in sys.argv[2:]:
        check(sys.argv[1], Path(path))
