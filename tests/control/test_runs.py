"""How a run ends: with words for whatever was foreseen and did not come about."""

from __future__ import annotations

import pytest

from pdctl.control.runs import Run
from pdctl.domain.rehearsal import Step
from pdctl.domain.runs import RunRecord, RunState
from tests.fakes.fleets import Plane
from tests.fakes.machine import World


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (0, ""),
        (1, "the fleet is as wanted; 1 step was not needed any more: drain decode-0"),
        (5, "the fleet is as wanted; 5 steps were not needed any more: drain decode-0, "
            "drain decode-1, drain decode-2 and 2 more"),
    ],
)  # fmt: skip
async def test_steps_that_the_fleet_could_do_without_are_named(
    world: World, left: int, said: str
) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        fleet = plane.state.fleet
    seen = Step(9, "launch", "decode-0", 0.0, 1.0)
    steps = [Step(at, "drain", f"decode-{at}", 0.0, 1.0) for at in range(left)]
    record = RunRecord(
        "op-1", "plan-1", fleet.desired.revision, ("prefill 1 -> 2",), "ada", "cli", 0.0,
        (*steps, seen), done=(9,),
    )  # fmt: skip
    run = Run(record)
    assert run.judge(fleet, 1.0)
    assert (run.record.state, run.record.message) == (RunState.DONE, said)
