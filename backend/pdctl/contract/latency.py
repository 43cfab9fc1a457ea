"""Latency over time on the wire: one point for each slice of time in which something ended."""

from __future__ import annotations

from datetime import datetime

from pdctl.contract.wire import SCHEMA_VERSION, Wire


class PointView(Wire):
    """What ended in one slice of time, in milliseconds."""

    at: datetime
    """When the slice began."""
    count: int
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None


class SeriesView(Wire):
    """One metric of one group over one window; slices in which nothing ended are left out."""

    metric: str
    by: str
    window_s: int
    slice_s: int
    """How long each slice is, in seconds."""
    points: list[PointView]
    """Oldest first."""


class SeriesPage(Wire):
    """Series asked for together."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated: these times say nothing of vLLM."""
    at: datetime
    items: list[SeriesView]
