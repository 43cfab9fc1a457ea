"""Data parallelism: engine cores behind one server, each with its own KV and side channel."""

from __future__ import annotations

import pytest

from pdctl.adapters.vllm.metrics import parse
from pdctl.simulated import SimConfig
from tests.simulated.conftest import Engines
from tests.simulated.talk import COMPLETIONS, RESPONSES, Client, is_quiet, until

PROMPT = [5] * 300


async def test_a_named_rank_serves_and_hands_over(engines: Engines, client: Client) -> None:
    prefill = await engines(role="prefill", data_parallel_size=2)
    decode = await engines(role="decode", data_parallel_size=3)
    asked = {
        "prompt": PROMPT, "max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True},
    }  # fmt: skip
    reply = await client.post(prefill.url, COMPLETIONS, asked, **{"X-data-parallel-rank": "1"})
    params = reply.body["kv_transfer_params"]
    assert params["remote_engine_id"] == f"{prefill.config.engine_id}_dp1"
    assert params["remote_port"] == prefill.ranks[1].side_channel_port
    assert [len(rank.leases) for rank in prefill.ranks] == [0, 1]
    body = {"prompt": PROMPT, "max_tokens": 4, "kv_transfer_params": params}
    reply = await client.post(decode.url, COMPLETIONS, body, **{"X-data-parallel-rank": "2"})
    assert reply.status == 200
    assert [rank.metrics.external_hits.value for rank in decode.ranks] == [0, 0, len(PROMPT)]
    await until(lambda: is_quiet(prefill) and is_quiet(decode))


async def test_a_rank_that_is_not_there_is_refused(engines: Engines, client: Client) -> None:
    engine = await engines(data_parallel_size=2)
    for rank in ("2", "-1"):
        named = {"X-data-parallel-rank": rank}
        reply = await client.post(engine.url, COMPLETIONS, {"prompt": "hi"}, **named)
        assert (reply.status, reply.body["error"]["message"]) == (
            400, f"data_parallel_rank {rank} is out of range [0, 2).",
        )  # fmt: skip
    # Neither a word that is no number nor /v1/responses names a rank in vLLM 0.32.
    named = {"X-data-parallel-rank": "first"}
    assert (await client.post(engine.url, COMPLETIONS, {"prompt": "hi"}, **named)).status == 200
    named = {"X-data-parallel-rank": "7"}
    assert (await client.post(engine.url, RESPONSES, {"input": "hi"}, **named)).status == 200


async def test_ranks_share_the_work_and_the_page(engines: Engines, client: Client) -> None:
    engine = await engines(data_parallel_size=2)
    for number in (0, 1, 1):
        named = {"X-data-parallel-rank": str(number)}
        await client.post(engine.url, COMPLETIONS, {"prompt": PROMPT, "max_tokens": 2}, **named)
    async with client.session.get(engine.url + "/metrics") as answer:
        page = await answer.text()
    assert page.count("# TYPE vllm:prompt_tokens_total counter") == 1
    stats = parse(page, at=1.0)
    assert stats.ranks == 2
    assert stats.generation_tokens == 6
    assert [rank.metrics.generation_tokens.value for rank in engine.ranks] == [2, 4]


def test_ranks_without_a_core_are_no_engine() -> None:
    with pytest.raises(ValueError, match="data_parallel_size"):
        SimConfig(data_parallel_size=0)
