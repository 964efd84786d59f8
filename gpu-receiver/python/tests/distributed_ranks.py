"""A rank of test_distributed.py: starts, verifies the interconnect, and writes what it was told to a file.

usage: distributed_ranks.py FOLDER, under a launcher
"""

import dataclasses
import json
import os
import sys
import warnings
from pathlib import Path

import torch
from headwater.distributed import slurm_init, verify_interconnect
from torch import distributed


def main():
    env = slurm_init(timeout_s=120)
    assert slurm_init() is env
    assert (distributed.get_rank(), distributed.get_world_size()) == (env.rank, env.world_size)
    said = dataclasses.asdict(env)
    said["nccl"] = {name: value for name, value in os.environ.items() if name.startswith("NCCL_")}
    said["exported"] = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT")]
    said["verdicts"] = [verdict(), verdict(floor_gb_s=1e9)]
    spoil(rank=1)
    said["verdicts"].append(verdict())
    (Path(sys.argv[1]) / f"rank-{env.rank}.json").write_text(json.dumps(said))
    # Threads of gloo that are still there when the interpreter ends may abort the process.
    distributed.barrier()
    distributed.destroy_process_group()


def verdict(**options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = verify_interconnect(1 << 16, rounds=2, **options)
    return {**dataclasses.asdict(found), "warned": [str(one.message) for one in caught]}


def spoil(rank):
    """A link that loses a bit of what one rank receives."""
    sound = distributed.all_reduce

    def all_reduce(tensor, *arguments, **options):
        sound(tensor, *arguments, **options)
        if distributed.get_rank() == rank and tensor.dtype == torch.float32:
            tensor[7] += 1

    distributed.all_reduce = all_reduce


if __name__ == "__main__":
    main()
