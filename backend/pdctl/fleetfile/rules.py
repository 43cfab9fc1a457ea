"""What must agree between the sections of a fleet file, and with this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pdctl.domain import keys
from pdctl.domain.topology import FleetSpec, Mode, PoolSpec, PortBand, Role
from pdctl.fleetfile.mistakes import Key, dotted
from pdctl.fleetfile.reader import Findings
from pdctl.fleetfile.values import span

DEFAULT_ADMIN_PORT = 8080
_DEVICE = re.compile(r"(\d{1,4}|(GPU|MIG)-[0-9A-Za-z/-]+)(,(\d{1,4}|(GPU|MIG)-[0-9A-Za-z/-]+))*")
_CORES = re.compile(r"\d{1,4}(-\d{1,4})?([,|]\d{1,4}(-\d{1,4})?)*")
_ENGINE_KEYS: tuple[Key, ...] = ((), ("kind",), ("python",))
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def apply(fleet: FleetSpec, values: dict[str, Any], found: Findings) -> None:
    """Note every mistake that only shows between sections."""
    if not fleet.pools and not _bad_pools(values, found):
        hint = "Add [pools.prefill] and [pools.decode]."
        found.error(("pools",) if "pools" in values else (), "The fleet has no pools.", hint)
    _engine(fleet, found)
    _model(fleet, found)
    _slots(fleet, found)
    _mode(fleet, found)
    _ports(fleet, found)
    _lease(fleet, found)
    _keys(fleet, found)
    _objective(fleet, found)


def _objective(fleet: FleetSpec, found: Findings) -> None:
    name, known = fleet.router.slo, [slo.name for slo in fleet.slos]
    if name and name not in known:
        hint = f"Known: {', '.join(known)}." if known else f'Add [slo.{name}] with ttft = "500ms".'
        found.error(("router", "slo"), f"There is no [slo.{name}].", hint)
    if fleet.router.admission != "off" and not any(slo.ttft_ms for slo in fleet.slos):
        hint = 'For example [slo.chat] with ttft = "500ms", and router.slo = "chat".'
        found.error(("router", "admission"), "Admission needs an SLO with a ttft.", hint)


def _keys(fleet: FleetSpec, found: Findings) -> None:
    key, file = ("router", "keys_file"), fleet.router.keys_file
    if not file or found.said(key):
        return
    try:
        keys.parse(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        hint = f"`pdctl keys add NAME --keys-file {file}` makes it; until then nobody is let in."
        found.warn(key, f"The keys file cannot be read: {error.strerror}.", hint, named=False)
    except ValueError as error:  # KeysError, and text that is not UTF-8
        hint = "As long as it is wrong at the start, nobody is let in."
        found.warn(key, f"The keys file is wrong: {error}.", hint, named=False)


def _bad_pools(values: dict[str, Any], found: Findings) -> bool:
    """The pools are there under another name, or malformed: that was said already."""
    return any(one.key.startswith("pool") for one in found.mistakes) or bool(values.get("pools"))


def _engine(fleet: FleetSpec, found: Findings) -> None:
    engine = fleet.engine
    if engine.kind == "vllm" and engine.launcher == "simulated":
        hint = 'Set engine.kind = "simulated", or leave launcher out.'
        found.error(
            ("engine", "launcher"), "The simulated launcher runs only simulated engines.", hint
        )
    if engine.kind != "vllm" or any(found.said(("engine", *key)) for key in _ENGINE_KEYS):
        return
    if not engine.python:
        hint = 'Name the interpreter that has vLLM: python = "~/engine/bin/python".'
        found.error(("engine",), "[engine] has no `python`.", hint, named=True)
    elif not Path(engine.python).is_file():
        hint = "`make engine` builds the CPU environment; on GPUs: pip install vllm nixl."
        message = f"engine.python does not exist: {engine.python}."
        found.error(("engine", "python"), message, hint)
    elif not os.access(engine.python, os.X_OK):
        message = f"engine.python is not executable: {engine.python}."
        found.error(("engine", "python"), message, "Name the interpreter itself.")


def _model(fleet: FleetSpec, found: Findings) -> None:
    key = ("fleet", "model")
    if fleet.engine.kind != "vllm" or not fleet.model.startswith("/") or found.said(key):
        return
    path = Path(fleet.model)
    if not path.exists():
        hint = 'Correct the path, or give a hub name like "org/model".'
        found.error(key, f"fleet.model does not exist: {fleet.model}.", hint)
    elif path.is_dir() and not any(
        (path / name).is_file() for name in ("config.json", "params.json")
    ):
        hint = "vLLM reads the model's shape from config.json (or params.json)."
        found.error(key, f"fleet.model is a folder without a model: {fleet.model}.", hint)


def _slots(fleet: FleetSpec, found: Findings) -> None:
    owners: dict[tuple[str, str], str] = {}
    for pool in fleet.pools:
        key: Key = ("pools", pool.name)
        if pool.devices and pool.cores:
            hint = "devices are for GPU engines, cores for CPU engines."
            found.error((*key, "cores"), f"The pool {pool.name} has devices and cores.", hint)
        for kind, entries in (("devices", pool.devices), ("cores", pool.cores)):
            _size(pool, kind, entries, found)
            for index, entry in enumerate(entries):
                _occupy(owners, pool, (*key, kind, index), entry, found)
        if fleet.engine.kind == "vllm":
            _here(pool, found)


def _size(pool: PoolSpec, kind: str, entries: tuple[str, ...], found: Findings) -> None:
    if entries and pool.size > len(entries):
        what = kind.removesuffix("s") if len(entries) == 1 else kind
        message = f"The pool {pool.name} has size {pool.size} and only {len(entries)} {what}."
        hint = "Each instance needs an entry of its own: add entries, or make the pool smaller."
        found.error(("pools", pool.name, "size"), message, hint)


def _here(pool: PoolSpec, found: Findings) -> None:
    """A warning only: the file may be written on one machine for another."""
    usable = {str(number) for number in os.sched_getaffinity(0)}
    for index, entry in enumerate(pool.cores):
        key: Key = ("pools", pool.name, "cores", index)
        absent = [unit for unit in _units(entry) if unit not in usable]
        if absent and _CORES.fullmatch(entry) and not found.said(key):
            message = f"This machine gives pdctl no core {absent[0]}."
            hint = f"Cores here: {', '.join(sorted(usable, key=int)[:16])}."
            found.warn(key, message, hint, named=False)


def _occupy(
    owners: dict[tuple[str, str], str], pool: PoolSpec, key: Key, entry: str, found: Findings
) -> None:
    kind = str(key[-2])
    pattern, example = (_DEVICE, '"0" or "0,1"') if kind == "devices" else (_CORES, '"0" or "0-3"')
    if not pattern.fullmatch(entry):
        message = f"{dotted(key)} cannot be {entry[:40]!r}."
        found.error(key, message, f"For example {example}.")
        return
    here = f"{pool.name}[{key[-1]}]"
    for unit in dict.fromkeys(_units(entry)):
        owner = owners.setdefault((kind, unit), here)
        if owner != here:
            name = owner.partition("[")[0]
            where = "twice to this pool" if name == pool.name else f"to the pool {name} already"
            message = f"The {kind.removesuffix('s')} {unit} is given {where}."
            found.error(key, message, "Two instances never share one.")
            return


def _units(entry: str) -> Iterator[str]:
    """The single devices or cores of an entry: "0-2,5" is 0, 1, 2 and 5."""
    for part in re.split(r"[,|]", entry):
        low, dash, high = part.partition("-")
        if dash and low.isdecimal() and high.isdecimal():
            yield from (str(number) for number in range(int(low), int(high) + 1))
        else:
            yield str(int(part)) if part.isdecimal() else part


def _mode(fleet: FleetSpec, found: Findings) -> None:
    if fleet.mode is not Mode.PD or not fleet.pools:
        return

    def total(*roles: Role) -> int:
        return sum(pool.size for pool in fleet.pools if pool.role in roles)

    for role in (Role.PREFILL, Role.DECODE):
        if not total(role, Role.BOTH):
            message = f'The mode is "pd" and no pool has the role {role.value}.'
            hint = f'Add a {role.value} pool, or set mode = "chunked".'
            found.error(("fleet", "mode"), message, hint)
            return
    if total(Role.PREFILL, Role.DECODE, Role.BOTH) < 2:
        hint = 'Give the pool size 2 or more, or set mode = "chunked".'
        message = 'The mode is "pd" and there is one instance only: it has no peer.'
        found.error(("fleet", "mode"), message, hint)


def _ports(fleet: FleetSpec, found: Findings) -> None:
    http, side = fleet.http_ports, fleet.side_channel_ports
    bands = {"http": http, "side_channel": side}
    # A band that could not be read has its default here: nothing true can be said of it.
    bands = {name: band for name, band in bands.items() if not found.said(("ports", name))}
    if len(bands) == 2 and http.overlaps(side):
        low, high = max(http.first, side.first), min(http.last, side.last)
        both = str(low) if low == high else f"{low}-{high}"
        message = f"ports.http and ports.side_channel overlap at {both}."
        found.error(("ports", "side_channel"), message, "Give each port to one of them.")
    admin = admin_port()
    if fleet.router.port == admin:
        hint = "Set router.port to another, or PDCTL_ADMIN_PORT."
        found.error(("router", "port"), f"router.port {admin} is the admin API's port.", hint)
    for name, band in bands.items():
        for owner, port in (("router.port", fleet.router.port), ("the admin API's port", admin)):
            if port in band:
                message = f"ports.{name} contains {owner} {port}."
                found.error(("ports", name), message, "Move the band, or that port.")
    _room(fleet, bands, found)
    _ephemeral(bands, found)


def _room(fleet: FleetSpec, bands: dict[str, PortBand], found: Findings) -> None:
    need = {
        "http": sum(pool.size for pool in fleet.pools),
        "side_channel": sum(
            pool.size * ranks(fleet, pool, "data-parallel-size") for pool in fleet.pools
        ),
    }
    what = {"http": "one for each instance", "side_channel": "one for each data-parallel rank"}
    for name, band in bands.items():
        room = band.last - band.first + 1
        if room < need[name]:
            ports = "1 port" if room == 1 else f"{room} ports"
            message = f"ports.{name} has {ports}, and the pools need {need[name]}: {what[name]}."
            hint = f'For example "{band.first}-{band.first + need[name] - 1}".'
            found.error(("ports", name), message, hint)


def ranks(fleet: FleetSpec, pool: PoolSpec, flag: str) -> int:
    """A parallel size of a pool's instances; 1 when it is not set or not a number."""
    text = str({**dict(fleet.engine.args), **dict(pool.args)}.get(flag, 1))
    return int(text) if text.isdecimal() and len(text) < 6 and int(text) else 1


def _ephemeral(bands: dict[str, PortBand], found: Findings) -> None:
    try:
        first, last = (int(part) for part in _EPHEMERAL.read_text().split())
    except (OSError, ValueError):
        return
    taken = PortBand(first, last)
    for name, band in bands.items():
        if band.overlaps(taken):
            message = f"ports.{name} {band} lies in the system's ephemeral range {taken}."
            hint = "Outgoing connections take ports there at random: choose a band outside it."
            found.warn(("ports", name), message, hint)


def _lease(fleet: FleetSpec, found: Findings) -> None:
    lease = fleet.connector.lease_s
    if found.said(("connector", "lease")):
        return  # what could not be read has its default here: nothing true can be said of it
    for pool in fleet.pools:
        if pool.role is Role.DECODE or lease < pool.shutdown_timeout_s:
            continue
        if found.said(("pools", pool.name, "shutdown_timeout")):
            continue
        message = (
            f"The lease ({span(lease)}) is not shorter than the shutdown_timeout of the pool "
            f"{pool.name} ({span(pool.shutdown_timeout_s)})."
        )
        hint = "A stopping prefill would be killed while its KV is still promised."
        present: Callable[[Key], bool] = found.places.places.__contains__
        own: Key = ("pools", pool.name, "shutdown_timeout")
        found.error(own if present(own) else ("connector", "lease"), message, hint)


def admin_port() -> int:
    """The admin API's port as `pdctl serve` would take it from this environment."""
    given = os.environ.get("PDCTL_ADMIN_PORT", "")
    return int(given) if given.isdecimal() else DEFAULT_ADMIN_PORT
