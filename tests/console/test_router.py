"""The router by keyboard: settings looked at and switched by a plan, and whom it leaves alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pdctl.contract.resources import CircuitView
from tests.console.stage import Stage, staged


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged("normal", tmp_path, (120, 36)) as stage:
        yield stage


async def test_a_policy_is_picked_and_switched_by_its_plan(stage: Stage) -> None:
    await stage.press("o")
    await stage.shows("prefill_policy", "least_loaded", "how a prefill instance")
    await stage.press(*"prefill", "enter")
    await stage.shows("least_loaded now", "round_robin")
    await stage.press(*"round", "enter")
    await stage.shows(
        "router.prefill_policy least_loaded -> round_robin",
        "pdctl router set prefill_policy=round_robin",
    )
    assert stage.world.state.fleet.desired.router.prefill_policy == "least_loaded"
    await stage.press("y")
    await stage.until(
        lambda: stage.world.state.fleet.desired.router.prefill_policy == "round_robin"
    )


async def test_a_number_is_typed_and_a_wrong_one_is_refused_in_words(stage: Stage) -> None:
    await stage.press("o")
    await stage.shows("queue_limit")
    await stage.press(*"retries", "enter")
    await stage.shows("further attempts before the first byte", "Enter plans it")
    await stage.press("backspace", *"99", "enter")
    await stage.shows("Give a whole number from 0 to 10.")


async def test_a_circuit_breaker_is_told_in_words() -> None:
    def words(state: str) -> str:
        return CircuitView(state=state, why="5 failures in a row").words

    assert words("open") == "the router sends it nothing (5 failures in a row)"
    assert words("half_open") == "the router sends it one request, to try it (5 failures in a row)"
