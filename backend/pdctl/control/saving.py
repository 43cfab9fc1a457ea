"""The picture of the instances, kept: who there is, which start, and what each holds.

Law: a start is in the store before its process is, with its ports and devices leased to it alone.
A store that is away holds up nobody, one that says no is obeyed: somebody else holds what we would
take, or owns the database by now.
"""

from __future__ import annotations

import asyncio
import logging

from pdctl.control.deadline import within
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.observed import Observed
from pdctl.domain.errors import ConflictError
from pdctl.domain.events import EventKind
from pdctl.domain.instance import Instance
from pdctl.domain.leases import Lease, holder, leases, unique
from pdctl.ports import Clock, Store

log = logging.getLogger(__name__)
RETRY_S = 5.0
LEASE_DEADLINE_S = 10.0


class Saving:
    """Writes `Observed` to the store. Who waits while a write is under way shares the next one."""

    def __init__(
        self, state: FleetState, observed: Observed, store: Store, clock: Clock, *, feed: Feed
    ) -> None:
        self._state, self._observed = state, observed
        self._store, self._clock, self._feed = store, clock, feed
        self._writing = asyncio.Lock()
        self._complained = False

    async def lease(self, one: Instance) -> None:
        """What `one` is about to take is its own, and on record; ConflictError when it is not."""
        if other := holder(self._leases(), one.id):
            raise ConflictError(
                "lease_taken", f"{other} is held by {other.instance} (start {other.generation})."
            )
        try:
            await within(self._clock, LEASE_DEADLINE_S, self._write(), name=f"lease {one.id}")
        except ConflictError:
            raise
        except Exception as error:
            log.warning("%s starts without a lease in the store: %s", one.id, error)

    async def save(self) -> bool:
        """Write what has changed; False when the store refused."""
        try:
            await self._write()
        except Exception:
            log.exception("instances cannot be saved")
            return False
        return True

    async def save_again(self) -> None:
        """Save; when refused, say so once and try again later."""
        while self._observed.unsaved:
            if await self.save():
                self._complained = False
                continue
            if not self._complained:
                message = "the store refuses the state of the instances; still trying"
                self._feed.publish(
                    EventKind.NOTICE, "fleet", {"level": "error", "message": message}
                )
                self._complained = True
            await self._clock.sleep(RETRY_S)

    async def _write(self) -> None:
        async with self._writing:
            if not self._observed.unsaved:
                return  # the write that we waited for took it along
            self._observed.unsaved = False
            try:
                await self._store.save_instances(
                    self._observed.instances, self._clock.now(), unique(self._leases())
                )
            except BaseException:
                self._observed.unsaved = True
                raise

    def _leases(self) -> tuple[Lease, ...]:
        return leases(self._state.fleet.desired, self._observed.instances)
