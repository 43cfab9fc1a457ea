"""What is read from a body: eligibility with its reason, and rough sizes."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.routing.facts import BLOCKERS, COUNTED, estimate_tokens, pd_blocker, read_facts

COMPLETIONS, CHAT, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"

BLOCKED: list[tuple[str, str, dict[str, Any]]] = [
    ("n", COMPLETIONS, {"prompt": "a", "n": 2}),
    ("n", CHAT, {"n": 3}),
    ("best_of", COMPLETIONS, {"prompt": "a", "best_of": 2}),
    ("beam_search", CHAT, {"use_beam_search": True}),
    ("list_prompt", COMPLETIONS, {"prompt": ["a", "b"]}),
    ("list_prompt", COMPLETIONS, {"prompt": ["a"]}),
    ("list_prompt", COMPLETIONS, {"prompt": [[1, 2], [3]]}),
    ("prompt_embeds", COMPLETIONS, {"prompt_embeds": "AAAA"}),
    ("prompt_logprobs", CHAT, {"prompt_logprobs": 0}),
    ("echo_logprobs", COMPLETIONS, {"prompt": "a", "echo": True, "logprobs": 0}),
    ("echo_logprobs", CHAT, {"echo": True, "logprobs": True, "top_logprobs": 2}),
    ("no_generation", COMPLETIONS, {"prompt": "a", "echo": True, "max_tokens": 0}),
    ("background", RESPONSES, {"input": "a", "background": True}),
    ("previous_response", RESPONSES, {"input": "a", "previous_response_id": "resp_1"}),
    ("server_tools", RESPONSES, {"input": "a", "tools": [{"type": "code_interpreter"}]}),
    ("endpoint", "/v1/embeddings", {"input": "a"}),
]


@pytest.mark.parametrize(("reason", "endpoint", "body"), BLOCKED)
def test_what_pd_cannot_serve_says_why(reason: str, endpoint: str, body: dict[str, Any]) -> None:
    assert pd_blocker(body, endpoint) == reason


def test_every_blocker_has_a_case() -> None:
    blockers = {reason for reason, _, _ in BLOCKERS}
    assert {reason for reason, _, _ in BLOCKED} == {*blockers, "endpoint"}


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (COMPLETIONS, {"prompt": "a"}),
        (COMPLETIONS, {"prompt": [1, 2, 3]}),
        (COMPLETIONS, {"prompt": "a", "n": 1, "best_of": 1, "echo": True}),
        (COMPLETIONS, {"prompt": "a", "logprobs": 3}),
        (CHAT, {"messages": [], "n": None, "logprobs": True, "top_logprobs": 2}),
        (CHAT, {"tools": [{"type": "function"}], "tool_choice": "required"}),
        (RESPONSES, {"input": "a", "tools": [{"type": "function"}], "background": False}),
    ],
)
def test_what_pd_can_serve(endpoint: str, body: dict[str, Any]) -> None:
    assert pd_blocker(body, endpoint) == ""


def test_a_message_is_sized_and_named_by_its_own_fields() -> None:
    body = {"system": "x" * 400, "messages": [{"role": "user", "content": "y" * 400}]}
    facts = read_facts({**body, "max_tokens": 5, "metadata": {"user_id": "u1"}}, "/v1/messages")
    assert facts.prompt_tokens == 202
    assert (facts.max_tokens, facts.session, facts.blocker) == (5, "u1", "")


def test_sizes_are_rough_but_ordered() -> None:
    assert estimate_tokens({"prompt": [5] * 7}, COMPLETIONS) == 7
    assert estimate_tokens({"prompt": "x" * 400}, COMPLETIONS) == 101
    short = estimate_tokens({"messages": [{"role": "user", "content": "hi"}]}, CHAT)
    parts = [{"type": "text", "text": "x" * 400}, {"type": "image_url", "image_url": {"url": "y"}}]
    long = estimate_tokens({"messages": [{"role": "user", "content": parts}]}, CHAT)
    assert 0 < short < long == 101
    assert estimate_tokens({"input": "x" * 40, "instructions": "y" * 40}, RESPONSES) == 22
    assert estimate_tokens({"input": "x"}, "/v1/embeddings") == 0


def test_a_deep_nest_costs_nothing() -> None:
    nest: Any = "x"
    for _ in range(900):
        nest = [nest]
    assert estimate_tokens({"messages": nest}, CHAT) == 0


def test_long_lists_are_weighed_by_their_first_items() -> None:
    user, other = {"content": "x" * 40}, {"content": "x" * 4000}
    assert estimate_tokens({"messages": [user] * COUNTED * 3}, CHAT) == 11 * COUNTED * 3
    assert estimate_tokens({"messages": [user] * COUNTED + [other]}, CHAT) == 11 * (COUNTED + 1)
    parts = {"content": [{"text": "x" * 40}] * 300}
    assert estimate_tokens({"messages": [parts] * 300}, CHAT) == 11 * 300 * 300
    assert estimate_tokens({"prompt": [1] * 500_000}, COMPLETIONS) == 500_000


def test_facts_carry_the_limit_that_wins() -> None:
    facts = read_facts({"model": "m", "max_tokens": 5, "max_completion_tokens": 9}, CHAT)
    assert (facts.model, facts.max_tokens, facts.stream) == ("m", 9, False)
    assert read_facts({"input": "a", "max_output_tokens": 3}, RESPONSES).max_tokens == 3
    assert read_facts({"prompt": "a", "stream": True}, COMPLETIONS).stream


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({"prompt": "a"}, 1),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": ["a"]}, 1),
        ({"prompt": "a", "n": 3}, 3),
        ({"prompt": ["a", "b"], "n": 2}, 4),
        ({"prompt": [[1], [2], [3]], "n": None}, 3),
    ],
)
def test_answers_side_by_side_are_counted(body: dict[str, Any], count: int) -> None:
    assert read_facts(body, COMPLETIONS).sequences == count


@pytest.mark.parametrize(
    ("header", "body", "session"),
    [
        ("h", {"prompt_cache_key": "k", "user": "u"}, "h"),
        ("", {"prompt_cache_key": "k", "user": "u"}, "k"),
        ("", {"prompt_cache_key": "", "user": "u"}, "u"),
        ("", {"user": 7}, ""),
        ("", {}, ""),
        ("", {"user": "u" * 9999}, "u" * 256),
    ],
)
def test_a_session_is_named_by_header_or_body(
    header: str, body: dict[str, Any], session: str
) -> None:
    assert read_facts(body, "/v1/completions", header).session == session
