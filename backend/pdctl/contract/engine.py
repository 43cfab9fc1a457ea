"""What an engine tells of itself, and what its processes cost."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from pdctl.contract.wire import Wire


class StatsView(Wire):
    """The last scrape of the engine's own metrics, its data-parallel ranks together.

    Counters are since the engine's start. Null: the engine does not tell. A rate is between the
    last two scrapes: null until there are two, and after a counter began anew; never negative.
    """

    at: datetime
    stale: bool = False
    """True when older than three scrape intervals."""
    running: float = 0
    waiting: float = 0
    waiting_deferred: float | None = None
    """Those of `waiting` that wait for something else than capacity: for their KV, mostly."""
    fetch_queued: float | None = None
    """Requests whose KV pull has not begun (decode side)."""
    fetch_running: float | None = None
    """Requests whose KV is being pulled."""
    fetch_done: float | None = None
    """Requests whose KV is here, and which have not been taken up."""
    kv_usage: float | None = None
    """0..1"""
    ranks: int = 0
    """Data-parallel ranks that are counted together."""
    prompt_tokens_local: float = 0
    prompt_tokens_cached: float = 0
    prompt_tokens_remote: float = 0
    prompt_tokens_per_s: float | None = None
    generation_tokens: float = 0
    generation_tokens_per_s: float | None = None
    prefix_queries: float | None = None
    """Prompt tokens that were looked up in its own prefix cache."""
    prefix_hits: float | None = None
    external_queries: float | None = None
    """Prompt tokens that were asked of the connector."""
    external_hits: float | None = None
    nixl_bytes: float | None = None
    nixl_bytes_per_s: float | None = None
    nixl_transfers: float | None = None
    nixl_seconds: float | None = None
    """Time of all pulls together."""
    nixl_post_seconds: float | None = None
    nixl_failures: float | None = None
    nixl_expired: float | None = None
    """Requests whose KV nobody pulled within its lease (prefill side)."""
    nixl_late: float | None = None
    """Pulls that ended after the lease had (prefill side): their KV may have been overwritten."""
    preemptions: float | None = None
    preemptions_per_s: float | None = None


class GpuView(Wire):
    """One device of an instance. All of it, but for `ours`."""

    device: str
    busy: float | None = None
    """0..1: share of time in which a kernel ran."""
    memory_used: float | None = None
    """Bytes."""
    memory_total: float | None = None
    ours: float | None = None
    """Bytes that this instance's processes hold."""
    watts: float | None = None
    celsius: float | None = None


class UsageView(Wire):
    """What all processes of an instance take of the machine. Null is unknown."""

    at: datetime
    stale: bool = False
    """True when older than 15 s."""
    processes: int
    cores: float | None = None
    """Cores kept busy between the last two looks."""
    cpu_seconds: float
    resident: float
    """Bytes; what processes share is counted in each."""
    proportional: float | None = None
    """Bytes; what processes share is divided among them. Looked at once a minute."""
    gpus: list[GpuView] = Field(default_factory=list)
    """Empty without a device, or where NVML is not installed."""
