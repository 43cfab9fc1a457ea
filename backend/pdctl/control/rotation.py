"""Keeps the data plane's table in step with the fleet, and learns from it when a drain is quiet.

Law: an instance is quiet only when the router, counting under a table that no longer sends work to
it, has no leg open on it.
"""

from __future__ import annotations

from dataclasses import replace

from pdctl.control import table_builder
from pdctl.control.deadline import within
from pdctl.control.fleet_state import FleetState
from pdctl.control.jobs import Jobs
from pdctl.control.observed import Observed
from pdctl.domain.handoff import Load
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase
from pdctl.domain.table import RoutingTable
from pdctl.ports import Clock, DataPlane

PUSH_DEADLINE_S = 5.0


class Rotation:
    """Who is in rotation, as the router was told and as it acknowledged."""

    def __init__(
        self, state: FleetState, observed: Observed, data_plane: DataPlane, clock: Clock,
        jobs: Jobs, *, traced: bool = False,
    ) -> None:  # fmt: skip
        self._state, self._observed, self._clock, self._jobs = state, observed, clock, jobs
        self._data_plane, self._traced = data_plane, traced
        self._latest: RoutingTable | None = None
        self._pushed: RoutingTable | None = None
        self._seq = int(clock.now() * 1000)  # grows over restarts: no router takes an older table
        self._out_since: dict[str, int] = {}
        self._load = Load(0)

    def refresh(self) -> None:
        """Push the table if it says anything new."""
        table = table_builder.build(self._state.fleet, self._seq + 1, traced=self._traced)
        if table_builder.differs(table, self._latest):
            self._seq += 1
            self._latest = table
        draining = {one.nonce for one in self._observed.instances if one.phase is Phase.DRAINING}
        self._out_since = {nonce: self._out_since.get(nonce, self._seq) for nonce in draining}
        if self._pushed is not self._latest:
            self._jobs.start("push", self._push)

    def on_load(self, load: Load) -> bool:
        """Take the router's numbers; True when a drain may have moved."""
        self._load = load
        now = self._clock.monotonic()
        news = [self._loaded(one, now) for one in self._observed.instances]
        changed = [one for one in news if one is not self._observed.get(one.id)]
        if changed:
            self._observed.refresh(changed)
        return any(one.phase is Phase.DRAINING for one in news)

    def _loaded(self, one: Instance, now: float) -> Instance:
        inflight = self._load.inflight.get(one.id, 0)
        vitals = one.vitals
        if inflight:
            vitals = replace(vitals, busy_at=now, quiet_at=None)
        elif one.phase is Phase.DRAINING and vitals.quiet_at is None:
            out = self._out_since.get(one.nonce)
            if out is not None and out <= self._load.table_seq:
                vitals = replace(vitals, quiet_at=now)
        if inflight == one.inflight and vitals is one.vitals:
            return one
        return replace(one, inflight=inflight, vitals=vitals)

    async def _push(self) -> None:
        while (table := self._latest) is not None and table is not self._pushed:
            work = self._data_plane.push(table)
            await within(self._clock, PUSH_DEADLINE_S, work, name="push table")
            self._pushed = table
