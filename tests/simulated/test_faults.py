"""Each fault does what it says, can be set while the engine runs, and ends when it is cleared."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.simulated.conftest import Engines
from tests.simulated.talk import CHAT, COMPLETIONS, PREFILL_LEG, Client, is_quiet, until

PROMPT = "hello world"
BODY: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 30, "ignore_eos": True}
PREFILL: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 1, "kv_transfer_params": PREFILL_LEG}


async def test_faults_are_set_over_http_and_nonsense_is_refused(
    engines: Engines, client: Client
) -> None:
    engine = await engines()
    reply = await client.post(engine.url, "/simulated/faults", {"slow": 3, "hang": False})
    assert reply.body["slow"] == 3
    assert engine.faults.slow == 3
    for wrong in (
        {"slwo": 1},
        {"hang": "yes"},
        {"fail_prefill": -1},
        {"slow": 0},
        {"strikes": "1"},
    ):
        reply = await client.post(engine.url, "/simulated/faults", wrong)
        assert reply.status == 400, wrong
    assert engine.faults.slow == 3
    engine.faults.clear()
    assert engine.faults.slow == 1.0


async def test_prefill_legs_fail_with_the_status_asked_for(
    engines: Engines, client: Client
) -> None:
    engine = await engines()
    engine.faults.update({"fail_prefill": 500, "strikes": 2})
    statuses = [(await client.post(engine.url, COMPLETIONS, PREFILL)).status for _ in range(3)]
    assert statuses == [500, 500, 200]
    engine.faults.update({"fail_decode": 400, "strikes": None})
    assert (await client.post(engine.url, COMPLETIONS, BODY)).status == 400
    assert (await client.post(engine.url, COMPLETIONS, PREFILL)).status == 500


async def test_a_hanging_engine_is_healthy_and_steps_no_more(
    engines: Engines, client: Client
) -> None:
    engine = await engines()
    engine.faults.hang = True
    task = asyncio.ensure_future(client.post(engine.url, COMPLETIONS, BODY))
    await until(lambda: engine.scheduler.num_waiting() == 1)
    async with client.session.get(engine.url + "/health") as response:
        assert response.status == 200
    assert (await client.metrics(engine.url))["vllm:iteration_tokens_total_count"] == 0
    assert not task.done()
    engine.faults.hang = False
    assert (await task).status == 200


async def test_connections_are_refused_until_the_fault_ends(
    engines: Engines, client: Client
) -> None:
    engine = await engines()
    assert (await client.post(engine.url, COMPLETIONS, BODY)).status == 200
    engine.faults.refuse_connections = True
    with pytest.raises(aiohttp.ClientError):
        await client.post(engine.url, COMPLETIONS, BODY)
    await until(lambda: engine._site is None)
    with pytest.raises(aiohttp.ClientConnectorError):
        await client.post(engine.url, COMPLETIONS, BODY)
    engine.faults.refuse_connections = False
    await until(lambda: engine._site is not None)
    assert (await client.post(engine.url, COMPLETIONS, BODY)).status == 200


async def test_a_slow_engine_takes_longer_steps(engines: Engines, client: Client) -> None:
    engine = await engines()
    await client.post(engine.url, COMPLETIONS, BODY)
    usual = engine.scheduler.steps[-1].seconds
    engine.faults.slow = 5.0
    await client.post(engine.url, COMPLETIONS, BODY)
    assert engine.scheduler.steps[-1].seconds == pytest.approx(5 * usual)


async def test_a_connection_dies_after_so_many_tokens(engines: Engines, client: Client) -> None:
    engine = await engines()
    engine.faults.die_after_tokens = 5
    got, error = await client.raw_stream(engine.url, COMPLETIONS, BODY)
    assert isinstance(error, aiohttp.ClientError)
    assert got.count(b"data: ") in {4, 5}
    assert b"[DONE]" not in got
    with pytest.raises(aiohttp.ClientError):
        await client.post(engine.url, COMPLETIONS, BODY)
    await until(lambda: is_quiet(engine))


async def test_an_error_event_ends_a_stream(engines: Engines, client: Client) -> None:
    engine = await engines()
    engine.faults.error_after_tokens = 4
    events = await client.stream(engine.url, COMPLETIONS, BODY)
    assert events[-1] == ("", "[DONE]")
    assert events[-2][1]["error"]["type"] == "InternalServerError"
    assert (await client.post(engine.url, COMPLETIONS, BODY)).status == 500
    await until(lambda: is_quiet(engine))


async def test_an_abort_has_no_tokens(engines: Engines, client: Client) -> None:
    engine = await engines()
    engine.faults.abort_finish = True
    reply = await client.post(engine.url, COMPLETIONS, BODY)
    assert reply.status == 200
    assert (reply.text, reply.body["choices"][0]["finish_reason"]) == ("", "abort")
    body = {"messages": [{"role": "user", "content": "x"}]}
    events = await client.stream(engine.url, CHAT, body)
    assert len(events) == 2
    assert events[-1] == ("", "[DONE]")


async def test_params_can_be_missing_or_partial(engines: Engines, client: Client) -> None:
    engine = await engines()
    engine.faults.missing_params = True
    assert await client.prefill(engine.url, PROMPT) is None
    engine.faults.update({"missing_params": False, "partial_params": True})
    params = await client.prefill(engine.url, PROMPT)
    assert "remote_engine_id" not in params
    assert "remote_request_id" in params


async def test_a_dropped_side_channel_fails_the_pull(engines: Engines, client: Client) -> None:
    prefill, decode = await engines(role="prefill"), await engines(role="decode")
    prefill.faults.drop_side_channel = True
    params = await client.prefill(prefill.url, PROMPT)
    assert (await client.decode(decode.url, PROMPT, params)).status == 500
    prefill.faults.drop_side_channel = False
    assert (await client.decode(decode.url, PROMPT, params)).status == 200


async def test_the_first_pull_of_a_pair_can_stall_until_the_lease_is_over(
    engines: Engines, client: Client
) -> None:
    prefill = await engines(role="prefill", kv_lease_duration=10.0, speed=10.0)
    decode = await engines(role="decode", kv_lease_duration=10.0, speed=10.0)
    decode.faults.first_pull_stall = True
    right = (await client.post(prefill.url, COMPLETIONS, BODY)).text
    before = decode.clock.now()
    params = await client.prefill(prefill.url, PROMPT)
    reply = await client.decode(decode.url, PROMPT, params, max_tokens=30)
    assert decode.clock.now() - before > 11
    assert reply.text == right
    seen = await client.metrics(prefill.url)
    assert seen["vllm:nixl_num_kv_expired_reqs_total"] == 1
    before = decode.clock.now()
    params = await client.prefill(prefill.url, PROMPT)
    assert (await client.decode(decode.url, PROMPT, params)).status == 200
    assert decode.clock.now() - before < 10


async def test_a_full_queue_answers_503(engines: Engines, client: Client) -> None:
    engine = await engines(max_num_seqs=1, max_num_queued_reqs=1, speed=5.0)
    calls = []
    body = {**BODY, "max_tokens": 400}
    for running, waiting in ((1, 0), (1, 1)):
        calls.append(asyncio.ensure_future(client.post(engine.url, COMPLETIONS, body)))
        scheduler = engine.scheduler
        await until(
            lambda running=running, waiting=waiting, scheduler=scheduler: (  # type: ignore[misc]
                (scheduler.num_running(), scheduler.num_waiting()) == (running, waiting)
            )
        )
    reply = await client.post(engine.url, COMPLETIONS, BODY)
    assert reply.status == 503
    assert reply.body["error"]["type"] == "Service Unavailable"
    seen = await client.metrics(engine.url)
    assert seen["vllm:admission_rejections_total{reason=max_num_queued_reqs}"] == 1
    assert [(await one).status for one in calls] == [200, 200]
    engine.faults.queue_full = True
    assert (await client.post(engine.url, COMPLETIONS, BODY)).status == 503


async def test_an_exit_in_process_only_silences_this_engine(
    engines: Engines, client: Client
) -> None:
    engine, other = await engines(), await engines()
    engine.faults.exit_code = 3
    await until(lambda: engine._site is None)
    with pytest.raises(aiohttp.ClientConnectorError):
        await client.post(engine.url, COMPLETIONS, BODY)
    assert (await client.post(other.url, COMPLETIONS, BODY)).status == 200
