"""Starts training scripts as the ranks of a job, with the variables that SLURM gives them."""

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 300


def srun(script: Path, *arguments: object, world_size: int = 2, expect: int = 0) -> list[str]:
    """What each rank wrote to its standard error; `%t` in an argument is its number, as srun has it.

    All ranks must end with the status `expect`.
    """
    # A port below those that Linux hands out by itself follows from the number of the job.
    job = {"SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0, "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": world_size}
    ranks = []
    for rank in range(world_size):
        own = {**job, "SLURM_PROCID": rank, "SLURM_LOCALID": rank}
        command = [sys.executable, str(script), *(str(one).replace("%t", str(rank)) for one in arguments)]
        env = {**os.environ, **{name: str(value) for name, value in own.items()}}
        # gloo connects by the address of this host's name, which need not be one of its own.
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
        ranks.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
    try:
        said = [rank.communicate(timeout=LIMIT_S)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, error in zip(ranks, said):
        assert rank.returncode == expect, error
    return said
