"""The program, and a folder in which blocks of the docs are run."""

import functools
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from documents import ROOT

PHOTOS = ROOT / "tests" / "data" / "photos"
# More than the largest batch of a block that is run.
LEAST_PHOTOS = 72
HELP_LIMIT_S = 60


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
    """What a reader has: a folder `photos` with a folder for each class, and a file `photo.jpg`."""
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
