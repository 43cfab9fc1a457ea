"""The golden check: one prompt, answered greedily over P/D and whole, must give the same tokens.

Law: pure. Equal means that every token is; where one is not, the first is named. On a GPU a late
difference may be rounding (another batch, another kernel); an early one is wrong KV.
"""

from __future__ import annotations

from dataclasses import dataclass

PROMPT = " ".join(f"{n} and {n + 1} are {2 * n + 1}." for n in range(1, 40))
"""Long enough that several KV blocks have to move, whatever the tokenizer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine wrote."""

    text: str
    tokens: tuple[int, ...] = ()
    """Token ids; empty where the engine does not tell them."""


@dataclass(frozen=True, slots=True)
class Golden:
    """One check."""

    at: float
    """Wall time, UTC seconds."""
    prefill: str
    decode: str
    equal: bool | None = None
    """None: it could not be made; `why` says so."""
    why: str = ""
    tokens: int = 0
    """Compared: the shorter answer's."""
    differs_at: int | None = None
    """Index of the first token (of the first character, without token ids) that differs."""
    whole: str = ""
    handed_over: str = ""
    """What both said from there on, shortened."""


def compared(whole: Answer, handed_over: Answer, *, at: float, prefill: str, decode: str) -> Golden:
    """The check of two answers."""
    by_id = bool(whole.tokens and handed_over.tokens)
    one, two = (whole.tokens, handed_over.tokens) if by_id else (whole.text, handed_over.text)
    shared = min(len(one), len(two))
    first = next((n for n in range(shared) if one[n] != two[n]), None)
    if first is None and len(one) != len(two):
        first = shared
    if first is None:
        return Golden(at, prefill, decode, equal=True, tokens=shared)
    said = (_from(answer, first, by_id=by_id) for answer in (whole, handed_over))
    unit = "token" if by_id else "character"
    return Golden(
        at, prefill, decode, False, f"{unit} {first + 1} of the answer differs", shared, first,
        *said,
    )  # fmt: skip


def _from(answer: Answer, first: int, *, by_id: bool) -> str:
    if by_id:
        return " ".join(str(token) for token in answer.tokens[first : first + 8])
    return answer.text[first : first + 40]
