"""Chains stand for beginnings of prompts; an index knows which it was sent."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.routing.facts import CHARS_PER_TOKEN
from pdctl.routing.prefix import BLOCK_TOKENS, MOST_BLOCKS, PrefixIndex, chain_of

BLOCK = BLOCK_TOKENS * CHARS_PER_TOKEN
CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"


def chat(*turns: str, **more: Any) -> dict[str, Any]:
    roles = ("system", "user", "assistant")
    return {
        "messages": [{"role": roles[i % 3], "content": text} for i, text in enumerate(turns)],
        **more,
    }


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Blocks that both begin with."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def test_a_longer_conversation_begins_with_the_shorter_one() -> None:
    first = chain_of(chat("s" * 3 * BLOCK, "u" * 4 * BLOCK), CHAT)
    second = chain_of(chat("s" * 3 * BLOCK, "u" * 4 * BLOCK, "a" * BLOCK, "more"), CHAT)
    assert len(second) > len(first) == 7
    assert shared(first, second) == 7


@pytest.mark.parametrize(
    ("endpoint", "body", "other"),
    [
        (CHAT, chat("s" * BLOCK), chat("t" + "s" * BLOCK)),
        (CHAT, chat("s" * BLOCK), chat("s" * BLOCK, tools=[{"function": {"name": "f"}}])),
        (CHAT, chat("s" * BLOCK), chat("s" * BLOCK, cache_salt="mine")),
        (COMPLETIONS, {"prompt": "x" * BLOCK}, {"prompt": "y" + "x" * BLOCK}),
        (COMPLETIONS, {"prompt": [1] * BLOCK_TOKENS}, {"prompt": [2] + [1] * BLOCK_TOKENS}),
        (RESPONSES, {"input": "x" * BLOCK}, {"input": "x" * BLOCK, "instructions": "be kind"}),
    ],
)
def test_what_begins_otherwise_shares_nothing(
    endpoint: str, body: dict[str, Any], other: dict[str, Any]
) -> None:
    one, two = chain_of(body, endpoint), chain_of(other, endpoint)
    assert one
    assert one == chain_of(body, endpoint)
    assert shared(one, two) == 0


def test_images_count_by_what_they_are() -> None:
    def with_image(url: str) -> dict[str, Any]:
        part = {"type": "image_url", "image_url": {"url": url}}
        return {"messages": [{"role": "user", "content": [part, {"type": "text", "text": "?"}]}]}

    one = chain_of(with_image("data:" + "a" * BLOCK), CHAT)
    assert shared(one, chain_of(with_image("data:" + "b" * BLOCK), CHAT)) == 0


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (COMPLETIONS, {"prompt": "x" * 5_000_000}),
        (COMPLETIONS, {"prompt": list(range(500_000))}),
        (COMPLETIONS, {"prompt": [[]] * 500_000}),
        (CHAT, {"messages": [{"role": "user", "content": [[]] * 500_000}]}),
        (CHAT, {"messages": [{"role": "user", "content": "x" * 5_000_000}] * 9}),
        (CHAT, {}),
        ("/v1/embeddings", {"input": "x" * 9999}),
    ],
)
def test_no_prompt_makes_a_long_chain(endpoint: str, body: dict[str, Any]) -> None:
    assert len(chain_of(body, endpoint)) <= MOST_BLOCKS


def test_a_deep_nest_is_no_recursion() -> None:
    deep: Any = "x" * BLOCK
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    assert chain_of({"messages": deep}, CHAT)


def test_an_index_knows_what_it_was_sent() -> None:
    index = PrefixIndex()
    index.add((1, 2, 3))
    assert index.cached((1, 2, 3, 4)) == 3 * BLOCK_TOKENS
    assert index.cached((1, 9)) == BLOCK_TOKENS
    assert index.cached((9,)) == index.cached(()) == 0


@given(st.lists(st.lists(st.integers(0, 3), max_size=8), max_size=40))
def test_an_index_is_bounded_and_forgets_ends_first(prompts: list[list[int]]) -> None:
    index = PrefixIndex(most=10)
    chain: tuple[int, ...] = ()
    for prompt in prompts:
        chain = tuple(hash(tuple(prompt[: end + 1])) for end in range(len(prompt)))
        index.add(chain)
        assert len(index) <= 10
        assert index.cached(chain) == len(chain) * BLOCK_TOKENS
