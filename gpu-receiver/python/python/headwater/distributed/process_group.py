"""The start of a training process: ranks, NCCL's variables, torch.distributed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Optional

from ..errors import ConfigError, HeadwaterError
from . import topology as topologies
from .launch import Launch, export, launched


@dataclass(frozen=True)
class Environment:
    """A training process and its place in the job. `slurm_init` returns one."""

    rank: int
    local_rank: int
    world_size: int
    master_addr: str
    master_port: int
    #: "torchrun", "slurm" or "none".
    launcher: str
    #: "nvl72" or "pcie".
    topology: str
    #: Backend of torch.distributed: "nccl" or "gloo".
    backend: str
    #: "cuda:0" and so on, or "cpu" on a machine without GPUs.
    device: str


_started: Optional[Environment] = None


def slurm_init(
    backend: Optional[str] = None, *, force_topology: Optional[str] = None, timeout_s: float = 1800.0
) -> Environment:
    """Initialises torch.distributed under torchrun, srun or no launcher; a second call returns the same result.

    Arguments:
        backend: of torch.distributed; by default "nccl" with a GPU, and "gloo" without.
        force_topology: "nvl72" or "pcie"; by default the ranks determine it together.
        timeout_s: longest wait for the other ranks, at the start and in a collective.

    Variables that are set are never changed. Raises `ConfigError` if the launcher's variables do not give the
    rank, or if other code has initialised torch.distributed. Raises `HeadwaterError` if ranks do not join in time.
    """
    global _started
    forced = topologies.checked(force_topology)
    if _started is None:
        _started = _start(backend, forced, timedelta(seconds=timeout_s))
    elif forced not in (None, _started.topology):
        raise ConfigError(
            f'`force_topology` = "{forced}" comes too late: slurm_init() was called before and has chosen '
            f'"{_started.topology}"; give it to the first call'
        )
    return _started


def started() -> Optional[Environment]:
    """The result of `slurm_init`; None before its call."""
    return _started


def ranks() -> dict[str, int]:
    """Rank and number of ranks in torch.distributed, as keywords of a `headwater.Loader`; empty if it is not initialised."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return {}
    return {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}


def device_index(local_rank: int) -> int:
    """The GPU of a local rank. It is number 0 if the launcher shows each rank only its own GPU."""
    import torch

    return 0 if torch.cuda.device_count() == 1 else local_rank


def _start(backend: Optional[str], forced: Optional[str], timeout: timedelta) -> Environment:
    import torch
    from torch import distributed

    if distributed.is_initialized():
        raise ConfigError(
            "torch.distributed is initialised already: call slurm_init() before it, or leave it out and "
            "take the local rank from LOCAL_RANK"
        )
    launch = launched(os.environ)
    if launch.launcher != "none":
        export(launch, os.environ)
    device = "cpu"
    if torch.cuda.is_available():
        device = f"cuda:{device_index(launch.local_rank)}"
        torch.cuda.set_device(device)
    backend = backend or ("gloo" if device == "cpu" else "nccl")
    store = _store(launch, timeout)
    topology = forced or topologies.agreed(
        distributed.PrefixStore("headwater", store), launch.rank, launch.world_size
    )
    topologies.set_variables(topology)
    # NCCL makes no communicator here, but at the first collective: it sees the variables.
    distributed.init_process_group(
        backend, store=store, rank=launch.rank, world_size=launch.world_size, timeout=timeout
    )
    place = (launch.rank, launch.local_rank, launch.world_size, launch.master_addr, launch.master_port)
    return Environment(*place, launch.launcher, topology, backend, device)


def _store(launch: Launch, timeout: timedelta) -> Any:
    from torch import distributed
    from torch.distributed.rendezvous import rendezvous

    if launch.world_size == 1:
        return distributed.HashStore()
    try:
        return next(rendezvous("env://", launch.rank, launch.world_size, timeout=timeout))[0]
    except RuntimeError as error:
        raise HeadwaterError(
            f"rank {launch.rank} of {launch.world_size} did not meet the others at "
            f"{launch.master_addr}:{launch.master_port} within {timeout.total_seconds():g} s: start all of them "
            f"with srun or torchrun, and let MASTER_ADDR name a host that all can reach ({error})"
        ) from error
