"""What a service's directory says: plain data that actors exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

STORAGE, WORKER = "storage", "worker"
# Stamp of no view: whoever has seen it is told at once.
NOTHING_SEEN = ("", 0)


class Plan(NamedTuple):
    """What a service was started with."""

    # Text of a `headwater.toml`, for both tiers.
    config: str
    # What callers have to show; None where `[security]` of the configuration says that.
    token: Optional[str]
    # Options of Ray for the actors of each tier.
    options: Mapping[str, Mapping[str, Any]]


class Entry(NamedTuple):
    """What a member says of itself."""

    tier: str
    # Drawn by each process of the member, and a number that grows with each change in it.
    life: str
    turn: int
    # `host:port`; None while its program does not listen.
    address: Optional[str] = None
    # Where it serves /metrics.
    metrics: Optional[str] = None
    # Why its program ended last; None once it listens.
    trouble: Optional[str] = None


class View(NamedTuple):
    """The members at a moment."""

    # Which directory, and which of its states.
    stamp: tuple[str, int]
    members: Mapping[str, Entry]

    def addresses(self, tier: str) -> list[str]:
        """Where members of a tier listen, in an order that is the same for everybody."""
        return sorted(one.address for one in self.members.values() if one.tier == tier and one.address)

    def metrics(self, tier: str) -> list[str]:
        """Where those members serve /metrics."""
        return sorted(one.metrics for one in self.members.values() if one.tier == tier and one.metrics)

    def troubles(self, tier: Optional[str] = None) -> dict[str, str]:
        """Why members do not listen, by their names, where their programs have ended."""
        wanted = {name: one for name, one in self.members.items() if tier in (None, one.tier)}
        return {name: one.trouble for name, one in wanted.items() if one.trouble}
