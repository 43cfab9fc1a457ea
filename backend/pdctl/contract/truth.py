"""The truth meter on the wire: whether KV that was handed over really moved."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire


class TruthView(Wire):
    """Handed-over requests of one group in one window, by what became of their KV."""

    by: str
    """"all", "pair:P>D", "instance:ID" """
    moved: int = 0
    """Decode pulled it."""
    cached: int = 0
    """Decode had the prompt in its own cache: nothing needed to move."""
    recomputed: int = 0
    """Silent recompute: decode computed what prefill had computed, and answered 200."""
    unknown: int = 0
    """The engine's counters do not tell this request from others."""
    share: float | None = None
    """moved + cached of those judged, 0..1; null when none could be."""
    recomputed_tokens: int = 0
    """Prompt tokens that were computed twice."""
    stranded: int = 0
    """Ended between prefill and decode: their KV stayed until its lease ended."""
    expired: int = 0
    """NIXL on prefill: requests whose KV nobody pulled within its lease."""
    failed: int = 0
    """NIXL on decode: pulls that failed."""
    late: int = 0
    """NIXL on prefill: pulls that ended after their lease. They may have read KV of others."""


class LeaseView(Wire):
    """KV that waits on a prefill instance to be pulled."""

    prefill: str
    requests: int
    oldest_s: float
    lease_s: float
    """How long it may take at most before prefill frees it (heartbeats of decode extend it)."""


class StrandedView(Wire):
    """KV that nobody can pull any more and that still takes room on prefill."""

    request: str
    prefill: str
    tokens: int | None = None
    age_s: float
    lease_s: float
    why: str


class TruthPage(Wire):
    """What became of handed-over KV, and what is pinned by it now."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated."""
    at: datetime
    window_s: int | None
    """null: since the server started."""
    fleet: TruthView
    groups: list[TruthView] = Field(default_factory=list)
    """Pairs and instances that have anything to tell."""
    pending: int = 0
    """Requests that are judged with the next scrape."""
    leases: list[LeaseView] = Field(default_factory=list)
    stranded: list[StrandedView] = Field(default_factory=list)
    """Oldest first."""
