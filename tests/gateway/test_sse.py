"""The scanner: the same facts and the same bytes, however the stream was cut."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.rogue import completion_events, event

from pdctl.gateway import sse
from pdctl.gateway.sse import Scanner
from pdctl.routing.answers import Usage

COMPLETIONS, CHAT, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"
FIXTURES = Path(__file__).parents[1] / "fixtures"
ROLE = event({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
USAGE = event(
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
        "metrics": {"queue_time_ms": 1.5},
    }
)
DONE = b"data: [DONE]\n\n"


def chat(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]})


def compact(data: bytes) -> bytes:
    """The same event as vLLM writes it."""
    body = json.dumps(json.loads(data[6:]), separators=(",", ":"), ensure_ascii=False)
    return b"data: " + body.encode() + b"\n\n"


STREAM = b"".join(
    [
        ROLE,
        b": keep-alive\n\n",
        chat({"content": "héllo 你好 🙂"}),
        chat({"content": ""}),
        chat({"content": 'a "text": "x" \n\n data: [DONE] inside'}),
        chat({"content": "end"}, "stop"),
        USAGE,
        DONE,
    ]
)


def run(pieces: list[bytes], endpoint: str = CHAT) -> tuple[bytes, int, Scanner]:
    scanner, out, tokens = Scanner(endpoint), b"", 0
    for piece in pieces:
        scan = scanner.feed(piece)
        out += scan.ready
        tokens += scan.tokens
    scan = scanner.finish()
    return out + scan.ready, tokens + scan.tokens, scanner


def facts(scanner: Scanner) -> tuple[object, ...]:
    return (
        scanner.finish_reason, scanner.closed, scanner.committed, scanner.error, scanner.usage(),
        scanner.metrics(),
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12), crlf=st.booleans())
def test_any_cut_gives_the_same_bytes_and_facts(cuts: list[int], crlf: bool) -> None:
    stream = STREAM.replace(b"\n\n", b"\r\n\r\n") if crlf else STREAM
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    out, tokens, scanner = run(pieces)
    assert out == stream
    assert tokens == 4
    expected = ("stop", True, True, None, Usage(9, 3, 8), (("queue_time_ms", 1.5),))
    assert facts(scanner) == expected


def test_byte_by_byte() -> None:
    out, tokens, scanner = run([STREAM[i : i + 1] for i in range(len(STREAM))])
    assert (out, tokens, scanner.closed) == (STREAM, 4, True)


def test_an_event_waits_until_it_is_whole() -> None:
    scanner = Scanner(COMPLETIONS)
    first, second = completion_events("a", "b", done=False)
    assert scanner.feed(first + second[:20]).ready == first
    assert scanner.feed(second[20:]).ready == second


@pytest.mark.parametrize(
    ("endpoint", "data", "carries"),
    [
        (CHAT, ROLE, False),
        (CHAT, USAGE, False),
        (CHAT, DONE, False),
        (CHAT, b": ping\n\n", False),
        (CHAT, chat({}), True),
        (CHAT, chat({"content": ""}), True),
        (CHAT, chat({"content": ""}, "stop"), True),
        (CHAT, chat({"content": ""}, "abort"), False),
        (CHAT, chat({"content": None}), True),
        (CHAT, chat({"role": "assistant", "content": "x"}), True),
        (CHAT, compact(ROLE), False),
        (CHAT, compact(USAGE), False),
        (CHAT, compact(chat({"content": ""})), True),
        (CHAT, compact(chat({"content": ""}, "abort")), False),
        (CHAT, compact(chat({"content": 'a "role": "x"'})), True),
        (CHAT, chat({"content": "x"}), True),
        (CHAT, chat({"content": '"'}), True),
        (CHAT, chat({"reasoning": "x"}), True),
        (CHAT, chat({"reasoning_content": "x"}), True),
        (CHAT, chat({"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}), True),
        (CHAT, chat({"content": ""}, logprobs={"content": [{"token": "x"}]}), True),
        (COMPLETIONS, completion_events("x", done=False)[0], True),
        (COMPLETIONS, completion_events("", done=False)[0], True),
        (COMPLETIONS, compact(completion_events("", finish=None, done=False)[0]), True),
        (COMPLETIONS, completion_events("", finish="abort", done=False)[0], False),
        (RESPONSES, b"event: response.created\n" + event({"type": "response.created"}), False),
        (RESPONSES, event({"type": "response.output_text.delta", "delta": "x"}), True),
        (RESPONSES, event({"type": "response.output_text.delta", "delta": ""}), False),
        (RESPONSES, event({"type": "response.output_text.done", "text": "x"}), False),
    ],
)
def test_which_events_carry_tokens(endpoint: str, data: bytes, carries: bool) -> None:
    assert run([data], endpoint)[1] == int(carries)


@pytest.mark.parametrize(
    ("data", "committed"),
    [
        (ROLE, False),
        (chat({}, "abort"), False),
        (compact(chat({"content": ""}, "abort")), False),
        (compact(chat({"content": ""})), True),
        (USAGE, False),
        (DONE, False),
        (b": keep-alive\n\n", True),
        (chat({}, "stop"), True),
        (chat({"content": "x"}, "abort"), True),
        (event({"error": {"message": "no", "code": 400}}), True),
        (event({"error": {"message": "no", "code": 500}}), False),
    ],
)
def test_what_the_client_must_see_at_once(data: bytes, committed: bool) -> None:
    assert run([data])[2].committed is committed


@pytest.mark.parametrize("last", ["completed", "incomplete", "failed"])
def test_a_response_ends_with_its_own_events(last: str) -> None:
    usage = {"input_tokens": 4, "output_tokens": 2}
    body = {"type": f"response.{last}", "response": {"usage": usage}}
    _, _, scanner = run([f"event: response.{last}\n".encode() + event(body)], RESPONSES)
    assert (scanner.closed, scanner.finish_reason, scanner.usage().prompt) == (True, last, 4)


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES])
def test_errors_in_the_stream_are_seen(endpoint: str) -> None:
    data = event({"error": {"message": "boom", "type": "x", "code": 500}})
    assert run([data], endpoint)[2].error == (500, "boom")


def test_responses_errors_by_event_name() -> None:
    data = b"event: error\n" + event({"type": "error", "message": "boom"})
    assert run([data], RESPONSES)[2].error == (500, "boom")


def test_half_an_event_at_the_end_is_dropped() -> None:
    whole, half = completion_events("a", "b", done=False)
    out, tokens, scanner = run([whole, half[:30]], COMPLETIONS)
    assert (out, tokens, scanner.closed) == (whole, 1, False)


def test_a_last_event_without_its_blank_line_counts() -> None:
    out, _, scanner = run([*completion_events("a", done=False), b"data: [DONE]\n"], COMPLETIONS)
    assert scanner.closed
    assert out.endswith(b"[DONE]\n")


def test_an_endless_event_is_passed_on_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 64)
    scanner = Scanner(CHAT)
    assert scanner.feed(b"data: " + b"x" * 40).ready == b""
    assert len(scanner.feed(b"x" * 40).ready) == 86
    assert scanner.feed(b"\n\n").ready == b"\n\n"
    assert scanner.committed


def test_broken_json_is_no_fact() -> None:
    _, _, scanner = run([b'data: {"usage": {"prompt_tokens": \n\n', DONE])
    assert scanner.usage() == Usage()


@pytest.mark.parametrize(
    ("name", "endpoint", "expected"),
    [
        ("chat", CHAT, (12, "length", 191)),
        ("completions", COMPLETIONS, (12, "length", 240)),
        ("completions_logprobs", COMPLETIONS, (12, "length", 240)),
        ("responses", RESPONSES, (4, "incomplete", 208)),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_streams_recorded_from_vllm(
    name: str, endpoint: str, expected: tuple[int, str, int], size: int
) -> None:
    stream = (FIXTURES / f"sse_{name}.txt").read_bytes()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    out, tokens, scanner = run(pieces, endpoint)
    assert out == stream
    usage = scanner.usage()
    assert (tokens, scanner.finish_reason, usage.prompt) == expected
    assert (usage.completion, usage.cached, scanner.closed) == (12, 128, True)
    assert {"queue_time_ms", "time_to_first_token_ms"} <= {key for key, _ in scanner.metrics()}
    assert scanner.error is None
