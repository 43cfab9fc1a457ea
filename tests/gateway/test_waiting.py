"""The line in front of full instances: in order, bounded, and not for ever."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.waiting import until
from tests.gateway.conftest import Rogues
from tests.gateway.desk import COMPLETIONS, Desk
from tests.gateway.rogue import Rogue, Seen, whole_text
from tests.routing.boards import table

from pdctl.domain.handoff import Outcome
from pdctl.domain.topology import Mode, RouterSpec
from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.ledger import Reservation
from pdctl.routing.facts import RequestFacts
from pdctl.routing.router import Avoid


class Gate:
    """An engine that answers one request at a time, when told to."""

    def __init__(self, rogue: Rogue) -> None:
        self.rogue = rogue
        self.gates: list[asyncio.Event] = []
        rogue.script = self._wait

    async def _wait(self, seen: Seen) -> None:
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        await whole_text(seen)


async def test_first_come_first_served(desk: Desk, rogues: Rogues) -> None:
    gate = Gate(await rogues("d0"))
    await desk.push(Mode.CHUNKED, max_inflight_per_instance=1)
    tasks = []
    for number in range(4):
        tasks.append(asyncio.ensure_future(desk.complete(prompt=f"{number}")))
        await until(lambda n=number: len(gate.gates) + desk.plane.load.queued == n + 1)  # type: ignore[misc]
    for number in range(4):
        await until(lambda n=number: len(gate.gates) == n + 1)  # type: ignore[misc]
        gate.gates[number].set()
    assert [status for status, _ in await asyncio.gather(*tasks)] == [200] * 4
    assert [one.body["prompt"] for one in gate.rogue.seen] == ["0", "1", "2", "3"]
    await until(lambda: len(desk.records) == 4)
    queued = [one.queued_ms for one in desk.records]
    assert queued[0] is not None
    assert queued[3] is not None
    assert queued[0] < queued[3]
    await desk.idle()


async def test_a_full_line_is_429_with_retry_after(desk: Desk, rogues: Rogues) -> None:
    gate = Gate(await rogues("d0"))
    await desk.push(Mode.CHUNKED, max_inflight_per_instance=1, queue_limit=1)
    first = asyncio.ensure_future(desk.complete())
    await until(lambda: len(gate.gates) == 1)
    second = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.queued == 1)
    async with desk.client.post(COMPLETIONS, json={"model": "tiny", "prompt": "x"}) as answer:
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "1"
        assert (await answer.json())["error"]["type"] == "RateLimitError"
    assert (await desk.record()).outcome is Outcome.OVERLOADED
    gate.gates[0].set()
    await until(lambda: len(gate.gates) == 2)
    gate.gates[1].set()
    assert [(await one)[0] for one in (first, second)] == [200, 200]


async def test_the_wait_ends(desk: Desk, rogues: Rogues) -> None:
    gate = Gate(await rogues("d0"))
    await desk.push(Mode.CHUNKED, max_inflight_per_instance=1, queue_timeout_s=0.1)
    first = asyncio.ensure_future(desk.complete())
    await until(lambda: len(gate.gates) == 1)
    status, body = await desk.complete()
    assert (status, body["error"]["code"]) == (429, 429)
    assert "0.1 s" in body["error"]["message"]
    gate.gates[0].set()
    assert (await first)[0] == 200
    await desk.idle()


@pytest.mark.parametrize("change", ["room", "gone"])
async def test_a_new_table_serves_the_line(desk: Desk, rogues: Rogues, change: str) -> None:
    gate = Gate(await rogues("d0"))
    await desk.push(Mode.CHUNKED, max_inflight_per_instance=1)
    first = asyncio.ensure_future(desk.complete())
    await until(lambda: len(gate.gates) == 1)
    second = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.queued == 1)
    if change == "room":
        await rogues("d1")
        await desk.push(Mode.CHUNKED, max_inflight_per_instance=1)
        assert (await second)[0] == 200
    else:
        await desk.push(Mode.CHUNKED, draining=["d0"])
        assert (await second)[0] == 503
    gate.gates[0].set()
    assert (await first)[0] == 200


async def test_decode_is_reserved_before_prefill_is_sent(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    gate = Gate(decode)
    original: Any = prefill.script
    await desk.push(max_inflight_per_instance=1)
    first = asyncio.ensure_future(desk.complete())
    await until(lambda: len(gate.gates) == 1)
    second = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.queued == 1)
    assert prefill.script is original
    assert len(prefill.seen) == 1
    gate.gates[0].set()
    await until(lambda: len(gate.gates) == 2)
    gate.gates[1].set()
    assert [(await one)[0] for one in (first, second)] == [200, 200]


async def test_one_that_waits_for_another_instance_holds_up_nobody(
    desk: Desk, rogues: Rogues
) -> None:
    """It failed on d0 and d1 is full: d0 has room for those behind it."""
    first, second = await rogues("d0"), await rogues("d1")
    gate = Gate(second)
    await desk.push(Mode.CHUNKED, max_inflight_per_instance=1)
    busy = [asyncio.ensure_future(desk.complete()) for _ in range(2)]
    await until(lambda: len(gate.gates) == 1)

    async def fail(seen: Seen) -> None:
        await seen.json({"error": {"message": "no"}}, 500)

    first.script = fail
    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
    picky = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.queued == 1)
    first.script = whole_text
    assert (await desk.complete(prompt="behind"))[0] == 200
    assert desk.plane.load.queued == 1
    for number in range(2):
        await until(lambda n=number: len(gate.gates) > n)  # type: ignore[misc]
        gate.gates[number].set()
    assert [status for status, _ in await asyncio.gather(*busy, picky)] == [200] * 3
    await desk.idle()


async def test_what_a_bug_leaves_open_goes_to_the_next_in_line() -> None:
    dispatcher = Dispatcher(lambda: 0.0)
    limits = RouterSpec(max_inflight_per_instance=1)
    dispatcher.push(replace(table("d0", mode=Mode.CHUNKED), limits=limits))
    facts = RequestFacts(COMPLETIONS)
    open_ = await dispatcher.find(facts, Avoid())
    assert isinstance(open_, Reservation)
    waiting = asyncio.ensure_future(dispatcher.find(facts, Avoid()))
    await until(lambda: dispatcher.load().queued == 1)
    dispatcher.release_all(open_)
    assert isinstance(await waiting, Reservation)
    dispatcher.outbox.close()
