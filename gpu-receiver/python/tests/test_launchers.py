"""Ranks of launchers that set no variables: PyTorch's group of processes says who they are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import headwater
from conftest import LAUNCHERS, PHOTOS, SMALL

HERE = Path(__file__).parent
SHARD = str(PHOTOS / "photos-000001.tar")
LIMIT_S = 300


def spawned(folder, when):
    """What each rank says."""
    env = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    command = [sys.executable, str(HERE / "spawned_ranks.py"), str(folder), SHARD, when]
    subprocess.run(command, env={**env, "GLOO_SOCKET_IFNAME": "lo"}, check=True, timeout=LIMIT_S)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


def test_spawned_ranks_share_an_epoch(tmp_path):
    ranks = [said["keys"] for said in spawned(tmp_path, "after")]
    with headwater.Loader(SHARD, recipe=SMALL, batch_size=4, embedded="threads") as loader:
        everything = {sample.key for batch in loader for sample in batch.samples}
    assert len(ranks[0]) == len(ranks[1]) == len(set(ranks[0] + ranks[1])) / 2
    assert set(ranks[0] + ranks[1]) <= everything
    assert len(everything) - len(ranks[0]) * 2 < 8


def test_a_loader_that_was_opened_before_the_group_does_not_give_every_rank_the_same(tmp_path):
    for rank, said in enumerate(spawned(tmp_path, "before")):
        wanted = f"rank {rank} of 2 of torch.distributed, and its loader was opened as rank 0 of 1: open it after"
        assert wanted in said["error"]
