#!/usr/bin/env python3
"""Writes a bill of materials of what a release is linked from: CycloneDX 1.6, as JSON.

    scripts/sbom.py --out headwater.cdx.json [--target x86_64-unknown-linux-gnu]
    scripts/sbom.py --check headwater.cdx.json

Crates come from `cargo metadata` and `cargo tree`, their checksums from Cargo.lock. Crates that only build the
program have the scope `excluded`; those of tests are left out. The C and C++ libraries that crates bring along as
source are components too. The same tree gives the same bytes; SOURCE_DATE_EPOCH is the time that stands in it.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
# Packages whose programs and libraries are shipped.
SHIPPED = ("headwater", "headwater-python")
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")

# Sources in other languages within crates: the library, the file and pattern of its version, its licence.
BUNDLED = {
    "turbojpeg-sys": ("libjpeg-turbo", "libjpeg-turbo/CMakeLists.txt", r"set\(VERSION ([\d.]+)\)", "IJG AND BSD-3-Clause AND Zlib"),
    "libwebp-sys": (
        "libwebp",
        "vendor/src/dec/vp8i_dec.h",
        r"DEC_MAJ_VERSION (\d+)[\s\S]*?DEC_MIN_VERSION (\d+)[\s\S]*?DEC_REV_VERSION (\d+)",
        "BSD-3-Clause",
    ),
    "zstd-sys": ("zstd", "zstd/lib/zstd.h", r"ZSTD_VERSION_MAJOR +(\d+)[\s\S]*?MINOR +(\d+)[\s\S]*?RELEASE +(\d+)", "BSD-3-Clause"),
    "zeromq-src": (
        "libzmq",
        "vendor/include/zmq.h",
        r"ZMQ_VERSION_MAJOR (\d+)[\s\S]*?MINOR (\d+)[\s\S]*?PATCH (\d+)",
        "LGPL-3.0-or-later with the exception for linking of libzmq's COPYING.LESSER",
    ),
}
# Licences with a text of their own: CycloneDX takes them as a name, not as an expression.
NAMED = {BUNDLED["zeromq-src"][3]}


def metadata(target: str) -> dict:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def built(target: str) -> "set[tuple[str, str]]":
    """Names and versions of the crates that a build of the workspace without its tests takes.

    `cargo metadata` alone joins in the features that the tests ask for.
    """
    command = ["cargo", "tree", "--locked", "--workspace", "--edges", "normal,build", "--prefix", "none",
               "--target", target, "--format", "{p}"]
    tree = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {(line.split()[0], line.split()[1].removeprefix("v")) for line in tree.splitlines() if line}


def checksums() -> "dict[tuple[str, str], str]":
    """SHA-256 of the crates' archives, by name and version."""
    lock = (ROOT / "Cargo.lock").read_text()
    pattern = r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([0-9a-f]{64})"'
    return {(name, version): digest for name, version, digest in re.findall(pattern, lock)}


def edges(node: dict, kinds: "set[str | None]") -> "list[str]":
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] in kinds for kind in dep["dep_kinds"])]


def reached(nodes: dict, packages: dict, roots: "list[str]", kinds: "set[str | None]", through_macros: bool) -> "set[str]":
    """Packages that are reached from the roots by dependencies of these kinds."""
    found, waiting = set(), list(roots)
    while waiting:
        one = waiting.pop()
        if one not in packages:
            continue
        is_macro = any("proc-macro" in target["kind"] for target in packages[one]["targets"])
        if one in found or is_macro and not through_macros:
            continue
        found.add(one)
        waiting += edges(nodes[one], kinds)
    return found


def reference(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{quote(package['version'], safe='')}"


def licences(text: str) -> "list[dict]":
    if text in NAMED:
        return [{"license": {"name": text}}]
    # Old crates write `MIT/Apache-2.0`.
    return [{"expression": re.sub(r"\s*/\s*", " OR ", text)}]


def component(package: dict, is_linked: bool, digests: dict) -> dict:
    one = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "scope": "required" if is_linked else "excluded",
        "purl": reference(package),
    }
    if package["license"]:
        one["licenses"] = licences(package["license"])
    if digest := digests.get((package["name"], package["version"])):
        one["hashes"] = [{"alg": "SHA-256", "content": digest}]
    if package["repository"]:
        one["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return one


def bundled(package: dict) -> dict:
    """The library whose source a crate brings along."""
    name, file, pattern, licence = BUNDLED[package["name"]]
    found = re.search(pattern, (Path(package["manifest_path"]).parent / file).read_text())
    if found is None:
        sys.exit(f"{package['name']}: {file} does not have the version of {name}")
    version = ".".join(found.groups())
    return {
        "type": "library",
        "bom-ref": f"pkg:generic/{name}@{version}",
        "name": name,
        "version": version,
        "scope": "required",
        "licenses": licences(licence),
        "purl": f"pkg:generic/{name}@{version}",
        "description": f"source within the crate {package['name']}",
    }


def document(target: str) -> dict:
    data = metadata(target)
    taken = built(target)
    packages = {package["id"]: package for package in data["packages"] if (package["name"], package["version"]) in taken}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    roots = [one for one in data["workspace_members"] if one in packages and packages[one]["name"] in SHIPPED]
    if len(roots) != len(SHIPPED):
        sys.exit(f"the workspace does not have the packages {' and '.join(SHIPPED)}")
    linked = reached(nodes, packages, roots, {None}, False)
    # A crate that only hands its source to the C compiler is linked as well.
    linked |= {one for one in packages if packages[one]["name"] in BUNDLED}
    everything = reached(nodes, packages, roots, {None, "build"}, True)
    digests = checksums()
    chosen = sorted(everything, key=lambda one: reference(packages[one]))
    components = [component(packages[one], one in linked, digests) for one in chosen]
    depends = {reference(packages[one]): sorted({reference(packages[other]) for other in edges(nodes[one], {None, "build"}) if other in packages})
               for one in chosen}
    for one in chosen:
        if packages[one]["name"] in BUNDLED:
            library = bundled(packages[one])
            components.append(library)
            depends[reference(packages[one])].append(library["bom-ref"])
            depends[library["bom-ref"]] = []
    version = packages[roots[0]]["version"]
    main = f"pkg:generic/headwater@{version}?arch={target.split('-')[0]}"
    depends[main] = sorted(reference(packages[one]) for one in roots)
    made = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": main,
                "name": "headwater",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": main,
            },
            "properties": [{"name": "headwater:target", "value": target}],
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": to} for ref, to in sorted(depends.items())],
    }
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        time = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
        made["metadata"]["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    # A number that follows from the content.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made, sort_keys=True))
    return {"$schema": made.pop("$schema"), "bomFormat": made.pop("bomFormat"), "specVersion": made.pop("specVersion"),
            "serialNumber": f"urn:uuid:{number}", **made}


def wrong(made: dict) -> "list[str]":
    """What the schema of CycloneDX 1.6 requires of the parts that are written here, and is not so."""
    found = []
    if made.get("bomFormat") != "CycloneDX" or made.get("specVersion") != "1.6":
        found.append("bomFormat or specVersion is not CycloneDX 1.6")
    number = r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    if not re.fullmatch(number, made.get("serialNumber", "")):
        found.append("serialNumber is no urn:uuid")
    if not isinstance(made.get("version"), int):
        found.append("version is no whole number")
    every = [made.get("metadata", {}).get("component", {}), *made.get("components", [])]
    refs = [one.get("bom-ref") for one in every]
    for one in every:
        for key in ("type", "name", "version", "bom-ref", "licenses"):
            if not one.get(key):
                found.append(f"{one.get('bom-ref') or one.get('name')}: {key} is missing")
        if one.get("scope", "required") not in ("required", "optional", "excluded"):
            found.append(f"{one.get('bom-ref')}: scope {one['scope']}")
        for hashed in one.get("hashes", []):
            if not re.fullmatch(r"[0-9a-f]{64}", hashed.get("content", "")):
                found.append(f"{one.get('bom-ref')}: a hash is no SHA-256")
    if len(refs) != len(set(refs)):
        found.append("two components have one bom-ref")
    if len(every) < 2:
        found.append("there are no components")
    for dependency in made.get("dependencies", []):
        for ref in (dependency["ref"], *dependency["dependsOn"]):
            if ref not in refs:
                found.append(f"{ref} is depended on and is no component")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0])
    parser.add_argument("--check", type=Path)
    flags = parser.parse_args()
    if (flags.out is None) == (flags.check is None):
        parser.error("either --out or --check")
    made = json.loads(flags.check.read_text()) if flags.check else document(flags.target)
    if found := wrong(made):
        sys.exit("\n".join(found))
    if flags.out:
        flags.out.write_text(json.dumps(made, indent=1) + "\n")
    scopes = [one["scope"] for one in made["components"]]
    print(f"{flags.out or flags.check}: {scopes.count('required')} linked, {scopes.count('excluded')} for building only")


if __name__ == "__main__":
    main()
