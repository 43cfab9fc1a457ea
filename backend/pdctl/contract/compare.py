"""Two latency distributions side by side, and named moments, on the wire."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict, Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire


class SideView(Wire):
    """What was compared: a group over a time."""

    asked: str
    """As it was asked for: "mode:pd@3600"."""
    by: str
    window_s: int | None = None
    """Seconds back from now; null: since the start, or between `since` and `until`."""
    since: datetime | None = None
    until: datetime | None = None


class EstimateView(Wire):
    """One quantile and its 95 % interval, ms."""

    count: int
    ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    """null: too few values for an interval."""


class DifferenceView(Wire):
    """One quantile of one metric: b minus a."""

    metric: str
    q: float
    a: EstimateView
    b: EstimateView
    found: str
    """higher | lower (b is, beyond chance) | unclear (the interval holds 0) | too_few"""
    ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    needed: int
    """Values that each side must have for this quantile."""


class ComparePage(Wire):
    """Two sides compared."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated: these times say nothing of vLLM."""
    at: datetime
    level: float
    """Of the intervals: 0.95."""
    a: SideView
    b: SideView
    items: list[DifferenceView]
    note: str = ""
    """What to keep in mind."""


class MarkBody(Wire):
    """A name for this moment."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "before-switch"}]})

    name: str = Field(min_length=1, max_length=64)


class MarkView(Wire):
    """A named moment."""

    name: str
    at: datetime
    actor: str


class MarkPage(Wire):
    """All named moments, newest first."""

    schema_version: int = SCHEMA_VERSION
    items: list[MarkView]
