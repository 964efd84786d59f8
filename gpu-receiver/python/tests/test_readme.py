"""README's own lines, as a reader would type them, on three hosts."""

import importlib.util
import os
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
from conftest import PHOTOS, PROJECT, program
from three_hosts import Hosts, unavailable

LIMIT_S = 900
BATCHES = 3

# What a reader has before README's lines, and what stands for the rest of their training step.
BEFORE = "rank, world_size = 0, 1\n"
TAKEN = """    taken = globals().get("taken", 0) + 1
    print("taken", len(batch), loader.stats()["workers"], flush=True)
    if taken == {batches}:
        break
"""


def blocks(language: str) -> list[str]:
    readme = (PROJECT / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)


def command(verb: str) -> str:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    found = [line for line in lines if line.startswith(f"headwater {verb} ")]
    assert len(found) == 1, f"one line `headwater {verb}` in README.md: {found}"
    return found[0]


def script() -> str:
    found = [block for block in blocks("python") if "storage=" in block]
    assert len(found) == 1, "one training script for a cluster in README.md"
    lines = found[0].splitlines(keepends=True)
    assert lines[-1] == "    ...\n", "README's loop ends where the reader's own lines begin"
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: README's lines with .torch() are left out")
        lines = [line for line in lines if ".torch()" not in line]
    return BEFORE + "".join(lines[:-1]) + TAKEN.format(batches=BATCHES)


def imagenet(folder: Path) -> Path:
    """A folder with as many shards as README names; each is one of four."""
    shards = sorted(PHOTOS.glob("photos-*.tar"))
    data = folder / "data"
    data.mkdir()
    for number in range(1282):
        (data / f"train-{number:06}.tar").symlink_to(shards[number % len(shards)])
    return data


def wait_for(log: Path, text: str, process):
    end = time.monotonic() + LIMIT_S
    while text not in log.read_text():
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.05)


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_the_lines_of_readme_feed_a_rank_on_three_hosts(tmp_path, monkeypatch):
    program_folder = tmp_path / "bin"
    program_folder.mkdir()
    (program_folder / "headwater").symlink_to(Path(program()).resolve())
    monkeypatch.setenv("PATH", f"{program_folder}:{os.environ['PATH']}")
    data, nothing = imagenet(tmp_path), tmp_path / "nothing"
    nothing.mkdir()
    train = tmp_path / "train.py"
    train.write_text(script())
    with Hosts(tmp_path, ["storage-host", "worker-host", "trainer"]) as hosts:
        storage, log = hosts.start("storage-host", command("storage"), data)
        wait_for(log, "listening on", storage)
        worker, log = hosts.start("worker-host", command("augment"), nothing)
        wait_for(log, "listening on", worker)
        python = f"{shlex.quote(sys.executable)} {shlex.quote(str(train))}"
        trainer, log = hosts.start("trainer", python, nothing)
        assert trainer.wait(LIMIT_S) == 0, log.read_text()
        taken = [line for line in log.read_text().splitlines() if line.startswith("taken")]
        assert taken == ["taken 64 {'worker-host:7402': 'tcp'}"] * BATCHES
