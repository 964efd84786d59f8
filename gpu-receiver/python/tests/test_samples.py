"""What is in a batch, by names: dataset, shard, place in it, key, label."""

import tarfile

import headwater
import pytest
from conftest import PHOTOS

SHARDS = {
    "photos": PHOTOS / "photos-000001.tar",
    "others": PHOTOS / "photos-000003.tar",
    "broken": PHOTOS.parent / "bad" / "broken-jpeg.tar",
}


def keys_in_order(shard):
    """Keys of a tar, as Python's own reader finds them."""
    with tarfile.open(shard) as archive:
        return list(dict.fromkeys(member.name.split(".")[0] for member in archive if member.isfile()))


@pytest.fixture(scope="module")
def keys():
    return {dataset: keys_in_order(shard) for dataset, shard in SHARDS.items()}


def test_each_sample_names_its_dataset_shard_and_place(make, keys):
    seen = set()
    for batch in make(datasets=["photos", "others"]):
        assert len(batch.samples) == len(batch) == 4
        assert [sample.key for sample in batch.samples] == batch.keys
        assert [sample.label for sample in batch.samples] == batch.labels.numpy().tolist()
        for sample in batch.samples:
            assert sample.shard == SHARDS[sample.dataset].name
            assert keys[sample.dataset][sample.index] == sample.key
            assert sample.substituted is None
            seen.add(sample.dataset)
    assert seen == {"photos", "others"}


def test_a_sample_that_stands_in_has_its_own_place_and_says_why(make, keys):
    stand_ins = 0
    for batch in make(datasets=["broken"], batch_size=8):
        for index, sample in enumerate(batch.samples):
            assert keys["broken"][sample.index] == sample.key
            assert sample.substituted == batch.substituted.get(index)
            stand_ins += sample.substituted is not None
    assert stand_ins == 3


def test_a_sample_is_plain_to_read_and_to_compare(make):
    batch, again = (next(iter(make())) for _ in range(2))
    assert batch.samples == again.samples
    assert batch.samples[0] != batch.samples[1]
    sample = batch.samples[0]
    text = f'photos photos-000001.tar[{sample.index}] key="{sample.key}" label={sample.label}'
    assert repr(sample) == f"<headwater.Sample {text}>"
    assert isinstance(sample, headwater.Sample)
    with pytest.raises(AttributeError):
        sample.key = "other"


def test_items_are_names_and_tensors_in_order(make):
    batch = next(iter(make()))
    assert [name for name, _ in batch.items()] == ["global_crops", "local_crops", "labels"]
    assert all(tensor.name == name for name, tensor in batch.items())
    assert dict(batch.items()).keys() == batch.tensors.keys()
