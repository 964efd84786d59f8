"""The contents of a service's directory: plain data that actors exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

STORAGE, WORKER = "storage", "worker"
# Stamp of no view: whoever has seen it is told at once.
NOTHING_SEEN = ("", 0)


class Plan(NamedTuple):
    """The settings with which a service was started."""

    # Text of a `headwater.toml`, for both tiers.
    config: str
    # The token that callers must show; None if `[security]` of the configuration sets it.
    token: Optional[str]
    # Options of Ray for the actors of each tier.
    options: Mapping[str, Mapping[str, Any]]


class Entry(NamedTuple):
    """A member's entry."""

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
        """Addresses where members of a tier listen, in the same order for everybody."""
        return sorted(one.address for one in self.members.values() if one.tier == tier and one.address)

    def metrics(self, tier: str) -> list[str]:
        """Addresses where these members serve /metrics."""
        return sorted(one.metrics for one in self.members.values() if one.tier == tier and one.metrics)

    def troubles(self, tier: Optional[str] = None) -> dict[str, str]:
        """Why members do not listen, by name, if their programs have ended."""
        wanted = {name: one for name, one in self.members.items() if tier in (None, one.tier)}
        return {name: one.trouble for name, one in wanted.items() if one.trouble}
