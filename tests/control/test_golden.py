"""Golden checks: which pair, what is told, and the timer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pdctl.control.golden import LOOK_S, GoldenChecks
from pdctl.domain.errors import ConflictError, EngineError
from pdctl.domain.events import EventKind
from pdctl.domain.golden import Answer
from pdctl.domain.instance import Endpoint
from pdctl.domain.topology import GoldenSpec
from pdctl.tasks import settle, spawn
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World


@dataclass
class Engines:
    """Answers both ways as the test wants it."""

    answers: tuple[Answer, Answer] = (Answer("a", (1, 2)), Answer("a", (1, 2)))
    failing: bool = False
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def both_ways(
        self, ends: tuple[Endpoint, Endpoint], model: str, prompt: str, tokens: int, limit_s: float
    ) -> tuple[Answer, Answer]:
        self.asked.append((ends[0].http_port, ends[1].http_port))
        assert prompt
        if self.failing:
            raise EngineError("golden_failed", "connection refused.")
        return self.answers


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock, tmp_path: Path) -> World:
    return World(clock, "normal", tmp_path)


def told(world: World, kind: EventKind) -> list[dict[str, object]]:
    return [one.data for one in world.feed.recent(100) if one.kind is kind]


async def test_an_equal_answer_is_logged_as_done(world: World, clock: VirtualClock) -> None:
    checks = GoldenChecks(world.state, world.feed, clock, Engines())
    found = await checks.ask(None, actor="me", source="cli")
    assert found.equal
    assert checks.newest == (found,)
    last = told(world, EventKind.OPERATION)[-1]
    assert (last["verb"], last["outcome"], last["after"]) == ("golden", "done", "equal")


async def test_a_difference_is_a_notice_that_names_the_pair(
    world: World, clock: VirtualClock
) -> None:
    engines = Engines((Answer("a", (1, 2, 3)), Answer("b", (1, 9, 3))))
    checks = GoldenChecks(world.state, world.feed, clock, engines)
    found = await checks.check()
    assert (found.equal, found.differs_at) == (False, 1)
    message = str(told(world, EventKind.NOTICE)[-1]["message"])
    assert found.prefill in message
    assert "token 2" in message


async def test_an_engine_that_fails_is_no_difference(world: World, clock: VirtualClock) -> None:
    checks = GoldenChecks(world.state, world.feed, clock, Engines(failing=True))
    found = await checks.ask(None, actor="me", source="cli")
    assert found.equal is None
    assert "refused" in found.why
    assert told(world, EventKind.OPERATION)[-1]["outcome"] == "failed"


async def test_only_pairs_that_serve_are_asked(world: World, clock: VirtualClock) -> None:
    checks = GoldenChecks(world.state, world.feed, clock, Engines())
    with pytest.raises(ConflictError, match="prefill-0 > decode-9"):
        await checks.ask(("prefill-0", "decode-9"), actor="me", source="cli")
    assert told(world, EventKind.OPERATION)[-1]["outcome"] == "refused"


async def test_the_timer_takes_one_pair_after_the_other(world: World, clock: VirtualClock) -> None:
    desired = world.state.fleet.desired
    world.state.set_desired(replace(desired, golden=GoldenSpec(every_s=60.0)))
    engines = Engines()
    checks = GoldenChecks(world.state, world.feed, clock, engines)
    task = spawn(checks.run(), name="golden-under-test")
    try:
        for _ in range(3):
            await clock.advance(60.0 + LOOK_S)
    finally:
        await settle(task)
    assert len(engines.asked) >= 2
    assert len(set(engines.asked)) >= 2, "the pair that was checked longest ago comes next"
    world.state.set_desired(desired)
