"""The policy kv_events over real sockets: what engines publish, lose, send again and forget."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from tests.fakes.waiting import until
from tests.gateway.conftest import Engines
from tests.gateway.desk import CHAT, RESPONSES, Desk

from pdctl.adapters import kv_events
from pdctl.adapters.clock import SystemClock
from pdctl.adapters.kv_events import ZmqFeed
from pdctl.domain.handoff import Path
from pdctl.domain.kv_events import KvFollowed, KvSource
from pdctl.domain.topology import Mode
from pdctl.gateway import following
from pdctl.gateway.plane import LocalDataPlane
from pdctl.simulated import SimulatedEngine

SIZE = 16
LONG = "The committee met again and could not agree on the wording of its minutes. " * 12


def publishing(**fields: Any) -> dict[str, Any]:
    """The settings of an engine that publishes, at addresses of its own."""
    name = secrets.token_hex(8)
    config = {
        "enable_kv_cache_events": True,
        "endpoint": f"ipc://@pdctl-test-{name}-events",
        "replay_endpoint": f"ipc://@pdctl-test-{name}-replay",
        **fields,
    }
    return {"kv_events_config": json.dumps(config), "block_size": SIZE}


@pytest_asyncio.fixture
async def desk() -> AsyncIterator[Desk]:
    """A data plane that can follow engines."""
    one = Desk()
    one.plane = LocalDataPlane("127.0.0.1", 0, clock=SystemClock(), feed=ZmqFeed())
    async with one:
        yield one


async def serve(desk: Desk, **more: Any) -> None:
    """Route by events, everything whole, on whichever instance."""
    more |= {"prefill_policy": "kv_events", "decode_policy": "kv_events"}
    await desk.push(Mode.CHUNKED, **more)


def followed(desk: Desk, id_: str) -> KvFollowed:
    return desk.plane.load.kv_events.get(id_, KvFollowed(why_not="nobody follows it"))


async def seen(desk: Desk, id_: str, holds: Callable[[KvFollowed], object]) -> None:
    await until(lambda: bool(holds(followed(desk, id_))), 30.0)


async def say(desk: Desk, prompt: str, **more: Any) -> tuple[str, str]:
    """(the instance that answered a completion, why it was chosen)."""
    count = len(desk.records)
    status, answer = await desk.complete(prompt=prompt, max_tokens=2, **more)
    assert status == 200, answer
    record = await desk.record(count + 1)
    return record.legs[-1].instance, record.legs[-1].why


async def fill(engine: SimulatedEngine, prompt: str) -> None:
    """Have an engine compute a prompt behind the router's back."""
    other = Desk()
    async with other:
        other.engines = {"d0": engine}
        await other.push(Mode.CHUNKED)
        assert (await other.complete(prompt=prompt, max_tokens=1))[0] == 200


def blocks_of(prompt: str) -> int:
    """The simulated tokenizer makes a token of each byte, and begins with one of its own or not."""
    return (len(prompt) - 1) // SIZE


async def test_the_holder_is_chosen_whoever_filled_it(desk: Desk, engines: Engines) -> None:
    held = [await engines(id_, **publishing()) for id_ in ("d0", "d1", "d2")]
    await serve(desk)
    await fill(held[1], LONG)
    await seen(desk, "d1", lambda one: one.blocks >= blocks_of(LONG) // 2 and not one.why_not)
    for id_ in ("d0", "d2"):
        await seen(desk, id_, lambda one: not one.why_not)
    instance, why = await say(desk, LONG)
    assert instance == "d1"
    assert "tokens cached by its own events, " in why
    assert not why.startswith(("~", "none"))
    cached, _, total = why.split(" tokens")[0].partition(" of ")
    record = desk.records[-1]
    assert record.cached_tokens == int(cached)
    assert record.prompt_tokens == int(total)


async def test_a_chat_is_counted_as_its_engine_renders_it(desk: Desk, engines: Engines) -> None:
    await engines("d0", **publishing())
    await engines("d1", **publishing())
    await serve(desk)
    for id_ in ("d0", "d1"):
        await seen(desk, id_, lambda one: not one.why_not)
    messages = [{"role": "user", "content": LONG}]
    for count in (1, 2):
        body = {"model": "tiny", "messages": messages, "max_tokens": 2}
        assert (await desk.post(CHAT, body))[0] == 200
        first = await desk.record(count)
        await seen(desk, first.legs[0].instance, lambda one: one.blocks)
    first, again = desk.records
    assert again.legs[0].instance == first.legs[0].instance
    assert again.cached_tokens
    assert again.legs[0].why.startswith(f"{again.cached_tokens} of {again.prompt_tokens} tokens")


async def test_what_was_said_before_the_router_came_is_asked_for(
    desk: Desk, engines: Engines
) -> None:
    engine = await engines("d0", **publishing())
    await fill(engine, LONG)
    filled = SystemClock().now()
    await serve(desk)
    await seen(desk, "d0", lambda one: one.blocks >= blocks_of(LONG) // 2)
    assert followed(desk, "d0").gaps == 0
    assert (followed(desk, "d0").last_event or 0.0) <= filled
    assert (await say(desk, LONG))[1].endswith("tokens in flight")


async def test_a_gap_is_filled_by_a_replay(
    desk: Desk, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await engines("d0", **publishing())
    await serve(desk)
    await say(desk, "a" * 100)
    await seen(desk, "d0", lambda one: one.blocks)
    before = followed(desk, "d0").blocks
    monkeypatch.setattr(following, "QUIET_S", 3600.0)  # a message shows it, not the silence
    engine.faults.lose_kv_events = 1
    await say(desk, "b" * 100)
    await until(lambda: engine.faults.lose_kv_events == 0)
    await say(desk, "c" * 100)
    await seen(desk, "d0", lambda one: one.replays)
    now = followed(desk, "d0")
    assert (now.gaps, now.replays, now.forgotten, now.why_not) == (1, 1, 0, "")
    assert now.blocks == 3 * before
    assert "0 of" not in (await say(desk, "b" * 100))[1]


async def test_a_loss_that_nothing_follows_is_found_in_the_silence(
    desk: Desk, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "QUIET_S", 0.2)
    engine = await engines("d0", **publishing())
    await serve(desk)
    await seen(desk, "d0", lambda one: not one.why_not)
    engine.faults.lose_kv_events = 1
    await say(desk, "a" * 100)
    await seen(desk, "d0", lambda one: one.replays == 1 and one.blocks)


async def test_a_gap_that_cannot_be_filled_costs_all_that_was_known(
    desk: Desk, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await engines("d0", **publishing(buffer_steps=1))
    await serve(desk)
    await say(desk, "a" * 100)
    await seen(desk, "d0", lambda one: one.blocks)
    before = followed(desk, "d0").blocks
    monkeypatch.setattr(following, "QUIET_S", 3600.0)  # a message shows it, not the silence
    engine.faults.lose_kv_events = 2
    await say(desk, "b" * 100)
    await say(desk, "c" * 100)
    await until(lambda: engine.faults.lose_kv_events == 0)
    await say(desk, "d" * 100)
    await seen(desk, "d0", lambda one: one.forgotten)
    now = followed(desk, "d0")
    assert (now.gaps, now.replays, now.forgotten, now.blocks) == (1, 0, 1, before)
    assert (await say(desk, "a" * 100))[1].startswith("none of")


async def test_who_is_silent_and_does_not_answer_is_not_gone_by(
    desk: Desk, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "QUIET_S", 0.2)
    monkeypatch.setattr(kv_events, "REPLY_S", 0.2)
    engine = await engines("d0", **publishing())
    await serve(desk)
    await say(desk, LONG)
    await seen(desk, "d0", lambda one: one.blocks and not one.why_not)
    publisher = engine.ranks[0].publisher
    await publisher.stop()
    await seen(desk, "d0", lambda one: one.why_not)
    instance, why = await say(desk, LONG)
    assert instance == "d0"
    assert "by this router's history (has not shown for a while that its events are whole" in why
    publisher.start()
    await seen(desk, "d0", lambda one: not one.why_not and one.blocks)
    assert "by its own events" in (await say(desk, LONG))[1]


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ({}, following.SILENT),
        ({"0": {"publisher": "null", "endpoint": "tcp://*:5557"}}, following.SILENT),
        (
            {"0": {"publisher": "zmq", "endpoint": "tcp://*:5557", "replay_endpoint": None}},
            KvSource("tcp://10.0.0.7:5557"),
        ),
        (
            {"0": {"publisher": "zmq", "endpoint": "ipc://@a", "replay_endpoint": "ipc://@b",
                   "topic": "kv"}},
            KvSource("ipc://@a", "ipc://@b", "kv"),
        ),
        (
            {str(rank): {"publisher": "zmq", "endpoint": "tcp://*:5557"} for rank in (0, 1)},
            "has 2 data-parallel ranks: which one computes is not known before",
        ),
    ],
)  # fmt: skip
def test_where_an_engine_publishes(answer: dict[str, Any], source: KvSource | str) -> None:
    assert following.source_of(answer, "10.0.0.7") == source


async def test_evicted_and_cleared_blocks_are_held_no_more(desk: Desk, engines: Engines) -> None:
    small = {"num_blocks": 8, "max_model_len": 8 * SIZE}
    engine = await engines("d0", **publishing(), **small)
    await serve(desk)
    for prompt in "abc":
        await say(desk, prompt * 90)
    newest = engine.ranks[0].publisher
    await seen(desk, "d0", lambda one: one.last_event == newest.newest_at)
    assert 0 < followed(desk, "d0").blocks <= 8
    assert (await say(desk, "a" * 90))[1].startswith("none of")
    engine.pool.forget_all()
    await seen(desk, "d0", lambda one: one.blocks == 0)
    assert not followed(desk, "d0").why_not


async def test_a_new_start_holds_nothing(desk: Desk, engines: Engines) -> None:
    await engines("d0", **publishing())
    await serve(desk)
    await say(desk, LONG)
    await seen(desk, "d0", lambda one: one.blocks)
    await engines("d0", **publishing())
    await serve(desk, generation=2)
    await seen(desk, "d0", lambda one: not one.why_not)
    assert followed(desk, "d0").blocks == 0
    assert (await say(desk, LONG))[1].startswith("none of")


async def test_who_publishes_nothing_is_known_by_history(desk: Desk, engines: Engines) -> None:
    await engines("d0")
    await serve(desk)
    await seen(desk, "d0", lambda one: one.why_not == following.SILENT)
    await say(desk, LONG)
    _, why = await say(desk, LONG)
    assert (
        "cached by this router's history (publishes no KV events: it was launched without)" in why
    )


async def test_what_cannot_be_counted_says_so_and_is_served(desk: Desk, engines: Engines) -> None:
    await engines("d0", **publishing())
    await serve(desk)
    await seen(desk, "d0", lambda one: not one.why_not)
    status, _ = await desk.post(RESPONSES, {"model": "tiny", "input": LONG, "max_output_tokens": 2})
    assert status == 200
    assert "/tokenize does not take what /v1/responses takes" in (await desk.record()).legs[0].why
    status, _ = await desk.complete(prompt=[3] * 100, max_tokens=2)
    assert status == 200
    assert "of 100 tokens cached by its own events" in (await desk.record(2)).legs[0].why


async def test_both_ends_of_a_handoff_are_chosen_by_events(desk: Desk, engines: Engines) -> None:
    for id_ in ("p0", "p1", "d0", "d1"):
        await engines(id_, **publishing())
    await desk.push(prefill_policy="kv_events", decode_policy="kv_events")
    for id_ in desk.engines:
        await seen(desk, id_, lambda one: not one.why_not)
    for count in (1, 2):
        assert (await desk.complete(prompt=LONG, max_tokens=2))[0] == 200
        record = await desk.record(count)
        assert record.path == Path.PD
        for leg in record.legs:
            await seen(desk, leg.instance, lambda one: one.blocks)
    first, again = ([leg.instance for leg in one.legs] for one in desk.records)
    assert again == first
    assert all(leg.why[0].isdigit() and "own events" in leg.why for leg in record.legs)


async def test_nobody_is_followed_once_no_policy_asks(desk: Desk, engines: Engines) -> None:
    await engines("d0", **publishing())
    await serve(desk)
    await seen(desk, "d0", lambda one: not one.why_not)
    await desk.push(Mode.CHUNKED)
    assert desk.plane.load.kv_events == {}
    await serve(desk)
    await seen(desk, "d0", lambda one: not one.why_not)
