from dataclasses import dataclass
from typing import Any, Literal, Optional

__all__ = ["Environment", "Interconnect", "slurm_init", "verify_interconnect"]

_Topology = Literal["nvl72", "pcie"]

@dataclass(frozen=True)
class Environment:
    """A training process and its place in the job."""

    rank: int
    local_rank: int
    world_size: int
    master_addr: str
    master_port: int
    launcher: Literal["torchrun", "slurm", "none"]
    topology: _Topology
    # The backend of torch.distributed.
    backend: str
    # "cuda:0" and so on, or "cpu".
    device: str

@dataclass(frozen=True)
class Interconnect:
    """The result of `verify_interconnect`, the same on every rank."""

    verdict: Literal["ok", "degraded", "corrupt"]
    # In 10^9 bytes per second; None for one rank.
    bus_gb_s: Optional[float]
    floor_gb_s: float
    seconds: float
    nbytes: int
    world_size: int
    corrupt_ranks: tuple[int, ...]

def slurm_init(
    backend: Optional[str] = None,
    *,
    force_topology: Optional[_Topology] = None,
    timeout_s: float = 1800.0,
) -> Environment: ...
def verify_interconnect(
    nbytes: int = ...,
    *,
    rounds: int = 5,
    floor_gb_s: Optional[float] = None,
    # torch.distributed.ProcessGroup
    group: Any = None,
) -> Interconnect: ...
