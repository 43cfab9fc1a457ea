"""Objectives at the front door: who is refused, who waits, and what the record says of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from tests.fakes.waiting import until
from tests.gateway.conftest import Engines
from tests.gateway.desk import COMPLETIONS, Desk
from tests.routing.boards import table

from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode, SloSpec
from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.ledger import Reservation
from pdctl.routing.facts import RequestFacts
from pdctl.routing.router import Avoid, Refusal
from pdctl.simulated.config import Timing
from pdctl.tasks import settle, spawn

SLOS = (SloSpec("never", ttft_ms=0.001), SloSpec("patient", ttft_ms=3_600_000))
FACTS = RequestFacts(COMPLETIONS, prompt_tokens=1000)


@pytest.mark.parametrize("admission", ["queue", "refuse"])
async def test_a_hopeless_request_is_refused_with_its_forecast(
    desk: Desk, engines: Engines, admission: str
) -> None:
    await engines("p0", speed=1.0, timing=Timing(prefill_tokens_per_s=1000.0))
    await engines("d0")
    desk.slos = SLOS
    await desk.push(slo="never", admission=admission)
    # Nothing is known of them yet: nobody is refused. A stream tells how long its legs took.
    await desk.raw(COMPLETIONS, {"model": "tiny", "prompt": [7] * 200, "stream": True})
    assert (await desk.record()).outcome is Outcome.OK
    # Nor is one for which nobody has anything to compute; this one takes 4 s.
    long = spawn(desk.complete(prompt=[8] * 4000), name="long")
    await until(lambda: "p0" in desk.plane.load.inflight)
    async with desk.client.post(COMPLETIONS, json={"model": "tiny", "prompt": "hello"}) as answer:
        assert answer.status == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        error = (await answer.json())["error"]
    assert error["type"] == "RateLimitError"
    assert "to the first token expected, the SLO never allows 0.001 ms" in error["message"]
    record = await desk.record(2)
    assert (record.outcome, record.status) == (Outcome.OVERLOADED, 429)
    assert (record.path, record.path_reason, record.error) == (Path.NONE, "slo", error["message"])
    assert not record.legs
    patient = {"X-Pdctl-Slo": "patient"}
    assert (await desk.complete(headers=patient, prompt="hello"))[0] == 200
    last = await desk.record(3)
    assert "the SLO patient allows 3600000 ms" in last.legs[-1].why
    await settle(long)
    await desk.idle()


async def test_an_objective_that_is_not_there_is_said(desk: Desk, engines: Engines) -> None:
    await engines("b0")
    desk.slos = SLOS
    await desk.push(Mode.CHUNKED)
    status, body = await desk.complete(headers={"X-Pdctl-Slo": "fast"})
    assert (status, body["error"]["param"]) == (400, "X-Pdctl-Slo")
    assert "There is no SLO 'fast' here." in body["error"]["message"]


class Clock:
    """Time that a test makes."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest_asyncio.fixture
async def dispatcher() -> AsyncIterator[tuple[Dispatcher, Clock]]:
    """One instance that computes 1000 tokens a second, and objectives of 4 s and an hour."""
    clock = Clock()
    one = Dispatcher(clock.monotonic, Random(0))
    slos = (SloSpec("chat", ttft_ms=4000), SloSpec("batch", ttft_ms=3_600_000))
    wanted: dict[str, Any] = {"slo": "chat", "admission": "queue", "queue_timeout_s": 600.0}
    one.push(table("b0", mode=Mode.CHUNKED, slos=slos, **wanted))
    assert one.board is not None
    one.memory.of(one.board.everyone[0]).prefilled(1000, 0.0, 1.0)
    yield one, clock
    one.outbox.close()


async def taken(desk: Dispatcher, facts: RequestFacts) -> Reservation:
    found = await desk.find(facts, Avoid())
    assert isinstance(found, Reservation), found
    return found


async def test_one_that_is_held_back_lets_others_pass_and_is_served_when_it_can_be_in_time(
    dispatcher: tuple[Dispatcher, Clock],
) -> None:
    desk, clock = dispatcher
    first = await taken(desk, replace(FACTS, prompt_tokens=2500))
    held = spawn(desk.find(replace(FACTS, prompt_tokens=2000), Avoid()), name="held")
    try:
        await until(lambda: desk.load().queued == 1)
        short = await taken(desk, FACTS)
        clock.now = 0.5
        desk.release_all(first)
        found = await held
        assert isinstance(found, Reservation)
        assert "~3500 ms to the first token expected" in found.route.decode_why
        desk.release_all(found)
        desk.release_all(short)
    finally:
        await settle(held)
    assert desk.load().queued == 0


async def test_one_that_cannot_be_in_time_any_more_is_refused(
    dispatcher: tuple[Dispatcher, Clock],
) -> None:
    desk, clock = dispatcher
    first = await taken(desk, replace(FACTS, prompt_tokens=3900))
    held = spawn(desk.find(FACTS, Avoid()), name="held")
    patient = await taken(desk, replace(FACTS, slo="batch"))
    try:
        await until(lambda: desk.load().queued == 1)
        clock.now = 3.1
        desk.release_all(patient)
        found = await held
        assert isinstance(found, Refusal)
        assert (found.status, found.reason) == (429, "slo")
        # a second attempt is not judged: it was let in once, and is late already
        again = await desk.find(FACTS, Avoid(pairs=frozenset({("p9", "d9")})))
        assert isinstance(again, Reservation)
        desk.release_all(again)
    finally:
        desk.release_all(first)
        await settle(held)


async def test_nobody_waits_past_its_objective(dispatcher: tuple[Dispatcher, Clock]) -> None:
    desk, _ = dispatcher
    assert desk.board is not None
    limits = replace(desk.board.table.limits, max_inflight_per_instance=1)
    slos = (SloSpec("chat", ttft_ms=50),)
    desk.push(replace(desk.board.table, seq=2, limits=limits, slos=slos))
    first = await taken(desk, replace(FACTS, prompt_tokens=1))
    async with asyncio.timeout(20):
        found = await desk.find(replace(FACTS, prompt_tokens=1), Avoid())
    assert isinstance(found, Refusal)
    assert found.message.startswith("It waited 0.05 s, and the SLO chat allows no more")
    desk.release_all(first)
