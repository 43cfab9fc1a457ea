"""Facts as lines: in the log and on a terminal that watches, and never about requests."""

from __future__ import annotations

import logging

import pytest

from pdctl.control.journal import Journal
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Mode
from tests.fakes.fleets import Plane
from tests.fakes.machine import World


async def test_a_start_a_death_and_the_return_are_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pdctl.fleet")
    told: list[str] = []
    plane = Plane(world)
    Journal(plane.feed, plane.state, lambda _, line: told.append(line))
    async with plane:
        await plane.ready()
        await plane.clock.settle()
        assert "prefill-0 starting: start 1" in told
        assert told[-1] == "the fleet is ready: 1p1d, mode pd"
        world.crash("decode-0", "RuntimeError: no luck")
        await plane.clock.until(lambda: plane.phases["decode-0"] is Phase.BACKOFF)
        await plane.clock.settle()
        assert any(line.startswith("decode-0 backoff: ") and "no luck" in line for line in told)
        assert "the fleet is no longer whole" in told
        await plane.ready()
        await plane.clock.settle()
        assert told[-1] == "the fleet is ready: 1p1d, mode pd"
    assert [one.getMessage() for one in caplog.records if one.name == "pdctl.fleet"] == told
    bad = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert any(line.startswith("decode-0 backoff") for line in bad)


async def test_verbs_and_notices_are_written_and_requests_are_not(world: World) -> None:
    told: list[str] = []
    plane = Plane(world)
    Journal(plane.feed, plane.state, lambda _, line: told.append(line))
    await plane.operations.set_mode(Mode.CHUNKED, actor="ada", source="cli")
    plane.feed.publish(EventKind.NOTICE, "decode-0", {"level": "error", "message": "full disk"})
    plane.feed.publish(EventKind.REQUEST_FINISHED, "r1", {"outcome": "ok"})
    assert told == [
        "set_mode fleet from pd to chunked: done, asked by ada (cli)", "decode-0: full disk",
    ]  # fmt: skip
