"""Which rank a process is, from the variables of its launcher: torchrun, MPI, SLURM, or several."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple, Optional

from ..errors import ConfigError

# Rank and number of ranks, from the first launcher that sets both. `headwater.Loader` has the same order.
_RANKS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mpi", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("slurm", "SLURM_PROCID", "SLURM_NTASKS"),
    ("mpi", "PMI_RANK", "PMI_SIZE"),
)
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
# Set for what srun starts, and not for a batch script; the shell of salloc has a number that names no step (slurm.h).
_SLURM_STEP, _SLURM_STEPS_MAX = "SLURM_STEP_ID", 0xFFFFFFF0
_PORT_FIRST, _PORTS = 10000, 20000  # below the ports that Linux hands out by itself


class Launch(NamedTuple):
    """A process of a job. Without a launcher it is the only process."""

    launcher: str
    rank: int
    local_rank: int
    world_size: int
    master_addr: str
    master_port: int


def launched(env: Mapping[str, str]) -> Launch:
    """Reads the variables.

    Raises `ConfigError` if a variable is missing or is not a number.
    """
    launcher, rank, world_size = _ranks(env)
    alone = world_size == 1
    return Launch(
        launcher,
        rank,
        _local_rank(env, alone),
        world_size,
        _master_addr(env, alone),
        _master_port(env, alone),
    )


def export(launch: Launch, env: MutableMapping[str, str]) -> None:
    """Sets torchrun's variables if they are not set, so that other libraries know the ranks too."""
    for name, value in [
        ("RANK", launch.rank),
        ("LOCAL_RANK", launch.local_rank),
        ("WORLD_SIZE", launch.world_size),
        ("MASTER_ADDR", launch.master_addr),
        ("MASTER_PORT", launch.master_port),
    ]:
        if not _value(env, name):
            env[name] = str(value)


def first_host(nodelist: str) -> str:
    """The first host of a SLURM node list: `gpu[07-12,15],cpu1` begins with `gpu07`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodelist.strip())
    if first is None:
        raise ConfigError(f"`{nodelist}` is not a SLURM node list: set MASTER_ADDR")
    return re.sub(r"\[([^,\-\]]*)[^\]]*\]", r"\1", first.group())


def _ranks(env: Mapping[str, str]) -> tuple[str, int, int]:
    for launcher, rank_name, size_name in _RANKS:
        rank, world_size = _number(env, rank_name), _number(env, size_name)
        if rank is None or world_size is None or (launcher == "slurm" and not _is_step(env)):
            continue
        if rank >= world_size:
            raise ConfigError(f"{rank_name}={rank} must be below {size_name}={world_size}")
        _check_half(env, rank, world_size)
        return launcher, rank, world_size
    _check_half(env, 0, 1)
    return "none", 0, 1


def _is_step(env: Mapping[str, str]) -> bool:
    step = _number(env, _SLURM_STEP)
    return step is not None and step < _SLURM_STEPS_MAX


def _check_half(env: Mapping[str, str], rank: int, world_size: int) -> None:
    """Raises `ConfigError` if one of torchrun's variables says something else."""
    for name, found in (("RANK", rank), ("WORLD_SIZE", world_size)):
        said = _number(env, name)
        if said is not None and said != found:
            raise ConfigError(f"{name}={said}, and this process is rank {rank} of {world_size} otherwise: set RANK and WORLD_SIZE")


def _local_rank(env: Mapping[str, str], alone: bool) -> int:
    for name in _LOCAL_RANKS:
        number = _number(env, name)
        if number is not None:
            return number
    if alone:
        return 0
    raise ConfigError("LOCAL_RANK is not set: start the ranks with torchrun or srun, or set it (mpirun -x)")


def _master_addr(env: Mapping[str, str], alone: bool) -> str:
    address = _value(env, "MASTER_ADDR")
    if address:
        return address
    for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"):
        nodes = _value(env, name)
        if nodes:
            return first_host(nodes)
    if alone:
        return "127.0.0.1"
    raise ConfigError("MASTER_ADDR is not set: start the ranks with torchrun or srun, or set it (mpirun -x)")


def _master_port(env: Mapping[str, str], alone: bool) -> int:
    port = _number(env, "MASTER_PORT")
    if port is not None:
        return port
    job = _number(env, "SLURM_JOB_ID")
    if job is not None:
        # Jobs that share a node, and steps of one job, must not meet at one port.
        step = _number(env, "SLURM_STEP_ID") or 0
        return _PORT_FIRST + (job * 31 + step) % _PORTS
    if alone:
        return _PORT_FIRST
    raise ConfigError("MASTER_PORT is not set: start the ranks with torchrun or srun, or set it (mpirun -x)")


def _number(env: Mapping[str, str], name: str) -> Optional[int]:
    text = _value(env, name)
    if not text:
        return None
    if not text.isdecimal():
        raise ConfigError(f"{name}=`{text}` is not a number")
    return int(text)


def _value(env: Mapping[str, str], name: str) -> str:
    """The variable; "" if it is not set. An empty variable is not set, also for `headwater.Loader`."""
    return env.get(name, "").strip()
