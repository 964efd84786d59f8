"""A test all-reduce: checks that sums are correct, and measures their speed."""

from __future__ import annotations

import statistics
import time
import warnings
from dataclasses import dataclass
from typing import Any, Optional

from . import process_group

# Minimum bus bandwidth in GB/s. Working machines are far above it: NVLink of an NVL72 rack reaches hundreds, and
# only a fallback to the management network is below 1.
_FLOORS_GB_S = {"nvl72": 100.0, "pcie": 1.0}
_PERIOD = 16
_BYTES_OF_F32 = 4


@dataclass(frozen=True)
class Interconnect:
    """The result of `verify_interconnect`, the same on every rank."""

    #: "ok", "degraded" (too slow) or "corrupt" (wrong sums).
    verdict: str
    #: 2 (n - 1) / n times the tensor's bytes, divided by the time, in 10^9 bytes per second; None for one rank.
    bus_gb_s: Optional[float]
    #: The required bandwidth, in the same unit.
    floor_gb_s: float
    #: Median time of an all-reduce, on the slowest rank.
    seconds: float
    nbytes: int
    world_size: int
    #: Ranks that got a wrong sum.
    corrupt_ranks: tuple[int, ...]


def verify_interconnect(
    nbytes: int = 64 << 20, *, rounds: int = 5, floor_gb_s: Optional[float] = None, group: Any = None
) -> Interconnect:
    """All-reduces a tensor whose sum is known and measures it. Every rank of the group must call it.

    Arguments:
        nbytes: size of the tensor of `f32`.
        rounds: number of measured all-reduces, after one that is not measured.
        floor_gb_s: minimum bus bandwidth; the default is 100 for topology "nvl72" and 1 for "pcie" with NCCL,
            and none with another backend.
        group: of torch.distributed; all ranks by default.

    Rank 0 of the group warns if the verdict is not "ok".
    """
    from torch import distributed

    world_size, rank = distributed.get_world_size(group), distributed.get_rank(group)
    nccl = distributed.get_backend(group) == "nccl"
    if floor_gb_s is None:
        floor_gb_s = _default_floor() if nccl else 0.0
    canary = _Canary(nbytes, rank, world_size, "cuda" if nccl else "cpu", group)
    canary.round()
    times = canary.slowest([canary.round() for _ in range(rounds)])
    seconds = statistics.median(times)
    moved = 2 * (world_size - 1) / world_size * canary.nbytes
    bus_gb_s = moved / seconds / 1e9 if world_size > 1 else None
    corrupt_ranks = canary.corrupt_ranks()
    slow = bus_gb_s is not None and bus_gb_s < floor_gb_s
    verdict = "corrupt" if corrupt_ranks else "degraded" if slow else "ok"
    found = Interconnect(
        verdict, bus_gb_s, floor_gb_s, seconds, canary.nbytes, world_size, corrupt_ranks
    )
    if verdict != "ok" and rank == 0:
        warnings.warn(_sentence(found), RuntimeWarning, stacklevel=2)
    return found


def _default_floor() -> float:
    started = process_group.started()
    return _FLOORS_GB_S[started.topology if started else "pcie"]


def _sentence(found: Interconnect) -> str:
    if found.verdict == "corrupt":
        return (
            f"the interconnect is corrupt: ranks {list(found.corrupt_ranks)} of {found.world_size} got a wrong sum "
            "from an all-reduce; take their nodes out of the job"
        )
    return (
        f"the interconnect is degraded: an all-reduce over {found.world_size} ranks reached {found.bus_gb_s:.2f} GB/s "
        f"of bus bandwidth, below {found.floor_gb_s:g} GB/s; NCCL_DEBUG=INFO shows which links NCCL has taken"
    )


class _Canary:
    """A tensor on each rank, and its expected sum over the ranks."""

    def __init__(self, nbytes: int, rank: int, world_size: int, device: str, group: Any):
        import torch

        count = -(-max(nbytes, 1) // (_PERIOD * _BYTES_OF_F32))
        # Small whole numbers: their sum is exact in f32 whatever the order of additions.
        period = torch.arange(_PERIOD, dtype=torch.float32, device=device)
        self.own = ((period + rank) % _PERIOD).repeat(count)
        self.sum = sum((period + other) % _PERIOD for other in range(world_size)).repeat(count)
        self.reduced = torch.empty_like(self.own)
        self.nbytes = self.own.nbytes
        self.rank, self.world_size, self.group = rank, world_size, group
        self.wrong = False

    def round(self) -> float:
        """One all-reduce, compared with the sum. Gives its seconds."""
        import torch
        from torch import distributed

        self.reduced.copy_(self.own)
        self._wait()
        begin = time.perf_counter()
        distributed.all_reduce(self.reduced, group=self.group)
        self._wait()
        seconds = time.perf_counter() - begin
        self.wrong |= not torch.equal(self.reduced, self.sum)
        return seconds

    def slowest(self, seconds: list[float]) -> list[float]:
        """The largest of all ranks' times, round by round."""
        import torch
        from torch import distributed

        times = torch.tensor(seconds, dtype=torch.float64, device=self.own.device)
        distributed.all_reduce(times, distributed.ReduceOp.MAX, group=self.group)
        return times.tolist()

    def corrupt_ranks(self) -> tuple[int, ...]:
        import torch
        from torch import distributed

        wrong = torch.zeros(self.world_size, dtype=torch.int32, device=self.own.device)
        wrong[self.rank] = self.wrong
        distributed.all_reduce(wrong, distributed.ReduceOp.MAX, group=self.group)
        return tuple(torch.nonzero(wrong).flatten().tolist())

    def _wait(self) -> None:
        import torch

        if self.own.is_cuda:
            torch.cuda.synchronize()
