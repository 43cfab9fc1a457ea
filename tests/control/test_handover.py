"""Letting go is refused where something would end with the process, and is told either way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.handover import Handover, hindrance
from pdctl.domain.audit import entry_of
from pdctl.domain.errors import ConflictError
from pdctl.domain.topology import FleetSpec
from tests.fakes.clock import VirtualClock
from tests.fakes.world import spec


def fleet(*, launcher: str = "subprocess", workers: int = 1) -> FleetSpec:
    one = spec()
    return replace(
        one, engine=replace(one.engine, launcher=launcher),
        router=replace(one.router, workers=workers),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (fleet(), None),
        (fleet(workers=0), "router_inside"),
        (fleet(launcher="simulated"), "engines_inside"),
    ],
)
def test_what_would_end_with_the_process_hinders(wanted: FleetSpec, code: str | None) -> None:
    found = hindrance(wanted)
    assert (found and found.code) == code


def test_who_asked_and_what_came_of_it_is_told() -> None:
    feed = Feed(VirtualClock())
    ours = Handover(FleetState(fleet()), feed)
    ours.begin(actor="ann", source="cli")
    assert ours.asked.is_set()
    entry = entry_of(feed.recent(1)[0])
    assert entry is not None
    assert (entry.verb, entry.actor, entry.outcome) == ("detach", "ann", "done")


def test_a_refusal_is_told_as_well() -> None:
    feed = Feed(VirtualClock())
    ours = Handover(FleetState(fleet(workers=0)), feed)
    with pytest.raises(ConflictError, match="would be cut"):
        ours.begin(actor="ann", source="cli")
    assert not ours.asked.is_set()
    entry = entry_of(feed.recent(1)[0])
    assert entry is not None
    assert entry.outcome == "refused"
    assert "router.workers = 1" in entry.message


def test_a_fleet_that_is_shut_down_is_not_let_go() -> None:
    state = FleetState(fleet())
    state.set_wishes(replace(state.wishes, close_by=1.0))
    with pytest.raises(ConflictError, match="shut down"):
        Handover(state, Feed(VirtualClock())).begin(actor="ann", source="cli")
