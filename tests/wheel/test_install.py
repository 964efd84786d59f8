"""What a first visitor does with a wheel, who has Python and nothing else: as an ordinary user without a network."""

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
# The smallest, with so many photographs.
SHARD = PROJECT / "tests" / "data" / "photos" / "photos-000003.tar"
PHOTOS = 41
# The system's, as no other is sure to let every user run it.
PYTHON = "/usr/bin/python3"


def wheel() -> Path:
    """The one for this machine in $HEADWATER_WHEELS, else of `make test`."""
    folder = Path(os.environ.get("HEADWATER_WHEELS", PROJECT / "out" / "test-wheels"))
    found = list(folder.glob(f"headwater-*{platform.machine()}.whl"))
    if len(found) != 1:
        pytest.exit(f"not one wheel for {platform.machine()} in {folder}: run `make test-wheel`", 2)
    return found[0]


def works(*command: str) -> bool:
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Visitor:
    """An ordinary user in a folder with a wheel and a shard; the loopback device is all the network there is."""

    CONFINED = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")

    def __init__(self, home: Path):
        self.home = home
        for file in (wheel(), SHARD):
            shutil.copy(file, home)
        os.chown(home, 65534, 65534)

    def types(self, line: str) -> str:
        """Runs a command with the environment that its folder has once it is there; what it printed."""
        env = {"PATH": f"{self.home}/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home)}
        command = (*self.CONFINED, *self.USER, *shlex.split(line))
        started = time.monotonic()
        done = subprocess.run(command, cwd=self.home, env=env, capture_output=True, text=True)
        print(f"$ {line}    # {time.monotonic() - started:.1f} s\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def visitor():
    if os.geteuid() != 0:
        pytest.skip("only root can become another user and take the network away")
    if not works(*Visitor.CONFINED, *Visitor.USER, "true"):
        pytest.skip("unshare, ip or setpriv does not work here")
    if not works(PYTHON, "-c", "import ensurepip, venv"):
        pytest.skip(f"{PYTHON} makes no environments: install python3-venv")
    # Not pytest's folder, which only its own user may enter.
    with tempfile.TemporaryDirectory(prefix="visitor-") as home:
        yield Visitor(Path(home))


def test_a_wheel_is_all_that_a_first_batch_needs(visitor):
    visitor.types(f"{PYTHON} -m venv venv")
    visitor.types(f"pip install --disable-pip-version-check --no-index {wheel().name}")

    version = wheel().name.split("-")[1]
    assert visitor.types("headwater -V").split() == ["headwater", version]
    assert f"headwater {version}\ncommit: " in visitor.types("headwater --version")
    library = 'import headwater; print(headwater.__version__, headwater.Loader.__module__)'
    assert visitor.types(f'python -c "{library}"').split() == [version, "headwater"]

    run = f"headwater run --dataset photos={SHARD.name} --batch {PHOTOS} --epochs 1"
    report = visitor.types(run)
    assert f"epoch 0: {PHOTOS} samples in 1 batch, {PHOTOS} distinct; hash " in report
