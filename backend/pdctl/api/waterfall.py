"""One request as bars on one time axis, computed here so that every face draws the same picture.

Each bar says where its edges come from: the router's clock (measured), the engine's per-request
metrics laid into measured edges (derived), or nowhere (unknown). All times are ms after receipt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pdctl.contract.resources import SpanView
from pdctl.domain.handoff import Leg, RequestRecord
from pdctl.domain.phases import FIRST_TOKEN_TIME, QUEUE_TIME, final_legs

MEASURED, DERIVED, UNKNOWN = "measured", "derived", "unknown"
VISIBLE = 0.005
"""Shorter parts of a request than this share of it are not worth a bar of their own."""


def spans(record: RequestRecord) -> list[SpanView]:
    """The bars of `record`, in order of their start; no visible stretch is left without a name."""
    bars = list(_bars(record))
    bars += _between(bars, record)
    return sorted(bars, key=lambda bar: (bar.start_ms, bar.end_ms))


def _between(bars: list[SpanView], record: RequestRecord) -> Iterator[SpanView]:
    """The router's own time, by subtraction: whatever no other bar covers."""
    if not bars:
        return
    end = max(record.e2e_ms or 0.0, *(bar.end_ms for bar in bars))
    least, first = end * VISIBLE, min((leg.sent_ms for leg in record.legs), default=end)
    covered = 0.0
    for start, stop in [*sorted((bar.start_ms, bar.end_ms) for bar in bars), (end, end)]:
        if start - covered > least:
            note = _router_note(covered, start, first, end)
            yield _bar("router", covered, start, DERIVED, None, note)
        covered = max(covered, stop)


def _router_note(start: float, stop: float, first: float, end: float) -> str:
    if stop <= first:
        return "reading the request and choosing an instance, by subtraction"
    if stop >= end:
        return "the rest of the answer to the client, by subtraction"
    return f"between two steps, {stop - start:.1f} ms by subtraction"


def _bars(record: RequestRecord) -> Iterator[SpanView]:
    if record.queued_ms is not None:
        yield _bar("queue", 0.0, record.queued_ms, MEASURED)
    final = final_legs(record)
    for leg in record.legs:
        if leg not in final or leg.error:
            yield _attempt(leg, record)
        elif leg.kind == "prefill":
            yield from _prefill(leg, record)
        else:
            yield from _answer(leg, record)
    yield from _params(record, final)


def _attempt(leg: Leg, record: RequestRecord) -> SpanView:
    end, source = _end(leg, record)
    return _bar(f"{leg.kind} failed", leg.sent_ms, end, source, leg, leg.error or "tried again")


def _prefill(leg: Leg, record: RequestRecord) -> Iterator[SpanView]:
    end, source = _end(leg, record)
    engine = _engine(leg)
    if source is UNKNOWN or QUEUE_TIME not in engine or FIRST_TOKEN_TIME not in engine:
        yield _bar("prefill", leg.sent_ms, end, source, leg, _lacking(source))
        return
    queued = min(leg.sent_ms + engine[QUEUE_TIME], end)
    computed = min(queued + engine[FIRST_TOKEN_TIME], end)
    yield _bar("prefill queue", leg.sent_ms, queued, DERIVED, leg)
    yield _bar("prefill compute", queued, computed, DERIVED, leg)
    yield _bar("hand back", computed, end, DERIVED, leg, "answer and network, by subtraction")


def _params(record: RequestRecord, final: list[Leg]) -> Iterator[SpanView]:
    decode = next((leg for leg in final if leg.kind == "decode"), None)
    if decode is None or record.params_age_ms is None:
        return
    start = max(0.0, decode.sent_ms - record.params_age_ms)
    yield _bar("params held", start, decode.sent_ms, MEASURED, decode, "age of the KV params")


def _answer(leg: Leg, record: RequestRecord) -> Iterator[SpanView]:
    """The leg that answered the client: decode after a handoff, or the whole request."""
    end, source = _end(leg, record)
    handed = leg.kind == "decode"
    first = leg.first_byte_ms if leg.first_byte_ms is not None else record.ttft_ms
    if not record.stream or first is None:
        yield from _silent(leg, end, source, handed)
        return
    first = min(first, end)
    yield from _until_first(leg, first, handed)
    shown = min(max(record.ttft_ms if record.ttft_ms is not None else first, first), end)
    if shown > first:
        yield _bar(
            "first token",
            first,
            shown,
            MEASURED,
            leg,
            "from its first byte to the first token the client saw",
        )
    yield _bar("decode streaming", shown, end, source, leg, _lacking(source))


def _until_first(leg: Leg, first: float, handed: bool) -> Iterator[SpanView]:
    step = _engine(leg).get(FIRST_TOKEN_TIME)
    waiting, computing = _names(handed)
    if step is None:
        note = "the engine's own split is not known"
        yield _bar(f"{waiting} + {computing}", leg.sent_ms, first, MEASURED, leg, note)
        return
    edge = max(leg.sent_ms, first - step)
    yield _bar(waiting, leg.sent_ms, edge, DERIVED, leg, _queue_note(leg))
    yield _bar(computing, edge, first, DERIVED, leg)


def _silent(leg: Leg, end: float, source: str, handed: bool) -> Iterator[SpanView]:
    """An answer in one piece: only the engine can say what happened inside."""
    engine = _engine(leg)
    waiting, computing = _names(handed)
    if source is UNKNOWN or QUEUE_TIME not in engine or FIRST_TOKEN_TIME not in engine:
        yield _bar("decode" if handed else "whole", leg.sent_ms, end, source, leg, _lacking(source))
        return
    admitted = min(leg.sent_ms + engine[QUEUE_TIME], end)
    first = min(admitted + engine[FIRST_TOKEN_TIME], end)
    yield _bar(waiting, leg.sent_ms, admitted, DERIVED, leg, _queue_note(leg))
    yield _bar(computing, admitted, first, DERIVED, leg)
    yield _bar("decode", first, end, DERIVED, leg)


def _names(handed: bool) -> tuple[str, str]:
    if handed:
        return ("decode admission + KV pull", "first step")
    return ("engine queue", "prefill compute")


def _queue_note(leg: Leg) -> str:
    queued = _engine(leg).get(QUEUE_TIME)
    return "" if queued is None else f"the engine counts {queued:.1f} ms of queue time"


def _engine(leg: Leg) -> dict[str, float]:
    """The engine's metrics that can be durations at all."""
    return {name: value for name, value in leg.engine if 0 <= value < math.inf}


def _end(leg: Leg, record: RequestRecord) -> tuple[float, str]:
    if leg.done_ms is not None:
        return (max(leg.done_ms, leg.sent_ms), MEASURED)
    return (max(record.e2e_ms or leg.sent_ms, leg.sent_ms), UNKNOWN)


def _lacking(source: str) -> str:
    return "its end was not seen" if source is UNKNOWN else ""


def _bar(  # noqa: PLR0917 - a bar is these six, always in this order
    name: str, start: float, end: float, source: str, leg: Leg | None = None, note: str = ""
) -> SpanView:
    instance = "" if leg is None else leg.instance
    return SpanView(
        name=name, start_ms=start, end_ms=end, source=source, instance=instance, note=note
    )
