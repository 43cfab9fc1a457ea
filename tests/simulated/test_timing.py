"""The timing model, on the simulated clock: interference, capacity, preemption, determinism."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from pdctl.simulated import SimulatedEngine
from pdctl.simulated.config import Timing
from pdctl.simulated.timing import StepLoad, step_seconds, transfer_seconds
from tests.simulated.conftest import Engines
from tests.simulated.talk import COMPLETIONS, Client, Reply, is_quiet, until

TIMING = Timing(prefill_tokens_per_s=4000.0, step_base_s=0.01)
LONG = [66] * 6000
STREAM = {"prompt": [65] * 20, "max_tokens": 300, "ignore_eos": True}


def test_a_step_takes_the_sum_of_its_parts() -> None:
    timing = Timing(1000.0, 0.01, 0.001, 0.000_01)
    assert step_seconds(timing, StepLoad(500, 4, 2000)) == pytest.approx(0.01 + 0.5 + 0.004 + 0.02)
    assert step_seconds(Timing.instant(), StepLoad(500, 4, 2000)) == 0.0
    assert transfer_seconds(timing, 20_000_000_000) == pytest.approx(1.001)
    assert transfer_seconds(Timing.instant(), 10**12) == 0.0


def worst_gap(engine: SimulatedEngine) -> float:
    """The longest step in which a stream waited for its next token."""
    return max(step.seconds for step in engine.scheduler.steps if step.load.decodes)


async def stream_beside_a_long_prompt(
    client: Client, streaming: SimulatedEngine, prefilling: SimulatedEngine
) -> None:
    """Run the stream on one engine and, once it runs, a long prefill on another or the same."""
    task = asyncio.ensure_future(client.post(streaming.url, COMPLETIONS, STREAM))
    await until(lambda: streaming.scheduler.num_steps > 5)
    if streaming is prefilling:
        await client.post(streaming.url, COMPLETIONS, {"prompt": LONG, "max_tokens": 1})
    else:
        params = await client.prefill(prefilling.url, LONG)
        await client.decode(streaming.url, LONG, params, max_tokens=1)
    assert (await task).status == 200


async def test_a_long_prefill_stretches_a_shared_engine_and_not_a_decode_engine(
    engines: Engines, client: Client
) -> None:
    config: dict[str, Any] = {"timing": TIMING, "speed": 10.0, "max_num_batched_tokens": 2048}
    shared = await engines(**config)
    await stream_beside_a_long_prompt(client, shared, shared)
    prefill, decode = await engines(**config), await engines(**config)
    await stream_beside_a_long_prompt(client, decode, prefill)
    assert worst_gap(shared) > 0.5
    assert worst_gap(decode) < 0.02
    stretched = [one for one in shared.scheduler.steps if one.load.prefill_tokens > 1000]
    assert all(one.load.prefill_tokens + one.load.decodes <= 2048 for one in stretched)
    assert len(stretched) >= 2


async def test_steps_follow_one_another_without_gaps_while_there_is_work(
    engines: Engines, client: Client
) -> None:
    engine = await engines(timing=TIMING, speed=100.0)
    await client.post(engine.url, COMPLETIONS, STREAM)
    steps = list(engine.scheduler.steps)
    assert len(steps) == 300
    gaps = [b.started_at - a.started_at - a.seconds for a, b in pairwise(steps)]
    assert max(map(abs, gaps)) < 1e-9


async def test_more_sequences_make_every_step_longer(engines: Engines, client: Client) -> None:
    timing = Timing(step_base_s=0.01, step_per_seq_s=0.001)
    engine = await engines(timing=timing, speed=20.0)
    calls = [client.post(engine.url, COMPLETIONS, STREAM) for _ in range(8)]
    await asyncio.gather(*calls)
    full = [one for one in engine.scheduler.steps if one.load.decodes == 8]
    assert full
    assert full[0].seconds > 0.018


async def test_requests_beyond_the_places_wait(engines: Engines, client: Client) -> None:
    engine = await engines(max_num_seqs=2, speed=5.0)
    calls = [asyncio.ensure_future(client.post(engine.url, COMPLETIONS, STREAM)) for _ in range(5)]
    await until(lambda: engine.scheduler.num_waiting() == 3)
    seen = await client.metrics(engine.url)
    assert seen["vllm:num_requests_running"] == 2
    assert seen["vllm:num_requests_waiting"] == 3
    assert seen["vllm:num_requests_waiting_by_reason{reason=capacity}"] == 3
    texts = {(await one).text for one in calls}
    assert len(texts) == 1
    assert is_quiet(engine)


async def test_a_full_cache_preempts_and_the_text_stays_the_same(
    engines: Engines, client: Client
) -> None:
    small = {"block_size": 16, "num_blocks": 64, "max_model_len": 1024}
    engine = await engines(**small, enable_prefix_caching=False)
    bodies = [{**STREAM, "prompt": [65 + n] * 200} for n in range(5)]
    replies = await asyncio.gather(*(client.post(engine.url, COMPLETIONS, b) for b in bodies))
    assert (await client.metrics(engine.url))["vllm:num_preemptions_total"] > 0
    assert is_quiet(engine)
    roomy = await engines()
    for body, reply in zip(bodies, replies, strict=True):
        assert reply.text == (await client.post(roomy.url, COMPLETIONS, body)).text


async def test_leased_blocks_make_a_prefill_engine_wait(engines: Engines, client: Client) -> None:
    engine = await engines(
        block_size=16, num_blocks=64, max_model_len=1024, kv_lease_duration=20.0, speed=20.0
    )
    await client.prefill(engine.url, [65] * 1000)
    task: asyncio.Future[Reply] = asyncio.ensure_future(
        client.post(engine.url, COMPLETIONS, {"prompt": [66] * 500, "max_tokens": 1})
    )
    await until(lambda: engine.scheduler.num_waiting() == 1)
    assert (await task).status == 200
    assert (await client.metrics(engine.url))["vllm:nixl_num_kv_expired_reqs_total"] == 1


async def test_the_seed_decides_the_jitter(engines: Engines, client: Client) -> None:
    timing = Timing(jitter=0.2)
    runs = []
    for seed in (1, 1, 2):
        engine = await engines(timing=timing, seed=seed, engine_id="same")
        await client.post(engine.url, COMPLETIONS, {**STREAM, "max_tokens": 50})
        runs.append([step.seconds for step in engine.scheduler.steps])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert len(set(runs[0])) > 40


async def test_an_idle_engine_takes_no_steps_and_an_instant_one_no_time(
    engines: Engines, client: Client
) -> None:
    engine = await engines(timing=Timing.instant(), speed=1.0)
    await asyncio.sleep(0.02)
    assert engine.scheduler.num_steps == 0
    reply = await client.post(engine.url, COMPLETIONS, {**STREAM, "max_tokens": 100})
    assert reply.body["usage"]["completion_tokens"] == 100
    assert sum(step.seconds for step in engine.scheduler.steps) == 0.0
