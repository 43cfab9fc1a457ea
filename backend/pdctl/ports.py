"""What the core needs from the world, as small protocols.

`control` speaks only to these; `adapters` implement them; `app` joins the two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pdctl.domain.actions import Wishes
from pdctl.domain.audit import AuditEntry, AuditQuery
from pdctl.domain.events import Event, EventQuery
from pdctl.domain.handoff import RequestRecord, RouterEvent
from pdctl.domain.instance import Endpoint, EngineStats, ExitInfo, Instance, Progress, Slot
from pdctl.domain.leases import Lease
from pdctl.domain.orphans import Found, Ours
from pdctl.domain.request_query import RequestQuery
from pdctl.domain.runs import RunRecord
from pdctl.domain.table import RoutingTable
from pdctl.domain.topology import FleetSpec, Role


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """Everything a launcher needs to start one instance, and to recognise it later."""

    instance_id: str
    pool: str
    role: Role
    generation: int
    nonce: str
    """Unique per start; carried by every process of the instance."""
    fingerprint: str
    slot: Slot
    endpoint: Endpoint
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    shutdown_timeout_s: int
    compat: str = ""
    """What must agree between the ends of a handoff; empty in records of an older pdctl."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a launcher knows of one start, alive or ended."""

    order: LaunchOrder
    shim_pid: int | None
    pid: int | None
    alive: bool
    """The shim lives and its leader has not been reaped."""
    started_at: float
    """Wall time, UTC seconds."""
    log_path: str = ""
    exit: ExitInfo | None = None
    progress: Progress | None = None
    doom: str = ""
    """What its log says after which it hangs for ever instead of ending; empty while it may come
    up. A port that somebody else has taken, so far."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Living processes of a start whose record is gone or damaged: nothing else is known of it."""

    nonce: str
    pids: tuple[int, ...]


class Launcher(Protocol):
    """Starts and stops engine processes; knows nothing of roles, routing or health."""

    async def launch(self, order: LaunchOrder) -> Running:
        """Start it. Idempotent by nonce. Raises EngineError when the process cannot be started."""
        ...

    async def terminate(self, nonce: str) -> None:
        """SIGTERM to the leader (vLLM then drains for its --shutdown-timeout). Unknown: no-op."""
        ...

    async def kill(self, nonce: str) -> None:
        """SIGKILL to the whole group of the instance, and the sweep of what it left behind."""
        ...

    async def list(self) -> list[Running]:
        """Every start that lives or ended unread, including those of an earlier control plane."""
        ...

    async def lost(self, nonces: Collection[str] = ()) -> tuple[Lost, ...]:
        """Living processes of starts that `list` knows nothing of: of those in `nonces` and any."""
        ...

    async def end_lost(self, lost: Lost) -> tuple[int, ...]:
        """SIGKILL them and sweep up after them; the pids that would not die."""
        ...

    def order(self, nonce: str) -> LaunchOrder | None:
        """What began a start that lives or ended unread; None when there is no such start."""
        ...

    async def forget(self, nonce: str) -> None:
        """Drop the record of an ended start (its log files stay)."""
        ...

    def log_path(self, instance_id: str, previous: bool = False) -> Path | None:
        """The log of an instance's newest start, or of the one before; None when there is none."""
        ...

    def changed(self) -> AsyncIterator[str]:
        """Nonces as their processes exit (seen through pidfd), for a prompt look."""
        ...

    async def close(self) -> None:
        """Release our own handles; instances go on running."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of ending an engine."""

    processes: int
    """How many it had."""
    survivors: tuple[int, ...] = ()
    """Pids that SIGKILL could not end."""
    segments: tuple[str, ...] = ()
    """Shared memory that it left and that was removed."""


class EngineFinder(Protocol):
    """Sees every engine process of this machine, whoever started it."""

    async def find(self, ours: Ours) -> tuple[Found, ...]:
        """Every engine, and who answers for it."""
        ...

    async def end(self, found: Found, grace_s: float) -> Ended:
        """SIGTERM to the leader, `grace_s` later the whole family, then its shared memory."""
        ...


@runtime_checkable
class Attacher(Protocol):
    """A launcher that can take over what somebody else started."""

    async def attach(self, order: LaunchOrder, leader: tuple[int, int], since: float) -> Running:
        """Watch the engine of process (pid, start), running since that wall time. EngineError."""
        ...

    async def detach(self, nonce: str) -> None:
        """Stop watching what `attach` took, and leave it running as it was."""
        ...


@dataclass(frozen=True, slots=True)
class Health:
    """One look at an engine's HTTP server."""

    up: bool
    """/health answered 200."""
    model: str = ""
    version: str = ""
    why: str = ""
    """When not up: refused, timeout, status 503..."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One synthetic handoff over a prefill x decode pair."""

    ok: bool
    handoff_ms: float | None = None
    message: str = ""


class Probe(Protocol):
    """Asks engines how they are. Never raises for a sick engine: the answer says so."""

    async def look(self, endpoint: Endpoint) -> Health:
        """GET /health and /v1/models."""
        ...

    async def warm(self, endpoint: Endpoint, model: str) -> Health:
        """One tiny plain completion: the first request after a start pays for lazy set-up."""
        ...

    async def handoff(
        self, prefill: Endpoint, decode: Endpoint, model: str, *, lease_s: float
    ) -> ProbeResult:
        """One tiny completion handed from `prefill` to `decode`, KV movement verified."""
        ...

    async def scrape(self, endpoint: Endpoint) -> EngineStats | None:
        """GET /metrics; None when it did not answer in time."""
        ...

    async def close(self) -> None:
        """Close the connection pool."""
        ...


class Clock(Protocol):
    """Two times: wall for people, monotonic for durations and deadlines (both seconds)."""

    def now(self) -> float:
        """Wall time, UTC seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a virtual clock decides how long that is."""
        ...


class DataPlane(Protocol):
    """The router, in this process or in others: table in, events out (design: the seam)."""

    async def push(self, table: RoutingTable) -> None:
        """Serve new requests by this table from now on; requests under way finish on the old."""
        ...

    def events(self) -> AsyncIterator[RouterEvent]:
        """Finished requests, load and suspicions, in order."""
        ...


@dataclass(frozen=True, slots=True)
class RouterWorker:
    """One process of the router."""

    slot: int
    pid: int
    state: str
    """waiting | listening | replace | draining | done (pdctl.seam.frames), away: it lives but
    is not connected, or silent: it hangs."""
    version: str
    inflight: int
    """Open legs."""
    dropped: int
    """Facts lost because nobody took them in time."""
    started_at: float = 0.0
    """Wall time, UTC seconds."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A desired state that was accepted: `fleet.revision` is its number."""

    fleet: FleetSpec
    actor: str
    reason: str
    at: float
    """Wall time, UTC seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a write was answered with, kept so that sending it again does nothing twice."""

    key: str
    """The caller and the key that came with the write."""
    fingerprint: str
    """Of the write itself: method, path, conditions, body."""
    at: float
    """Wall time, UTC seconds."""
    status: int = 0
    """0 while it is being carried out."""
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


class Store(Protocol):
    """Durable memory. All methods are safe to call concurrently."""

    async def save_revision(
        self, fleet: FleetSpec, *, actor: str, reason: str, at: float, run: RunRecord | None = None
    ) -> None:
        """Append the desired state (FleetSpec.revision is unique) and, in the same transaction,

        what becomes of the run that brings it about or that it ends.
        """
        ...

    async def latest_revision(self) -> FleetSpec | None:
        """The last saved desired state."""
        ...

    async def history(self, *, before: int | None = None, limit: int = 50) -> list[Revision]:
        """Saved desired states, newest first; only those numbered below `before`."""
        ...

    async def revision(self, number: int) -> Revision | None:
        """One of them."""
        ...

    async def save_runs(self, runs: Sequence[RunRecord]) -> None:
        """How far applied plans are now."""
        ...

    async def runs(self, *, before: int | None = None, limit: int = 50) -> list[RunRecord]:
        """Applied plans, newest first; only those whose revision is below `before`."""
        ...

    async def run(self, id_: str) -> RunRecord | None:
        """One of them."""
        ...

    async def save_wishes(self, wishes: Wishes) -> None:
        """Replace what is wanted of single starts (restart and clear)."""
        ...

    async def load_wishes(self) -> Wishes:
        """What was wanted of single starts; some may have ended since."""
        ...

    async def take_key(self, claim: Answer, *, expired: float) -> Answer | None:
        """Claim a key; None: it is ours now, else what holds it. Drops those before `expired`."""
        ...

    async def keep_answer(self, answer: Answer) -> None:
        """What the write under this key was answered with."""
        ...

    async def free_key(self, key: str) -> None:
        """The write did not happen: the key may be used again."""
        ...

    async def save_instances(
        self, instances: Sequence[Instance], at: float, held: Sequence[Lease] = ()
    ) -> None:
        """Replace the last known instances and what they hold of the machine, or neither.

        `held` names each thing once. ConflictError when another pdctl owns the store by now.
        """
        ...

    async def load_instances(self) -> list[Instance]:
        """The last known instances."""
        ...

    async def add_requests(self, records: Sequence[RequestRecord]) -> None:
        """Append finished requests in one transaction."""
        ...

    async def requests(self, query: RequestQuery) -> list[RequestRecord]:
        """Newest first (or slowest first), filtered."""
        ...

    async def request(self, id_: str) -> RequestRecord | None:
        """One record."""
        ...

    async def add_events(self, events: Sequence[Event]) -> None:
        """Append durable facts; operators' verbs among them enter the operations log as well."""
        ...

    async def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Entries of the operations log, oldest first, filtered; it is never pruned."""
        ...

    async def events(self, query: EventQuery) -> list[Event]:
        """Facts, oldest first, filtered."""
        ...

    async def last_seq(self) -> int:
        """The highest stored seq, 0 when none: the feed continues after it."""
        ...

    async def prune(self, *, events: int) -> None:
        """Keep only the newest so many facts."""
        ...

    async def drop_requests(self, *, keep: int, before: float, most: int) -> tuple[int, int]:
        """Drop the oldest records: (received before that wall second, beyond the newest `keep`).

        At most `most` rows of each kind in one transaction.
        """
        ...

    async def request_bytes(self) -> float | None:
        """Bytes that one of the newest records takes on average; None: there is none."""
        ...

    async def check(self) -> dict[str, Any]:
        """Facts for /readyz and doctor: url without secrets, migration head, sizes."""
        ...

    async def close(self) -> None:
        """Flush and close."""
        ...
