"""Lets PyPI's torch, which is built for CUDA, be imported without any of NVIDIA's wheels, for use on the CPU.

usage: torch_stub.py TORCH_LIB_DIR OUT_DIR, then LD_LIBRARY_PATH=OUT_DIR; none where the two are the same

For each shared library that torch's own libraries need and that is not on the machine, a library is made
that has the symbols asked of it, with their versions; its functions return an error.
"""

import collections
import pathlib
import re
import subprocess
import sys

ERROR = 100


class Wanted:
    """What a folder of libraries asks of libraries that are not in it."""

    def __init__(self, folder):
        self.needed = set()
        self.versioned = collections.defaultdict(set)
        self.unversioned = set()
        provided = set()
        for library in sorted(folder.glob("*.so*")):
            command = ["readelf", "-W", "-d", "-V", "--dyn-syms", str(library)]
            lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
            self.needed |= set(re.findall(r"NEEDED.*\[(.*?)\]", "\n".join(lines)))
            self.read(lines, provided)
        self.unversioned = {(n, t) for n, t in self.unversioned if n not in provided}

    def read(self, lines, provided):
        library_of, current = {}, None
        for line in lines:
            if found := re.search(r"File: (\S+)", line):
                current = found.group(1)
            if (found := re.search(r"Name: (\S+)\s+Flags: \S+\s+Version: (\d+)", line)) and current:
                library_of[found.group(1)] = current
        for words in map(str.split, lines):
            if len(words) < 8 or not words[0].rstrip(":").isdigit():
                continue
            kind, binding, section, symbol = words[3], words[4], words[6], words[7]
            name, _, version = symbol.partition("@")
            if section != "UND":
                provided.add(name)
            elif version:
                version = version.lstrip("@")
                self.versioned[library_of.get(version, version)].add((name, version, kind))
            elif binding != "WEAK":
                self.unversioned.add((name, kind))


def declaration(name, kind, weak=""):
    if kind == "OBJECT":
        return f"{weak}char {name}[64];"
    return f"{weak}int {name}() {{ return {ERROR}; }}"


def build(out, name, symbols, extra):
    source = [declaration(symbol, kind) for symbol, _, kind in sorted(symbols)]
    source += [declaration(symbol, kind, "__attribute__((weak)) ") for symbol, kind in sorted(extra)]
    (out / "stub.c").write_text("\n".join(source) + "\n")
    command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{name}"]
    versions = collections.defaultdict(list)
    for symbol, version, _ in symbols:
        versions[version].append(f"{symbol};")
    if versions:
        blocks = [f"{version} {{ global: {' '.join(names)} }};" for version, names in versions.items()]
        (out / "stub.map").write_text("\n".join(blocks) + "\n")
        command.append(f"-Wl,--version-script={out / 'stub.map'}")
    subprocess.run([*command, "-o", str(out / name), str(out / "stub.c")], check=True)


def main():
    folder, out = map(pathlib.Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    wanted = Wanted(folder)
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    present = {library.name for library in folder.glob("*.so*")}
    present |= set(re.findall(r"^\s+(\S+) \(", known, re.M))
    extra = wanted.unversioned
    for name in sorted(wanted.needed - present):
        # Symbols without a version say nothing of where they are from: the first library has them.
        build(out, name, wanted.versioned[name], extra)
        extra = set()
    for left in ("stub.c", "stub.map"):
        (out / left).unlink(missing_ok=True)


main()
