"""What the router remembers of its own legs: where prompts went, and how fast they were."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.gateway.conftest import Engines
from tests.gateway.desk import CHAT, Desk
from tests.routing.boards import board, table, target

from pdctl.gateway.ledger import Ledger
from pdctl.gateway.memory import Memory
from pdctl.routing.facts import RequestFacts
from pdctl.routing.prefix import BLOCK_TOKENS
from pdctl.routing.router import Route, decide
from pdctl.simulated import Timing

FACTS = RequestFacts("/v1/completions", prompt_tokens=300, prefix=(1, 2, 3, 4))


def route() -> Route:
    found = decide(FACTS, board("p0", "d0"), {}, None)  # type: ignore[arg-type]
    assert isinstance(found, Route)
    return found


def test_both_ends_are_held_to_know_a_prompt_until_they_start_anew() -> None:
    memory, on = Memory(), table("p0", "p1", "d0")
    memory.sent(route(), FACTS)
    known = memory.informed({}, on.targets, FACTS)
    assert {id_: one.cached for id_, one in known.items()} == {
        "p0": 4 * BLOCK_TOKENS, "p1": 0, "d0": 4 * BLOCK_TOKENS,
    }  # fmt: skip
    anew = [target("p0", generation=2), *on.targets[1:]]
    assert memory.informed({}, anew, FACTS)["p0"].cached == 0
    memory.sent(route(), FACTS)  # by a request that began before
    assert memory.informed({}, anew, FACTS)["p0"].cached == 0
    memory.renew(table("p0", "p1"))
    assert memory.informed({}, on.targets, FACTS)["d0"].cached == 0


def test_never_more_is_cached_than_the_prompt_has() -> None:
    memory = Memory()
    memory.sent(route(), FACTS)
    short = replace(FACTS, prompt_tokens=200)
    assert memory.informed({}, table("p0").targets, short)["p0"].cached == 200


def test_guesses_become_tokens_of_the_model_once_some_were_counted() -> None:
    memory, on = Memory(), table("p0")
    text = RequestFacts("/v1/completions", prompt_tokens=300, guessed=300)
    assert memory.read(text, (1,)) == replace(text, prefix=(1,))
    for _ in range(9):
        memory.counted(text, 900)
    read = memory.read(text, (1, 2))
    assert read.prompt_tokens == 900
    memory.sent(route(), read)
    assert memory.informed({}, on.targets, read)["p0"].cached == 2 * BLOCK_TOKENS * 3
    ids = replace(text, guessed=0)
    assert memory.read(ids, (1,)).prompt_tokens == 300
    memory.counted(ids, 1)
    assert memory.read(text, ()).prompt_tokens == 900


def test_what_is_still_to_compute_is_counted_where_it_is_computed() -> None:
    ledger = Ledger()
    one, two = ledger.reserve(route(), 300, cached=100), ledger.reserve(route(), 50)
    assert (ledger.loads["p0"].ahead, ledger.loads["d0"].ahead) == (250, 0)
    one.computed("d0")
    one.hold("p0")
    assert ledger.loads["p0"].ahead == 50
    one.release("p0")
    two.release("p0")
    assert ledger.loads["p0"].ahead == 0
    assert ledger.loads["d0"].tokens == 350


async def _talk(desk: Desk, session: int, turns: int, opening: int = 100) -> None:
    """One conversation, each turn with all that was said before."""
    messages = [{"role": "system", "content": f"You are number {session}. " * opening}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{session} asks {turn}: " + "why? " * 100})
        body = {"model": "tiny", "messages": messages, "max_tokens": 2}
        status, answer = await desk.post(CHAT, body)
        assert status == 200, answer
        messages.append({"role": "assistant", "content": "because. " * 20})


async def _hits(desk: Desk, policy: str) -> tuple[int, int]:
    """(cached, all) prompt tokens of seven conversations, as the engines counted them."""
    await desk.push(prefill_policy=policy, decode_policy="least_loaded", generation=desk.seq + 1)
    before = len(desk.records)
    await asyncio.gather(*(_talk(desk, 100 * desk.seq + number, 5) for number in range(7)))
    await desk.idle()
    records = desk.records[before:]
    assert all(one.cached_tokens is not None for one in records)
    cached = sum(one.cached_tokens or 0 for one in records)
    return cached, sum(one.prompt_tokens or 0 for one in records)


async def test_prefix_affinity_finds_more_in_the_caches_than_turns_do(
    desk: Desk, engines: Engines
) -> None:
    for id_ in ("p0", "p1", "p2", "d0"):
        await engines(id_, enable_prompt_tokens_details=True, block_size=16)
    turns, _ = await _hits(desk, "round_robin")
    affine, of = await _hits(desk, "prefix_affinity")
    assert affine > 1.2 * turns
    assert affine > 0.6 * of
    whys = [leg.why for one in desk.records for leg in one.legs if leg.kind == "prefill"]
    assert any("prompt tokens cached" in why for why in whys)


async def test_the_cost_policy_learns_the_pace_of_each_instance(
    desk: Desk, engines: Engines
) -> None:
    slow = Timing(prefill_tokens_per_s=500.0)
    await engines("p0", timing=slow)
    await engines("p1", timing=replace(slow, prefill_tokens_per_s=50_000.0))
    await engines("d0")
    await desk.push(prefill_policy="cost", decode_policy="cost")
    whys = []
    for number in range(12):
        prompt = f"{number} " + "word " * 1500
        async with desk.client.post(
            CHAT,
            json={
                "model": "tiny", "max_tokens": 4, "stream": True,
                "messages": [{"role": "user", "content": prompt}],
            },
        ) as answer:  # fmt: skip
            await answer.read()
        record = await desk.record(number + 1)
        whys.append([(leg.instance, leg.why) for leg in record.legs])
    assert "nothing measured yet" in whys[0][0][1]
    assert [legs[0][0] for legs in whys[-4:]] == ["p1"] * 4
    assert "tokens/s" in whys[-1][0][1]
    assert "to pull" in whys[-1][1][1]
    assert "ms a step" in whys[-1][1][1]


async def test_a_conversation_that_decode_knows_stays_there(desk: Desk, engines: Engines) -> None:
    for id_ in ("p0", "d0", "d1"):
        await engines(id_)
    await desk.push(pd_min_prompt_tokens=1200, decode_policy="prefix_affinity")
    await _talk(desk, 1, 4, opening=300)
    ways = [(one.path, one.path_reason, one.legs[-1].instance) for one in desk.records]
    assert ways[0][:2] == ("pd", "")
    assert set(ways[1:]) == {("aggregated", "short_prompt", ways[0][2])}
    assert "a handoff is for 1200 or more" in desk.records[-1].legs[0].why
    await desk.idle()
