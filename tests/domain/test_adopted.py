"""What a restart of pdctl takes over goes on serving: no change may treat it as a start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.domain import actions as do
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.plan import plan
from pdctl.domain.topology import FleetSpec
from tests.domain.test_rolling import at_rest
from tests.fakes.fleets import fleet, reflagged, resized

COMING = (Phase.UNKNOWN, Phase.PROBING)


def adopted(one: Instance, phase: Phase, ready_at: float | None) -> Instance:
    """`one` right after a restart."""
    vitals = replace(one.vitals, ready_at=ready_at)
    return replace(one, phase=phase, reason=Reason.ADOPTED, vitals=vitals)


def taken_away(
    desired: FleetSpec, spec: FleetSpec, phase: Phase, ready_at: float | None = 1.0
) -> list[do.Action]:
    """What a plan for `desired` takes away of the fleet `spec` after a restart."""
    sim = at_rest(spec)
    members = [adopted(one, phase, ready_at) for one in sim.instances.values()]
    ahead = plan(desired, members, sim.pairs, sim.now)
    return [one for one in ahead.actions if isinstance(one, do.Drain | do.Stop)]


@pytest.mark.parametrize("phase", COMING)
def test_new_flags_wait_until_it_is_ready_again(phase: Phase) -> None:
    assert taken_away(reflagged(fleet(2, 2), max_num_seqs=64), fleet(2, 2), phase) == []


@pytest.mark.parametrize("phase", COMING)
def test_who_has_no_seat_any_more_is_drained(phase: Phase) -> None:
    (gone,) = taken_away(resized(fleet(2, 2), decode=1), fleet(2, 2), phase)
    assert isinstance(gone, do.Drain)


def test_a_start_that_was_under_way_is_still_stopped_at_once() -> None:
    (gone,) = taken_away(resized(fleet(2, 2), decode=1), fleet(2, 2), Phase.PROBING, None)
    assert isinstance(gone, do.Stop)
