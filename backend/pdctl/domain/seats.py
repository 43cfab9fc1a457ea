"""Who holds the seats of a pool, who leaves, and how many seats are empty: pure.

Law: what works stays. A shrink takes what is broken first, then what is not up yet, then the
least loaded; an instance that is being replaced keeps its seat until it is back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pdctl.domain import silence
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase, Reason

RETURNING = frozenset({Reason.OPERATOR, Reason.OUTDATED})
"""Reasons for which an instance is stopped in order to be started again."""
LEFT = frozenset({Phase.DRAINING, Phase.STOPPING, Phase.STOPPED})

# A drain once begun is only taken back for want of anything better: else two would take turns.
_RANK = {
    Phase.READY: 0, Phase.PROBING: 2, Phase.WARMING: 3, Phase.UNKNOWN: 3, Phase.LOADING: 4,
    Phase.STARTING: 5, Phase.PENDING: 6, Phase.DRAINING: 7, Phase.BACKOFF: 8, Phase.STOPPING: 9,
    Phase.FAILED: 10, Phase.STOPPED: 11,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Roster:
    """The members of one pool, sorted into those that stay and those that go."""

    kept: tuple[Instance, ...] = ()
    leaving: tuple[Instance, ...] = ()
    missing: int = 0
    """Seats that nobody holds."""


def seat(
    members: Iterable[Instance],
    size: int,
    outdated: Collection[str],
    exempt: Collection[str],
    leaving: Collection[tuple[str, int]] = (),
) -> Roster:
    """Give `size` seats to the best `members`; those in `exempt` hold none and may stay.

    Those in `leaving` (id, generation) were named by an operator: they are seated last.
    """
    able: list[Instance] = []
    gone: list[Instance] = []
    for one in members:
        if one.id in exempt:
            continue
        (able if can_sit(one, outdated) else gone).append(one)
    able.sort(key=lambda one: order(one, outdated, leaving))
    kept = tuple(able[:size])
    return Roster(kept, (*gone, *able[size:]), size - len(kept))


def order(
    one: Instance, outdated: Collection[str], leaving: Collection[tuple[str, int]]
) -> tuple[bool, int, int, int]:
    """Sorts the best for a seat first."""
    named = (one.id, one.generation) in leaving
    return named, _rank(one, outdated), -one.inflight, number(one.id)


def number(id_: str) -> int:
    """The n of "<pool>-<n>"; ids of another form sort last."""
    digits = id_.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 1 << 30


def pool_of(id_: str) -> str:
    """The pool that "<pool>-<n>" was started for."""
    return id_.rpartition("-")[0]


def free_id(pool: str, taken: Collection[str]) -> InstanceId:
    """The lowest "<pool>-<n>" that nobody has."""
    n = next(n for n in range(len(taken) + 1) if f"{pool}-{n}" not in taken)
    return InstanceId(f"{pool}-{n}")


def can_sit(one: Instance, outdated: Collection[str]) -> bool:
    """False for those on their way out for good: they cannot be called back."""
    if one.phase is Phase.STOPPING:
        return one.reason in RETURNING
    if one.phase is Phase.DRAINING and one.reason not in RETURNING:
        return one.id not in outdated
    return True


def _rank(one: Instance, outdated: Collection[str]) -> int:
    if one.phase in LEFT and one.reason in RETURNING:
        return 9
    if one.phase is Phase.READY and (one.id in outdated or silence.is_silent(one)):
        return 1
    return _RANK[one.phase]
