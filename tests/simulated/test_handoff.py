"""A handoff between two engines: right text, leases, single use, failures and clean-up."""

from __future__ import annotations

import asyncio

import pytest

from pdctl.simulated import SimulatedEngine
from pdctl.simulated.config import Timing
from pdctl.simulated.transfer import REQUIRED_KEYS
from tests.simulated.conftest import Engines
from tests.simulated.talk import CHAT, COMPLETIONS, PREFILL_LEG, RESPONSES, Client, is_quiet, until

PROMPT = "once upon a time there was a river " * 40
EXTERNAL = "vllm:prompt_tokens_by_source_total{source=external_kv_transfer}"
COMPUTED = "vllm:prompt_tokens_by_source_total{source=local_compute}"
EXPIRED = "vllm:nixl_num_kv_expired_reqs_total"
LATE = "vllm:nixl_num_notifications_after_expiry_total"
FAILED = "vllm:nixl_num_failed_transfers_total"
PARAMS = {
    "do_remote_prefill",
    "do_remote_decode",
    "remote_block_ids",
    "remote_engine_id",
    "remote_request_id",
    "remote_host",
    "remote_port",
    "tp_size",
    "dcp_size",
    "pp_size",
    "remote_num_tokens",
    "remote_blocks_expiry_time",
    "transfer_mode",
    "remote_prefill_cached_tokens",
}


async def pair(engines: Engines, **fields: object) -> tuple[SimulatedEngine, SimulatedEngine]:
    """A prefill and a decode engine."""
    return await engines(role="prefill", **fields), await engines(role="decode", **fields)


async def expected_text(engines: Engines, client: Client, prompt: object = PROMPT) -> str:
    """What an engine that shares nothing with the pair says."""
    alone = await engines(role="both", seed=99)
    return (await client.post(alone.url, COMPLETIONS, {"prompt": prompt, "max_tokens": 16})).text


async def test_a_handoff_gives_the_same_text_and_pulls_the_prompt(
    engines: Engines, client: Client
) -> None:
    prefill, decode = await pair(engines)
    params = await client.prefill(prefill.url, PROMPT)
    assert set(params) == PARAMS
    assert params["remote_engine_id"] == prefill.config.engine_id
    assert len(params["remote_block_ids"][0]) == -(-params["remote_num_tokens"] // 128)
    assert len(prefill.leases) == 1
    reply = await client.decode(decode.url, PROMPT, params)
    assert reply.text == await expected_text(engines, client)
    seen = await client.metrics(decode.url)
    assert seen[EXTERNAL] == params["remote_num_tokens"]
    assert seen[COMPUTED] == 0
    assert seen["vllm:nixl_bytes_transferred_sum"] == params["remote_num_tokens"] * 131_072
    assert seen["vllm:external_prefix_cache_hits_total"] == params["remote_num_tokens"]
    await until(lambda: is_quiet(prefill) and is_quiet(decode))
    assert (await client.metrics(prefill.url))[EXPIRED] == 0


async def test_the_chat_and_responses_legs_hand_over_too(engines: Engines, client: Client) -> None:
    prefill, decode = await pair(engines)
    for path, body in (
        (CHAT, {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 9}),
        (RESPONSES, {"input": PROMPT, "max_output_tokens": 9}),
    ):
        limit = next(name for name in body if name.startswith("max"))
        alone = await client.post(prefill.url, path, body)
        leg = {**body, limit: 1, "kv_transfer_params": PREFILL_LEG}
        params = (await client.post(prefill.url, path, leg)).body["kv_transfer_params"]
        sent = {**body, "kv_transfer_params": params}
        handed = await client.post(decode.url, path, sent)
        key = "output" if path == RESPONSES else "choices"
        strip = ("id", "message", "content")
        if path == CHAT:
            assert handed.body[key] == alone.body[key]
        else:
            assert handed.body[key][0][strip[2]] == alone.body[key][0][strip[2]]
        assert handed.body["usage"] != {}
    assert decode.metrics.nixl_bytes.count == 2


async def test_params_lead_to_one_good_read_and_then_to_another_text(
    engines: Engines, client: Client
) -> None:
    prefill, decode = await pair(engines, enable_prefix_caching=False)
    params = await client.prefill(prefill.url, PROMPT)
    first = await client.decode(decode.url, PROMPT, params)
    second = await client.decode(decode.url, PROMPT, params)
    assert second.status == 200
    assert first.text == await expected_text(engines, client)
    assert second.text != first.text
    assert "▒" in second.text
    assert (await client.metrics(prefill.url))[LATE] == 1


async def test_params_of_another_prompt_give_another_text(engines: Engines, client: Client) -> None:
    prefill, decode = await pair(engines)
    params = await client.prefill(prefill.url, "something else entirely")
    reply = await client.decode(decode.url, PROMPT, params)
    assert "▒" in reply.text


async def test_a_lease_nobody_pulls_expires(engines: Engines, client: Client) -> None:
    prefill, decode = await pair(engines, kv_lease_duration=5.0)
    params = await client.prefill(prefill.url, PROMPT)
    assert prefill.scheduler.kv_usage() > 0
    await until(lambda: is_quiet(prefill))
    assert (await client.metrics(prefill.url))[EXPIRED] == 1
    late = await client.decode(decode.url, PROMPT, params)
    assert late.status == 200
    assert "▒" in late.text
    assert (await client.metrics(prefill.url))[LATE] == 1


async def test_a_late_read_may_be_lucky(engines: Engines, client: Client) -> None:
    prefill, decode = await pair(engines, kv_lease_duration=1.0, late_read="intact")
    params = await client.prefill(prefill.url, PROMPT)
    await until(lambda: is_quiet(prefill))
    late = await client.decode(decode.url, PROMPT, params)
    assert late.text == await expected_text(engines, client)


async def test_heartbeats_keep_the_lease_through_a_slow_pull(
    engines: Engines, client: Client
) -> None:
    slow = Timing(transfer_bytes_per_s=131_072 * 36)
    prefill, decode = await pair(engines, timing=slow, kv_lease_duration=6.0, speed=8.0)
    params = await client.prefill(prefill.url, PROMPT)
    assert params["remote_num_tokens"] / 36 > 8
    reply = await client.decode(decode.url, PROMPT, params)
    assert reply.text == await expected_text(engines, client)
    assert (await client.metrics(prefill.url))[EXPIRED] == 0


@pytest.mark.parametrize("key", REQUIRED_KEYS)
async def test_params_without_a_required_key_are_recomputed_in_silence(
    engines: Engines, client: Client, key: str
) -> None:
    prefill, decode = await pair(engines)
    params = await client.prefill(prefill.url, PROMPT)
    del params[key]
    reply = await client.decode(decode.url, PROMPT, params)
    assert reply.text == await expected_text(engines, client)
    seen = await client.metrics(decode.url)
    assert (seen[EXTERNAL], seen[COMPUTED]) == (0, reply.body["usage"]["prompt_tokens"])


@pytest.mark.parametrize("policy", ["fail", "recompute"])
async def test_a_pull_that_cannot_be_done_follows_the_policy(
    engines: Engines, client: Client, policy: str
) -> None:
    prefill, decode = await pair(engines, kv_load_failure_policy=policy)
    params = await client.prefill(prefill.url, PROMPT)
    wrong = {**params, "remote_engine_id": "somebody-else"}
    reply = await client.decode(decode.url, PROMPT, wrong)
    assert (await client.metrics(decode.url))[FAILED] == 1
    if policy == "recompute":
        assert reply.text == await expected_text(engines, client)
        return
    assert reply.status == 500
    assert reply.body["error"] == {
        "message": "Internal server error",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
    body = {"prompt": PROMPT, "kv_transfer_params": wrong}
    events = await client.stream(decode.url, COMPLETIONS, body)
    assert events[0][1]["error"]["code"] == 500
    assert events[1:] == [("", "[DONE]")]
    await until(lambda: is_quiet(decode))


async def test_a_dead_prefill_engine_fails_the_pull(engines: Engines, client: Client) -> None:
    prefill, decode = await pair(engines)
    params = await client.prefill(prefill.url, PROMPT)
    await prefill.stop()
    reply = await client.decode(decode.url, PROMPT, params)
    assert reply.status == 500


async def test_a_rejected_decode_leg_frees_the_prefill_blocks(
    engines: Engines, client: Client
) -> None:
    prefill, decode = await pair(engines)
    params = await client.prefill(prefill.url, PROMPT)
    reply = await client.decode(decode.url, PROMPT, params, model="nobody")
    assert reply.status == 404
    await until(lambda: is_quiet(prefill))
    assert (await client.metrics(prefill.url))[EXPIRED] == 0


async def test_a_body_that_does_not_fit_the_schema_frees_nothing(
    engines: Engines, client: Client
) -> None:
    prefill, decode = await pair(engines)
    params = await client.prefill(prefill.url, PROMPT)
    reply = await client.decode(decode.url, PROMPT, params, max_tokens="many")
    assert reply.status == 400
    assert len(prefill.leases) == 1


async def test_the_prefill_cache_hits_show_in_the_decode_usage(
    engines: Engines, client: Client
) -> None:
    prefill, decode = await pair(engines)
    await client.post(prefill.url, COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1})
    params = await client.prefill(prefill.url, PROMPT)
    reply = await client.decode(decode.url, PROMPT, params)
    cached = reply.body["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == params["remote_prefill_cached_tokens"] > 0


async def test_a_client_that_leaves_frees_both_sides(engines: Engines, client: Client) -> None:
    slow = Timing(transfer_bytes_per_s=131_072 * 50)
    prefill, decode = await pair(engines, timing=slow, speed=10.0)
    params = await client.prefill(prefill.url, PROMPT)
    task = asyncio.ensure_future(client.decode(decode.url, PROMPT, params))
    await until(lambda: decode.scheduler.fetches("in_progress") == 1)
    task.cancel()
    await until(lambda: is_quiet(prefill) and is_quiet(decode))
    assert (await client.metrics(decode.url))[
        "vllm:request_success_total{finished_reason=abort}"
    ] == 1


async def test_a_client_that_leaves_a_stream_frees_its_blocks(
    engines: Engines, client: Client
) -> None:
    engine = await engines(speed=1.0)
    body = {"prompt": PROMPT, "max_tokens": 2000, "stream": True, "ignore_eos": True}
    response = await client.session.post(engine.url + COMPLETIONS, json=body)
    await response.content.readline()
    assert not is_quiet(engine)
    response.close()
    await until(lambda: is_quiet(engine))
    steps = engine.scheduler.num_steps
    await asyncio.sleep(0.02)
    assert engine.scheduler.num_steps == steps


async def test_a_prefill_leg_that_is_aborted_hands_nothing_over(
    engines: Engines, client: Client
) -> None:
    prefill, _ = await pair(engines)
    prefill.faults.abort_finish = True
    body = {"prompt": PROMPT, "max_tokens": 1, "kv_transfer_params": PREFILL_LEG}
    reply = await client.post(prefill.url, COMPLETIONS, body)
    assert reply.body["choices"][0]["finish_reason"] == "abort"
    assert reply.body["kv_transfer_params"] is None
    assert is_quiet(prefill)


async def test_reused_prompt_tokens_replace_the_template(engines: Engines, client: Client) -> None:
    engine = await engines()
    params = {"do_remote_prefill": False, "prompt_token_ids": [104, 105]}
    body = {"messages": [{"role": "user", "content": "x" * 50}], "kv_transfer_params": params}
    reply = await client.post(engine.url, CHAT, {**body, "max_tokens": 3})
    assert reply.body["usage"]["prompt_tokens"] == 2
    params["prompt_token_ids"] = ["no"]
    assert (await client.post(engine.url, CHAT, body)).status == 400


async def test_an_engine_without_a_connector_ignores_the_params(
    engines: Engines, client: Client
) -> None:
    engine = await engines(kv_connector=False)
    assert await client.prefill(engine.url, PROMPT) is None
    assert is_quiet(engine)
    params = {"do_remote_prefill": True, **dict.fromkeys(REQUIRED_KEYS, 1)}
    reply = await client.decode(engine.url, PROMPT, params)
    assert reply.text == await expected_text(engines, client)
    assert not any("nixl" in name for name in await client.metrics(engine.url))


async def test_a_prompt_of_one_token_is_computed_and_its_lease_ended(
    engines: Engines, client: Client
) -> None:
    prefill, decode = await pair(engines)
    params = await client.prefill(prefill.url, "the")
    reply = await client.decode(decode.url, "the", params)
    assert reply.text == await expected_text(engines, client, "the")
    seen = await client.metrics(decode.url)
    assert (seen[EXTERNAL], seen[COMPUTED]) == (0, 1)
    await until(lambda: is_quiet(prefill))
    assert (await client.metrics(prefill.url))[EXPIRED] == 0
