"""What docs/migrating.md says to write with Headwater runs, over data laid out as its examples have them."""

import os
import re
import tarfile

import headwater
import pytest

from conftest import PHOTOS, ROOT, environment

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

FORMATS = ROOT / "tests" / "data" / "formats"


def blocks() -> dict[str, str]:
    """Each loader's code with Headwater: Python behind the line that begins with `After`."""
    chapters = re.split(r"^## ", (ROOT / "docs" / "migrating.md").read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for chapter in chapters:
        title, *behind = chapter.split("\n", 1)[0], *chapter.split("\nAfter")[1:]
        for code in re.findall(r"```python\n(.*?)```", "".join(behind), re.DOTALL):
            found[title] = code
    return found


def write_samples(folder):
    """The photographs as shards, as a folder of classes, as MDS and as Parquet."""
    for name in ("shards", "pets"):
        (folder / name).mkdir()
    for number, shard in enumerate(sorted(PHOTOS.glob("*.tar"))):
        (folder / "shards" / f"train-{number:06}.tar").symlink_to(shard)
        with tarfile.open(shard) as members:
            write_classes(folder / "photos", members)
    (folder / "mds").symlink_to(FORMATS / "mds" / "raw")
    (folder / "pets" / "train-00000.parquet").symlink_to(FORMATS / "parquet" / "hub.parquet")


def write_classes(folder, members):
    fields = {member.name: members.extractfile(member).read() for member in members}
    for name, encoded in fields.items():
        key, field = name.split(".", 1)
        if field == "jpg":
            of_class = folder / fields[f"{key}.cls"].decode()
            of_class.mkdir(parents=True, exist_ok=True)
            (of_class / name).write_bytes(encoded)


def test_every_loader_has_its_code():
    assert len(blocks()) == 8


@pytest.mark.skipif("data:" not in headwater.Loader.__doc__, reason="this Loader takes no data")
@pytest.mark.parametrize("title", blocks())
def test_the_code_runs(title, tmp_path, monkeypatch):
    write_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)
    steps = []
    exec(compile(blocks()[title], title, "exec"), {"step": lambda *tensors: steps or steps.append(tensors), "epochs": 1})
    assert steps
    for tensor in steps[0]:
        # dino_loader's are lists of crops.
        assert torch.is_tensor(tensor) or all(map(torch.is_tensor, tensor))
