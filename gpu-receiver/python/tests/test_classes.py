"""Names of classes: of folders, of shards that were packed of them, and of several datasets."""

import json
import shutil
import subprocess

import headwater
import pytest
from conftest import PHOTOS, SMALL, program
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


def packed(root, name, classes):
    (root / name).mkdir()
    shutil.copy(PHOTOS / "photos-000003.tar", root / name / f"{name}.tar")
    (root / name / "classes.json").write_text(json.dumps(classes))
    return str(root / name / "*.tar")


def test_folders_of_shards_with_other_classes_have_none_together(tmp_path):
    places = [packed(tmp_path, "a", ["cat", "dog"]), packed(tmp_path, "b", ["bird", "fish"])]
    with headwater.Loader(places, recipe=SMALL, batch_size=4, embedded="threads") as loader:
        assert loader.classes is None


def test_a_conflict_is_found_behind_a_list_that_is_only_shorter(tmp_path):
    data = {name: packed(tmp_path, name, classes) for name, classes in (("a", ["cat"]), ("b", ["cat", "dog"]), ("c", ["cat", "owl"]))}
    with pytest.warns(UserWarning, match="label 1 is `dog` in dataset `b` and `owl` in `c`"):
        load(data).close()
