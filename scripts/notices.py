#!/usr/bin/env python3
"""Writes the licences of everything that a release contains and others wrote: THIRD-PARTY-NOTICES.txt.

    scripts/notices.py --out THIRD-PARTY-NOTICES.txt

The crates are those that scripts/sbom.py lists as linked, for all targets. Their texts are the files of their archives,
each text once. Then come the C and C++ libraries that crates bring along, and what compilers add: Rust's standard library,
and in wheels zig's C++ library. The same tree gives the same bytes. It stops if a crate has no text, or a licence
is not in deny.toml.
"""

import argparse
import html
import re
import subprocess
import sys
from pathlib import Path

import sbom

ROOT = sbom.ROOT
NAMES = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
# Folders of a crate that nothing is linked from.
LEFT_OUT = {"tests", "benches", "examples", "fuzz", "docs"}
RULE = "=" * 100

# For each crate with a library in it: the files of the library's licences, and what stands above them.
BUNDLED = {
    "turbojpeg-sys": (
        ("libjpeg-turbo/LICENSE.md", "libjpeg-turbo/README.ijg"),
        "This software is based in part on the work of the Independent JPEG Group.",
    ),
    "libwebp-sys": (("vendor/COPYING", "vendor/PATENTS"), ""),
    "zstd-sys": (("zstd/LICENSE",), "It is also offered under the GPL 2.0; here it is used under BSD-3-Clause."),
    "zeromq-src": (
        ("vendor/COPYING.LESSER", "vendor/COPYING", "vendor/external/sha1/license.txt"),
        "It is linked unchanged, by the special exception at the end of COPYING.LESSER. Its source is in the crate\n"
        "zeromq-src on crates.io, in the folder `vendor`.",
    ),
}
# Crates without a file of one of these licences have its text, with the names of their authors.
STANDARD = {
    "Apache-2.0": (ROOT / "LICENSE").read_text(),
    "MIT": """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
""",
}
HEAD = f"""\
Headwater is under the Apache License 2.0, see the file LICENSE. The program, the Python wheels and the container images
also contain the work of others, under the licences below. This file is written by scripts/notices.py for each release.

1. Crates, with the texts of their licences
2. Libraries in C and C++ whose source comes with these crates
3. What compilers add: Rust's standard library, and the C++ library

{RULE}
1. Crates
"""
COMPILERS = """\
The C++ library: wheels contain libc++, libc++abi and compiler-rt of the LLVM project, which zig links. They are under Apache-2.0 WITH
LLVM-exception, whose exception allows object code without a copy of the licence. Other builds use the GNU C++ library,
under GPL-3.0-or-later WITH GCC-exception-3.1.

Rust's standard library is under MIT OR Apache-2.0. Rust's own list of what is in it follows.
"""


def linked() -> "dict[tuple[str, str], dict]":
    """Packages from elsewhere whose code is in a program or library, by name and version."""
    found = {}
    for target in sbom.TARGETS:
        scopes = {one["bom-ref"]: one["scope"] for one in sbom.document(target)["components"]}
        for package in sbom.metadata(target)["packages"]:
            if package["source"] and scopes.get(sbom.reference(package)) == "required":
                found[package["name"], package["version"]] = package
    return dict(sorted(found.items()))


def wanted(package: dict) -> "list[Path]":
    """Files of a crate with licences and notices, without those of a library within it."""
    folder = Path(package["manifest_path"]).parent
    files = []
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).parts
        if package["name"] in BUNDLED and len(inner) > 1 or LEFT_OUT & set(inner[:-1]):
            continue
        is_text = path.suffix.lower() in ("", ".txt", ".md", ".mit", ".apache") or NAMES.match(path.suffix[1:])
        if path.is_file() and is_text and NAMES.match(path.name):
            files.append(path)
    return files


def beside(package: dict, packages: "dict[tuple[str, str], dict]") -> "list[Path]":
    """The files of a crate of the same repository under the same licence, where this one's archive was made without."""
    if any(licence in (package["license"] or "") for licence in STANDARD):
        return []
    same = (one for one in packages.values() if one["repository"] and one["repository"] == package["repository"])
    return next((files for one in same if one["license"] == package["license"] and (files := wanted(one))), [])


def standard(package: dict) -> str:
    licence = next((one for one in STANDARD if one in (package["license"] or "")), None)
    if licence is None:
        sys.exit(f"{package['name']} {package['version']}: no text for {package['license']}")
    holders = ", ".join(re.sub(r"\s*<.*?>", "", author) for author in package["authors"]) or "its authors"
    return f"{licence}. Copyright (c) {holders}\n\n{STANDARD[licence]}"


def crates(packages: "dict[tuple[str, str], dict]") -> "list[str]":
    """A list of all crates, then each text once, with the crates that have it."""
    texts, lines = {}, []
    for (name, version), package in packages.items():
        files = wanted(package) or beside(package, packages)
        found = [path.read_text(errors="replace") for path in files] or [standard(package)]
        for text in found:
            _, owners = texts.setdefault(" ".join(text.split()).lower(), (text, []))
            owners.append(f"{name} {version}")
        lines.append(f"{name} {version}: {package['license']}; {package['repository'] or 'crates.io'}")
    for text, owners in texts.values():
        lines += ["", RULE, "Of " + ", ".join(dict.fromkeys(owners)), RULE, text.strip("\n")]
    return lines


def libraries(packages: "dict[tuple[str, str], dict]") -> "list[str]":
    lines = ["", RULE, "2. Libraries in C and C++"]
    for (name, version), package in packages.items():
        if name in BUNDLED:
            files, note = BUNDLED[name]
            library = sbom.bundled(package)
            lines += ["", RULE, f"{library['name']} {library['version']}: {sbom.BUNDLED[name][3]}", "", note, RULE]
            for file in files:
                text = (Path(package["manifest_path"]).parent / file).read_text(errors="replace")
                lines += [f"--- {file} ---", "", text.strip("\n"), ""]
    return lines


def compilers() -> "list[str]":
    root = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    page = (Path(root.strip()) / "share/doc/rust/COPYRIGHT-library.html").read_text()
    text = re.sub(r"<(style|script|head)\b.*?</\1>", "", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", "", text))
    lines = [line.strip() for line in text.splitlines()]
    kept = [line for place, line in enumerate(lines) if line or place and lines[place - 1]]
    return ["", RULE, "3. What compilers add", RULE, COMPILERS, *kept]


def refused(packages: "dict[tuple[str, str], dict]", rules: str) -> "list[str]":
    """Licences that the rules, those of deny.toml, do not allow."""
    allowed = set(re.findall(r'^    "([^"]+)",$', rules.split("[bans]")[0], re.MULTILINE))
    excepted = dict(re.findall(r'crate = "([^"]+)"\nallow = \["([^"]+)"\]', rules))
    found = []
    for (name, _), package in packages.items():
        if name in BUNDLED:
            # An exception for linking stands behind the licence.
            parts = [part.split(" with ")[0] for part in sbom.BUNDLED[name][3].split(" AND ")]
            found += [f"{name}: {part}" for part in parts if part not in allowed | {excepted.get(name)}]
        # One of several is enough; tests/tidy/dependencies.rs reads the whole expression.
        choices = re.split(r" OR |/| AND |[()]", package["license"] or "none")
        if not allowed & {choice.strip() for choice in choices}:
            found.append(f"{name}: {package['license']}")
    return found


def document() -> str:
    packages = linked()
    if found := refused(packages, (ROOT / "deny.toml").read_text()):
        sys.exit("deny.toml does not allow: " + ", ".join(found))
    return "\n".join([HEAD, *crates(packages), *libraries(packages), *compilers()]).rstrip("\n") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    text = document()
    out.write_text(text)
    print(f"{out}: {len(text) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
