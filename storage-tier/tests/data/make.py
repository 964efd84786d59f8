#!/usr/bin/env python3
"""Writes the odd archives of this folder and, from Python's own tarfile, what is in them.

    python3 storage-tier/tests/data/make.py

Per archive: NAME.tar; NAME.tsv with a line per field (key, field, offset, bytes); and its index in
four formats: NAME.v11.idx and NAME.v12.idx (DALI), NAME.i64.idx, NAME.energon.idx.
Rules as WebDataset and DALI's wds2idx have them.
"""

import io
import os
import struct
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
LONG = "a-folder-with-a-long-name/" * 5


def add(tar, name, data, kind=tarfile.REGTYPE, headers=None):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    if kind == tarfile.SYMTYPE:
        info.linkname = "nowhere.jpg"
    if headers:
        info.pax_headers = headers
    tar.addfile(info, io.BytesIO(data))


def write(name, tar_format, extra):
    with tarfile.open(os.path.join(HERE, name + ".tar"), "w", format=tar_format) as tar:
        add(tar, "set", b"", tarfile.DIRTYPE)
        add(tar, "set/0001.jpg", b"\xff\xd8one")
        add(tar, "set/0001.cls", b"")
        add(tar, "set/._0001.jpg", b"a Mac's shadow")
        add(tar, "set/0001.seg.png", b"\x89PNG" + b"x" * 600)
        add(tar, "set/0002.jpg", b"y" * 512)
        add(tar, "set/0002-link.jpg", b"", tarfile.SYMTYPE)
        add(tar, "set/0002.cls", b"17")
        for member, data, headers in extra:
            add(tar, member, data, headers=headers)
        add(tar, "other/0001.jpg", b"z")


def samples(name):
    """(key, [(field, offset, bytes, file name)], first header) per sample, by tarfile."""
    found = []
    with tarfile.open(os.path.join(HERE, name + ".tar")) as tar:
        for member in tar:
            folder, _, base = member.name.rpartition("/")
            if not member.isreg() or base.startswith(".") or "." not in base:
                continue
            stem, _, field = base.partition(".")
            key = folder + "/" + stem if folder else stem
            if not found or found[-1][0] != key:
                found.append((key, [], member.offset))
            found[-1][1].append((field, member.offset_data, member.size, member.name))
        return found, tar.offset


def describe(name):
    found, end = samples(name)
    path = os.path.join(HERE, name)
    with open(path + ".tsv", "w") as out:
        for key, fields, _ in found:
            for field, offset, size, _ in fields:
                out.write(f"{key}\t{field}\t{offset}\t{size}\n")
    for version, width in (("v1.1", 3), ("v1.2", 4)):
        with open(path + "." + version.replace(".", "") + ".idx", "w") as out:
            out.write(f"{version} {len(found)}\n")
            for _, fields, _ in found:
                out.write(" ".join(str(x) for f in fields for x in f[:width]) + "\n")
    starts = [start for _, _, start in found]
    for kind, words in (("i64", starts), ("energon", starts + [end])):
        with open(path + "." + kind + ".idx", "wb") as out:
            out.write(struct.pack(f"<{len(words)}Q", *words))


long_names = [(LONG + "0003.jpg", b"long", None), (LONG + "0003.cls", b"1", None)]
pax = [
    ("größe/bild 4.jpg", b"umlaut", None),
    ("größe/bild 4.cls", b"2", None),
    ("set/5.jpg", b"comment", {"comment": "a header that changes nothing"}),
]
write("gnu", tarfile.GNU_FORMAT, long_names)
write("pax", tarfile.PAX_FORMAT, long_names + pax)
write("ustar", tarfile.USTAR_FORMAT, long_names)
for archive in ("gnu", "pax", "ustar"):
    describe(archive)
