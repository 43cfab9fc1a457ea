"""Which instance should hold the KV of which prompt: prompts as chains of hashes, and an index.

Approximate on purpose: the router renders a prompt in its own way, remembers what it sent where,
and is told neither what engines evict nor what others send them. A wrong guess costs time only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pdctl.routing.facts import CHARS_PER_TOKEN, COUNTED

BLOCK_TOKENS = 64
"""Estimated tokens of a block; what is left over at the end of a prompt is in none."""
MOST_BLOCKS = 1024
"""Blocks of one prompt that are hashed, so that no prompt takes long."""
REMEMBERED = 16_384
"""Blocks remembered for one instance (about a million tokens); the longest unused go first."""
_BLOCK_CHARS = BLOCK_TOKENS * CHARS_PER_TOKEN
_MOST_CHARS = MOST_BLOCKS * _BLOCK_CHARS
_PROMPT = {
    "/v1/completions": ("prompt",),
    "/v1/chat/completions": ("tools", "messages"),
    "/v1/responses": ("tools", "instructions", "input"),
    "/v1/messages": ("tools", "system", "messages"),
}
"""Where the prompt stands, in the order in which chat templates render it."""
Chain = tuple[int, ...]
"""One hash for each block; each stands for all that comes before it, too."""


def chain_of(body: Mapping[str, Any], endpoint: str) -> Chain:
    """The chain of a prompt. Hashes hold within one process only."""
    last = hash(str(body.get("cache_salt")))  # vLLM shares KV among equal salts only
    chain = []
    for block in _blocks([body.get(name) for name in _PROMPT.get(endpoint, ())]):
        last = hash((last, block))
        chain.append(last)
    return tuple(chain)


def _blocks(parts: list[Any]) -> list[Hashable]:
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, list) and only and isinstance(only[0], int):
        ids, step = only[: MOST_BLOCKS * BLOCK_TOKENS], BLOCK_TOKENS
        return [tuple(ids[at : at + step]) for at in range(0, len(ids) - step + 1, step)]
    text, step = _text(parts), _BLOCK_CHARS
    return [text[at : at + step] for at in range(0, len(text) - step + 1, step)]


def _text(parts: list[Any]) -> str:
    """Every name and value in order, as far as prompts are hashed."""
    pieces, room, left = [], _MOST_CHARS, parts[::-1]
    while left and room > 0:
        value = left.pop()
        room -= 1
        if isinstance(value, dict):
            left += [one for pair in reversed(value.items()) for one in reversed(pair)]
        elif isinstance(value, list):
            left += reversed(value[:COUNTED])
        elif value is not None:
            piece = value if isinstance(value, str) else str(value)
            pieces.append(piece[:room])
            room -= len(piece)
    return "\0".join(pieces)


class PrefixIndex:
    """What one start of an instance was sent. A block is never older than those that follow it."""

    __slots__ = ("_blocks", "_most")

    def __init__(self, most: int = REMEMBERED) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._blocks)

    def add(self, chain: Sequence[int]) -> None:
        """It was sent this prompt."""
        for block in reversed(chain):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)

    def cached(self, chain: Sequence[int]) -> int:
        """Tokens at the beginning of this prompt that it was sent before."""
        unknown = bisect_left(chain, True, key=lambda block: block not in self._blocks)
        return unknown * BLOCK_TOKENS
