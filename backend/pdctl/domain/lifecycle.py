"""The lifecycle of an instance, as data: (phase, trigger) -> phase. Nothing else decides phases.

Two rules: everything that affects a transition is in this table, and an illegal transition raises.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """What an instance is observed to be doing."""

    PENDING = "pending"
    STARTING = "starting"
    LOADING = "loading"
    WARMING = "warming"
    PROBING = "probing"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    STOPPED = "stopped"
    BACKOFF = "backoff"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Trigger(StrEnum):
    """What happened to it."""

    SPAWNED = "spawned"
    LOAD_SEEN = "load_seen"
    ENGINE_UP = "engine_up"
    WARMED = "warmed"
    PROBED = "probed"
    ADOPTED = "adopted"
    LOST_SIGHT = "lost_sight"
    DRAIN_BEGUN = "drain_begun"
    DRAIN_CANCELLED = "drain_cancelled"
    STOP_BEGUN = "stop_begun"
    EXITED = "exited"
    CRASHED = "crashed"
    GAVE_UP = "gave_up"
    RETRY_DUE = "retry_due"
    CLEARED = "cleared"


class Reason(StrEnum):
    """Why it is in its phase: few values, for filters and metrics; the message has the detail."""

    DESIRED = "desired"
    OPERATOR = "operator"
    SCALE_DOWN = "scale_down"
    OUTDATED = "outdated"
    EXITED = "exited"
    UNHEALTHY = "unhealthy"
    START_TIMEOUT = "start_timeout"
    CONFIG_ERROR = "config_error"
    PORT_RACE = "port_race"
    SHUTDOWN = "shutdown"
    ADOPTED = "adopted"
    HELD = "held"
    """An operator keeps it out of rotation."""


P, T = Phase, Trigger
_ALIVE = (P.STARTING, P.LOADING, P.WARMING, P.PROBING, P.READY, P.DRAINING, P.UNKNOWN)

TRANSITIONS: dict[tuple[Phase, Trigger], Phase] = {
    (P.PENDING, T.SPAWNED): P.STARTING,
    (P.PENDING, T.ADOPTED): P.UNKNOWN,
    (P.STARTING, T.LOAD_SEEN): P.LOADING,
    (P.LOADING, T.LOAD_SEEN): P.LOADING,
    (P.STARTING, T.ENGINE_UP): P.WARMING,
    (P.LOADING, T.ENGINE_UP): P.WARMING,
    (P.UNKNOWN, T.ENGINE_UP): P.PROBING,
    (P.UNKNOWN, T.LOAD_SEEN): P.LOADING,
    (P.WARMING, T.WARMED): P.PROBING,
    (P.PROBING, T.PROBED): P.READY,
    (P.READY, T.LOST_SIGHT): P.UNKNOWN,
    (P.PROBING, T.LOST_SIGHT): P.UNKNOWN,
    (P.WARMING, T.LOST_SIGHT): P.UNKNOWN,
    (P.READY, T.DRAIN_BEGUN): P.DRAINING,
    (P.UNKNOWN, T.DRAIN_BEGUN): P.DRAINING,
    (P.PROBING, T.DRAIN_BEGUN): P.DRAINING,
    (P.DRAINING, T.DRAIN_BEGUN): P.DRAINING,
    (P.DRAINING, T.DRAIN_CANCELLED): P.READY,
    (P.STOPPING, T.EXITED): P.STOPPED,
    (P.BACKOFF, T.RETRY_DUE): P.PENDING,
    (P.BACKOFF, T.GAVE_UP): P.FAILED,
    (P.BACKOFF, T.STOP_BEGUN): P.STOPPED,
    (P.FAILED, T.STOP_BEGUN): P.STOPPED,
    (P.PENDING, T.STOP_BEGUN): P.STOPPED,
    (P.PENDING, T.CRASHED): P.BACKOFF,
    (P.PENDING, T.GAVE_UP): P.FAILED,
    (P.FAILED, T.CLEARED): P.PENDING,
    (P.STOPPED, T.CLEARED): P.PENDING,
    **{(phase, T.STOP_BEGUN): P.STOPPING for phase in _ALIVE},
    **{(phase, T.CRASHED): P.BACKOFF for phase in _ALIVE},
    (P.DRAINING, T.EXITED): P.STOPPED,
}

ALIVE = frozenset({*_ALIVE, P.STOPPING})
"""Phases in which a process exists and holds a slot (device, core and ports)."""


class LifecycleError(Exception):
    """A transition that the table does not know."""

    def __init__(self, phase: Phase, trigger: Trigger) -> None:
        super().__init__(f"an instance that is {phase} cannot be {trigger}")
        self.phase, self.trigger = phase, trigger


def step(phase: Phase, trigger: Trigger) -> Phase:
    """The phase that follows `phase` when `trigger` happens; LifecycleError when none does."""
    try:
        return TRANSITIONS[phase, trigger]
    except KeyError:
        raise LifecycleError(phase, trigger) from None
