"""dino_loader's hub: names, filters, roots and the command line."""

import os
import shutil
import subprocess
import sys

import headwater
import pytest
from conftest import PHOTOS, program
from headwater.dino import DINOAugConfig, DINODataLoader, LoaderConfig, datasets
from headwater.dino.datasets import Dataset, GlobalDatasetFilter, root


@pytest.fixture
def hub(tmp_path):
    """Two splits of one dataset, and another dataset."""
    for place, shard in [("public/rgb/photos/train", 1), ("public/rgb/photos/val", 3), ("private/rgb/other/train", 2)]:
        folder = tmp_path / "hub" / place
        folder.mkdir(parents=True)
        shutil.copy(PHOTOS / f"photos-00000{shard}.tar", folder)
    return tmp_path / "hub"


def test_a_dataset_is_the_shards_of_its_splits(hub):
    photos = Dataset("photos", root_path=hub)
    spec = photos.to_spec(global_filter=GlobalDatasetFilter(allowed_splits=["train"]), weight=0.5)
    assert (spec.name, spec.weight) == ("photos", 0.5)
    assert spec.shards == [str(hub / "public/rgb/photos/train/photos-000001.tar")]
    assert len(photos.to_spec().shards) == 2
    assert [split.name for split in photos.splits(GlobalDatasetFilter(allowed_confidentialities=["public"]))] == ["train", "val"]
    with pytest.raises(headwater.ConfigError, match="dataset `photos` has no shard below .* that the filter takes"):
        photos.to_spec(GlobalDatasetFilter(allowed_confidentialities=["private"]))


def test_a_loader_of_dino_takes_it(hub, tmp_path):
    spec = Dataset("photos", hub).to_spec(GlobalDatasetFilter(allowed_splits=["val"]))
    small = DINOAugConfig(global_crop_size=32, local_crop_size=16)
    config = LoaderConfig(use_fp8_output=False, output_dtype="fp32", checkpoint_dir=str(tmp_path))
    loader = DINODataLoader([spec], batch_size=8, aug_cfg=small, config=config)
    assert next(iter(loader)).global_crops[0].shape[0] == 8


def test_the_root_is_the_projects_or_a_variables(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HEADWATER_DATASETS_ROOT", "DINO_DATASETS_ROOT"):
        monkeypatch.delenv(name, raising=False)
    assert root() == tmp_path / ".headwater"
    (tmp_path / ".dinoloader").mkdir()
    assert root() == tmp_path / ".dinoloader"
    monkeypatch.setenv("DINO_DATASETS_ROOT", "/seeds")
    assert str(root()) == "/seeds"
    (tmp_path / "pyproject.toml").write_text('[tool.other]\nroot = "no"\n[tool.dino_loader.datasets]\n# here\nroot = "hub"\n[tool.x]\n')
    assert root() == hub and root("/given") != hub


SECTION = "[tool.dino_loader.datasets]\n"


@pytest.mark.parametrize(
    ("text", "of_lines"),
    [
        (SECTION + "root = \"/data/bob's\"\n", "/data/bob's"),
        (SECTION + "root = 'a \"hub\"' # here\n", 'a "hub"'),
        (SECTION + '  root = "hub"\n', "hub"),
        (SECTION + '"root" = "hub"\n', "hub"),
        (SECTION + 'allowed = [\n[1]]\nroot = "hub"\n', "hub"),
        ("[ tool.dino_loader . datasets ] # here\nroot = 'hub'\n", "hub"),
        ("# see [tool.dino_loader.datasets] below\n[project]\nroot = 'no'\n" + SECTION + 'root = "hub"\n', "hub"),
        (SECTION + "x = 1\n[[tool.others]]\nroot = 'no'\n", None),
        # Python before 3.11 does not find these.
        ('[tool.dino_loader]\ndatasets = { root = "hub" }\n', ""),
        ('[tool.dino_loader]\ndatasets.root = "hub"\n', ""),
        (SECTION + "root = \'\'\'hub\'\'\'\n", ""),
    ],
)
def test_the_root_of_a_project_is_read_as_toml(text, of_lines, tmp_path):
    assert datasets._of_lines(text) == (of_lines or None)
    of_toml = "hub" if of_lines == "" and sys.version_info >= (3, 11) else of_lines or None
    assert datasets._of_toml(text, tmp_path) == of_toml


def test_the_root_of_a_project_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "pyproject.toml").write_text(SECTION + 'root = "~/hub"\n')
    assert root() == tmp_path / "home" / "hub"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python before 3.11 has no reader of TOML")
@pytest.mark.parametrize(("text", "said"), [("root =\n", "cannot be read"), ("root = 3\n", "is 3: give a folder")])
def test_a_project_that_names_no_folder_is_refused(text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(SECTION + text)
    with pytest.raises(headwater.ConfigError, match=said):
        root()


def test_names_are_names_and_not_patterns(hub):
    with pytest.raises(headwater.ConfigError, match='`allowed_splits` is the string "retrain": give a list of names'):
        GlobalDatasetFilter(allowed_splits="retrain")
    with pytest.raises(headwater.ConfigError, match=r"dataset `\*` has no shard"):
        Dataset("*", hub).to_spec()
    for name in ("photos/train", "", ".."):
        with pytest.raises(headwater.ConfigError, match="is not the name of a dataset"):
            Dataset(name, hub)


def run(module, *arguments, **options):
    environment = {**os.environ, "HEADWATER_PROGRAM": program()}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, **options)


def test_the_command_line_is_the_programs(hub, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.dino_loader.datasets]\nroot = "hub"\n')
    counted = run("headwater.dino.datasets", "count", "photos/val", cwd=tmp_path)
    assert counted.returncode == 0 and "41" in counted.stdout, counted
    shown = run("headwater.dino.datasets", "preview", "--root", str(hub))
    assert "private" in shown.stdout and "photos" in shown.stdout, shown
    none = tmp_path / "none"
    monitor = run("headwater.dino.monitor", "--job", "77", "--once", "--targets-dir", str(none))
    assert monitor.returncode == 1 and f"headwater: no process answers: targets directory {none}" in monitor.stderr, monitor
