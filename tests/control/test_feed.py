"""The feed: numbered, kept, resumable, and never slowed by a slow reader."""

from __future__ import annotations

import asyncio

from pdctl.control.feed import Feed, Reset
from pdctl.domain.events import Event, EventKind
from tests.fakes.clock import VirtualClock


def feed(first_seq: int = 0, ring: int = 10, backlog: int = 5) -> Feed:
    return Feed(VirtualClock(), first_seq, ring, backlog)


def say(feed_: Feed, times: int) -> list[int]:
    return [feed_.publish(EventKind.NOTICE, "fleet", {"n": n}).seq for n in range(times)]


async def take(subscription: object, n: int) -> list[int | str]:
    """The next `n` items: seq of an event, "reset" for a reset."""
    found: list[int | str] = []
    async with asyncio.timeout(5):
        async for item in subscription:  # type: ignore[attr-defined]
            found.append("reset" if isinstance(item, Reset) else item.seq)
            if len(found) == n:
                break
    return found


def test_numbers_go_on_after_the_stores() -> None:
    known = feed(first_seq=41)
    assert known.oldest == 42
    assert say(known, 2) == [42, 43]
    assert known.seq == 43
    assert known.oldest == 42
    assert [event.seq for event in known.recent(1)] == [43]
    assert [event.seq for event in known.recent(99)] == [42, 43]
    assert known.recent(0) == []


def test_the_ring_forgets_the_oldest() -> None:
    known = feed(ring=3)
    say(known, 5)
    assert known.oldest == 3
    assert [event.seq for event in known.recent(99)] == [3, 4, 5]


async def test_a_reader_resumes_where_it_left() -> None:
    known = feed()
    say(known, 4)
    async with known.subscribe(2) as events:
        say(known, 1)
        assert await take(events, 3) == [3, 4, 5]


async def test_a_new_reader_hears_only_what_comes() -> None:
    known = feed()
    say(known, 4)
    async with known.subscribe(None) as events:
        say(known, 1)
        assert await take(events, 1) == [5]


async def test_what_is_not_held_any_more_is_a_reset() -> None:
    known = feed(ring=3)
    say(known, 6)
    async with known.subscribe(3) as events:
        assert await take(events, 3) == [4, 5, 6]
    async with known.subscribe(2) as events:
        assert await take(events, 1) == ["reset"]
        say(known, 1)
        assert await take(events, 1) == [7]


async def test_a_position_from_another_time_is_a_reset() -> None:
    async with feed().subscribe(99) as events:
        assert await take(events, 1) == ["reset"]


async def test_a_slow_reader_is_reset_and_slows_nobody() -> None:
    known = feed(ring=100, backlog=5)
    async with known.subscribe(None) as slow, known.subscribe(None) as quick:
        got: list[int | str] = []
        for _ in range(20):
            say(known, 1)
            got += await take(quick, 1)
        assert got == list(range(1, 21))
        items = [await anext(aiter(slow))]
        assert items == [Reset(20)]
        say(known, 1)
        assert await take(slow, 1) == [21]


async def test_a_reader_that_left_is_forgotten() -> None:
    known = feed()
    async with known.subscribe(None) as events:
        assert len(known._subscribers) == 1
        reading = asyncio.ensure_future(take(events, 1))
        await asyncio.sleep(0)
        say(known, 1)
        assert await reading == [1]
    assert not known._subscribers


async def test_events_carry_wall_time_and_data() -> None:
    known = feed()
    event = known.publish(EventKind.OPERATION, "fleet", {"verb": "set_mode"})
    assert isinstance(event, Event)
    assert event.at > 1_700_000_000
    assert event.data == {"verb": "set_mode"}
