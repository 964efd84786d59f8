"""Ranks that `torch.multiprocessing.spawn` starts, as test_launchers.py looks at them: no variable says who they are.

usage: spawned_ranks.py FOLDER DATA WHEN, which is "before" or "after" the group of processes is made
"""

import json
import sys
from pathlib import Path

import headwater
from conftest import SMALL
from torch import distributed, multiprocessing

RANKS = 2


def main(rank, folder, data, when):
    def opened():
        return headwater.Loader(data, recipe=SMALL, batch_size=4, embedded="threads")

    loader = opened() if when == "before" else None
    distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=RANKS)
    said = {}
    with loader or opened() as loader:
        try:
            said = {"keys": [sample.key for batch in loader for sample in batch.samples]}
        except headwater.ConfigError as error:
            said = {"error": str(error)}
    (Path(folder) / f"rank-{rank}.json").write_text(json.dumps(said))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, args=tuple(sys.argv[1:]), nprocs=RANKS)
