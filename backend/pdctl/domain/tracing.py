"""Trace contexts (W3C) and the spans of one finished request: pure; ids are drawn by who calls.

Law: no text of a prompt or an answer is in a span, and no key; what is derived says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pdctl.domain.handoff import Leg, Outcome, RequestRecord
from pdctl.domain.phases import phases

Draw = Callable[[int], str]
"""Random lower-case hex digits of so many bytes."""
Value = str | int | float | bool | tuple[str, ...]
_GIVEN = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_MOST = 2**64 - 1
_OPERATIONS = {"/v1/completions": "text_completion"}
FAULTS = frozenset({
    Outcome.UPSTREAM_ERROR, Outcome.TIMEOUT, Outcome.TRUNCATED, Outcome.NO_INSTANCE,
    Outcome.OVERLOADED,
})  # fmt: skip
"""Outcomes that are an error of the server's span; a client's mistake is none."""


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work. Times are wall seconds (UTC)."""

    name: str
    kind: str
    """server | client | internal"""
    trace: str
    id: str
    parent: str
    """Empty at the root."""
    start: float
    end: float
    attributes: tuple[tuple[str, Value], ...] = ()
    error: str = ""


def begin(traceparent: str, draw: Draw) -> str:
    """The context of a request: "trace-parent-own-flags", parent empty when it has none."""
    own = draw(8)
    given = _GIVEN.fullmatch(traceparent.strip())
    if given is None or not int(given[1], 16) or not int(given[2], 16):
        return f"{draw(16)}--{own}-01"
    return f"{given[1]}-{given[2]}-{own}-{given[3]}"


def leg_parent(context: str, index: int) -> str:
    """The traceparent that the leg number `index` sends to its engine."""
    trace, _, own, flags = context.split("-")
    return f"00-{trace}-{_child(own, index)}-{flags}"


def sampled(context: str) -> bool:
    """Whether whoever began the trace wants to see it."""
    return not context or bool(int(context[-2:], 16) & 1)


def spans(record: RequestRecord, draw: Draw) -> list[Span]:
    """The request, its wait in the queue, its legs and its transfer."""
    trace, parent, own, _ = (record.trace or begin("", draw)).split("-")
    root = Span(
        name=_name(record), kind="server", trace=trace, id=own, parent=parent,
        start=record.received_at, end=_at(record, record.e2e_ms or _last(record)),
        attributes=_attributes(record),
        error=record.error or record.outcome.value if record.outcome in FAULTS else "",
    )  # fmt: skip
    found = [root]
    if record.queued_ms:
        end = _at(record, record.queued_ms)
        found.append(Span("pd.queue", "internal", trace, draw(8), own, root.start, end))
    for index, leg in enumerate(record.legs):
        span = _leg(record, leg, trace, own, index)
        found.append(span)
        if leg.kind == "decode" and leg is record.legs[-1]:
            found += _transfer(record, span, draw)
    return found


def _leg(record: RequestRecord, leg: Leg, trace: str, own: str, index: int) -> Span:
    last = index + 1 == len(record.legs)
    end = leg.done_ms if leg.done_ms is not None else record.e2e_ms if last else None
    told: list[tuple[str, Value]] = [("pd.instance", leg.instance), ("pd.why", leg.why)]
    if leg.status is not None:
        told.append(("http.response.status_code", leg.status))
    if leg.failure:
        told.append(("error.type", leg.failure))
    if leg.note:
        told.append(("pd.note", leg.note))
    told += [(f"pd.engine.{name}", value) for name, value in leg.engine]
    return Span(
        name=f"pd.{leg.kind}", kind="client", trace=trace, id=_child(own, index), parent=own,
        start=_at(record, leg.sent_ms), end=_at(record, max(leg.sent_ms, end or leg.sent_ms)),
        attributes=tuple(told), error=leg.error,
    )  # fmt: skip


def _transfer(record: RequestRecord, decode: Span, draw: Draw) -> list[Span]:
    """Admission and pull on decode, as far as the record tells."""
    took = phases(record).transfer
    if took is None:
        return []
    told: tuple[tuple[str, Value], ...] = (("pd.source", "derived"),)
    if record.remote_tokens is not None:
        told += (("pd.kv.tokens_remote", record.remote_tokens),)
    end = decode.start + took / 1000
    return [Span("pd.transfer", "internal", decode.trace, draw(8), decode.id, decode.start, end,
                 told)]  # fmt: skip


def _attributes(record: RequestRecord) -> tuple[tuple[str, Value], ...]:
    known: dict[str, Value | None] = {
        "gen_ai.operation.name": _OPERATIONS.get(record.endpoint, "chat"),
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": record.model or None,
        "gen_ai.usage.input_tokens": record.prompt_tokens,
        "gen_ai.usage.output_tokens": record.completion_tokens,
        "gen_ai.response.finish_reasons": (record.finish_reason,) if record.finish_reason else None,
        "url.path": record.endpoint,
        "http.response.status_code": record.status,
        "error.type": None if record.outcome is Outcome.OK else record.outcome.value,
        "pd.request.id": record.id,
        "pd.mode": record.mode or None,
        "pd.path": record.path.value,
        "pd.path_reason": record.path_reason or None,
        "pd.retries": record.retries,
        "pd.stream": record.stream,
        "pd.key.name": record.key or None,
        "pd.ttft_ms": record.ttft_ms,
        "pd.tpot_ms": record.tpot_ms,
        "pd.cached_tokens": record.cached_tokens,
    }
    return tuple((name, value) for name, value in known.items() if value is not None)


def _name(record: RequestRecord) -> str:
    return f"{_OPERATIONS.get(record.endpoint, 'chat')} {record.model}".strip()


def _last(record: RequestRecord) -> float:
    return max((leg.done_ms or leg.sent_ms for leg in record.legs), default=0.0)


def _at(record: RequestRecord, offset_ms: float) -> float:
    return record.received_at + offset_ms / 1000


def _child(own: str, index: int) -> str:
    """Ids of legs follow from the request's own: the router sends them before anybody stores it."""
    return f"{(int(own, 16) + 1 + index) % _MOST or 1:016x}"
