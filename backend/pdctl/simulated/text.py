"""What a model says: a function of model name, prompt tokens and sample index, and of nothing else.

The same prompt therefore reads the same from every engine, in chunked mode and over a handoff. A
text continued from KV that was not the prompt's is another text, full of U+2592, as HTTP 200 as the
right one: the failure that only a comparison can see.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

from pdctl.simulated.vocabulary import END_OF_TEXT, SPACED_WORDS, VOCAB_SIZE, encode

_PICKS_PER_BLOCK = 16
_FOREIGN = tuple(tuple(encode(char)) for char in "éüßΩж東京语한∑€🌊🚀")
_MARKS = tuple(tuple(encode(mark)) for mark in (",", ".", ";", ".\n"))
_CORRUPT = tuple(encode(" ▒"))


def prompt_digest(model_name: str, prompt: Sequence[int]) -> bytes:
    """What the KV of `prompt` under `model_name` is, in 16 bytes."""
    packed = array("I", prompt).tobytes()
    return blake2b(packed, digest_size=16, key=model_name.encode()[:64]).digest()


class TokenSource:
    """The tokens a model would sample after one prompt; any index at any time."""

    def __init__(self, digest: bytes, *, sample: int = 0, mean_tokens: int = 0) -> None:
        """`digest` is the KV continued from, `sample` the index among `n`, the mean a length."""
        self._seed = digest + sample.to_bytes(4, "big")
        self._corrupt = False
        self._tokens: list[int] = []
        self._blocks = 0
        self.natural_length = _natural_length(self._seed, mean_tokens)
        """Tokens before the text ends by itself; 0 is never."""

    def corrupt(self) -> None:
        """Continue from KV that is not the prompt's."""
        self._corrupt = True
        self._seed = blake2b(self._seed, digest_size=20, person=b"stale").digest()
        self._tokens.clear()
        self._blocks = 0

    def __getitem__(self, index: int) -> int:
        while index >= len(self._tokens):
            self._extend()
        return self._tokens[index]

    def _extend(self) -> None:
        """Append the next block: mostly words, some marks, a few characters of many bytes."""
        draw = blake2b(
            self._blocks.to_bytes(4, "big"), digest_size=2 * _PICKS_PER_BLOCK, key=self._seed
        ).digest()
        self._blocks += 1
        if self._corrupt:
            self._tokens.extend(_CORRUPT)
        for kind, pick in zip(draw[::2], draw[1::2], strict=True):
            if kind < 14:
                self._tokens.extend(_FOREIGN[pick % len(_FOREIGN)])
            elif kind < 28:
                self._tokens.extend(_MARKS[pick % len(_MARKS)])
            else:
                self._tokens.append(SPACED_WORDS[pick % len(SPACED_WORDS)])


def _natural_length(seed: bytes, mean_tokens: int) -> int:
    if mean_tokens <= 0:
        return 0
    draw = int.from_bytes(blake2b(seed, digest_size=4, person=b"length").digest(), "big")
    return max(1, mean_tokens // 2 + draw % (mean_tokens + 1))


def logprob(tokens_before: int, token: int) -> float:
    """A plausible log-probability of the greedy choice at a position, the same on every engine."""
    draw = (tokens_before * 2_654_435_761 + token * 40_503) & 0xFFFF
    return -(draw % 700) / 1000


def rivals(tokens_before: int, token: int, count: int) -> list[tuple[int, float]]:
    """The `count` likeliest tokens at a position with their log-probabilities, `token` first."""
    best = logprob(tokens_before, token)
    choices = [(token, best)]
    for rank in range(1, count):
        other = (token + 37 * rank + tokens_before) % VOCAB_SIZE
        other = (other + 1) % VOCAB_SIZE if other in (token, END_OF_TEXT) else other
        choices.append((other, round(best - 0.75 * rank - 0.7, 6)))
    return choices
