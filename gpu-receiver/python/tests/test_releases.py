"""What was begun with release 0.1.0 goes on, or says why not."""

import json
import re
import subprocess

import headwater
import pytest
from conftest import PHOTOS, program

# What release 0.1.0 writes after 6 batches of 4 with seed 3. It has no field `written`. The digest of its recipe stands in
# libs/core/tests/recipes.rs since before that release.
STATE = {
    "version": 1,
    "epoch": 0,
    "step": 6,
    "samples": 24,
    "seed": 3,
    "order": "global",
    "shuffle_block": 16,
    "global_batch": 4,
    "world_size": 1,
    "epoch_end": "drop_last",
    "datasets": [{"name": "photos", "digest": "a8d2e53575da252723ecf12b0a5d7f19", "cursor": 24}],
    "weights": [],
    "history": [],
    "recipe": "024f600f79c7bf9a20d81d3d9d15fd90",
}
NEXT = ["000117", "000129", "000130", "000108"]
# Of that batch, with `dinov2` in bf16; for releases to come.
DIGEST = "72915d8c9af16d0e8c5e6f67666a5a09"

# What the pages had printed before 0.1.0, on 2026-11-23: docs/benchmarks/first_batch.md and arm.md.
RECORDED = [
    (["--batch", "41"], "41 samples in 1 batch, 41 distinct; hash 32465ac1bf8e068cf4f6fb2943609bb8"),
    (["--batch", "8", "--seed", "20"], "40 samples in 5 batches, 40 distinct; hash fdfc00ad7500ee6389b9fd6566ea05c7"),
]


@pytest.mark.parametrize(("options", "said"), RECORDED)
def test_an_epoch_has_the_bytes_that_it_had_before_0_1_0(tmp_path, options, said):
    shard = f"photos={PHOTOS / 'photos-000003.tar'}"
    command = [program(), "run", "--dataset", shard, "--epochs", "1", *options, "--set", f"storage.index_dir={tmp_path}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.search(rf"^epoch 0: {re.escape(said)}$", done.stdout, re.MULTILINE), done.stdout


def opened(make, **options):
    return make(recipe="dinov2", dtype="bf16", seed=3, **options)


def test_a_state_of_0_1_0_goes_on_with_the_next_batch(make):
    loader = opened(make)
    loader.load_state_dict(STATE)
    batch = next(iter(loader))
    assert (batch.keys, batch.digest) == (NEXT, DIGEST)


def test_a_checkpoint_of_0_1_0_is_resumed_from(make, tmp_path):
    (tmp_path / "dl_state_000000006.json").write_text(json.dumps(STATE))
    loader = opened(make, checkpoint_dir=tmp_path, resume=True)
    assert next(iter(loader)).keys == NEXT
    # 0.1.0 refuses what is written from now on: it does not know the field.
    loader.checkpoint(7)
    assert json.loads((tmp_path / "dl_state_000000007.json").read_text()).keys() == {*STATE, "written"}


def test_a_state_of_a_folder_says_that_its_files_were_shuffled_in_another_way(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.jpg").write_bytes(b"only its name and size count")
    options = {"recipe": "imagenet-eval", "batch_size": 2, "label_field": ""}
    with headwater.Loader(folder, **options) as loader:
        state = loader.state_dict()
        assert state["shuffle_block"] == 2**32 - 1
        state["shuffle_block"] = 16
        with pytest.raises(headwater.StateError, match="shuffle.block is 16 in the state and all shards"):
            loader.load_state_dict(state)
    with headwater.Loader(folder, **options, shuffle_block=16) as loader:
        loader.load_state_dict(state)
