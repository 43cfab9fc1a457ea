"""What is asked of finished requests: pure, so that memory and the store answer alike."""

from __future__ import annotations

from dataclasses import dataclass

ANY_SLO = "any"
"""Stands for every objective in a query."""


@dataclass(frozen=True, slots=True)
class RequestQuery:
    """Filters of the request list; None means any."""

    limit: int = 50
    before: str | None = None
    """Request id: only older ones (paging)."""
    path: str | None = None
    outcome: str | None = None
    instance: str | None = None
    slowest: bool = False
    key: str | None = None
    """Name of an API key."""
    model: str | None = None
    pair: tuple[str, str] | None = None
    """(prefill, decode) that made the answer."""
    missed: str | None = None
    """Name of an objective that it missed; ANY_SLO for any of them."""
    begins: str | None = None
    """How its id begins."""
    since: float | None = None
    """Only those received then (wall seconds) or later, and before `until`."""
    until: float | None = None
