"""A dataset of the hub, by the name that `headwater datasets stubs` writes and by the file."""

import importlib.util
import shutil
import subprocess

import headwater
import pytest
from conftest import PHOTOS, SMALL, Node, program

NAME = "public/rgb/photos/train"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub with one shard, a storage node that serves it, and a worker."""
    folder = tmp_path_factory.mktemp("hub")
    split = folder / "root" / NAME
    split.mkdir(parents=True)
    shutil.copy(PHOTOS / "photos-000003.tar", split)
    config = folder / "headwater.toml"
    config.write_text(f'[[dataset]]\nhub = "{NAME}"\n[hub]\nroot = "{folder / "root"}"\n')
    common = ["--config", str(config)]
    nodes = [Node(folder / "storage.log", *common, "storage", "--listen", "127.0.0.1:0")]
    try:
        worker = ["augment", "--listen", "127.0.0.1:0", "--storage", nodes[0].address]
        nodes.append(Node(folder / "augment.log", *worker))
        yield config, nodes
    finally:
        for node in nodes:
            node.stop()


def keywords(nodes):
    storage, worker = (node.address for node in nodes)
    return {"storage": [storage], "workers": [worker], "recipe": SMALL, "batch_size": 8}


def test_a_name_of_hub_py_is_what_the_loader_takes(hub):
    config, nodes = hub
    file = config.parent / "hub.py"
    command = [program(), "--config", str(config), "datasets", "stubs", "--out", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    spec = importlib.util.spec_from_file_location("hub", file)
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    train = stubs.public.rgb.photos.train
    for datasets in ([train], train, [(train, 1.0)], [{"name": train}]):
        with headwater.Loader(datasets=datasets, **keywords(nodes)) as loader:
            assert loader.datasets == {NAME: train.samples} == {NAME: 41}
            assert len(next(iter(loader)).keys) == 8


def test_a_dataset_of_the_file_has_its_whole_name(hub):
    config, nodes = hub
    with headwater.Loader(config, **keywords(nodes)) as loader:
        assert loader.datasets == {NAME: 41}


def test_a_short_name_is_looked_up_in_the_hub(hub, tmp_path, monkeypatch):
    config, nodes = hub
    short = tmp_path / "headwater.toml"
    short.write_text(f'[[dataset]]\nhub = "photos"\n[hub]\nroot = "{config.parent / "root"}"\n')
    with headwater.Loader(short, **keywords(nodes)) as loader:
        assert loader.datasets == {NAME: 41}
    monkeypatch.setenv("HEADWATER_DATASETS_ROOT", str(config.parent / "root"))
    with headwater.Loader(datasets="hub:photos/train", **keywords(nodes)) as loader:
        assert loader.datasets == {NAME: 41}


def test_a_short_name_that_the_hub_does_not_have_is_named_with_those_there_are(hub):
    config, _ = hub
    with pytest.raises(headwater.ConfigError) as caught:
        headwater.Loader(config, datasets="hub:cats")
    root = config.parent / "root"
    assert str(caught.value) == f"no dataset `cats` in the hub `{root}` ({config}), there are: {NAME}"
