"""The lifecycle is a table: what it knows works, what it does not know raises."""

from __future__ import annotations

from itertools import product

import pytest

from pdctl.domain.lifecycle import (
    ALIVE,
    TRANSITIONS,
    LifecycleError,
    Phase,
    Trigger,
    step,
)


@pytest.mark.parametrize(("phase", "trigger"), list(product(Phase, Trigger)))
def test_every_pair_is_in_the_table_or_raises(phase: Phase, trigger: Trigger) -> None:
    if (phase, trigger) in TRANSITIONS:
        assert step(phase, trigger) in Phase
    else:
        with pytest.raises(LifecycleError, match=f"an instance that is {phase} cannot be"):
            step(phase, trigger)


def test_every_phase_can_be_reached_and_left() -> None:
    reached = set(TRANSITIONS.values())
    left = {phase for phase, _ in TRANSITIONS}
    assert reached == set(Phase)
    assert left == set(Phase)


def test_whatever_lives_can_be_stopped_can_crash_and_ends_without_a_process() -> None:
    for phase in ALIVE - {Phase.STOPPING}:
        assert step(phase, Trigger.STOP_BEGUN) is Phase.STOPPING
        assert step(phase, Trigger.CRASHED) not in ALIVE
        assert (phase, Trigger.GAVE_UP) not in TRANSITIONS, "nobody would answer for its process"
    assert step(Phase.STOPPING, Trigger.EXITED) not in ALIVE
