"""What a finished answer says of itself: usage, finish reason, the engine's own timings.

Works on parsed bodies of the PD endpoints, and on the last events of their streams. Absent or
odd values are None: an unknown number is never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the engine counted them."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    """Prompt tokens that were not computed here (needs --enable-prompt-tokens-details)."""


def usage_of(body: Mapping[str, Any]) -> Usage:
    """Usage of a whole body or of a stream's last event, in either naming."""
    inner = body.get("response") or body.get("message")
    usage = _mapping(body.get("usage")) or _mapping(_mapping(inner).get("usage"))
    if body.get("type") in _MESSAGE:
        return _message_usage(usage, ended=body.get("type") != "message_start")
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    return Usage(
        prompt=_count(usage.get("prompt_tokens", usage.get("input_tokens"))),
        completion=_count(usage.get("completion_tokens", usage.get("output_tokens"))),
        cached=_count(_mapping(details).get("cached_tokens")),
    )


_MESSAGE = ("message", "message_start", "message_delta")
"""Types of what has a usage under /v1/messages."""


def _message_usage(usage: Mapping[str, Any], *, ended: bool) -> Usage:
    """/v1/messages counts apart what the cache had and what was put into it."""
    read, made = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    fresh = _count(usage.get("input_tokens"))
    return Usage(
        prompt=None if fresh is None else fresh + (_count(read) or 0) + (_count(made) or 0),
        completion=_count(usage.get("output_tokens")) if ended else None,
        cached=_count(read),
    )


def engine_metrics(body: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """The engine's per-request metrics, verbatim (vLLM --enable-per-request-metrics)."""
    metrics = _mapping(body.get("metrics")) or _mapping(
        _mapping(body.get("response")).get("metrics")
    )
    return tuple(
        (name, float(value))
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )


def finish_of(body: Mapping[str, Any]) -> str:
    """The first choice's finish_reason; the status of a /v1/responses body.

    A message without a stop_reason was aborted: vLLM has no word for that under /v1/messages.
    """
    if body.get("type") == "message":
        return str(body.get("stop_reason") or "abort")
    choices = body.get("choices")
    if isinstance(choices, list) and choices:
        return str(_mapping(choices[0]).get("finish_reason") or "")
    status = body.get("status")
    return status if isinstance(status, str) else ""


def error_of(body: Any) -> tuple[int, str] | None:
    """(code, message) of an error envelope, or None; code is 500 where it is not a number."""
    error = _mapping(_mapping(body).get("error"))
    if not error:
        return None
    code = error.get("code")
    return (code if isinstance(code, int) else 500), str(error.get("message") or "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
