"""The parts of a release that need no compiler: their content, and that two runs give equal bytes."""

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
ARCH = platform.machine()
# A time that is not the commit's.
EPOCH = 1_700_000_000
NOTICES = "THIRD-PARTY-NOTICES.txt"


def release(out: Path, *parts: str, **more: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "RELEASE_OUT": str(out), "RELEASE_DIRTY": "1", "RELEASE_VENV": sys.prefix,
           "SOURCE_DATE_EPOCH": str(EPOCH), "ARCHS": ARCH, **more}
    return subprocess.run([ROOT / "scripts" / "release.sh", *parts], env=env, capture_output=True, text=True)


def contents(folder: Path) -> "dict[str, bytes]":
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folders = []
    for zone in ("Asia/Tokyo", "America/Lima"):
        folder = tmp_path_factory.mktemp("run")
        done = release(folder, "context", "chart", "sbom", "changelog", TZ=zone)
        assert done.returncode == 0, done.stdout + done.stderr
        folders.append(folder)
    return folders


def test_two_runs_give_equal_bytes(two_runs):
    first, second = (contents(folder) for folder in two_runs)
    assert first == second
    assert sorted(first) == sorted([
        f"CHANGELOG-{VERSION}.md", "SHA256SUMS", f"headwater-{VERSION}-{ARCH}.cdx.json",
        f"headwater-{VERSION}-context.tar.gz", f"headwater-chart-{VERSION}.tgz",
    ])


def test_checksums_are_those_of_all_files(two_runs):
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=two_runs[0], capture_output=True).returncode == 0
    named = [line.split()[1] for line in (two_runs[0] / "SHA256SUMS").read_text().splitlines()]
    assert sorted([*named, "SHA256SUMS"]) == sorted(contents(two_runs[0]))


def test_archives_hold_no_trace_of_who_made_them(two_runs):
    for archive in two_runs[0].glob("*.t*gz"):
        with tarfile.open(archive) as packed:
            members = packed.getmembers()
        assert members
        assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members} == {(0, 0, "", "", EPOCH)}
        assert all(one.mode & 0o022 == 0 for one in members)


def test_the_context_is_the_commits_tree(two_runs):
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    name = f"headwater-{VERSION}-context"
    with tarfile.open(two_runs[0] / f"{name}.tar.gz") as packed:
        files = {one.name.removeprefix(f"{name}/") for one in packed.getmembers() if not one.isdir()}
    assert files == {*listed.stdout.splitlines(), NOTICES}
    assert "Containerfile" in files


def test_the_chart_is_whole_and_helm_reads_it(two_runs):
    package = two_runs[0] / f"headwater-chart-{VERSION}.tgz"
    with tarfile.open(package) as packed:
        names = packed.getnames()
    assert "headwater/Chart.yaml" in names and "headwater/templates/NOTES.txt" in names
    assert not [name for name in names if name.startswith("headwater/ci")]
    helm = Path(sys.executable).with_name("helm")
    if not helm.exists():
        pytest.skip("SKIP: helm is missing: the package is not read by it")
    shown = subprocess.run([helm, "show", "chart", package], check=True, capture_output=True, text=True).stdout
    assert f"version: {VERSION}\n" in shown
    values = ROOT / "helm/headwater/ci/defaults-values.yaml"
    rendered = [subprocess.run([helm, "template", "run", chart, "--values", values], check=True, capture_output=True).stdout
                for chart in (package, ROOT / "helm/headwater")]
    committed = subprocess.run(["git", "status", "--porcelain", "helm"], cwd=ROOT, capture_output=True, text=True).stdout == ""
    assert rendered[0] == rendered[1] or not committed


def test_the_changelog_has_this_version_only(two_runs):
    text = (two_runs[0] / f"CHANGELOG-{VERSION}.md").read_text()
    assert text.startswith(f"## [{VERSION}] - 20")
    assert re.findall(r"^## ", text, re.MULTILINE) == ["## "]
    assert text in (ROOT / "CHANGELOG.md").read_text()


# === The bill of materials ===

@pytest.fixture(scope="module")
def sbom():
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "scripts" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def made(two_runs):
    return json.loads((two_runs[0] / f"headwater-{VERSION}-{ARCH}.cdx.json").read_text())


def test_crates_whose_code_a_built_program_names_are_listed_as_linked(made):
    """Panics name the file that they come from: the paths of crates stand in every program that is not stripped of them."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = Path(os.environ.get("HEADWATER_BIN", target / "debug" / "headwater"))
    if not program.exists():
        pytest.skip(f"SKIP: {program} is missing: the bill is not compared with a program")
    paths = re.findall(rb"/registry/src/[^/\0]{1,80}/([\w.+-]+)/", program.read_bytes())
    named = {path.decode() for path in paths}
    listed = {f"{one['name']}-{one['version']}": one["scope"] for one in made["components"]}
    assert len(named) > 100
    if program.parent.name == "debug":
        # Built with the tests, whose features bring further crates in.
        named &= set(listed)
        assert len(named) > 100
    assert {one for one in named if listed.get(one) != "required"} == set()


def test_crates_of_tests_are_left_out(made):
    names = {one["name"] for one in made["components"]}
    assert {"tokio", "tonic", "turbojpeg-sys", "pyo3"} <= names
    assert not names & {"criterion", "proptest", "loom", "rcgen", "prost-build"}
    scopes = {one["name"]: one["scope"] for one in made["components"]}
    assert (scopes["tokio"], scopes["cc"], scopes["clap_derive"]) == ("required", "excluded", "excluded")


def test_each_crate_of_a_registry_has_its_checksum(made):
    lock = (ROOT / "Cargo.lock").read_text()
    for one in made["components"]:
        if one["name"].startswith("headwater") or one["purl"].startswith("pkg:generic/"):
            continue
        digest = one["hashes"][0]["content"]
        entry = f'name = "{one["name"]}"\nversion = "{one["version"]}"\n'
        assert digest in lock[lock.index(entry):].split("\n\n")[0]


def test_libraries_in_c_are_named_with_their_versions(made):
    found = {one["name"]: one for one in made["components"] if one["purl"].startswith("pkg:generic/")}
    assert set(found) == {"libjpeg-turbo", "libwebp", "libzmq", "zstd"}
    # The crates say the same numbers.
    lock = (ROOT / "Cargo.lock").read_text()
    assert f"+{found['libzmq']['version']}\"" in lock and f"zstd.{found['zstd']['version']}\"" in lock
    # The crate's number says nothing of the library's: the release that the decision record names.
    assert found["libwebp"]["version"].startswith("1.6.") and "by libwebp 1.6" in (ROOT / "docs/adr/064-webp-by-libwebp.md").read_text()
    assert "LGPL-3.0" in found["libzmq"]["licenses"][0]["license"]["name"]


@pytest.mark.parametrize("harm, said", [
    (lambda made: made.update(specVersion="1.4"), "specVersion"),
    (lambda made: made.update(serialNumber="7"), "serialNumber"),
    (lambda made: made["components"][3].pop("name"), "name is missing"),
    (lambda made: made["components"][3].pop("licenses"), "licenses is missing"),
    (lambda made: made["components"].append(made["components"][0]), "one bom-ref"),
    (lambda made: made["dependencies"][0]["dependsOn"].append("pkg:cargo/none@1"), "is no component"),
    (lambda made: made["components"].clear(), "no components"),
])
def test_a_bill_that_the_schema_refuses_is_found(sbom, made, harm, said):
    assert sbom.wrong(made) == []
    harm(made)
    assert any(said in one for one in sbom.wrong(made))


# === Wheels and programs ===

@pytest.fixture
def wheels(tmp_path):
    """A folder with a wheel whose program is one of the system's."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    name = f"headwater-{VERSION}-cp39-abi3-manylinux_2_17_{ARCH}.whl"
    with zipfile.ZipFile(folder / name, "w") as packed:
        packed.write(shutil.which("true"), f"headwater-{VERSION}.data/scripts/headwater")
    return folder


def test_the_program_is_that_of_the_wheel(tmp_path, wheels):
    out = tmp_path / "out"
    done = release(out, "wheels", "program", RELEASE_WHEELS=str(wheels))
    assert done.returncode == 0, done.stderr
    name = f"headwater-{VERSION}-{ARCH}-linux-gnu"
    with tarfile.open(out / f"{name}.tar.gz") as packed:
        program = packed.getmember(f"{name}/headwater")
        assert program.mode == 0o755
        assert packed.extractfile(program).read() == Path(shutil.which("true")).read_bytes()
        needs = packed.extractfile(f"{name}/NEEDS").read().decode()
        files = {one.removeprefix(f"{name}/") for one in packed.getnames()}
    assert "libc.so.6" in needs and "GLIBC_2." in needs
    assert {"LICENSE", NOTICES, "README.md", "CHANGELOG.md", "headwater.example.toml"} <= files


def test_a_program_of_this_machine_says_which_c_library_it_needs(tmp_path):
    out = tmp_path / "out"
    done = release(out, "program", RELEASE_PROGRAM=shutil.which("true"))
    assert done.returncode == 0, done.stderr
    found = [path.name for path in out.glob("*.tar.gz")]
    assert len(found) == 1 and re.fullmatch(rf"headwater-{VERSION}-{ARCH}-linux-gnu-glibc2\.\d+\.tar\.gz", found[0])


def test_a_wheel_that_is_missing_is_named(tmp_path, wheels):
    out = tmp_path / "out"
    done = release(out, "wheels", RELEASE_WHEELS=str(wheels), ARCHS="riscv64")
    assert done.returncode != 0 and "no wheel" in done.stderr and "riscv64" in done.stderr
    done = release(out, "program", ARCHS="riscv64")
    assert done.returncode != 0 and "no program for riscv64" in done.stderr


def test_a_part_that_does_not_exist_is_refused(tmp_path):
    done = release(tmp_path / "out", "weels")
    assert done.returncode != 0 and "no part weels" in done.stderr
