"""The program, and a folder in which blocks of the docs are run."""

import functools
import os
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
from documents import ROOT

PHOTOS = ROOT / "tests" / "data" / "photos"
FIELDS = ROOT / "tests" / "data" / "fields"
# More than the largest batch of a block that is run.
LEAST_PHOTOS = 72
HELP_LIMIT_S = 300


@pytest.fixture(scope="session")
def program() -> Path:
    """The program `headwater`: $HEADWATER_BIN, else the newest build."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "headwater" for profile in ("debug", "release")]
    given = [Path(os.environ["HEADWATER_BIN"])] if "HEADWATER_BIN" in os.environ else built
    there = [path for path in given if path.exists()]
    if not there:
        pytest.exit(f"no `headwater` at {', '.join(map(str, given))}: run `cargo build`, or set HEADWATER_BIN", 2)
    return max(there, key=lambda path: path.stat().st_mtime).resolve()


@pytest.fixture(scope="session")
def help_of(program):
    """The help of a verb of the program, by its words."""

    @functools.cache
    def help_of(verbs: tuple[str, ...]) -> str:
        done = subprocess.run([program, *verbs, "--help"], capture_output=True, text=True, timeout=HELP_LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return help_of


@pytest.fixture
def environment(program, tmp_path) -> dict[str, str]:
    """Variables of a block's processes, without settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "headwater").symlink_to(program)
    return {**kept, "PATH": f"{programs}:{kept['PATH']}", "HEADWATER_PROGRAM": str(program), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def folder(tmp_path) -> Path:
    """What a reader has: folders `photos` and `validation` with a folder for each class, a file `photo.jpg`, pairs of images and
    captions with a tokenizer, and a corpus of tokens."""
    home = tmp_path / "reader"
    home.mkdir()
    written = 0
    for shard in sorted(PHOTOS.glob("*.tar")):
        if written >= LEAST_PHOTOS:
            break
        with tarfile.open(shard) as members:
            written += write_classes(home / "photos", members)
    assert written >= LEAST_PHOTOS
    (home / "photo.jpg").write_bytes(next((home / "photos").glob("*/*.jpg")).read_bytes())
    shutil.copytree(home / "photos", home / "validation")
    (home / "pairs").mkdir()
    shutil.copy(FIELDS / "fields.tar", home / "pairs" / "00000.tar")
    shutil.copy(FIELDS / "clip-tokenizer.json", home / "tokenizer.json")
    write_corpus(home / "text_document.bin", (ROOT / "ARCHITECTURE.md").read_bytes())
    return home


def write_classes(folder: Path, members: tarfile.TarFile) -> int:
    """Writes the photographs of a shard into folders of their classes; how many."""
    fields = {member.name: members.extractfile(member).read() for member in members}
    photographs = {name: encoded for name, encoded in fields.items() if name.endswith(".jpg")}
    for name, encoded in photographs.items():
        of_class = folder / fields[name.replace(".jpg", ".cls")].decode().strip()
        of_class.mkdir(parents=True, exist_ok=True)
        (of_class / name).write_bytes(encoded)
    return len(photographs)


def write_corpus(path: Path, text: bytes):
    """Writes one document as Megatron's `preprocess_data.py` does: a token of 16 bits for each byte, and one that ends it."""
    path.write_bytes(struct.pack(f"<{len(text) + 1}H", *text, 0))
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 2)
    path.with_suffix(".idx").write_bytes(head + struct.pack("<iqqq", len(text) + 1, 0, 0, 1))
