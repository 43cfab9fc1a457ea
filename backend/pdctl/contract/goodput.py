"""Goodput on the wire: how many requests were served within each named objective."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire


class SloView(Wire):
    """A named objective, as the fleet file has it; null: no bound."""

    name: str
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_p99_ms: float | None = None


class GoodputView(Wire):
    """One objective of one group over one window."""

    slo: str
    by: str
    """"all", "mode:pd", "pool:decode", "model:NAME" """
    window_s: int | None
    """null: since the server started."""
    span_s: float
    """Seconds that were looked at: less than the window after a start."""
    met: int
    missed: int
    unjudged: int
    """Nobody knows: the client left in time, or an answer that is not streamed shows no tokens."""
    share: float | None = None
    """met of met + missed, 0..1; null when nothing was judged."""
    per_s: float | None = None
    """The goodput: requests per second that met it; null before a second has passed."""
    causes: dict[str, int] = Field(default_factory=dict)
    """Why the rest missed it: queue, prefill, transfer, decode, stall, error."""


class GoodputPage(Wire):
    """Goodput asked for together."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated: these times say nothing of vLLM."""
    at: datetime
    slos: list[SloView]
    """Every objective of the fleet file; none: there is nothing to judge by."""
    items: list[GoodputView]
    known: list[str] = Field(default_factory=list)
    """Every `by` that has data now."""
