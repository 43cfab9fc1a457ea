"""One sequence being generated: what was asked, where it stands, and what is not yet read.

The scheduler pushes tokens in, the HTTP side takes what has come since it last looked; a slow
reader therefore gets several tokens at once, as from vLLM.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pdctl.simulated.text import TokenSource
from pdctl.simulated.vocabulary import END_OF_TEXT, Detokenizer


class Bell:
    """Wakes one waiter; rung by every generation of a call."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Something changed."""
        self._event.set()

    async def wait(self) -> None:
        """Return once rung since the last wait."""
        await self._event.wait()
        self._event.clear()


@dataclass(slots=True)
class Delta:
    """What came since the last look."""

    index: int
    first: int
    """How many tokens of the sequence came before these."""
    tokens: list[int]
    text: str
    finish_reason: str | None
    stop_reason: str | int | None


@dataclass(slots=True, eq=False)
class Generation:
    """One sequence. Times are simulated seconds; `None` or 0.0 until they happen."""

    request_id: str
    prompt: list[int]
    source: TokenSource
    bell: Bell
    max_tokens: int
    index: int = 0
    params_n: int = 1
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    include_stop: bool = False
    kv_params: dict[str, Any] | None = None
    use_cache: bool = True
    digest: bytes = b""
    """What the KV of the prompt is; compared with what a pull brought."""

    computed: int = 0
    """Tokens of prompt and output whose KV is in `blocks`."""
    blocks: list[int] = field(default_factory=list)
    local_hits: int = 0
    external_hits: int = 0
    remote_cached: int | None = None
    """Prompt tokens that the prefill engine says it found in its own cache."""
    preemptions: int = 0
    counted: bool = False
    """Whether the prompt is in the metrics; a preempted prompt counts once."""

    arrived_at: float = 0.0
    scheduled_at: float | None = None
    first_token_at: float = 0.0
    last_token_at: float = 0.0

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    returned_params: dict[str, Any] | None = None
    _detokenizer: Detokenizer = field(default_factory=Detokenizer)
    _taken_tokens: int = 0
    _taken_text: int = 0
    _closed: bool = False

    @property
    def length(self) -> int:
        """Tokens whose KV the next step needs: the prompt and everything sampled."""
        return len(self.prompt) + len(self.tokens)

    @property
    def wants_pull(self) -> bool:
        """Whether the KV is to come from another engine."""
        return bool(self.kv_params and self.kv_params.get("do_remote_prefill"))

    @property
    def is_prefill_leg(self) -> bool:
        """Whether another engine will continue from this one's KV."""
        return bool(self.kv_params and self.kv_params.get("do_remote_decode"))

    @property
    def cached_tokens(self) -> int:
        """What `usage.prompt_tokens_details.cached_tokens` says."""
        if self.remote_cached is not None and self.external_hits:
            return self.remote_cached
        return self.local_hits + self.external_hits

    @property
    def is_read(self) -> bool:
        """Whether the reader has taken the end."""
        return self._closed

    def sample(self, at: float) -> str | None:
        """Take the next token at `at`; the reason to finish, when there is one."""
        index = len(self.tokens)
        natural = self.source.natural_length
        ends = not self.ignore_eos and natural and index >= natural and index >= self.min_tokens
        token = END_OF_TEXT if ends else self.source[index]
        self.tokens.append(token)
        self.text += self._detokenizer.feed((token,))
        if index == 0:
            self.first_token_at = at
        self.last_token_at = at
        if ends:
            return "stop"
        if index + 1 >= self.min_tokens and self._stops(token):
            return "stop"
        return "length" if index + 1 >= self.max_tokens else None

    def finish(self, reason: str) -> None:
        """End the sequence and tell the reader."""
        self.finish_reason = reason
        self.bell.ring()

    def take(self) -> Delta | None:
        """What came since the last call; None when nothing did. The last one says why it ended."""
        done = self.finish_reason is not None
        if self._closed or not (done or len(self.tokens) > self._taken_tokens):
            return None
        first, shown = self._taken_tokens, len(self.text)
        if not done:
            shown = max(self._taken_text, shown - self._held_back())
        text = self.text[self._taken_text : shown]
        self._taken_tokens, self._taken_text, self._closed = len(self.tokens), shown, done
        return Delta(
            self.index, first, self.tokens[first:], text, self.finish_reason, self.stop_reason
        )

    def _held_back(self) -> int:
        """Characters that may still turn out to belong to a stop string."""
        return max(map(len, self.stop)) - 1 if self.stop and not self.include_stop else 0

    def _stops(self, token: int) -> bool:
        """Whether `token` or the text so far ends the sequence; cuts the text if it does."""
        if token in self.stop_token_ids:
            self.stop_reason = token
            return True
        for mark in self.stop:
            at = self.text.find(mark)
            if at >= 0:
                self.stop_reason = mark
                self.text = self.text[: at + len(mark) if self.include_stop else at]
                return True
        return False
