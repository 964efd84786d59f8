"""THIRD-PARTY-NOTICES.txt has a licence of everything that is linked, beside independent lists: Cargo.lock and `cargo tree`."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import notices  # noqa: E402

RULES = (ROOT / "deny.toml").read_text()
# C, C++ and assembler under the licence of the crate itself, or not compiled here.
OWN_SOURCES = {"brotli-decompressor", "esaxx-rs", "ring", "signal-hook"}


@pytest.fixture(scope="module")
def packages():
    return notices.linked()


@pytest.fixture(scope="module")
def text():
    return notices.document()


def tree(edges: str, target: str) -> "set[tuple[str, str]]":
    command = ["cargo", "tree", "--locked", "-p", "headwater", "-p", "headwater-python", "--edges", edges, "--prefix", "none",
               "--target", target, "--format", "{p}"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {(line.split()[0], line.split()[1].removeprefix("v")) for line in lines if line}


def locked() -> "set[tuple[str, str]]":
    """Packages of Cargo.lock that are from elsewhere."""
    found = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(one["name"], one["version"]) for one in found if "source" in one}


def test_every_crate_of_the_lock_that_is_linked_is_listed_with_a_text(packages, text):
    wanted = set().union(*(tree("normal,no-proc-macro", target) for target in notices.sbom.TARGETS)) & locked()
    # Only its C source is linked.
    wanted |= {one for one in locked() if one[0] in notices.BUNDLED}
    assert len(wanted) > 200
    assert set(packages) == wanted
    owners = " ".join(re.findall(r"^Of (.+)$", text, re.MULTILINE)).replace(",", "").split()
    have = set(zip(owners[::2], owners[1::2]))
    assert have == wanted
    listed = re.findall(r"^(\S+) (\S+): .+; (?:https?://|crates)", text, re.MULTILINE)
    assert set(listed) == wanted and len(listed) == len(wanted)


def test_what_only_builds_or_tests_is_not_listed(packages):
    names = {name for name, _ in packages}
    assert not names & {"criterion", "proptest", "prost-build", "clap_derive", "cmake"}


def test_sources_in_other_languages_have_their_own_licences(packages, text):
    for (name, version), package in packages.items():
        folder = Path(package["manifest_path"]).parent
        sources = [one for one in folder.rglob("*") if one.suffix in (".c", ".cc", ".cpp", ".S", ".asm")]
        sources = [one for one in sources if not {"tests", "benches", "examples"} & set(one.relative_to(folder).parts)]
        assert not sources or name in notices.BUNDLED or name in OWN_SOURCES, f"{name} {version}: {sources[0]}"
    for sentence in (
        "based in part on the work of the Independent JPEG Group",
        "SPECIAL EXCEPTION GRANTED BY COPYRIGHT HOLDERS",
        "GNU GENERAL PUBLIC LICENSE",
        "Copyright (c) Meta Platforms, Inc. and affiliates.",
        "The Rust Standard Library is dual-licensed",
    ):
        assert sentence in text


@pytest.mark.parametrize("taken, said", [
    ('"ISC"', "ISC"),
    ('"IJG"', "turbojpeg-sys: IJG"),
    ('"LGPL-3.0-or-later"', "zeromq-src: LGPL-3.0-or-later"),
    ('crate = "zeromq-src"', "zeromq-src: LGPL-3.0-or-later"),
])
def test_a_licence_that_the_rules_do_not_allow_is_found(packages, taken, said):
    assert notices.refused(packages, RULES) == []
    assert taken in RULES
    assert any(said in one for one in notices.refused(packages, RULES.replace(taken, '"other"')))


def test_the_same_tree_gives_the_same_bytes_without_a_path_of_this_machine(text):
    assert text == notices.document()
    assert str(Path.home()) not in text and str(ROOT) not in text
