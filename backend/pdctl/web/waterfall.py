"""A request's spans as bars on one time axis. The server computed the spans; this only places them.

Pure. A bar says by word and by pattern whether it was measured, derived or is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pdctl.contract.resources import RequestView, SpanView

SOURCES = ("measured", "derived", "unknown")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: percentages of the axis."""

    span: SpanView
    source: str
    kind: str
    """Colour family: wait | prefill | transfer | decode | failed."""
    x: float
    width: float

    @property
    def ms(self) -> float:
        """Its length in milliseconds."""
        return max(0.0, self.span.end_ms - self.span.start_ms)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on the axis."""

    x: float
    ms: float
    name: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The waterfall of one request."""

    bars: tuple[Bar, ...]
    ticks: tuple[Mark, ...]
    marks: tuple[Mark, ...]
    total_ms: float
    sources: tuple[str, ...]


def chart(request: RequestView) -> Chart | None:
    """The waterfall, None when there is nothing to place."""
    ends = [span.end_ms for span in request.spans] + [request.e2e_ms or 0.0]
    total = max(ends)
    if total <= 0 or not request.spans:
        return None
    bars = tuple(_bar(span, total) for span in request.spans)
    return Chart(
        bars=bars,
        ticks=_ticks(total),
        marks=_marks(request, total),
        total_ms=total,
        sources=tuple(source for source in SOURCES if any(bar.source == source for bar in bars)),
    )


def _bar(span: SpanView, total: float) -> Bar:
    x = min(99.6, max(0.0, span.start_ms / total * 100))
    width = max(0.4, (span.end_ms - span.start_ms) / total * 100)
    source = span.source if span.source in SOURCES else "unknown"
    return Bar(span, source, _kind(span.name), round(x, 3), round(min(width, 100 - x), 3))


def _kind(name: str) -> str:
    lower = name.lower()
    for kind, words in (
        ("failed", ("failed",)),
        ("transfer", ("pull", "hand", "transfer", "admission")),
        ("wait", ("queue", "wait", "held", "router")),
        ("prefill", ("prefill", "compute")),
    ):
        if any(word in lower for word in words):
            return kind
    return "decode"


def _ticks(total: float) -> tuple[Mark, ...]:
    rough = total / 5
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(base * factor for factor in (1, 2, 5, 10) if base * factor >= rough)
    return tuple(
        Mark(round(step * index / total * 100, 3), step * index, "")
        for index in range(int(total / step) + 1)
        if step * index <= total * 0.94
    )


def _marks(request: RequestView, total: float) -> tuple[Mark, ...]:
    if request.ttft_ms is None:
        return ()
    x = min(100.0, request.ttft_ms / total * 100)
    return (Mark(round(x, 3), request.ttft_ms, "first token"),)
