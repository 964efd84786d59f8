"""The actor that knows where a service's members are."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from ._member import STAY
from ._view import Entry, Plan, View

# How long a question for news stays open.
_OPEN_S = 30.0


class Directory:
    """A service's members, as they announce themselves. One that is restarted hears from all of them again."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._id = uuid.uuid4().hex
        self._turn = 0
        self._members: dict[str, Entry] = {}
        self._asking: list[asyncio.Future[None]] = []
        self._watches: set[asyncio.Task[None]] = set()

    async def plan(self) -> Plan:
        """What the service was started with."""
        return self._plan

    async def announce(self, name: str, member: Any, entry: Entry) -> None:
        """Takes a member's news. The member is listed until its process ends."""
        known = self._members.get(name)
        if known is not None and known.life == entry.life:
            # Calls may overtake each other.
            if known.turn >= entry.turn:
                return
        else:
            watch = asyncio.create_task(self._until_ended(name, member, entry.life))
            self._watches.add(watch)
            watch.add_done_callback(self._watches.discard)
        self._members[name] = entry
        self._changed()

    async def view(self, seen: tuple[str, int]) -> View:
        """The members. If `seen` is the current state, waits a while for a change."""
        if tuple(seen) == (self._id, self._turn):
            change = asyncio.get_running_loop().create_future()
            self._asking.append(change)
            await asyncio.wait([change], timeout=_OPEN_S)
            if not change.done():
                self._asking.remove(change)
        return View((self._id, self._turn), dict(self._members))

    async def _until_ended(self, name: str, member: Any, life: str) -> None:
        from ray.exceptions import RayError

        try:
            # Never answered: it fails when the process or its node is lost.
            await member.stay.options(concurrency_group=STAY).remote()
        except RayError:
            pass
        known = self._members.get(name)
        if known is not None and known.life == life:
            del self._members[name]
            self._changed()

    def _changed(self) -> None:
        self._turn += 1
        asking, self._asking = self._asking, []
        for change in asking:
            if not change.done():
                change.set_result(None)
