"""Names of classes: of folders, of shards that were packed of them, and of several datasets."""

import shutil
import subprocess

import headwater
import pytest
from conftest import SMALL, program
from local_services import photos


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photos(tmp_path_factory.mktemp("photos"))


def load(data):
    return headwater.Loader(data if isinstance(data, dict) else str(data), recipe=SMALL, batch_size=4, embedded="threads")


def test_packed_shards_have_the_classes_of_their_folder(folder, tmp_path):
    subprocess.run([program(), "datasets", "pack", str(folder), "--out", str(tmp_path / "packed")], check=True, capture_output=True)
    with load(folder) as of_folder, load(tmp_path / "packed" / "*.tar") as of_shards:
        assert of_shards.classes == of_folder.classes == sorted(path.name for path in folder.iterdir())
    # Another file of that name says nothing.
    (tmp_path / "packed" / "classes.json").write_text('{"cat": 0}')
    with load(tmp_path / "packed" / "*.tar") as loader:
        assert loader.classes is None


def test_classes_of_two_datasets_that_share_numbers_are_told_of(folder, tmp_path):
    classes = sorted(path.name for path in folder.iterdir())
    (tmp_path / "other").mkdir()
    shutil.copytree(folder / classes[1], tmp_path / "other" / classes[1])
    both = {"all": str(folder), "one": str(tmp_path / "other")}
    with pytest.warns(UserWarning, match=f"label 0 is `{classes[0]}` in dataset `all` and `{classes[1]}` in `one`"):
        loader = load(both)
    assert loader.classes is None
    loader.close()
