"""Starting an instance: from a slot to a running process, one order at a time.

Law: the slot is taken in the same breath as the decision; a start that fails is a failure of that
instance, and a command that cannot be built is one for ever.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pdctl.control.deadline import within
from pdctl.control.failing import crashed
from pdctl.control.fleet_state import FleetState
from pdctl.control.jobs import Jobs
from pdctl.control.lookout import Lookout
from pdctl.control.observed import Observed
from pdctl.control.saving import Saving
from pdctl.domain.actions import Launch
from pdctl.domain.compat import compat
from pdctl.domain.errors import EngineError, PdctlError
from pdctl.domain.instance import Endpoint, ExitInfo, Instance, Slot, Vitals
from pdctl.domain.lifecycle import Phase, Reason, Trigger, step
from pdctl.domain.topology import FleetSpec, PoolSpec, fingerprint
from pdctl.domain.verdict import Verdict, judge
from pdctl.ports import Clock, Health, Launcher, LaunchOrder, Probe

log = logging.getLogger(__name__)
LAUNCH_DEADLINE_S = 60.0
LOOK_DEADLINE_S = 10.0
HOST = "127.0.0.1"
"""Engines of this machine listen on loopback only; the router is the front door."""
Command = Callable[
    [FleetSpec, PoolSpec, str, Slot, str],
    tuple[tuple[str, ...], tuple[tuple[str, str], ...]],
]
"""(fleet, pool, instance id, slot, nonce) -> (argv, env)."""


class Launching:
    """Carries out `Launch`."""

    def __init__(
        self,
        state: FleetState,
        observed: Observed,
        launcher: Launcher,
        probe: Probe,
        clock: Clock,
        *,
        jobs: Jobs,
        command: Command,
        saving: Saving,
        lookout: Lookout | None = None,
    ) -> None:
        self._state, self._observed, self._launcher = state, observed, launcher
        self._probe, self._lookout, self._saving = probe, lookout, saving
        self._clock, self._jobs, self._command = clock, jobs, command

    def launch(self, action: Launch) -> None:
        """Take the slot now, start the process in the background."""
        if self._jobs.busy(action.id):
            return
        fleet = self._state.fleet.desired
        pool = fleet.pool(action.pool)
        if pool is not None:
            one = self._claim(fleet, pool, action)
            self._jobs.start(action.id, partial(self._run, fleet, pool, one))

    def _claim(self, fleet: FleetSpec, pool: PoolSpec, action: Launch) -> Instance:
        slot = action.slot
        generation = self._observed.generations.get(action.id, 0) + 1
        fresh = Instance(
            id=action.id, pool=pool.name, role=pool.role, slot=slot,
            fingerprint=fingerprint(fleet, pool), phase=Phase.PENDING, reason=Reason.DESIRED,
            message=f"start {generation}", since=self._clock.now(),
            endpoint=Endpoint(HOST, slot.http_port, slot.side_channel_port),
            compat=compat(fleet, pool), generation=generation, nonce=secrets.token_hex(8),
        )  # fmt: skip
        old = self._observed.get(action.id)
        if old is None:
            self._observed.add(fresh)
            return fresh
        step(old.phase, Trigger.CLEARED if old.phase is Phase.STOPPED else Trigger.SPAWNED)
        new = replace(
            fresh, failures=old.failures, exit=old.exit, first_failure=old.first_failure,
            vitals=Vitals(races=old.vitals.races),
        )  # fmt: skip
        self._observed.add(new)
        return new

    async def _run(self, fleet: FleetSpec, pool: PoolSpec, one: Instance) -> None:
        try:
            argv, env = self._command(fleet, pool, one.id, one.slot, one.nonce)
        except Exception as error:  # plug-ins and arguments of others: anything may come
            self._refused(one, error)
            return
        if await self._is_taken(one):
            return
        order = LaunchOrder(
            instance_id=one.id, pool=pool.name, role=pool.role, generation=one.generation,
            nonce=one.nonce, fingerprint=one.fingerprint, slot=one.slot, endpoint=one.endpoint,
            argv=argv, env=env, shutdown_timeout_s=pool.shutdown_timeout_s, compat=one.compat,
        )  # fmt: skip
        try:
            await self._saving.lease(one)
            run = await within(
                self._clock,
                LAUNCH_DEADLINE_S,
                self._launcher.launch(order),
                name=f"launch {one.id}",
            )
        except Exception as error:
            self._failed(one, error)  # a start that was only slow is ended as a stray
            return
        if (current := self._observed.same(one)) is not None:
            vitals = replace(current.vitals, progress_at=self._clock.monotonic())
            self._observed.move(
                current, Trigger.SPAWNED, pid=run.pid, shim_pid=run.shim_pid, vitals=vitals
            )

    def _refused(self, one: Instance, error: Exception) -> None:
        if (current := self._observed.same(one)) is not None:
            message = f"its command cannot be built: {_said(error)}"
            self._observed.move(
                current, Trigger.GAVE_UP, reason=Reason.CONFIG_ERROR, message=message
            )

    def _failed(self, one: Instance, error: Exception) -> None:
        current = self._observed.same(one)
        if current is None:
            return
        said = ExitInfo(None, None, self._clock.now(), (_said(error),))
        reason = judge(said, was_up=False).reason
        if isinstance(error, EngineError) and error.code == "bad_arguments":
            reason = Reason.CONFIG_ERROR
        why = Verdict(reason, f"it could not be started: {_said(error)}")
        crashed(self._observed, self._clock, current, why, nonce="")

    async def _is_taken(self, one: Instance) -> bool:
        """Somebody else answers on the port: we would take their engine for ours."""
        try:
            work = self._probe.look(one.endpoint)
            health = await within(self._clock, LOOK_DEADLINE_S, work, name=f"look {one.id}")
        except TimeoutError:
            health = Health(up=False, why="timeout")
        if not health.up and "refused" in health.why:
            return False
        port = one.endpoint.http_port
        holder = await self._lookout.holder(port) if self._lookout else ""
        if (current := self._observed.same(one)) is not None:
            said = f"somebody else's server answers on port {port}"
            why = Verdict(Reason.PORT_RACE, f"{said}: {holder}" if holder else said)
            crashed(self._observed, self._clock, current, why, nonce="")
        return True


def _said(error: Exception) -> str:
    """What an error says; what nobody foresaw is logged with its trace."""
    if isinstance(error, PdctlError | OSError):
        return str(error)
    log.error("a launch broke", exc_info=error)
    return f"{type(error).__name__}: {error}"
