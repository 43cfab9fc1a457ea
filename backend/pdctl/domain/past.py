"""What a fleet was at a moment, put together from the facts that were told of it: pure.

Law: what no fact tells is unknown. A fact that was dropped meanwhile leaves a gap, never a guess;
what has not changed since before that moment is known from its present state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdctl.domain.events import Event, EventKind
from pdctl.domain.fleet import Fleet


@dataclass(frozen=True, slots=True)
class InstanceThen:
    """One instance at that moment."""

    id: str
    pool: str
    phase: str | None
    """None: it was there (a later fact says so), but in which phase is unknown."""
    reason: str = ""
    message: str = ""
    since: float | None = None
    """Wall seconds at which it had entered that phase; None: unknown."""


@dataclass(frozen=True, slots=True)
class PairThen:
    """One pair at that moment."""

    prefill: str
    decode: str
    state: str
    message: str = ""


def instances_at(facts: Sequence[Event], now: Fleet, at: float) -> list[InstanceThen]:
    """Every instance that was there at wall second `at`, by id. `facts` are oldest first."""
    found: dict[str, InstanceThen] = {}
    for one in now.instances:
        if one.since <= at:
            found[one.id] = InstanceThen(
                one.id, one.pool, one.phase.value, one.reason.value, one.message, one.since
            )
    later: set[str] = set()
    for fact in facts:
        if fact.kind is not EventKind.INSTANCE_CHANGED:
            continue
        if fact.at <= at:
            _take(found, fact)
        elif fact.subject not in found and fact.subject not in later:
            later.add(fact.subject)
            if fact.data.get("phase") not in (None, "pending"):  # it did not begin with this
                pool = str(fact.data.get("pool") or "")
                found[fact.subject] = InstanceThen(fact.subject, pool, None)
    return [found[id_] for id_ in sorted(found)]


def _take(found: dict[str, InstanceThen], fact: Event) -> None:
    id_, data = fact.subject, fact.data
    phase, pool = data.get("phase"), str(data.get("pool") or "")
    known = found.get(id_)
    if phase is None:
        found.pop(id_, None)
        return
    same = known is not None and known.phase == phase and known.since is not None
    found[id_] = InstanceThen(
        id_, pool, str(phase), str(data.get("reason") or ""), str(data.get("message") or ""),
        known.since if known is not None and same else fact.at,
    )  # fmt: skip


def pairs_at(facts: Sequence[Event], there: Sequence[InstanceThen], at: float) -> list[PairThen]:
    """Every pair of instances that were there, as it was told last before `at`."""
    ids = {one.id for one in there}
    found: dict[str, PairThen] = {}
    for fact in facts:
        prefill, _, decode = fact.subject.partition(">")
        if fact.kind is EventKind.PAIR_CHANGED and fact.at <= at and {prefill, decode} <= ids:
            state, message = str(fact.data.get("state")), str(fact.data.get("message") or "")
            found[fact.subject] = PairThen(prefill, decode, state, message)
    return [found[subject] for subject in sorted(found)]
