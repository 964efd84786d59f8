"""One rank of a training, as each launcher starts it.

usage: ranks.py LAUNCHER LOOP IMAGES OUT RANKS

Runs all scenarios with both loaders and writes OUT/KIND-RANK.json: the runs of each scenario, each a list of [epoch, samples].
"""

import importlib
import json
import logging
import os
import sys
import time
import warnings
from dataclasses import astuple
from pathlib import Path

import scenarios
from headwater.distributed import slurm_init
from images import ranks
from torch import distributed, multiprocessing

KINDS = ("pytorch", "headwater")


def main(launcher: str, loop: str, images: str, out: str, world_size: str) -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    os.environ["RANKS_OF_TEST"] = world_size
    if launcher == "torchrun":
        distributed.init_process_group("gloo")
    elif launcher in ("mpirun", "srun"):
        slurm_init("gloo")
    measure(loop, Path(images), Path(out))
    # gloo's last barrier fails on ranks that are still in it when another one ends.
    while len(list(Path(out).glob(f"{KINDS[-1]}-*.json"))) < int(world_size):
        time.sleep(0.02)


def spawned(rank: int, loop: str, images: str, out: str, world_size: str) -> None:
    """A rank of `torch.multiprocessing.spawn`: no variable says which it is."""
    init = f"file://{out}/group"
    distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=int(world_size))
    main("spawn", loop, images, out, world_size)


def measure(loop: str, images: Path, out: Path) -> None:
    module = importlib.import_module(f"loops.{loop}")
    for kind in KINDS:
        found = {}
        for scenario in scenarios.SCENARIOS:
            scratch = out / kind / scenario.replace(" ", "-")
            runs = scenarios.run(module, kind, images, scratch, scenario)
            found[scenario] = [[astuple(step) for step in steps] for steps in runs]
            if distributed.is_initialized():
                distributed.barrier()
        (out / f"{kind}-{ranks()[0]}.json").write_text(json.dumps(found))


def read(out: Path, kind: str, world_size: int) -> dict[str, list]:
    """The runs of each scenario on each rank."""
    of_ranks = [json.loads((out / f"{kind}-{rank}.json").read_text()) for rank in range(world_size)]

    def steps(runs):
        return [[scenarios.Step(*step) for step in run] for run in runs]

    return {scenario: [steps(rank[scenario]) for rank in of_ranks] for scenario in scenarios.SCENARIOS}


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        multiprocessing.spawn(spawned, args=tuple(sys.argv[2:]), nprocs=int(sys.argv[5]))
    else:
        main(*sys.argv[1:])
