"""A moment of the past on the wire: what the fleet was then, and what happened around it."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from pdctl.contract.resources import EventView, HistogramView, RequestView
from pdctl.contract.wire import SCHEMA_VERSION, Wire


class PastPool(Wire):
    """A pool as it was wanted, and how many of it were ready."""

    name: str
    role: str
    desired: int
    ready: int


class PastInstance(Wire):
    """An instance then."""

    id: str
    pool: str
    phase: str | None = None
    """null: it was there, but the fact that tells its phase is kept no more."""
    reason: str = ""
    message: str = ""
    since: datetime | None = None


class PastPair(Wire):
    """A pair then, as it was told last."""

    prefill: str
    decode: str
    state: str
    message: str = ""


class PastView(Wire):
    """The fleet at a past moment, from stored facts and revisions; nothing here is of now."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    at: datetime
    """The moment that is shown."""
    now: datetime
    """When this was answered."""
    since: datetime
    until: datetime
    """What is listed below lies between these."""
    name: str
    mode: str | None = None
    """null: no desired state is known from so long ago."""
    shape: str | None = None
    revision: int | None = None
    pools: list[PastPool] = Field(default_factory=list)
    instances: list[PastInstance] = Field(default_factory=list)
    pairs: list[PastPair] = Field(default_factory=list)
    events: list[EventView] = Field(default_factory=list)
    """Oldest first, the newest 200 at most."""
    requests: list[RequestView] = Field(default_factory=list)
    """That were received in that time and are still held, newest first, 50 at most."""
    latency: list[HistogramView] = Field(default_factory=list)
    """Of all requests, in whole minutes."""
    notes: list[str] = Field(default_factory=list)
    """What is not known of that moment, in sentences."""
