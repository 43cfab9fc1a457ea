"""What runs on this machine beside the fleet: who holds a port, and what orphaned engines hold.

Law: looks, never acts. It looks at the start, when somebody asks, and now and then: a process of
somebody else's ends without telling us.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pdctl.control.alarm import Alarm
from pdctl.control.fleet_state import FleetState
from pdctl.domain import orphans
from pdctl.domain.orphans import Found, Kind, Ours
from pdctl.ports import Clock, Ended, EngineFinder

log = logging.getLogger(__name__)
SOON_S, LATER_S = 60.0, 600.0
"""Between two looks: while there is something to tell, and while there is nothing."""
LASTS_S = 5.0
"""An orphan that is seen for so long is one: a younger one is perhaps just being ended."""


def _nobody() -> None:
    """Whoever is told of a change before anybody listens."""


class Lookout:
    """Every engine process of this machine, as last seen."""

    def __init__(self, finder: EngineFinder, state: FleetState, clock: Clock, folder: str) -> None:
        self._finder, self.state, self._clock, self._folder = finder, state, clock, folder
        self._note = ""
        self._alarm = Alarm(clock)
        self._tell: Callable[[], None] = _nobody
        self._since: dict[str, float] = {}
        """When each orphan was first seen, monotonic."""

    @property
    def notes(self) -> Sequence[str]:
        """What an operator should know of it."""
        return (self._note,) if self._note else ()

    async def find(self) -> tuple[Found, ...]:
        """Look now."""
        instances = self.state.fleet.instances
        ours = Ours(self._folder, {one.nonce: one.id for one in instances if one.nonce})
        found = await self._finder.find(ours)
        now = self._clock.monotonic()
        lost = [one.key for one in found if one.kind is Kind.ORPHANED]
        before, self._since = self._since, {key: self._since.get(key, now) for key in lost}
        lasting = {key for key, since in self._since.items() if now - since >= LASTS_S}
        note = orphans.summary(one for one in found if one.key in lasting)
        if note != self._note:
            self._note = note
            self._tell()
        if before.keys() != self._since.keys():
            self._alarm.ring()
        return found

    async def end(self, found: Found, grace_s: float) -> Ended:
        """End an engine, and look again."""
        done = await self._finder.end(found, grace_s)
        await self.find()
        return done

    async def holder(self, port: int) -> str:
        """Which engine listens on that port, in words; empty when none that we can see does."""
        try:
            found = orphans.owner_of(port, await self.find())
        except Exception:
            log.exception("the processes of this machine cannot be looked through")
            return ""
        if found is None:
            return ""
        return f"{found.family.leader.part} {found.key} ({found.kind}): {found.why}"

    async def watch(self, changed: Callable[[], None]) -> None:
        """Look now and then, until cancelled; `changed` when there is something else to tell."""
        self._tell = changed
        while True:
            try:
                await self.find()
            except Exception:
                log.exception("the processes of this machine cannot be looked through")
            await self._alarm.rest(self._clock.monotonic() + self._pause())

    def _pause(self) -> float:
        now = self._clock.monotonic()
        young = [since + LASTS_S - now for since in self._since.values()]
        if waits := [left for left in young if left > 0]:
            return max(waits)
        return SOON_S if self._note else LATER_S
