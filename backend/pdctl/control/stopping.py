"""The stop ladder: out of rotation, drained, SIGTERM, SIGKILL. Every rung is an event.

Law: a rung is taken once and then has its time; what the planner sees as sick is killed where it
stands and counts as failed, what it wants away is stopped and counts as stopped.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pdctl.control.deadline import within
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.jobs import Jobs
from pdctl.control.observed import Observed
from pdctl.control.processes import KILL_DEADLINE_S, SICK
from pdctl.domain.actions import Drain, Rung, Stop, Undrain
from pdctl.domain.events import EventKind
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import ALIVE, TRANSITIONS, Phase, Reason, Trigger
from pdctl.ports import Clock, Launcher

TERM_SLACK_S = 10.0
"""Added to vLLM's own --shutdown-timeout before the group is killed."""
IDLE_S = 5.0
"""What one gets that has not served yet: while vLLM loads it may lose a SIGTERM."""
KILL_AGAIN_S = 15.0
DEFAULT_SHUTDOWN_S = 60.0
"""Shutdown timeout assumed of an instance whose pool is gone."""
_NO_PROCESS = frozenset({Phase.PENDING, Phase.BACKOFF, Phase.FAILED})


class Stopping:
    """Carries out `Drain`, `Undrain` and `Stop`."""

    def __init__(
        self,
        state: FleetState,
        observed: Observed,
        launcher: Launcher,
        clock: Clock,
        jobs: Jobs,
        *,
        feed: Feed,
    ) -> None:
        self._state, self._observed, self._launcher = state, observed, launcher
        self._clock, self._jobs, self._feed = clock, jobs, feed

    def drain(self, action: Drain) -> None:
        """Take it out of rotation: the next table does not send work to it."""
        if (one := self._observed.get(action.id)) is None:
            return
        held = action.why is Reason.HELD
        fresh = replace(one.vitals, quiet_at=None)
        self._observed.move(
            one,
            Trigger.DRAIN_BEGUN,
            reason=action.why,
            message=action.message,
            drain_deadline=None if held else action.deadline,
            vitals=one.vitals if one.phase is Phase.DRAINING else fresh,
        )
        left = f"have {action.deadline - self._clock.monotonic():.0f} s to finish"
        streams = "may finish" if held else left
        self._tell(one, "out_of_rotation", f"{action.message}; streams {streams}")

    def undrain(self, action: Undrain) -> None:
        """Put it back into rotation."""
        if (one := self._observed.get(action.id)) is not None:
            vitals = replace(one.vitals, quiet_at=None)
            self._observed.move(
                one, Trigger.DRAIN_CANCELLED, message="wanted again", drain_deadline=None,
                vitals=vitals,
            )  # fmt: skip
            self._tell(one, "back_in_rotation", "it is wanted after all")

    def stop(self, action: Stop) -> bool:
        """Take one rung; False when something is under way with it already."""
        one = self._observed.get(action.id)
        if one is None or self._jobs.busy(one.id):
            return False
        if one.phase in _NO_PROCESS:
            self._observed.move(
                one, Trigger.STOP_BEGUN, reason=action.why, message=action.message, retry_at=None
            )
        elif action.rung is Rung.TERM:
            self._terminate(one, action)
        else:
            self._kill(one, action)
        return True

    def _terminate(self, one: Instance, action: Stop) -> None:
        vitals = replace(one.vitals, kill_at=self._kill_at(one))
        self._observed.move(
            one, Trigger.STOP_BEGUN, reason=action.why, message=action.message, vitals=vitals
        )
        self._tell(one, action.rung, f"SIGTERM: {action.message}")
        self._jobs.start(one.id, partial(self._send, one, action.rung))

    def _kill(self, one: Instance, action: Stop) -> None:
        now = self._clock.monotonic()
        vitals = replace(one.vitals, kill_at=now + KILL_AGAIN_S, killed=True)
        changes = {"reason": action.why, "message": action.message, "vitals": vitals}
        if one.phase in ALIVE - {Phase.STOPPING} and action.why not in SICK:
            self._observed.move(one, Trigger.STOP_BEGUN, **changes)
        elif (one.phase, Trigger.LOST_SIGHT) in TRANSITIONS:
            self._observed.move(one, Trigger.LOST_SIGHT, **changes)
        else:
            self._observed.edit(one, **changes)
        again = " again" if one.vitals.killed else ""
        self._tell(one, action.rung, f"SIGKILL{again}: {action.message}")
        self._jobs.start(one.id, partial(self._send, one, action.rung))

    def _kill_at(self, one: Instance) -> float:
        now = self._clock.monotonic()
        if one.stats is None and one.vitals.ready_at is None:  # nothing was ever asked of it
            return now + IDLE_S
        pool = self._state.fleet.desired.pool(one.pool)
        patience = (pool.shutdown_timeout_s if pool else DEFAULT_SHUTDOWN_S) + TERM_SLACK_S
        close_by = self._state.wishes.close_by
        if close_by is None:
            return now + patience
        return min(now + patience, max(now, close_by) + TERM_SLACK_S)

    async def _send(self, one: Instance, rung: Rung) -> None:
        verb = self._launcher.terminate if rung is Rung.TERM else self._launcher.kill
        work = verb(one.nonce)
        await within(self._clock, KILL_DEADLINE_S, work, name=f"{rung} {one.id}")

    def _tell(self, one: Instance, rung: str, message: str) -> None:
        self._feed.publish(
            EventKind.STOP_RUNG, one.id, {"rung": str(rung), "message": message, "pool": one.pool}
        )
