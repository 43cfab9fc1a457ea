"""Observed state of one engine instance. Frozen: replaced by the reconciler, never edited."""

from __future__ import annotations

from dataclasses import dataclass, field

from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Role


@dataclass(frozen=True, slots=True)
class Slot:
    """What an instance occupies alone: ports, and a device or a core set."""

    index: int
    http_port: int
    side_channel_port: int
    device: str = ""
    core: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an instance is reached by us and by its peers."""

    host: str
    http_port: int
    side_channel_port: int

    @property
    def url(self) -> str:
        """Base URL of the OpenAI and admin endpoints; never shown to clients."""
        return f"http://{self.host}:{self.http_port}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a start has come, read from the engine's log."""

    stage: str
    """Short human word: "loading weights", "profiling KV cache", "starting server"."""
    fraction: float | None = None
    """0..1 where the log says it, else None (unknown, not zero)."""


@dataclass(frozen=True, slots=True)
class ExitInfo:
    """How a process ended, as its shim recorded it."""

    code: int | None
    signal: int | None
    at: float
    """Wall time, UTC seconds."""
    last_lines: tuple[str, ...] = ()
    first_error: str = ""
    """The line that best says why (vLLM's own words), empty when none was recognised."""
    survivors: tuple[int, ...] = ()
    """Pids that outlived SIGKILL (a hung driver): they may still hold a device, ports or memory."""


@dataclass(frozen=True, slots=True)
class EngineStats:
    """One scrape of an engine's /metrics, already folded over its DP ranks.

    Counters are since the engine's start. None: it does not tell (another version, no connector, a
    role that has none of it), which is not zero.
    """

    at: float
    """Wall time of the scrape: a reader must show the age, and staleness after three intervals."""
    running: float = 0.0
    waiting: float = 0.0
    waiting_deferred: float | None = None
    """Those of `waiting` that wait for something else than capacity: for their KV, mostly."""
    fetch_queued: float | None = None
    """Requests whose KV pull has not begun, is under way, is done and not taken up (decode)."""
    fetch_running: float | None = None
    fetch_done: float | None = None
    kv_usage: float | None = None
    """0..1, share of KV blocks in use."""
    ranks: int = 0
    """Data-parallel ranks that told their KV usage."""
    prompt_tokens_local: float = 0.0
    prompt_tokens_cached: float = 0.0
    prompt_tokens_remote: float = 0.0
    """vllm:prompt_tokens_by_source{external_kv_transfer}: the truth about the handoff."""
    generation_tokens: float = 0.0
    iterations: float = 0.0
    """vllm:iteration_tokens_total_count: the engine's heartbeat."""
    prefix_queries: float | None = None
    """Prompt tokens that were looked up in its own prefix cache, and those found there."""
    prefix_hits: float | None = None
    external_queries: float | None = None
    """The rest of them that was asked of the connector, and what it loaded."""
    external_hits: float | None = None
    nixl_bytes: float | None = None
    nixl_transfers: float | None = None
    nixl_seconds: float | None = None
    """Time of all pulls together, and time spent posting them."""
    nixl_post_seconds: float | None = None
    nixl_failures: float | None = None
    nixl_expired: float | None = None
    """Requests whose KV nobody pulled within its lease (prefill), and pulls that ended later."""
    nixl_late: float | None = None
    preemptions: float | None = None


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the control plane remembers of an instance between two looks.

    All times are monotonic seconds of this control plane: they mean nothing to another process and
    are never stored.
    """

    progress_at: float | None = None
    """Last visible step of its start; the start timeout counts from here."""
    misses: int = 0
    """Consecutive looks that were refused. A timeout is slow, not dead, and does not count."""
    scraped_at: float | None = None
    """When its metrics last answered."""
    silent_since: float | None = None
    """Since when nothing that it was asked has been answered; None while that is not long yet."""
    bare_at: float | None = None
    """When the last scrape began that showed it holding no request and no KV of one."""
    stalled_since: float | None = None
    """Since when it has had requests running and made no iteration."""
    busy_at: float | None = None
    """Last evidence of work: an open leg, or a counter that moved between two scrapes."""
    ready_at: float | None = None
    """When it last became READY; a long READY ends the failure streak."""
    quiet_at: float | None = None
    """While draining: since when the router, under a table without it, has no leg open on it."""
    kill_at: float | None = None
    """While being stopped: when the next, harder rung is taken."""
    killed: bool = False
    """SIGKILL has been sent."""
    races: int = 0
    """Consecutive starts that lost their port to someone else."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance as last observed."""

    id: InstanceId
    pool: PoolName
    role: Role
    slot: Slot
    fingerprint: str
    phase: Phase
    reason: Reason
    message: str
    since: float
    """Wall time (UTC seconds) at which it entered its phase."""
    endpoint: Endpoint
    compat: str = ""
    """What must agree between the ends of a handoff (`domain.compat`); empty when unknown."""
    generation: int = 0
    """Counts starts of this id; with `nonce` it names one process for ever."""
    nonce: str = ""
    pid: int | None = None
    shim_pid: int | None = None
    failures: int = 0
    """Consecutive failed starts or crashes; reset after a long READY."""
    retry_at: float | None = None
    """Monotonic time of the next attempt: of a start in BACKOFF, of a warm-up in WARMING."""
    drain_deadline: float | None = None
    """Monotonic time at which a drain stops waiting for streams."""
    progress: Progress | None = None
    stats: EngineStats | None = None
    exit: ExitInfo | None = None
    """How the previous process of this id ended."""
    first_failure: ExitInfo | None = None
    """The first failure of the present failure streak, kept until it works again."""
    inflight: int = 0
    """Legs that the router has open on it now."""
    vitals: Vitals = Vitals()


@dataclass(frozen=True, slots=True)
class Pair:
    """State of one prefill x decode pair, from probes and from real traffic."""

    prefill: InstanceId
    decode: InstanceId
    state: str
    """ok | untried | probing | failing (its probe failed) | quarantined (real requests failed) |
    incompatible (its ends were launched so that vLLM would refuse the handoff)"""
    message: str = ""
    last_ok: float | None = None
    """Wall time of the last handoff seen to work."""
    handoff_ms: float | None = None
    """Duration of the last probe's handoff, milliseconds."""
    generations: tuple[int, int] = (0, 0)
    """Generations of both ends that this state speaks of; a restart makes it untried."""
    failures: int = 0
    """Consecutive probes that failed; the pause before the next one grows with it."""
    retry_at: float | None = None
    """Monotonic time of the next probe; None when none is wanted, or the first is due."""
    strikes: int = 0
    """Requests in a row that failed on it."""
    quarantines: int = 0
    """Quarantines since a request last worked on it; the pause before the probe grows with it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an instance could not be placed; a value, shown to the operator."""

    pool: PoolName
    why: str
    details: tuple[str, ...] = field(default=())
