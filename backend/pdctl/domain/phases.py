"""Where a request's time went, up to its first token: pure, from its record alone.

Law: None is unknown. The router's clock gives the edges; only what lies inside one leg, the queue
of the engine and its first step, is the engine's own word (`--enable-per-request-metrics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdctl.domain.handoff import Leg, RequestRecord

QUEUE_TIME = "queue_time_ms"
"""vLLM: arrival in the engine to first scheduling; on decode this includes the wait for KV."""
FIRST_TOKEN_TIME = "time_to_first_token_ms"  # noqa: S105 - a metric's name
"""vLLM: first scheduling to first token."""


@dataclass(frozen=True, slots=True)
class Phases:
    """Milliseconds; None: unknown, or it was not on this request's way."""

    queue: float | None = None
    """Waiting in the router, and in the engine that computed the prompt where it says so."""
    prefill: float | None = None
    """The prefill leg, or a whole leg up to its first byte; without the engine's queue if known."""
    transfer: float | None = None
    """Decode's admission and its pull of the KV: from the decode leg's start to its first byte;
    without the engine's first step if known."""


def final_legs(record: RequestRecord) -> list[Leg]:
    """The legs that made the answer: the last of each kind (earlier ones were retried)."""
    if len(record.legs) < 2:
        return list(record.legs)
    last = {leg.kind: leg for leg in record.legs}
    return list(last.values())


def phases(record: RequestRecord, legs: Sequence[Leg] | None = None) -> Phases:
    """The phases of `record`; `legs` are its final ones, where they are at hand."""
    queue, prefill, transfer = record.queued_ms, None, None
    for leg in final_legs(record) if legs is None else legs:
        if leg.kind == "decode":
            transfer = _pulled(leg, record)
            continue
        end = leg.done_ms if leg.kind == "prefill" else _first(leg, record)
        if end is None:
            continue
        waited = min(_said(leg, QUEUE_TIME) or 0.0, end - leg.sent_ms)
        queue, prefill = (queue or 0.0) + waited, end - leg.sent_ms - waited
    return Phases(queue, prefill, transfer)


def _first(leg: Leg, record: RequestRecord) -> float | None:
    """When the leg that answers had something: only a stream says so itself."""
    if record.stream:
        return record.ttft_ms if leg.first_byte_ms is None else leg.first_byte_ms
    waited, step = _said(leg, QUEUE_TIME), _said(leg, FIRST_TOKEN_TIME)
    return None if waited is None or step is None else leg.sent_ms + waited + step


def _pulled(leg: Leg, record: RequestRecord) -> float | None:
    first = _first(leg, record)
    if first is None:
        return None
    return max(0.0, first - leg.sent_ms - (_said(leg, FIRST_TOKEN_TIME) or 0.0))


def _said(leg: Leg, name: str) -> float | None:
    """A duration in the engine's own words; what can be none is unknown."""
    for known, value in leg.engine:
        if known == name:
            return value if 0 <= value < float("inf") else None
    return None
