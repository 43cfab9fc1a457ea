"""One request's story as the router tells it (the seam, outward).

All offsets are milliseconds after `received_at` on the router's monotonic clock: one process, one
clock. None means unknown (it did not happen, or could not be measured), never zero.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from pdctl.domain.kv_events import KvFollowed


class Path(StrEnum):
    """The way a request took."""

    PD = "pd"
    CHUNKED = "chunked"
    """Whole on one instance because the fleet's mode says so."""
    AGGREGATED = "aggregated"
    """Whole on one instance although the mode is PD; `path_reason` says why."""
    NONE = "none"
    """It never reached an instance."""


class Outcome(StrEnum):
    """How it ended. Low-cardinality; `error` has the detail."""

    OK = "ok"
    CLIENT_GONE = "client_gone"
    REJECTED = "rejected"
    """A 4xx of the engine's or of ours (bad body, unknown model)."""
    OVERLOADED = "overloaded"
    NO_INSTANCE = "no_instance"
    UPSTREAM_ERROR = "upstream_error"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    """The stream died after the first byte."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One attempt at one instance."""

    kind: str
    """prefill | decode | whole"""
    instance: str
    why: str
    """The policy's reason for this instance, in words."""
    sent_ms: float
    headers_ms: float | None = None
    first_byte_ms: float | None = None
    done_ms: float | None = None
    status: int | None = None
    error: str = ""
    failure: str = ""
    """How it failed before the client's first byte: connect | timeout | died | status | aborted."""
    engine: tuple[tuple[str, float], ...] = ()
    """The engine's per-request metrics, verbatim (--enable-per-request-metrics), milliseconds."""
    note: str = ""
    """What an operator should know of a leg that did not fail, in words."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A finished (or failed) request."""

    id: str
    received_at: float
    """Wall time, UTC seconds."""
    endpoint: str
    model: str
    stream: bool
    mode: str
    """The fleet's mode when the request was routed."""
    path: Path
    path_reason: str
    outcome: Outcome
    status: int
    error: str = ""
    key: str = ""
    """Name of the API key that it came with; empty where none is needed."""
    queued_ms: float | None = None
    """Time spent waiting in the router's own queue."""
    params_age_ms: float | None = None
    """Age of the KV params when the decode leg was sent (guard: < 0.6 x lease)."""
    ttft_ms: float | None = None
    """First generated token written to the client, by this router's clock. A token is what the
    engine generated: an event without text counts when it stands for one (vLLM holds its text back
    until a character or a possible stop string is whole); a role, usage or comment does not."""
    tpot_ms: float | None = None
    """(last token - first token) / (completion tokens - 1); None below two tokens, and when one
    stream carries several sequences (n, list prompts): their tokens come side by side."""
    e2e_ms: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    completion_derived: bool = False
    """completion_tokens were counted from token-bearing chunks, for the stream carried no usage
    (the client did not ask for it); a chunk may hold several tokens, so it is a lower bound."""
    finish_reason: str = ""
    retries: int = 0
    remote_tokens: int | None = None
    """Prompt tokens whose KV the params offered to decode (remote_num_tokens); None off PD."""
    legs: tuple[Leg, ...] = ()
    trace: str = ""
    """Its trace context (`domain.tracing`); empty where nobody collects spans."""
    itl: tuple[tuple[int, int], ...] = ()
    """Gaps between token-bearing chunks: (bucket index, count) of `domain.histogram`."""
    slo_missed: tuple[tuple[str, str], ...] = ()
    """Objectives that it missed when it ended, each with its cause (`domain.goodput`)."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-able form; `from_json` gives the same record back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RequestRecord:
        """The record that `to_json` described; unknown keys are ignored (rows outlive code)."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["path"], known["outcome"] = Path(known["path"]), Outcome(known["outcome"])
        known["legs"] = tuple(_leg(leg) for leg in known.get("legs", ()))
        known["slo_missed"] = tuple((str(a), str(b)) for a, b in known.get("slo_missed", ()))
        known["itl"] = tuple((int(i), int(n)) for i, n in known.get("itl", ()))
        return cls(**known)


def _leg(data: dict[str, Any]) -> Leg:
    known = {name: data[name] for name in Leg.__dataclass_fields__ if name in data}
    known["engine"] = tuple((str(name), float(value)) for name, value in known.get("engine", ()))
    return Leg(**known)


@dataclass(frozen=True, slots=True)
class Circuit:
    """Why the router sends an instance nothing, or one request only, although it is ready."""

    state: str
    """open: nothing; half_open: one request, which decides"""
    why: str


@dataclass(frozen=True, slots=True)
class Load:
    """What the router has open now; sent on change, at most ten times a second."""

    table_seq: int
    """The table these numbers were counted under: a drain waits until its table was applied."""
    inflight: dict[str, int] = field(default_factory=dict)
    queued: int = 0
    paths: dict[str, int] = field(default_factory=dict)
    """Requests that have a route, by path (pd | chunked | aggregated)."""
    circuits: dict[str, Circuit] = field(default_factory=dict)
    """Instances whose circuit breaker is not closed."""
    held: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By prefill instance: KV that was computed and not pulled yet: how many requests, and since
    when the oldest (the machine's monotonic seconds: routers run where the control plane does)."""
    kv_events: dict[str, KvFollowed] = field(default_factory=dict)
    """By instance, how its KV events are followed; empty while no policy asks for them."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A connect error or a death seen on the wire: the control plane should look at once."""

    instance: str
    generation: int
    why: str


RouterEvent = RequestRecord | Load | Suspect
