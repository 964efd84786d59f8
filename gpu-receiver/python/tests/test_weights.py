"""Weights of datasets, set while the loader runs."""

import math

import headwater
import pytest
from conftest import listed


@pytest.fixture(scope="module")
def shard():
    """The shard of each photograph."""
    return {row["key"]: row["shard"] for row in listed()}


def test_new_weights_hold_from_the_next_batch(make, shard):
    loader = make(datasets=[("photos", 1), {"name": "others", "weight": 1}])
    assert loader.datasets == {"photos": 64, "others": 41}
    assert loader.weights == {"photos": 0.5, "others": 0.5}
    shards = []
    for batch in loader:
        shards.append({shard[key] for key in batch.keys})
        if batch.step == 2:
            loader.set_weights([0, 1])
    assert set.union(*shards[:3]) == {"photos-000001.tar", "photos-000003.tar"}
    assert shards[3:] == [{"photos-000003.tar"}] * (len(loader) - 3)


def test_a_weight_by_name_leaves_the_others_as_they_were_given(make):
    loader = make(datasets=[("photos", 1), ("others", 4)])
    loader.set_weight_by_name("photos", 12)
    assert loader.weights == {"photos": 0.75, "others": 0.25}
    loader.set_weight_by_name("photos", 12)
    assert loader.weights == {"photos": 0.75, "others": 0.25}
    loader.set_weight_by_name("others", 0)
    assert loader.weights == {"photos": 1.0, "others": 0.0}


def test_a_curriculum_in_the_file_or_by_keyword_sets_them_by_step(make, shard, tmp_path):
    points = [{"step": 0, "weights": [1, 0]}, {"step": 2, "weights": [0, 1]}]
    file = tmp_path / "headwater.toml"
    file.write_text(
        "".join(
            f"[[curriculum]]\nstep = {point['step']}\nweights = {point['weights']}\n"
            for point in points
        )
    )
    for options in [{"curriculum": points}, {"config": file}]:
        loader = make(datasets=["photos", "others"], **options)
        shards = [{shard[key] for key in batch.keys} for batch in loader]
        assert shards[:2] == [{"photos-000001.tar"}] * 2
        assert shards[2:] == [{"photos-000003.tar"}] * (len(loader) - 2)


def test_wrong_weights_are_refused_by_name(make):
    loader = make(datasets=["photos", "others"])
    by_size = {"photos": 64 / 105, "others": 41 / 105}
    assert loader.weights == pytest.approx(by_size)
    for weights in [[1], [0, 0], [1, -1], [math.nan, 1]]:
        with pytest.raises(headwater.ConfigError):
            loader.set_weights(weights)
    with pytest.raises(headwater.ConfigError, match="others"):
        loader.set_weight_by_name("others", -1)
    with pytest.raises(headwater.ConfigError, match="no dataset `third`: it has photos, others"):
        loader.set_weight_by_name("third", 1)
    assert loader.weights == pytest.approx(by_size)
