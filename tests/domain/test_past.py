"""A past moment out of facts: what is told, what is unknown, and what was not there yet."""

from __future__ import annotations

from typing import Any

from pdctl.domain.events import Event, EventKind
from pdctl.domain.fleet import Fleet
from pdctl.domain.ids import Seq
from pdctl.domain.past import instances_at
from tests.fakes.fleets import fleet

NOBODY = Fleet(fleet(1, 1))


def phases(*facts: tuple[float, str | None], at: float) -> dict[str, str | None]:
    """What decode-0 was, when these are the facts of it and it is there no more."""
    told = [
        Event(Seq(number), when, EventKind.INSTANCE_CHANGED, "decode-0", _data(phase))
        for number, (when, phase) in enumerate(facts)
    ]
    return {one.id: one.phase for one in instances_at(told, NOBODY, at)}


def _data(phase: str | None) -> dict[str, Any]:
    return {"pool": "decode", "phase": phase}


def test_the_last_fact_before_it_counts() -> None:
    facts = [(1.0, "pending"), (2.0, "starting"), (3.0, "ready"), (9.0, None)]
    assert phases(*facts, at=2.5) == {"decode-0": "starting"}
    assert phases(*facts, at=3.0) == {"decode-0": "ready"}
    assert phases(*facts, at=9.0) == {}


def test_what_began_later_was_not_there() -> None:
    assert phases((1.0, "pending"), (2.0, "starting"), (3.0, "ready"), at=0.5) == {}


def test_what_facts_are_silent_of_is_unknown() -> None:
    assert phases((2.0, "draining"), (3.0, "stopping"), (4.0, None), at=1.0) == {"decode-0": None}
