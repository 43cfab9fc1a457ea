"""Which path a request asks for, and whether it may reach an engine.

Law: a path is judged as the engine will read it: in origin form, decoded once. What could be read
in two ways is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from pdctl.connectors import PD_ENDPOINTS
from pdctl.routing.openai import Mistake

PASSED = frozenset({
    "/tokenize", "/detokenize", "/tokenizer_info", "/version", "/pooling", "/classify", "/score",
    "/rerank", "/v2/rerank", "/v2/embed", "/invocations",
})  # fmt: skip
"""Paths outside /v1 that reach an engine."""
ONE_ENGINE_ONLY = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter"})
"""They change one engine, and the fleet would no longer be one model."""
_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_AMBIGUOUS = re.compile(r"//|/\.|[\\#%;?\x00-\x20\x7f]")
"""Dots climb out of /v1; the rest is cut off, split or decoded again by one reader or another."""


class Place(NamedTuple):
    """What a request asks for."""

    path: str
    """Decoded, without the query: what decides."""
    sent: str
    """Path and query for the engine."""


def place_of(target: str) -> Place:
    """The place that a request target names (RFC 9112, 3.2: also with a scheme and a host)."""
    if not target.startswith("/"):
        if found := _AUTHORITY.match(target):
            target = target[found.end() :]
        if not target.startswith("/"):
            target = f"/{target}"
    if target in PD_ENDPOINTS:
        return Place(target, target)
    raw, mark, query = target.partition("?")
    path = unquote(raw) if "%" in raw else raw
    return Place(path, path + mark + query if path in PD_ENDPOINTS else target)


def not_passed(path: str) -> Mistake | None:
    """Why a path does not reach an engine."""
    known = path.startswith("/v1/") or path in PASSED
    if not known or _AMBIGUOUS.search(path):
        return Mistake("There is nothing at this path.", status=404)
    if path.rstrip("/") in ONE_ENGINE_ONLY:
        return Mistake("This would change one engine of a fleet; ask its operator.", status=501)
    return None
