"""Many engines in one process, and what /metrics holds."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from pdctl.simulated import SimConfig, SimulatedEngine
from pdctl.simulated.config import Timing
from tests.simulated.conftest import Engines
from tests.simulated.talk import COMPLETIONS, Client, is_quiet

COUNT = 200


async def test_two_hundred_engines_start_and_answer(client: Client) -> None:
    timing = Timing.instant()
    fleet = [SimulatedEngine(SimConfig(timing=timing)) for _ in range(COUNT)]
    await asyncio.gather(*(engine.start() for engine in fleet))
    try:
        body = {"prompt": "hello world", "max_tokens": 5}
        replies = await asyncio.gather(
            *(client.post(engine.url, COMPLETIONS, body) for engine in fleet)
        )
        assert {reply.text for reply in replies} == {replies[0].text}
        handed = []
        for prefill, decode in zip(fleet[::40], fleet[1::40], strict=True):
            params = await client.prefill(prefill.url, "hello world")
            handed.append(await client.decode(decode.url, "hello world", params, max_tokens=5))
        assert {reply.text for reply in handed} == {replies[0].text}
        assert all(is_quiet(engine) for engine in fleet)
    finally:
        await asyncio.gather(*(engine.stop() for engine in fleet))


async def test_metrics_parse_and_hold_what_an_operator_reads(
    engines: Engines, client: Client
) -> None:
    engine = await engines(role="decode", max_model_len=4096)
    await client.post(engine.url, COMPLETIONS, {"prompt": [65] * 300, "max_tokens": 4})
    async with client.session.get(engine.url + "/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = {one.name: one for one in text_string_to_metric_families(await response.text())}
    assert {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_requests_waiting_by_reason",
        "vllm:num_requests_kv_fetch_by_stage",
        "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions",
        "vllm:engine_sleep_state",
        "vllm:admission_rejections",
        "vllm:prefix_cache_queries",
        "vllm:external_prefix_cache_hits",
        "vllm:prompt_tokens_by_source",
        "vllm:prompt_tokens_cached_by_source",
        "vllm:generation_tokens",
        "vllm:request_success",
        "vllm:iteration_tokens_total",
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:request_time_per_output_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:request_inference_time_seconds",
        "vllm:request_prefill_time_seconds",
        "vllm:request_decode_time_seconds",
        "vllm:cache_config_info",
        "vllm:nixl_xfer_time_seconds",
        "vllm:nixl_num_kv_expired_reqs",
    } <= set(families)
    for family in families.values():
        for sample in family.samples:
            assert "engine" in sample.labels or family.name.startswith("vllm:admission")
    stages = {
        one.labels["stage"] for one in families["vllm:num_requests_kv_fetch_by_stage"].samples
    }
    assert stages == {"waiting_to_start", "in_progress", "completed_waiting"}
    gaps = families["vllm:inter_token_latency_seconds"].samples
    assert next(one.value for one in gaps if one.name.endswith("_count")) == 3


async def test_a_prefill_engine_has_no_fetch_gauge(engines: Engines, client: Client) -> None:
    engine = await engines(role="prefill")
    names = await client.metrics(engine.url)
    assert not any("kv_fetch" in name for name in names)
    assert "vllm:nixl_num_kv_expired_reqs_total" in names
