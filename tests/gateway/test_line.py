"""The line is fair: a flood of one client holds up no other."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.routing.boards import table

from pdctl.domain.topology import Mode
from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.ledger import Reservation
from pdctl.gateway.line import Line, Place
from pdctl.routing.facts import RequestFacts
from pdctl.routing.router import Avoid, Refusal

FACTS = RequestFacts("/v1/completions")


class Counter:
    """One instance that serves one request at a time, and who came in which order."""

    def __init__(self, **limits: int) -> None:
        self.dispatcher = Dispatcher(asyncio.get_running_loop().time)
        self.limits: dict[str, Any] = {"max_inflight_per_instance": 1, **limits}
        self.order: list[str] = []
        self.refused: list[str] = []
        self._asking: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        self.dispatcher.push(table("d0", mode=Mode.CHUNKED, **self.limits))
        self.first = await self.dispatcher.find(FACTS, Avoid(), "flood")

    async def ask(self, client: str, times: int = 1) -> None:
        """Join the line; in order of calls."""
        for _ in range(times):
            self._asking.append(asyncio.ensure_future(self._ask(client)))
        await asyncio.sleep(0)

    async def _ask(self, client: str) -> None:
        answer = await self.dispatcher.find(FACTS, Avoid(), client)
        if isinstance(answer, Refusal):
            assert answer.status == 429
            self.refused.append(client)
        else:
            self.order.append(client)
            self.dispatcher.release_all(answer)

    async def serve(self) -> None:
        """Let all come in, one after the other."""
        assert isinstance(self.first, Reservation)
        self.dispatcher.release_all(self.first)
        async with asyncio.timeout(20):
            await asyncio.gather(*self._asking)
        assert self.dispatcher.load().queued == 0
        assert self.dispatcher.load().inflight == {}


async def test_a_flood_of_one_client_does_not_starve_another() -> None:
    counter = Counter()
    await counter.open()
    await counter.ask("flood", 500)
    await counter.ask("alice", 3)
    await counter.serve()
    assert len(counter.order) == 503
    assert [n for n, client in enumerate(counter.order) if client == "alice"] == [1, 3, 5]


async def test_clients_take_turns() -> None:
    counter = Counter()
    await counter.open()
    for client, times in (("a", 4), ("b", 1), ("c", 2)):
        await counter.ask(client, times)
    await counter.serve()
    assert counter.order == ["a", "b", "c", "a", "c", "a", "a"]


async def test_a_full_line_makes_room_for_who_has_less_in_it() -> None:
    counter = Counter(queue_limit=10)
    await counter.open()
    await counter.ask("flood", 30)
    await counter.ask("alice", 2)
    await counter.ask("flood", 5)
    assert counter.refused == ["flood"] * 27
    assert counter.dispatcher.load().queued == 10
    await counter.serve()
    assert counter.refused == ["flood"] * 27
    assert sorted(counter.order) == ["alice"] * 2 + ["flood"] * 8
    assert counter.order[:4] == ["flood", "alice", "flood", "alice"]


async def test_many_clients_share_a_full_line_equally() -> None:
    counter = Counter(queue_limit=12)
    await counter.open()
    for client in "abcd":
        await counter.ask(client, 12)
    await counter.serve()
    assert {client: counter.order.count(client) for client in "abcd"} == dict.fromkeys("abcd", 3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_it_is_never_more_or_less_than_who_is_in_it(steps: list[tuple[str, bool]]) -> None:
    loop = asyncio.new_event_loop()
    line, inside = Line(), list[Place]()
    for client, joins in steps:
        if joins or not inside:
            place = Place(client, FACTS, Avoid(), loop.create_future())
            line.join(place)
            inside.append(place)
        else:
            first = next(iter(line))
            line.served(first)
            inside.remove(first)
        assert len(line) == len(inside)
        assert sorted(map(id, line)) == sorted(map(id, inside))
    assert [line.leave(one) for one in inside] == [True] * len(inside)
    assert len(line) == 0
    loop.close()
