"""Whether an engine that runs without a supervisor may become an instance of a pool: pure.

Law: it is taken as it runs, on its own ports and device, or refused in a sentence that says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdctl.domain.errors import ConflictError
from pdctl.domain.instance import Slot
from pdctl.domain.orphans import SIMULATED, Family, Found, Kind
from pdctl.domain.placement import Holding, overlap, ports
from pdctl.domain.topology import FleetSpec, Mode, PoolSpec, PortBand, Role

_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer", "both": "kv_both"}
_FITS = {
    Role.PREFILL: ("kv_producer", "kv_both"),
    Role.DECODE: ("kv_consumer", "kv_both"),
    Role.BOTH: ("kv_both",),
}
_LAYOUT = (
    "attention-backend", "block-size", "chat-template", "data-parallel-size", "dtype",
    "kv-cache-dtype", "load-format", "max-model-len", "pipeline-parallel-size", "quantization",
    "revision", "speculative-config", "tensor-parallel-size", "tokenizer",
)  # fmt: skip
"""Arguments on which both ends of a handoff must agree."""
KILL_IT = "`pdctl orphans kill` ends it; the pool then starts its own."


@dataclass(frozen=True, slots=True)
class Flags:
    """What an engine's own command line and environment say of it."""

    model: str = ""
    served: str = ""
    port: int | None = None
    side_channel: int | None = None
    connector: str = ""
    kv_role: str = ""
    shutdown_timeout_s: int = 0
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """How it becomes an instance."""

    slot: Slot
    shutdown_timeout_s: int
    warning: str = ""


def flags_of(family: Family) -> Flags:
    """What its command line says; empty fields for an engine without an API server."""
    leader = family.leader
    if not leader.serves:
        return Flags()
    given = options(leader.words)
    port = _number(given.get("port", "8000"))
    timeout = _number(given.get("shutdown-timeout", "0")) or 0
    side = family.variable("VLLM_NIXL_SIDE_CHANNEL_PORT") or "5600"
    if SIMULATED in leader.words:
        served = given.get("served-model-name") or given.get("model-name") or "tiny"
        role = "" if "no-kv-connector" in given else _ROLES.get(given.get("role", "both"), "")
        connector = SIMULATED if role else ""
        side = given.get("side-channel-port") or side
        return Flags(
            served, served, port, _number(side), connector, role, timeout, simulated=True
        )  # fmt: skip
    model = given.get("model") or _after(leader.words, "serve")
    served = given.get("served-model-name") or model
    kv = _config(given.get("kv-transfer-config", ""))
    connector, role = str(kv.get("kv_connector", "")), str(kv.get("kv_role", ""))
    return Flags(model, served, port, _number(side) if kv else None, connector, role, timeout)


def fit(found: Found, fleet: FleetSpec, pool: PoolSpec, held: Sequence[Holding]) -> Fit:
    """How it becomes the next instance of `pool`; ConflictError when it cannot."""
    _refuse_taken(found)
    flags = flags_of(found.family)
    _refuse_other(flags, fleet, pool)
    slot = _slot(found.family, flags, fleet, pool, held)
    differs = _differs(found.family, fleet, pool)
    if differs and fleet.mode is Mode.PD:
        raise _no(
            "other_layout", f"Its {differs}: no handoff with this fleet's instances would work.",
            "In chunked mode it can serve: `pdctl mode chunked`, then adopt it.",
        )  # fmt: skip
    warning = f"Its {differs}: it can serve whole requests only." if differs else ""
    return Fit(slot, flags.shutdown_timeout_s, warning)


def options(words: Sequence[str]) -> dict[str, str]:
    """The options of a command line by their dashed names; a bare flag is empty."""
    given: dict[str, str] = {}
    name = ""
    for word in words[1:]:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("_", "-")
            given[name] = value
            name = "" if equals else name
        elif name:
            given[name] = word
            name = ""
    return given


def _refuse_taken(found: Found) -> None:
    """It must have nobody who answers for it, and still be whole."""
    leader = found.family.leader
    if found.kind is Kind.ADOPTED:
        raise _no("adopted_already", f"It is {found.instance} of this fleet already.")
    if found.supervised:
        raise _no(
            "supervised", f"{found.why} That pdctl supervises it.",
            "Stop it there, or let that pdctl serve it.",
        )  # fmt: skip
    if not leader.serves:
        raise _no(
            "no_server", f"Process {leader.pid} is a {leader.part} without an API server.", KILL_IT
        )
    if not leader.readable:
        raise _no(
            "not_permitted", f"It belongs to user {leader.user}.",
            "Run pdctl as that user, or start the engine as the user that runs pdctl.",
        )  # fmt: skip


def _refuse_other(flags: Flags, fleet: FleetSpec, pool: PoolSpec) -> None:
    """It must be what this pool is made of."""
    simulated = fleet.engine.kind == "simulated"
    if flags.simulated is not simulated:
        kinds = ("a simulated engine", "vLLM")
        has, wants = kinds if flags.simulated else reversed(kinds)
        raise _no("other_kind", f"It is {has}, and this fleet runs {wants}.", KILL_IT)
    if flags.served != fleet.served_name:
        raise _no(
            "other_model",
            f"It serves {flags.served or 'a model that its command line does not name'}, and this "
            f"fleet serves {fleet.served_name}.", KILL_IT,
        )  # fmt: skip
    if not flags.kv_role:
        raise _no(
            "no_connector", "It was started without a KV connector, so it can hand nothing over.",
            KILL_IT,
        )  # fmt: skip
    if not (simulated or fleet.connector.name in flags.connector.lower()):
        raise _no(
            "other_connector",
            f"It uses {flags.connector}, and this fleet hands over by {fleet.connector.name}.",
            KILL_IT,
        )
    if flags.kv_role not in _FITS[Role.BOTH if pool.elastic else pool.role]:
        raise _no(
            "other_role", f"Its kv_role is {flags.kv_role}; {pool.name} is a {pool.role} pool.",
            "Adopt it into a pool of its own role.",
        )  # fmt: skip


def _slot(
    family: Family, flags: Flags, fleet: FleetSpec, pool: PoolSpec, held: Sequence[Holding]
) -> Slot:
    http = _port("HTTP port", flags.port, fleet.http_ports, "http_ports")
    side = _port(
        "side-channel port", flags.side_channel, fleet.side_channel_ports, "side_channel_ports"
    )
    if http not in family.ports:
        raise _no(
            "not_listening", f"It does not listen on its port {http} yet.",
            "Wait until it has loaded its model, or see what it writes.",
        )  # fmt: skip
    holder = next((one.owner for one in held if {http, side} & set(ports(one))), "")
    if holder:
        raise _no("port_held", f"{holder} has port {http} or {side} already.", KILL_IT)
    device = family.variable("CUDA_VISIBLE_DEVICES")
    core = family.variable("VLLM_CPU_OMP_THREADS_BIND")
    index = _index(pool, device, core, held)
    slot = Slot(index, http, side, device, core)
    if holder := next((one.owner for one in held if overlap(slot, one.slot)), ""):
        raise _no("seat_held", f"{holder} has {device or core} already.", KILL_IT)
    return slot


def _port(what: str, port: int | None, band: PortBand, name: str) -> int:
    if port is None:
        raise _no("no_port", f"Its command line does not say its {what}.", KILL_IT)
    if port not in band:
        raise _no(
            "port_outside", f"Its {what} {port} is outside {name} {band} of this fleet.",
            f"Widen {name} in the fleet file; or: {KILL_IT}",
        )  # fmt: skip
    return port


def _index(pool: PoolSpec, device: str, core: str, held: Sequence[Holding]) -> int:
    """Its place in the pool's own lists; the lowest free number when the pool has none."""
    for what, has, entries in (("device", device, pool.devices), ("core", core, pool.cores)):
        if entries and has not in entries:
            said = f"It runs on {what} {has}" if has else f"It names no {what}"
            raise _no(
                "other_seat", f"{said}; {pool.name} may use {what}s {', '.join(entries)}.", KILL_IT
            )
        if entries:
            return entries.index(has)
    mine = {one.slot.index for one in held if one.pool == pool.name}
    return next(n for n in range(len(mine) + 1) if n not in mine)


def _differs(family: Family, fleet: FleetSpec, pool: PoolSpec) -> str:
    """Which arguments that a handoff depends on are not this pool's, in words."""
    wanted = _spelt(fleet.engine.args) | _spelt(pool.args)
    given = options(family.leader.words)
    model = flags_of(family).model
    said = []
    if fleet.engine.kind != "simulated" and model != fleet.model:
        said.append(f"model is {model}, not {fleet.model}")
    said += [
        f"{name} is {given.get(name, 'the default')}, not {wanted.get(name, 'the default')}"
        for name in _LAYOUT
        if given.get(name) != wanted.get(name)
    ]
    return ", ".join(said)


def _spelt(args: Iterable[tuple[str, Any]]) -> dict[str, str]:
    return {
        name.lstrip("-").replace("_", "-"): "" if value is True else str(value)
        for name, value in args
    }


def _after(words: Sequence[str], name: str) -> str:
    following = words[words.index(name) + 1 :] if name in words else ()
    return following[0] if following and not following[0].startswith("-") else ""


def _config(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(text: str) -> int | None:
    whole = text.partition(".")[0]
    return int(whole) if whole.isdecimal() else None


def _no(code: str, message: str, hint: str = "") -> ConflictError:
    return ConflictError(code, message, hint)
