"""JSON bodies: read within limits, and written again without loss.

Law: a body that an engine could read is either understood here or refused. Reading blocks the
event loop (orjson keeps the GIL, so a thread would not help): what costs time is counted before.
"""

from __future__ import annotations

import gc
import json
from typing import Any

import orjson

from pdctl.routing.openai import Mistake

MOST_CONTAINERS = 200_000
"""Arrays and objects of one body; orjson takes about 0.4 us for each."""
MOST_ITEMS = 2_000_000
"""Commas of one body: token ids at 20 ns each. Both counts include what stands in strings."""
DEEPEST = 254
"""orjson reads 1024 levels and writes no more than this."""
QUIET_BYTES = 256 * 1024
"""From here on the garbage collector waits: it would make reading five times as slow."""
_TOO_LONG = "A body of this many items may hold no number of 20 digits."
_TOO_DEEP = f"The request body is nested deeper than {DEEPEST} levels."
MOST_ITEMS_EXACT = 500_000
"""Items beside an integer beyond 64 bits: the reader that keeps it is slower."""
_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))
_LONG_NUMBERS = (b"0" * 20, b"-" + b"0" * 19)
"""With all digits made 0: orjson makes floats of integers beyond 64 bits, which are this long."""
_BEFORE_JSON = b"\x00 \t\r\n\xef\xbb\xbf\xff\xfe"
"""White space, byte order marks, and the halves of UTF-16: Python's json reads on after them."""


class RefusedError(Exception):
    """The request is wrong; no engine needs to see it."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.message)
        self.mistake = mistake


def read(raw: bytes) -> Any:
    """The parsed body; RefusedError when it is no JSON, or more of it than we handle."""
    containers = raw.count(b"{") + raw.count(b"[")
    if containers > MOST_CONTAINERS or raw.count(b",") > MOST_ITEMS:
        words = (
            f"The request body may hold no more than {MOST_CONTAINERS} arrays and objects, "
            f"and {MOST_ITEMS} items."
        )
        raise RefusedError(Mistake(words, status=413))
    if len(raw) < QUIET_BYTES or not gc.isenabled():
        return _read(raw, containers)
    gc.disable()
    try:
        return _read(raw, containers)
    finally:
        gc.enable()


def write(body: Any) -> bytes:
    """The body of a leg; integers of any size leave as they came."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def looks_like_json(raw: bytes) -> bool:
    """Whether an engine that does not look at media types could take it for a JSON object."""
    return raw.lstrip(_BEFORE_JSON)[:1] in (b"{", b"[")


def _read(raw: bytes, containers: int) -> Any:
    try:
        body = orjson.loads(raw)
        if containers > DEEPEST:
            orjson.dumps(body)
    except orjson.JSONDecodeError as error:
        words = f"The request body is not valid JSON: {error.msg} at position {error.pos}."
        raise RefusedError(Mistake(words)) from None
    except orjson.JSONEncodeError:
        raise RefusedError(Mistake(_TOO_DEEP)) from None
    zeros = raw.translate(_DIGITS)
    if not any(number in zeros for number in _LONG_NUMBERS):
        return body
    if containers + raw.count(b",") > MOST_ITEMS_EXACT:
        raise RefusedError(Mistake(_TOO_LONG, status=413))
    return json.loads(raw)
