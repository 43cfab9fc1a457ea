"""What an operator may draw: no more instances than there is memory for."""

from __future__ import annotations

import random

from crashtest.fleets import REAL, Shape
from tests.crashtest.test_invariants import fleet

from crashtest import operations


def names(shape: Shape, **sizes: int) -> set[str]:
    """Everything that may be drawn for a fleet of these sizes."""
    pools = [
        {"name": name, "role": name, "desired": size, "ready": size,
         "instances": [f"{name}-{n}" for n in range(size)]}
        for name, size in sizes.items()
    ]  # fmt: skip
    view = fleet(pools=pools)
    return {operations.choose(random.Random(seed), view, shape).name for seed in range(200)}


def test_a_small_machine_grows_by_one_and_goes_back() -> None:
    assert {"grow", "rolling restart", "mode"} <= names(REAL, prefill=1, decode=1)
    full = names(REAL, prefill=1, decode=2)
    assert {"shrink", "drain", "move"} <= full
    assert "grow" not in full


def test_a_fleet_that_may_not_be_resized_is_not() -> None:
    assert names(Shape(1, 1, spare=0), prefill=1, decode=1) == {"mode", "nothing", "restart"}
