"""The tokenizer: byte-level, reversible, 512 tokens.

Ids 0-255 are bytes, 256 ends a text, and the rest are the words of a fixed list, each bare and with
a leading space. A known word is one token and every other byte is one token, so a character outside
ASCII is spread over two to four tokens, as byte-level BPE does to rare characters.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence

END_OF_TEXT = 256
_WORD_LIST = (
    "a about after all an and any are as at back be before but by can clear come day did do "
    "down each end every find first for found from get give go good great hand has have he "
    "hello her here him home how if in into is it keep know last let light like little long "
    "look made make many may me most my name never new night no not now of off old on one "
    "only or other our out over own part place prompt rain river said same say see she so "
    "some star story tell that the there they this time to token up was water way we what "
    "when which who will with word work world would year you your"
)
_WORDS = _WORD_LIST.split()
_PIECES: tuple[bytes, ...] = (
    *(bytes([value]) for value in range(256)),
    b"",
    *(form.encode() for word in _WORDS for form in (word, f" {word}")),
)
VOCAB_SIZE = 512
assert len(_PIECES) <= VOCAB_SIZE  # noqa: S101 - the list above is fixed at import
_WORD_IDS = {piece: number for number, piece in enumerate(_PIECES) if number > END_OF_TEXT}
_SPLIT = re.compile(rb" ?[a-z]+|.", re.DOTALL)

SPACED_WORDS: tuple[int, ...] = tuple(_WORD_IDS[f" {word}".encode()] for word in _WORDS)
"""Ids of the words with a leading space, the stuff that texts are made of."""


def encode(text: str) -> list[int]:
    """The token ids of `text`."""
    tokens: list[int] = []
    for match in _SPLIT.finditer(text.encode("utf-8", errors="replace")):
        piece = match.group()
        word = _WORD_IDS.get(piece)
        if word is None:
            tokens.extend(piece)
        else:
            tokens.append(word)
    return tokens


def piece(token: int) -> bytes:
    """The bytes of one token; ids without a piece are empty."""
    return _PIECES[token] if 0 <= token < len(_PIECES) else b""


def decode(tokens: Iterable[int]) -> str:
    """The text of `tokens`; broken characters become U+FFFD."""
    return b"".join(map(piece, tokens)).decode("utf-8", errors="replace")


class Detokenizer:
    """Text from tokens as they come; holds back the bytes of an unfinished character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, tokens: Sequence[int]) -> str:
        """The text that `tokens` complete; what stays unfinished at the end is never shown."""
        return self._decoder.decode(b"".join(map(piece, tokens)))
