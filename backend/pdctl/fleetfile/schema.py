"""The keys of a fleet file, section by section, and the FleetSpec they make.

Once shipped a key keeps working. Cross-checks between sections are in `rules` and `vllm_rules`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pdctl.domain.ids import PoolName
from pdctl.domain.topology import (
    ArgValue,
    ConnectorSpec,
    EngineSpec,
    FleetSpec,
    GoldenSpec,
    Mode,
    PoolSpec,
    Role,
    RouterSpec,
    SloSpec,
)  # fmt: skip
from pdctl.fleetfile import keys, publishing, signals
from pdctl.fleetfile import values as v
from pdctl.fleetfile.mistakes import Key, dotted, nearest
from pdctl.fleetfile.paths import expand, reference
from pdctl.fleetfile.reader import Field, Findings, section, table, value_of

SECTIONS = ("fleet", "engine", "connector", "pools", "router", "ports", "slo", "signals", "golden")
POOL_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_ROLES = tuple(role.value for role in Role)


def build(values: dict[str, Any], found: Findings, path: Path) -> FleetSpec:
    """The fleet that `values` describe; what cannot be read has its default and a mistake."""
    fields = keys.every()
    homes = {name: part for part in reversed(SECTIONS) for name in fields[part]}
    homes |= dict.fromkeys(fields["pools"], "pools.<name>")
    homes |= dict.fromkeys(fields["slo"], "slo.<name>")
    top = section(found, (), values, fields[""], homes)

    def part(name: str) -> dict[str, Any]:
        return section(found, (name,), top[name] or {}, fields[name], homes)

    engine = _engine(part("engine"), found, path)
    simulated = engine.kind == "simulated"
    fleet = part("fleet")
    model = fleet["model"] or ""
    if model and not simulated:
        model = expand(model, path, found, ("fleet", "model"), only_paths=True)
    pools = _pools(top["pools"], found, path, fields["pools"])
    ports = part("ports")
    spec = FleetSpec(
        name=fleet["name"] or path.stem,
        model=model,
        served_name=fleet["served_name"] or _served_name(model),
        mode=Mode(fleet["mode"]),
        engine=engine,
        connector=_connector(part("connector"), found, any(pool.cores for pool in pools)),
        pools=pools,
        router=_router(part("router"), found, path),
        http_ports=ports["http"],
        side_channel_ports=ports["side_channel"],
        slos=_slos(top["slo"], found, fields["slo"]),
        golden=_golden(part("golden")),
        signals=signals.read(top["signals"], found, path),
        source=str(path),
    )
    return publishing.resolved(spec, values)


def _served_name(model: str) -> str:
    """As vLLM does for a hub name; a folder's own name for a path."""
    return Path(model).name if model.startswith("/") else model


def _engine(given: dict[str, Any], found: Findings, path: Path) -> EngineSpec:
    python = given["python"] or ""
    if python:
        python = expand(python, path, found, ("engine", "python"))
    default = "simulated" if given["kind"] == "simulated" else "subprocess"
    return EngineSpec(
        kind=given["kind"],
        launcher=given["launcher"] or default,
        python=python,
        args=args(given["args"], found, ("engine", "args")),
        env=env(given["env"], found, ("engine", "env"), path),
        start_timeout_s=given["start_timeout"],
    )


def _connector(given: dict[str, Any], found: Findings, on_cpu: bool) -> ConnectorSpec:
    key = ("connector", "options")
    options = [
        (str(name).replace("-", "_"), value_of(found, (*key, name), value, v.single, None))
        for name, value in table(found, key, given["options"]).items()
    ]
    return ConnectorSpec(
        name=given["name"],
        lease_s=given["lease"],
        buffer_device=given["buffer_device"] or ("cpu" if on_cpu else "cuda"),
        options=tuple((name, value) for name, value in options if value is not None),
    )


def _router(given: dict[str, Any], found: Findings, path: Path) -> RouterSpec:
    given = dict(given)
    for name in (
        "queue_timeout", "connect_timeout", "first_byte_timeout", "stall_timeout",
        "slow_client_timeout",
    ):  # fmt: skip
        given[f"{name}_s"] = given.pop(name)
    given["max_body_bytes"] = given.pop("max_body")
    file = given["keys_file"]
    given["keys_file"] = expand(file, path, found, ("router", "keys_file")) if file else ""
    return RouterSpec(**given)


def _golden(given: dict[str, Any]) -> GoldenSpec:
    return GoldenSpec(given["every"], given["prompt"] or "", given["tokens"])


def _slos(value: Any, found: Findings, fields: dict[str, Field]) -> tuple[SloSpec, ...]:
    result = []
    for name, given in table(found, ("slo",), value).items():
        bounds = section(found, ("slo", name), given, fields)
        if isinstance(given, dict) and not given:
            hint = 'Give ttft, tpot or itl_p99, for example ttft = "500ms".'
            found.error(("slo", name), f"slo.{name} bounds nothing.", hint, named=True)
        ms = {f"{key}_ms": None if s is None else s * 1000 for key, s in bounds.items()}
        result.append(SloSpec(name=name, **ms))
    return tuple(result)


def _pools(
    value: Any, found: Findings, path: Path, fields: dict[str, Field]
) -> tuple[PoolSpec, ...]:
    pools = []
    for name, given in table(found, ("pools",), value).items():
        if not isinstance(given, dict) and name in fields:
            hint = f"Put it under the pool's own header, for example [pools.prefill]: {name} = ..."
            found.error(("pools", name), f"`{name}` stands outside a pool.", hint, named=True)
            continue
        if not POOL_NAME.fullmatch(name):
            message = f"A pool cannot be called {v.shown(name)}."
            hint = "Use lower-case letters, digits and dashes, at most 32: it names instances."
            found.error(("pools", name), message, hint, named=True)
        pools.append(_pool(name, section(found, ("pools", name), given, fields), found, path))
    return tuple(pools)


def _pool(name: str, given: dict[str, Any], found: Findings, path: Path) -> PoolSpec:
    key: Key = ("pools", name)
    role = given["role"] or (name if name in _ROLES else None)
    if role is None and not found.said((*key, "role")):
        close = nearest(name, _ROLES, cutoff=0.75)
        hint = f'Add role = "prefill", "decode" or "both" to [{dotted(key)}].'
        hint = f"Did you mean [pools.{close}]? Otherwise: {hint}" if close else hint
        found.error(key, f"The pool {name} has no role.", hint, named=True)
    devices = _slots(given["devices"], found, (*key, "devices"))
    cores = _slots(given["cores"], found, (*key, "cores"))
    return PoolSpec(
        name=PoolName(name),
        role=Role(role or "both"),
        size=given["size"] or len(devices) or len(cores) or 1,
        args=args(given["args"], found, (*key, "args")),
        env=env(given["env"], found, (*key, "env"), path),
        devices=devices,
        cores=cores,
        shutdown_timeout_s=given["shutdown_timeout"],
        drain_timeout_s=given["drain_timeout"],
        surge=given["surge"],
        elastic=given["elastic"],
    )


def _slots(given: list[Any] | None, found: Findings, key: Key) -> tuple[str, ...]:
    """Devices or cores, one entry per possible instance; whole numbers are as good as text."""
    result = []
    for index, entry in enumerate(given or []):
        if isinstance(entry, bool) or not isinstance(entry, str | int):
            message = f"{dotted((*key, index))} must be text, not {v.shown(entry)}."
            found.error((*key, index), message, 'For example "0" or "0,1".')
            continue
        result.append(str(entry).replace(" ", ""))
    if given == []:
        found.error(
            key, f"{dotted(key)} is empty.", "Give one entry per instance, or leave it out."
        )
    return tuple(result)


def args(value: Any, found: Findings, key: Key) -> tuple[tuple[str, ArgValue], ...]:
    """vLLM arguments by their long names: dashes or underscores, with or without leading "--"."""
    result: dict[str, ArgValue] = {}
    for name, given in table(found, key, value).items():
        here = (*key, name)
        flag = name.removeprefix("--").replace("_", "-")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*", flag):
            found.error(here, f"{v.shown(name)} cannot be an argument's name.", named=True)
        elif flag in result:
            found.error(here, f"--{flag} is given twice in [{dotted(key)}].", named=True)
        elif (read := value_of(found, here, given, v.argument, None)) is not None:
            result[flag] = read
    return tuple(result.items())


def env(value: Any, found: Findings, key: Key, path: Path) -> tuple[tuple[str, str], ...]:
    """Environment variables; "env:NAME" and "file:PATH" are references, read at launch."""
    result: dict[str, str] = {}
    for name, given in table(found, key, value).items():
        here = (*key, name)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            found.error(here, f"{v.shown(name)} cannot be a variable's name.", named=True)
            continue
        read = value_of(found, here, given, v.variable, None)
        if read is not None:
            result[name] = reference(read, path, found, here)
    return tuple(result.items())
