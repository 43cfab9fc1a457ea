"""What one instance needs by its own clock: timeouts, drains, stop rungs, retries. Pure.

The parts of the planner that look at one instance alone; `plan` decides who stays and who goes.
"""

from __future__ import annotations

from typing import Protocol

from pdctl.domain import silence
from pdctl.domain.actions import Action, GiveUp, Retry, Rung, Settle, Stop, Wishes
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.retry import MAX_FAILURES, STABLE_S
from pdctl.domain.topology import FleetSpec, Role

MAX_MISSES = 3
"""Refused looks in a row after which an instance counts as dead."""
STALL_S = 90.0
"""Seconds without an iteration, requests running, after which an engine counts as hung."""


class Draft(Protocol):
    """The plan in the making, as far as upkeep needs it."""

    desired: FleetSpec
    now: float
    wishes: Wishes
    actions: list[Action]
    notes: list[str]

    def look(self, at: float) -> None:
        """Ask to be called again at `at`."""


def starting(draft: Draft, one: Instance) -> bool:
    """Give up a start that shows no progress; True when it was."""
    if sick(draft, one):
        return True
    since, limit = one.vitals.progress_at, draft.desired.engine.start_timeout_s
    if since is None or one.phase is Phase.PENDING:
        return False
    if since + limit > draft.now:
        draft.look(since + limit)
        return False
    stage = one.progress.stage if one.progress else one.phase.value
    _kill(draft, one, Reason.START_TIMEOUT, f"no progress for {limit:.0f} s (last: {stage})")
    return True


def sick(draft: Draft, one: Instance) -> bool:
    """Kill what refuses to be looked at, or has stopped stepping; True when it was."""
    if one.vitals.kill_at is not None:
        _kill(draft, one, one.reason, one.message)
        return True
    if one.vitals.misses >= MAX_MISSES and _was_up(one):
        _kill(draft, one, Reason.UNHEALTHY, f"refused {one.vitals.misses} looks in a row")
        return True
    if _hung(draft, one):
        return True
    stalled, seen = one.vitals.stalled_since, one.vitals.scraped_at
    if stalled is None or seen is None:
        return False
    if seen - stalled < STALL_S:
        draft.look(stalled + STALL_S)
        return False
    message = f"requests are running but it made no iteration for {seen - stalled:.0f} s"
    _kill(draft, one, Reason.UNHEALTHY, message)
    return True


def _hung(draft: Draft, one: Instance) -> bool:
    """Kill what has answered nothing for long; True when it was. Until then say it."""
    since, at = one.vitals.silent_since, silence.hung_at(one)
    if since is None or at is None:
        return False
    if at > draft.now:
        draft.look(at)
        return False
    streams = f", with {one.inflight} streams open on it" if one.inflight else ""
    message = f"it has not answered anything for {draft.now - since:.0f} s{streams}"
    _kill(draft, one, Reason.UNHEALTHY, message)
    return True


def ready(draft: Draft, one: Instance) -> bool:
    """Watch what serves; True when it is sick. A long time of serving ends a failure streak."""
    if sick(draft, one):
        return True
    if not one.failures or one.vitals.ready_at is None:
        return False
    settles = one.vitals.ready_at + STABLE_S
    if settles <= draft.now:
        draft.actions.append(Settle(one.id))
    else:
        draft.look(settles)
    return False


def failed(draft: Draft, one: Instance) -> None:
    """BACKOFF: wait, try again, or give up. FAILED: wait for an operator."""
    if (one.id, one.generation) in draft.wishes.clear:
        draft.actions.append(Retry(one.id, fresh=True))
    elif one.phase is Phase.FAILED:
        draft.notes.append(f"{one.id} is given up until it is cleared: {one.message}")
    elif one.reason is Reason.CONFIG_ERROR:
        draft.actions.append(GiveUp(one.id, one.reason, one.message))
    elif one.failures >= MAX_FAILURES:
        message = f"failed {one.failures} times in a row; last: {one.message}"
        draft.actions.append(GiveUp(one.id, one.reason, message))
    elif one.retry_at is None or one.retry_at <= draft.now:
        draft.actions.append(Retry(one.id))
    else:
        draft.look(one.retry_at)


def drain(draft: Draft, one: Instance) -> None:
    """Stop what has drained, or has had its time."""
    deadline = draft.now if one.drain_deadline is None else one.drain_deadline
    if draft.wishes.close_by is not None:
        deadline = min(deadline, draft.wishes.close_by)
    if draft.wishes.force:
        _stop(draft, one, Rung.KILL, "forced")
    elif deadline <= draft.now:
        _stop(draft, one, Rung.TERM, f"drain deadline reached, {one.inflight} streams open")
    elif (clear := _clear_at(draft, one)) is None:
        draft.look(deadline)
    elif clear <= draft.now:
        _stop(draft, one, Rung.TERM, "drained")
    else:
        draft.look(min(clear, deadline))


def stopping(draft: Draft, one: Instance) -> None:
    """Take the next rung when the present one has had its time."""
    at = one.vitals.kill_at
    if draft.wishes.force and one.vitals.kill_at is not None and not one.vitals.killed:
        _stop(draft, one, Rung.KILL, "forced")
    elif at is not None and at <= draft.now:
        _stop(draft, one, Rung.KILL, "it did not end in its time")
    elif at is not None:
        draft.look(at)


def _clear_at(draft: Draft, one: Instance) -> float | None:
    """When no stream and no un-pulled KV is left on it; None while the router has legs open."""
    vitals = one.vitals
    if vitals.quiet_at is None:
        return None
    if one.role is Role.DECODE or draft.wishes.close_by is not None:
        return vitals.quiet_at  # vLLM keeps un-pulled KV after SIGTERM, for its shutdown timeout
    if vitals.bare_at is not None and vitals.bare_at >= vitals.quiet_at:
        return vitals.quiet_at  # its own count says that no KV waits to be pulled
    lease_s = draft.desired.connector.lease_s
    seen_idle = vitals.scraped_at is not None and vitals.scraped_at >= vitals.quiet_at
    if seen_idle and vitals.busy_at is not None:
        return vitals.busy_at + lease_s
    return vitals.quiet_at + lease_s


def _was_up(one: Instance) -> bool:
    if one.phase is Phase.UNKNOWN:
        return one.reason is not Reason.ADOPTED  # an adopted one may still be loading
    return one.phase not in (Phase.STARTING, Phase.LOADING)


def _kill(draft: Draft, one: Instance, why: Reason, message: str) -> None:
    at = one.vitals.kill_at
    if at is None or at <= draft.now:
        draft.actions.append(Stop(one.id, Rung.KILL, why, message))
    else:
        draft.look(at)


def _stop(draft: Draft, one: Instance, rung: Rung, message: str) -> None:
    draft.actions.append(Stop(one.id, rung, one.reason, message))
