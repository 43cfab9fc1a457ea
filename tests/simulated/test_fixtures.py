"""Our answers against what vLLM 0.32 itself wrote: the same keys, families, labels and buckets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdctl.simulated import SimulatedEngine
from pdctl.simulated.start_log import StartLog
from tests.simulated.conftest import Engines
from tests.simulated.talk import CHAT, COMPLETIONS, PREFILL_LEG, RESPONSES, Client, events

FIXTURES = Path(__file__).parents[1] / "fixtures"
PROMPT = "the river said: tell me a story " * 40
MESSAGES = [{"role": "user", "content": PROMPT}]
LEGS: dict[str, tuple[str, dict[str, Any]]] = {
    "prefill_completions.json": (COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1}),
    "prefill_chat.json": (CHAT, {"messages": MESSAGES, "max_tokens": 1}),
    "prefill_responses.json": (RESPONSES, {"input": PROMPT, "max_output_tokens": 1}),
}
USAGE = {"stream_options": {"include_usage": True}}
CONTINUOUS = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "sse_completions.txt": (COMPLETIONS, {"prompt": PROMPT, "max_tokens": 12, **USAGE}),
    "sse_completions_logprobs.txt": (
        COMPLETIONS,
        {"prompt": PROMPT, "max_tokens": 12, "logprobs": 2, **CONTINUOUS},
    ),
    "sse_chat.txt": (CHAT, {"messages": MESSAGES, "max_tokens": 12, **USAGE}),
    "sse_responses.txt": (RESPONSES, {"input": PROMPT, "max_output_tokens": 12}),
}


def shape(value: Any) -> Any:
    """The keys of `value` at every depth; a list has the shapes of its members."""
    if isinstance(value, dict):
        if all(isinstance(one, float) for one in value.values()) and "logprob" not in value:
            return "numbers"
        return {key: shape(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(shape(one)) for one in value})
    return None


async def recording_engine(engines: Engines, **fields: Any) -> SimulatedEngine:
    """An engine set as the recorded ones were."""
    return await engines(enable_per_request_metrics=True, **fields)


@pytest.mark.parametrize("name", LEGS)
async def test_a_prefill_leg_has_the_recorded_keys(
    engines: Engines, client: Client, name: str
) -> None:
    engine = await recording_engine(engines, role="prefill")
    path, body = LEGS[name]
    reply = await client.post(engine.url, path, {**body, "kv_transfer_params": PREFILL_LEG})
    recorded = json.loads((FIXTURES / name).read_text())
    assert shape(reply.body) == shape(recorded)


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_has_the_recorded_events(
    engines: Engines, client: Client, name: str
) -> None:
    engine = await recording_engine(engines, role="decode")
    path, body = STREAMS[name]
    ours = await client.stream(engine.url, path, body)
    recorded = events((FIXTURES / name).read_text())

    def outline(stream: list[tuple[str, Any]]) -> list[str]:
        """The kinds of events in their order, repetitions dropped."""
        kinds = [json.dumps([event, shape(data)]) for event, data in stream]
        return [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before]

    assert outline(ours) == outline(recorded)


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_the_metrics_have_the_recorded_families_labels_and_buckets(
    engines: Engines, client: Client, role: str
) -> None:
    engine = await engines(role=role)
    async with client.session.get(engine.url + "/metrics") as response:
        ours = series(await response.text())
    recorded = series((FIXTURES / f"metrics_{role}.txt").read_text())
    assert ours == recorded


def series(page: str) -> set[tuple[str, ...]]:
    """Type, sample name, label names and the telling label values of vLLM's own families."""
    found: set[tuple[str, ...]] = set()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if not sample.name.startswith("vllm:"):
                continue
            told = {k: v for k, v in sample.labels.items() if k not in {"model_name", "engine"}}
            values = () if family.name == "vllm:cache_config_info" else tuple(told.values())
            found.add((family.type, sample.name, *sorted(sample.labels), *sorted(values)))
    return found


async def test_the_start_lines_begin_as_the_recorded_ones(
    engines: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = await engines(role="prefill")
    lines = StartLog(None)
    lines.announce(engine.config)
    await lines.load(engine.config, 0.0)
    lines.serving(engine.url)
    ours = capsys.readouterr().out
    recorded = (FIXTURES / "vllm_start_prefill.log").read_text()
    for phrase in (
        "Resolved architecture: ",
        "Using max model len 8192",
        "Initializing a V1 LLM engine (v0.32.0",
        "Starting to load model ",
        "Loading safetensors checkpoint shards:   0% Completed | 0/",
        "Loading safetensors checkpoint shards: 100% Completed | ",
        "Loading weights took ",
        "Registering KV_Caches. ",
        "KV cache size: ",
        "Maximum concurrency for 8,192 tokens per request: ",
        "init engine (profile, create kv cache, warmup model) took ",
        "Starting vLLM server on http://127.0.0.1:",
        "Application startup complete.",
    ):
        assert phrase in recorded, phrase
        assert phrase in ours, phrase
