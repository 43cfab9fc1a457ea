"""Desired state: what the operator wants, as one frozen value (written by operators only).

Parsed from a fleet file by `pdctl.fleetfile`; nothing here knows TOML. Units are in the names:
`_s` seconds, `_ms` milliseconds, `_bytes` bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum

from pdctl.domain.ids import InstanceId, PoolName

ArgValue = str | int | float | bool
"""One vLLM argument: True is `--flag`, False is `--no-flag`, anything else `--flag value`."""


class Role(StrEnum):
    """What a pool is for. vLLM's own kv_role belongs to the connector, not here."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


class Mode(StrEnum):
    """How new requests are routed: whole on one instance, or handed from prefill to decode."""

    CHUNKED = "chunked"
    PD = "pd"


@dataclass(frozen=True, slots=True)
class PortBand:
    """An inclusive range of TCP ports that pdctl may give to instances."""

    first: int
    last: int

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last

    def overlaps(self, other: PortBand) -> bool:
        """True when a port belongs to both bands."""
        return self.first <= other.last and other.first <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The engine's own environment: executed, never imported."""

    kind: str = "vllm"
    """What is executed: "vllm" or "simulated" (our own stand-in, always labelled as such)."""
    launcher: str = "subprocess"
    """How: "subprocess" (one shim and process tree each) or "simulated" (all inside pdctl)."""
    python: str = ""
    """Interpreter of the environment that holds vLLM and NIXL; empty for simulated engines."""
    args: tuple[tuple[str, ArgValue], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    start_timeout_s: float = 900.0
    """How long an instance may go without visible loading progress before the start is given up."""


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """The KV connector and its options (vLLM --kv-transfer-config)."""

    name: str = "nixl"
    lease_s: int = 30
    """kv_lease_duration: how long prefill keeps un-pulled KV blocks (nixl/base_scheduler.py)."""
    buffer_device: str = "cuda"
    options: tuple[tuple[str, ArgValue], ...] = ()
    """Passed through as kv_connector_extra_config."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A set of interchangeable instances of one role."""

    name: PoolName
    role: Role
    size: int
    args: tuple[tuple[str, ArgValue], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    """One entry per possible instance, each a CUDA_VISIBLE_DEVICES value ("0" or "0,1")."""
    cores: tuple[str, ...] = ()
    """One entry per possible instance, each a VLLM_CPU_OMP_THREADS_BIND value ("0" or "0-3")."""
    shutdown_timeout_s: int = 60
    """vLLM --shutdown-timeout: drain budget after SIGTERM; longer than the lease for prefill."""
    drain_timeout_s: float = 300.0
    """How long the router's streams may finish before SIGTERM is sent all the same."""
    surge: int = 1
    """How many may run beyond `size` while launch flags change or the pool is restarted: the new
    ones start before old ones go, where a slot is free. 0: old ones go first, always."""
    elastic: bool = False
    """Launched so that it can serve either role: elastic pools exchange instances as they run."""
    kv_events: bool = False
    """Launched so that it publishes what its KV cache holds, for the policy of that name."""


@dataclass(frozen=True, slots=True)
class RouterSpec:
    """Limits and policies of the front door."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    """Processes that share the front door; 0: it is served by the control plane's own process."""
    prefill_policy: str = "least_loaded"
    decode_policy: str = "least_loaded"
    pd_min_prompt_tokens: int = 0
    """Prompt tokens (estimated, not cached) from which on a request is handed over; 0: always."""
    max_inflight_per_instance: int = 256
    queue_limit: int = 1024
    queue_timeout_s: float = 30.0
    connect_timeout_s: float = 5.0
    first_byte_timeout_s: float = 600.0
    stall_timeout_s: float = 120.0
    slow_client_timeout_s: float = 60.0
    """How long a client may neither send its body nor take its answer before it is left."""
    retries: int = 1
    slo: str = ""
    """Name of the objective that requests are routed by; empty: by none."""
    admission: str = "off"
    """What becomes of a request that would miss it: "off" (it is sent), "queue" or "refuse"."""
    max_body_bytes: int = 32 * 1024 * 1024
    keys_file: str = ""
    """Absolute path of the API keys of clients; empty: everybody is let in."""


@dataclass(frozen=True, slots=True)
class SloSpec:
    """A named service level objective; None means no bound."""

    name: str
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class GoldenSpec:
    """The golden check: P/D and whole must answer alike."""

    every_s: float | None = None
    """How often it is made; None: only when asked for."""
    prompt: str = ""
    """Empty: pdctl's own."""
    tokens: int = 32
    """Compared at most."""


@dataclass(frozen=True, slots=True)
class SignalRuleSpec:
    """What a fleet file says of one signal; None leaves the rule as it is."""

    name: str
    enabled: bool = True
    threshold: float | None = None
    for_s: float | None = None
    severity: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookSpec:
    """Who is told of signals over HTTP."""

    url_secret: str = ""
    """Itself or a reference to it (env:NAME, file:PATH); empty: nobody. Never shown."""
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class SignalsSpec:
    """What is watched, and who is told."""

    enabled: bool = True
    objective: float = 0.99
    """The share of requests that shall meet each [slo.*]; the rest is the budget."""
    rules: tuple[SignalRuleSpec, ...] = ()
    webhook: WebhookSpec = WebhookSpec()


@dataclass(frozen=True, slots=True)
class Orders:
    """Standing orders about single instances: part of the desired fleet, so as durable as it is."""

    drained: tuple[InstanceId, ...] = ()
    """Kept out of rotation, process and seat included, until undrained."""
    leaving: tuple[tuple[InstanceId, int], ...] = ()
    """(id, generation): these go first when their pool shrinks."""
    moved: tuple[tuple[InstanceId, int, PoolName], ...] = ()
    """(id, generation, pool): this process belongs to that pool, whatever it was launched for."""
    renew: tuple[tuple[InstanceId, int], ...] = ()
    """(id, generation): these starts are replaced, as if their flags were old."""


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """The whole desired fleet. `revision` grows with every accepted change."""

    name: str
    model: str
    served_name: str
    mode: Mode
    engine: EngineSpec
    connector: ConnectorSpec
    pools: tuple[PoolSpec, ...]
    router: RouterSpec = RouterSpec()
    http_ports: PortBand = PortBand(18000, 18099)
    side_channel_ports: PortBand = PortBand(18100, 18299)
    slos: tuple[SloSpec, ...] = ()
    signals: SignalsSpec = SignalsSpec()
    golden: GoldenSpec = GoldenSpec()
    revision: int = 0
    file_mode: Mode | None = None
    """The mode that the fleet file names, so that a live switch is told from an edited file."""
    file_digest: str = ""
    """Of the file that this fleet was first served from: an edited file is told from live verbs."""
    applied_digest: str = ""
    """Of the file that was last applied to it as it ran; a restart with that one resumes, too."""
    orders: Orders = Orders()
    source: str = field(default="", compare=False)
    """Path of the fleet file, for messages only."""

    def pool(self, name: str) -> PoolSpec | None:
        """The pool called `name`, or None."""
        return next((pool for pool in self.pools if pool.name == name), None)

    @property
    def shape(self) -> str:
        """The field's short form, e.g. "1p1d", "2p0d"; BOTH pools count as "b"."""
        letters = {Role.PREFILL: "p", Role.DECODE: "d", Role.BOTH: "b"}
        sizes = {role: [pool.size for pool in self.pools if pool.role is role] for role in letters}
        said = [f"{sum(sizes[role])}{letter}" for role, letter in letters.items() if sizes[role]]
        return "".join(said) or "no pools"


def fingerprint(fleet: FleetSpec, pool: PoolSpec) -> str:
    """Hash of everything that changes an instance's launch: a resize is never a redeploy."""
    launch: tuple[object, ...] = (
        fleet.model, fleet.served_name,
        fleet.engine.kind, fleet.engine.launcher, fleet.engine.python,
        sorted(fleet.engine.args), sorted(fleet.engine.env),
        fleet.connector.name, fleet.connector.lease_s, fleet.connector.buffer_device,
        sorted(fleet.connector.options),
        "elastic" if pool.elastic else pool.role.value,
        sorted(pool.args), sorted(pool.env), pool.shutdown_timeout_s,
    )  # fmt: skip
    if pool.kv_events:
        launch = (*launch, "kv_events")  # others keep the hash that they were launched with
    return hashlib.sha256(json.dumps(launch, default=str).encode()).hexdigest()[:12]
