"""What the planner may ask for: a closed set of frozen actions, the plan, and single wishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import Slot
from pdctl.domain.lifecycle import Reason


class Rung(StrEnum):
    """One rung of the stop ladder."""

    TERM = "terminate"
    """SIGTERM to the leader: vLLM drains for its --shutdown-timeout."""
    KILL = "kill"
    """SIGKILL to the whole process group."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Start instance `id` of `pool` in `slot`."""

    id: InstanceId
    pool: PoolName
    slot: Slot


@dataclass(frozen=True, slots=True)
class Warm:
    """Send the first tiny request."""

    id: InstanceId


@dataclass(frozen=True, slots=True)
class ProbePair:
    """Try one synthetic handoff."""

    prefill: InstanceId
    decode: InstanceId


@dataclass(frozen=True, slots=True)
class MarkReady:
    """Every pair it can form has been tried: let it take traffic."""

    id: InstanceId


@dataclass(frozen=True, slots=True)
class Drain:
    """Take it out of rotation and let its streams finish until `deadline` (monotonic seconds)."""

    id: InstanceId
    why: Reason
    message: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Undrain:
    """It is wanted after all: put it back into rotation."""

    id: InstanceId


@dataclass(frozen=True, slots=True)
class Stop:
    """Take one rung of the stop ladder."""

    id: InstanceId
    rung: Rung
    why: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Its pause is over, or an operator cleared it: make it launchable again."""

    id: InstanceId
    fresh: bool = False
    """True when an operator cleared it: the failure streak starts anew."""


@dataclass(frozen=True, slots=True)
class Settle:
    """It has worked for long: its failure streak is over."""

    id: InstanceId


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again until an operator clears it."""

    id: InstanceId
    why: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Reassign:
    """The same process belongs to `pool` from now on: its launch flags are those of that pool."""

    id: InstanceId
    pool: PoolName


@dataclass(frozen=True, slots=True)
class Forget:
    """It has stopped and nobody wants it: drop it from the picture."""

    id: InstanceId


Action = (
    Launch | Warm | ProbePair | MarkReady | Drain | Undrain | Stop
    | Retry | Settle | GiveUp | Forget | Reassign
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, when to ask again, and why no more could be done."""

    actions: tuple[Action, ...] = ()
    next_look: float | None = None
    """Monotonic time at which a deadline falls due; None when only the world can change this."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an operator wants of single instances. Each names one generation, so it expires."""

    restart: frozenset[tuple[InstanceId, int]] = field(default_factory=frozenset)
    """(id, generation): this start of it should end and a new one take its place."""
    clear: frozenset[tuple[InstanceId, int]] = field(default_factory=frozenset)
    """(id, generation): forget that it failed and try again now."""
    close_by: float | None = None
    """Monotonic deadline: stop everything, streams included, by then. None: the fleet stays."""
    force: bool = False
    """While closing: kill now, wait for nothing."""
