"""What the admin API answers with: read models of fleet, pools, instances, pairs and requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pdctl.contract.engine import StatsView, UsageView
from pdctl.contract.wire import SCHEMA_VERSION, Wire
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode, Role


class ProgressView(Wire):
    """How far a start has come."""

    stage: str
    fraction: float | None = None


class ExitView(Wire):
    """How a process ended."""

    code: int | None = None
    signal: int | None = None
    at: datetime
    first_error: str = ""
    last_lines: list[str] = Field(default_factory=list)
    survivors: list[int] = Field(default_factory=list)
    """Pids that SIGKILL could not end: they may still hold a device, ports or memory."""


class CircuitView(Wire):
    """Why the router sends a ready instance nothing, or one request only."""

    state: str
    """open: nothing, for up to 30 s; half_open: one request, which decides"""
    why: str

    @property
    def words(self) -> str:
        """The same for people."""
        what = "nothing" if self.state == "open" else "one request, to try it"
        return f"the router sends it {what} ({self.why})"


class InstanceView(Wire):
    """One instance: what is wanted of it and what it is seen doing."""

    id: str
    pool: str
    role: Role
    phase: Phase
    reason: Reason
    message: str = ""
    since: datetime
    simulated: bool = False
    in_process: bool = False
    """It is simulated inside pdctl's own process: there is no process of it, and no pid."""
    outdated: bool = False
    """It was launched with flags that differ from the desired ones."""
    compat: str = ""
    """Hash of the flags that both ends of a handoff must share; empty when unknown."""
    generation: int = 0
    pid: int | None = None
    shim_pid: int | None = None
    http_port: int
    side_channel_port: int
    device: str = ""
    core: str = ""
    inflight: int = 0
    failures: int = 0
    retry_in_s: float | None = None
    drain_left_s: float | None = None
    progress: ProgressView | None = None
    stats: StatsView | None = None
    usage: UsageView | None = None
    """Null without a process of its own, and until it was looked at."""
    exit: ExitView | None = None
    first_failure: ExitView | None = None
    circuit: CircuitView | None = None
    """Its circuit breaker at the router; null while it is closed."""


class PoolView(Wire):
    """A pool: desired size beside what is ready."""

    name: str
    role: Role
    desired: int
    ready: int
    phase: Phase | None = None
    """Worst phase of its instances; null when it has none."""
    instances: list[str] = Field(default_factory=list)


class PairView(Wire):
    """One prefill x decode pair."""

    prefill: str
    decode: str
    state: str
    """ok | paused (an end does not serve now) | untried | probing | failing (its probe failed) |
    quarantined (real requests failed) | incompatible (launched so that they cannot hand over)"""
    message: str = ""
    last_ok: datetime | None = None
    handoff_ms: float | None = None


class ModeView(Wire):
    """The routing mode in force and how many requests are still on the other one."""

    mode: Mode
    simulated: bool = False
    """The engines of this fleet are simulated: no vLLM serves these requests."""
    since: datetime | None = None
    inflight: dict[str, int] = Field(default_factory=dict)
    """Open requests by path (pd, chunked, aggregated)."""


class ModePut(BaseModel):
    """Ask for a routing mode. New requests take it at once; requests under way finish as begun."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"mode": "pd"}]})

    mode: Mode


class RouterWorkerView(Wire):
    """One process of the router."""

    slot: int
    pid: int
    state: str
    """waiting | listening | replace | draining | done | away (not connected) | silent (it hangs)"""
    since: datetime | None = None
    """When it was started."""
    version: str = ""
    inflight: int = 0
    """Open legs (a handed-over request has up to two)."""
    dropped: int = 0
    """Facts about requests lost because nobody took them in time."""


class RouterView(Wire):
    """The front door."""

    url: str
    queued: int = 0
    inflight: int = 0
    workers: list[RouterWorkerView] = Field(default_factory=list)
    """Its processes; empty when it is served by the control plane's own."""


class DetachView(Wire):
    """What goes on when this control plane has let go."""

    pid: int
    """Of the control plane that ends."""
    instances: list[str] = Field(default_factory=list)
    router_workers: list[int] = Field(default_factory=list)
    """Pids."""


class FleetView(Wire):
    """The whole fleet at one event position: list this, then watch events after `seq`."""

    schema_version: int = SCHEMA_VERSION
    seq: int
    epoch: str = ""
    """Changes with every start of the server: `seq` alone does not outlive it."""
    at: datetime
    name: str
    model: str
    served_name: str
    shape: str
    mode: Mode
    revision: int
    simulated: bool = False
    connector: str = ""
    version: str = ""
    """pdctl's own version."""
    router: RouterView
    signals: int = 0
    """How many fire that nobody has taken up or silenced."""
    pools: list[PoolView]
    instances: list[InstanceView]
    pairs: list[PairView] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    @property
    def position(self) -> str:
        """Where to watch on from: hand it to `client.stream.watch`."""
        return f"{self.epoch}-{self.seq}" if self.epoch else str(self.seq)


class LegView(Wire):
    """One attempt at one instance; offsets in ms after the request was received."""

    kind: str
    instance: str
    why: str = ""
    sent_ms: float
    headers_ms: float | None = None
    first_byte_ms: float | None = None
    done_ms: float | None = None
    status: int | None = None
    error: str = ""
    note: str = ""
    """What an operator should know of a leg that did not fail, e.g. a KV pull that stalled."""
    engine: dict[str, float] = Field(default_factory=dict)


class SpanView(Wire):
    """One bar of the waterfall, computed by the server so that every face draws the same."""

    name: str
    """queue | prefill queue | prefill compute | hand back | decode admission + KV pull | ..."""
    start_ms: float
    end_ms: float
    source: str
    """measured (router clock) | derived (from engine metrics or by subtraction) | unknown"""
    instance: str = ""
    note: str = ""


class RequestView(Wire):
    """One request."""

    id: str
    received_at: datetime
    simulated: bool = False
    """The engines of this fleet are simulated."""
    endpoint: str
    passed_through: bool = False
    """It generates nothing (/tokenize, /version): handed on unread, and no part of the latency."""
    model: str = ""
    stream: bool
    mode: str
    path: Path
    path_reason: str = ""
    outcome: Outcome
    status: int
    error: str = ""
    key: str = ""
    """Name of the API key that it came with; never the key."""
    slo_missed: dict[str, str] = Field(default_factory=dict)
    """Objectives that it missed, each with its cause (queue, prefill, transfer, decode, stall,
    error)."""
    kv: str = ""
    """What became of its KV (moved, cached, recomputed, unknown), where it was judged lately; of a
    single request only."""
    queued_ms: float | None = None
    params_age_ms: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    completion_derived: bool = False
    """Counted from the chunks, for the stream carried no usage: a lower bound, and tpot_ms is then
    an upper bound."""
    remote_tokens: int | None = None
    kv_bytes: int | None = None
    """Bytes of KV handed over: remote tokens x bytes per token (derived), null when unknown."""
    finish_reason: str = ""
    retries: int = 0
    prefill: str = ""
    """Instance that prefilled, when it was not the one that decoded."""
    decode: str = ""
    legs: list[LegView] = Field(default_factory=list)
    spans: list[SpanView] = Field(default_factory=list)


class RequestPage(Wire):
    """A page of requests, newest first; `next` goes into `before` for the older ones."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated."""
    items: list[RequestView]
    next: str | None = None
    note: str = ""
    """Why the page may be incomplete (for example: the store does not answer)."""


class RequestPart(Wire):
    """Finished requests with the fields that were asked for."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    items: list[dict[str, Any]]
    next: str | None = None
    note: str = ""


class HistogramView(Wire):
    """One latency distribution over one window, in milliseconds."""

    metric: str
    """ttft | tpot | itl | e2e | queue"""
    by: str
    """"all", "mode:pd", "pool:decode", "instance:decode-0" """
    window_s: int | None
    """null: since the server started."""
    count: int
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    buckets: list[tuple[float, float, int]] = Field(default_factory=list)
    """(lower ms, upper ms, count), non-empty buckets only, ascending."""


class HistogramPage(Wire):
    """Histograms asked for together."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated: these times say nothing of vLLM."""
    at: datetime
    items: list[HistogramView]
    known: list[str] = Field(default_factory=list)
    """Every `by` that has data now."""
    since: datetime | None = None
    """When it was asked for between two moments: both ends, before they are rounded outward to
    whole minutes. Windows are null then."""
    until: datetime | None = None


class EventView(Wire):
    """One fact of the feed."""

    seq: int
    at: datetime
    kind: str
    subject: str
    data: dict[str, object] = Field(default_factory=dict)

    @property
    def echoed(self) -> bool:
        """True for a change that an operator asked for: the `operation` beside it says the same,
        and what came of it, so a list for people shows that one alone."""
        return self.kind == EventKind.FLEET_CHANGED and bool(self.data.get("actor"))


class EventPage(Wire):
    """Stored facts, oldest first."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated."""
    items: list[EventView]
    seq: int
    """Position of the feed now."""


class CommandView(Wire):
    """How an instance is launched, secrets redacted."""

    instance: str
    argv: list[str]
    env: dict[str, str]
    in_process: bool = False
    """No process was started from it: the engine is simulated inside pdctl's own process."""


class CheckView(Wire):
    """One named check of /readyz or doctor."""

    name: str
    ok: bool
    detail: str = ""
    fix: str = ""


class ReadyView(Wire):
    """Whether requests can be served, and each thing that this depends on."""

    ready: bool
    checks: list[CheckView]
