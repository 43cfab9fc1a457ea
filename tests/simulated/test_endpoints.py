"""The answers of each endpoint, whole and streamed, have vLLM's keys and add up."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.simulated.config import Timing
from tests.simulated.conftest import Engines
from tests.simulated.talk import CHAT, COMPLETIONS, RESPONSES, Client

PROMPT = "hello world, tell me a story"
MESSAGES = [{"role": "user", "content": PROMPT}]
USAGE = {
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
}


async def test_the_small_endpoints_answer(engines: Engines, client: Client) -> None:
    engine = await engines(model_name="m", max_model_len=512)
    for path in ("/health", "/ping"):
        async with client.session.get(engine.url + path) as response:
            assert (response.status, await response.read()) == (200, b"")
    get = {}
    for path in ("/version", "/load", "/kv_event_sources", "/v1/models"):
        async with client.session.get(engine.url + path) as response:
            get[path] = await response.json()
    assert get["/version"] == {"version": "0.32.0+simulated"}
    assert get["/load"] == {"server_load": 0}
    assert get["/kv_event_sources"] == {}
    (card,) = get["/v1/models"]["data"]
    assert (card["id"], card["owned_by"], card["max_model_len"]) == ("m", "simulated", 512)
    reply = await client.post(engine.url, "/tokenize", {"prompt": "hello é"})
    assert reply.body["count"] == len(reply.body["tokens"]) == 4
    assert reply.body["max_model_len"] == 512


async def test_a_completion_answers_whole(engines: Engines, client: Client) -> None:
    engine = await engines()
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12}
    reply = await client.post(engine.url, COMPLETIONS, body, **{"X-Request-Id": "abc"})
    assert reply.status == 200
    assert reply.body["id"] == "cmpl-abc"
    assert reply.body["object"] == "text_completion"
    assert "simulated" in reply.body["system_fingerprint"]
    (choice,) = reply.body["choices"]
    assert choice["text"]
    assert choice["finish_reason"] == "length"
    assert set(reply.body["usage"]) == USAGE
    assert reply.body["usage"]["completion_tokens"] == 12
    assert reply.body["kv_transfer_params"] is None


@pytest.mark.parametrize("continuous", [False, True])
async def test_a_streamed_completion_is_the_whole_one_in_pieces(
    engines: Engines, client: Client, continuous: bool
) -> None:
    engine = await engines()
    body: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 40}
    whole = await client.post(engine.url, COMPLETIONS, body)
    options = {"include_usage": True, "continuous_usage_stats": continuous}
    events = await client.stream(engine.url, COMPLETIONS, {**body, "stream_options": options})
    *chunks, usage, done = [data for _, data in events]
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 40
    assert "".join(one["choices"][0]["text"] for one in chunks) == whole.text
    reasons = [one["choices"][0]["finish_reason"] for one in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["length"]
    counts = [one["usage"]["completion_tokens"] for one in chunks if "usage" in one]
    assert counts == (sorted(counts) if continuous else [])
    assert bool(counts) == continuous


async def test_without_usage_the_last_chunk_has_the_fingerprint(
    engines: Engines, client: Client
) -> None:
    engine = await engines()
    for path, body in ((COMPLETIONS, {"prompt": PROMPT}), (CHAT, {"messages": MESSAGES})):
        events = await client.stream(engine.url, path, {**body, "max_tokens": 5})
        chunks = [data for _, data in events[:-1]]
        assert "system_fingerprint" in chunks[-1]
        assert not any("usage" in one or "system_fingerprint" in one for one in chunks[:-1])


async def test_a_chat_answers_whole_and_streamed_alike(engines: Engines, client: Client) -> None:
    engine = await engines()
    body: dict[str, Any] = {"messages": MESSAGES, "max_completion_tokens": 20, "max_tokens": 3}
    whole = await client.post(engine.url, CHAT, body)
    message = whole.body["choices"][0]["message"]
    assert message["role"] == "assistant"
    assert whole.body["usage"]["completion_tokens"] == 20
    assert whole.body["id"].startswith("chatcmpl-")
    events = await client.stream(engine.url, CHAT, body)
    first, *rest = [data for _, data in events[:-1]]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(one["choices"][0]["delta"]["content"] for one in rest) == message["content"]
    assert rest[-1]["choices"][0]["finish_reason"] == "length"
    assert events[-1] == ("", "[DONE]")


async def test_a_response_answers_whole_and_streamed_alike(
    engines: Engines, client: Client
) -> None:
    engine = await engines()
    body = {"input": PROMPT, "max_output_tokens": 15}
    whole = await client.post(engine.url, RESPONSES, body)
    assert whole.body["status"] == "incomplete"
    assert whole.body["usage"]["output_tokens"] == 15
    text = whole.body["output"][0]["content"][0]["text"]
    events = await client.stream(engine.url, RESPONSES, body)
    names = [name for name, _ in events]
    assert names[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert names[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    assert all(data["type"] == name for name, data in events)
    deltas = [data["delta"] for name, data in events if name == "response.output_text.delta"]
    assert "".join(deltas) == text
    assert set(events[-1][1]["response"]) == set(whole.body)


async def test_log_probabilities_have_one_entry_per_token(engines: Engines, client: Client) -> None:
    engine = await engines()
    body = {"prompt": PROMPT, "max_tokens": 6, "logprobs": 3}
    whole = (await client.post(engine.url, COMPLETIONS, body)).body["choices"][0]
    assert len(whole["logprobs"]["tokens"]) == 6
    assert all(len(one) == 3 for one in whole["logprobs"]["top_logprobs"])
    assert all(value <= 0 for value in whole["logprobs"]["token_logprobs"])
    events = await client.stream(engine.url, COMPLETIONS, body)
    offsets = [at for _, one in events[:-1] for at in one["choices"][0]["logprobs"]["text_offset"]]
    assert offsets == whole["logprobs"]["text_offset"]
    body = {"messages": MESSAGES, "max_tokens": 4, "logprobs": True, "top_logprobs": 2}
    content = (await client.post(engine.url, CHAT, body)).body["choices"][0]["logprobs"]["content"]
    assert [set(one) for one in content] == [{"token", "logprob", "bytes", "top_logprobs"}] * 4
    assert all(one["top_logprobs"][0]["token"] == one["token"] for one in content)


async def test_echo_puts_the_prompt_first(engines: Engines, client: Client) -> None:
    engine = await engines()
    body = {"prompt": PROMPT, "max_tokens": 5, "echo": True, "logprobs": 1}
    choice = (await client.post(engine.url, COMPLETIONS, body)).body["choices"][0]
    assert choice["text"].startswith(PROMPT)
    assert choice["logprobs"]["token_logprobs"][0] is None
    events = await client.stream(engine.url, COMPLETIONS, body)
    assert "".join(one["choices"][0]["text"] for _, one in events[:-1]) == choice["text"]
    only = await client.post(engine.url, COMPLETIONS, {**body, "max_tokens": 0})
    assert only.text == PROMPT


async def test_several_prompts_and_samples_are_numbered(engines: Engines, client: Client) -> None:
    engine = await engines()
    body = {"prompt": ["one", "two", [104, 105]], "n": 2, "max_tokens": 8}
    reply = await client.post(engine.url, COMPLETIONS, body)
    choices = reply.body["choices"]
    assert [one["index"] for one in choices] == [0, 1, 2, 3, 4, 5]
    assert len({one["text"] for one in choices}) == 6
    assert reply.body["usage"]["completion_tokens"] == 48
    alone = await client.post(engine.url, COMPLETIONS, {"prompt": "hi", "max_tokens": 8})
    assert alone.text == choices[4]["text"]
    events = await client.stream(engine.url, COMPLETIONS, body)
    texts = [""] * 6
    for _, chunk in events[:-1]:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == [one["text"] for one in choices]


async def test_stop_strings_end_the_text_and_never_show(engines: Engines, client: Client) -> None:
    engine = await engines()
    body: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 60}
    text = (await client.post(engine.url, COMPLETIONS, body)).text
    mark = text[20:26]
    whole = (await client.post(engine.url, COMPLETIONS, {**body, "stop": [mark]})).body["choices"][
        0
    ]
    assert whole["text"] == text[: text.index(mark)]
    assert (whole["finish_reason"], whole["stop_reason"]) == ("stop", mark)
    events = await client.stream(engine.url, COMPLETIONS, {**body, "stop": mark})
    assert "".join(one["choices"][0]["text"] for _, one in events[:-1]) == whole["text"]
    later = {**body, "stop": mark, "min_tokens": 60}
    assert (await client.post(engine.url, COMPLETIONS, later)).body["usage"][
        "completion_tokens"
    ] == 60


async def test_a_text_ends_by_itself_unless_told_to_go_on(engines: Engines, client: Client) -> None:
    engine = await engines(mean_output_tokens=20)
    body = {"prompt": PROMPT, "max_tokens": 200}
    reply = await client.post(engine.url, COMPLETIONS, body)
    assert reply.body["choices"][0]["finish_reason"] == "stop"
    assert 10 < reply.body["usage"]["completion_tokens"] <= 31
    reply = await client.post(engine.url, COMPLETIONS, {**body, "ignore_eos": True})
    assert reply.body["usage"]["completion_tokens"] == 200


async def test_token_ids_are_returned_when_asked_for(engines: Engines, client: Client) -> None:
    engine = await engines()
    body = {"prompt": PROMPT, "max_tokens": 7, "return_token_ids": True}
    choice = (await client.post(engine.url, COMPLETIONS, body)).body["choices"][0]
    assert len(choice["token_ids"]) == 7
    events = await client.stream(engine.url, COMPLETIONS, body)
    chunks = [data["choices"][0] for _, data in events[:-1]]
    assert chunks[0]["prompt_token_ids"] == choice["prompt_token_ids"]
    assert [one for chunk in chunks for one in chunk["token_ids"]] == choice["token_ids"]


async def test_per_request_metrics_are_simulated_milliseconds(
    engines: Engines, client: Client
) -> None:
    timing = Timing(prefill_tokens_per_s=1000.0, step_base_s=0.01, step_per_seq_s=0.0)
    engine = await engines(timing=timing, enable_per_request_metrics=True)
    body = {"prompt": [65] * 1000, "max_tokens": 11}
    shown = (await client.post(engine.url, COMPLETIONS, body)).body["metrics"]
    assert shown["time_to_first_token_ms"] == pytest.approx(1010, abs=2)
    assert shown["mean_itl_ms"] == pytest.approx(10, abs=0.5)
    assert shown["generation_time_ms"] == pytest.approx(100, abs=5)
    options = {"include_usage": True}
    events = await client.stream(engine.url, COMPLETIONS, {**body, "stream_options": options})
    assert set(events[-2][1]["metrics"]) == set(shown) - {"speculative_decoding"}


async def test_a_reused_prompt_is_found_in_the_cache(engines: Engines, client: Client) -> None:
    engine = await engines()
    body = {"prompt": [65] * 300, "max_tokens": 2}
    first = await client.post(engine.url, COMPLETIONS, body)
    again = await client.post(engine.url, COMPLETIONS, body)
    assert first.body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again.body["usage"]["prompt_tokens_details"]["cached_tokens"] == 256
    assert again.text == first.text


async def test_every_answer_names_its_request(engines: Engines, client: Client) -> None:
    engine = await engines()
    for path, body in (
        (COMPLETIONS, {"prompt": PROMPT, "max_tokens": 2}),
        (COMPLETIONS, {"prompt": PROMPT, "max_tokens": 2, "stream": True}),
        (CHAT, {"messages": MESSAGES, "max_tokens": "many"}),
    ):
        for sent in ({"X-Request-Id": "r-1"}, {}):
            async with client.session.post(engine.url + path, json=body, headers=sent) as response:
                named = response.headers["X-Request-Id"]
            assert named == "r-1" if sent else len(named) == 32
    reply = await client.post(engine.url, RESPONSES, {"input": "x"}, **{"X-Request-Id": "r-1"})
    assert "r-1" not in reply.body["id"]
