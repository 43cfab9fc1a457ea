"""What every instance takes of its machine, looked at every few seconds beside everything else.

Law: nobody waits for these numbers and nothing is decided by them; a look that fails is missed,
and what was seen last grows old visibly.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from pdctl.control.fleet_state import FleetState
from pdctl.domain.instance import Instance
from pdctl.domain.usage import Member, Usage, cores
from pdctl.ports import Clock

log = logging.getLogger(__name__)
EVERY_S = 5.0
STALE_S = 3 * EVERY_S


class Meter(Protocol):
    """Looks at processes and devices."""

    async def measure(self, members: Sequence[Member]) -> dict[str, Usage]:
        """By nonce; what is not there any more is missing. Blocks nobody."""
        ...


class UsageBook:
    """The last two looks at each start."""

    def __init__(self, state: FleetState, meter: Meter, clock: Clock) -> None:
        self._state, self._meter, self._clock = state, meter, clock
        self._seen: dict[str, tuple[Usage | None, Usage]] = {}
        self._failing = False

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(EVERY_S)

    async def look(self) -> None:
        """Look once; costs nothing where no instance has a process of its own."""
        members = [_member(one) for one in self._state.fleet.instances if one.pid is not None]
        if not members:
            self._seen.clear()
            return
        try:
            found = await self._meter.measure(members)
        except Exception:
            if not self._failing:
                log.exception("processes cannot be measured")
            self._failing = True
            return
        self._failing = False
        kept = {one.nonce for one in members}
        for nonce, usage in found.items():
            before = self._seen.get(nonce)
            self._seen[nonce] = (before[1] if before else None, usage)
        self._seen = {nonce: two for nonce, two in self._seen.items() if nonce in kept}

    def of(self, one: Instance) -> Usage | None:
        """The last look; None where there was none (no process of its own, just started)."""
        two = self._seen.get(one.nonce)
        return two[1] if two else None

    def cores(self, one: Instance) -> float | None:
        """Cores kept busy between the last two looks."""
        two = self._seen.get(one.nonce)
        return cores(*two) if two else None

    def stale(self, usage: Usage) -> bool:
        """Whether a look is too old to speak of now."""
        return self._clock.now() - usage.at > STALE_S


def _member(one: Instance) -> Member:
    leader = one.pid or 0
    pids = (leader,) if one.shim_pid is None else (leader, one.shim_pid)
    return Member(one.nonce, pids, leader, one.slot.device)
