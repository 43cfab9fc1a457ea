"""What vLLM 0.32 would reject, or quietly do otherwise, known before anything is launched.

Sources: NixlConnector's compatibility hash (v1/nixl/metadata.py), its option names
(base_scheduler.py, base_worker.py), envs.py, and the OpenAI server's argument list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pdctl.domain.topology import ArgValue, FleetSpec, PoolSpec, Role
from pdctl.fleetfile.mistakes import Key, dotted, nearest
from pdctl.fleetfile.reader import Findings
from pdctl.fleetfile.rules import ranks
from pdctl.fleetfile.values import shown
from pdctl.fleetfile.vllm_flags import FLAGS, SHORT, misfit

_LOOPBACK = "Engines listen on loopback only; clients reach them through the router."
RESERVED_ARGS = {
    "port": "Set ports.http: pdctl gives each instance a port of it.",
    "host": _LOOPBACK,
    "uds": _LOOPBACK,
    "model": "Set fleet.model.",
    "model-tag": "Set fleet.model.",
    "served-model-name": "Set fleet.served_name.",
    "kv-transfer-config": "Set [connector], and its [connector.options].",
    "shutdown-timeout": "Set shutdown_timeout of the pool.",
    "config": "Write the arguments here, where pdctl can see them.",
    "api-key": _LOOPBACK,
    "ssl-keyfile": _LOOPBACK,
    "ssl-certfile": _LOOPBACK,
    "root-path": _LOOPBACK,
    "headless": "pdctl runs whole instances.",
    "device-ids": "Set devices of the pool.",
    "data-parallel-rank": "pdctl runs whole instances: set data-parallel-size only.",
    "data-parallel-start-rank": "pdctl runs whole instances: set data-parallel-size only.",
    "data-parallel-external-lb": "pdctl's router is the load balancer.",
    "data-parallel-hybrid-lb": "pdctl's router is the load balancer.",
    "data-parallel-multi-port-external-lb": "pdctl's router is the load balancer.",
}
RESERVED_ENV = {
    "VLLM_PORT": "Leave it out: it makes instances take each other's internal ports.",
    "VLLM_NIXL_SIDE_CHANNEL_PORT": "Set ports.side_channel.",
    "VLLM_PROCESS_NAME_PREFIX": "Leave it out: pdctl names processes after their instance.",
    "VLLM_API_KEY": _LOOPBACK,
    "CUDA_VISIBLE_DEVICES": "Set devices of the pool.",
    "VLLM_CPU_OMP_THREADS_BIND": "Set cores of the pool.",
}
GONE_ENV = {
    "VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "It changes nothing in vLLM 0.32: set connector.lease.",
    "VLLM_USE_V1": "It changes nothing in vLLM 0.32: there is one engine.",
}
MUST_MATCH = (
    "dtype", "kv-cache-dtype", "block-size", "attention-backend", "quantization", "revision",
    "hf-overrides", "hf-config-path", "tokenizer", "tokenizer-revision", "speculative-config",
    "disable-hybrid-kv-cache-manager", "pipeline-parallel-size", "decode-context-parallel-size",
    "model-impl",
)  # fmt: skip
"""Arguments that prefill and decode must share, or the handshake (or the answer) is wrong."""
DEFAULTS = {"dtype": "auto", "kv-cache-dtype": "auto", "model-impl": "auto"} | dict.fromkeys(
    ("pipeline-parallel-size", "decode-context-parallel-size"), "1"
)
MUST_MATCH_ENV = ("VLLM_ATTENTION_BACKEND", "VLLM_KV_CACHE_LAYOUT")
CONNECTOR_OPTIONS = (
    "num_threads", "engine_ttl", "enforce_handshake_compat", "bidirectional_kv_xfer",
    "decoder_kv_blocks_ttl", "kv_recompute_threshold", "kv_load_failure_policy",
    "enable_permute_local_kv", "backends",
)  # fmt: skip
_ON_OFF = {"auto", "half", "float16", "bfloat16", "float", "float32"}


def apply(fleet: FleetSpec, values: Mapping[str, Any], found: Findings) -> None:
    """Note what vLLM would not take."""
    engine = values.get("engine")
    lenient = isinstance(engine, Mapping) and engine.get("allow_unknown_args") is True
    unknown = found.warn if lenient else found.error
    for path, args, env in _tables(fleet):
        for name, value in args:
            if not _arg((*path, "args"), name, value, found) and fleet.engine.kind == "vllm":
                _vllm_arg(_written(found, (*path, "args"), name), name, value, found, unknown)
        for name, _ in env:
            _env(fleet, (*path, "env"), name, found)
    _options(fleet, found)
    if fleet.engine.kind == "vllm" and not found.said(("engine", "kind")):
        _match(fleet, found)
        for pool in fleet.pools:
            _parallel(fleet, pool, found)
            _device(fleet, pool, found)


def _tables(
    fleet: FleetSpec,
) -> Iterator[tuple[Key, tuple[tuple[str, ArgValue], ...], tuple[tuple[str, str], ...]]]:
    yield ("engine",), fleet.engine.args, fleet.engine.env
    for pool in fleet.pools:
        yield ("pools", pool.name), pool.args, pool.env


def _written(found: Findings, table: Key, flag: str) -> Key:
    """The key as the file spells it: dashes, underscores, or with leading dashes."""
    dashed, under = flag, flag.replace("-", "_")
    for name in (dashed, under, f"--{dashed}", f"--{under}"):
        if (*table, name) in found.places.places:
            return (*table, name)
    return (*table, flag)


def _arg(table: Key, flag: str, value: ArgValue, found: Findings) -> bool:
    """Note what is wrong with an argument for every kind of engine; whether anything was."""
    key = _written(found, table, flag)
    if flag in RESERVED_ARGS:
        found.error(key, f"--{flag} is set by pdctl.", RESERVED_ARGS[flag], named=True)
    elif flag in SHORT:
        message = f"`{flag}` is a short form."
        found.error(key, message, f"Write `{SHORT[flag]}`.", named=True)
    elif flag == "dtype" and isinstance(value, str) and value not in _ON_OFF:
        close = nearest(value, frozenset(_ON_OFF))
        hint = f'Did you mean "{close}"?' if close else f"Known: {', '.join(sorted(_ON_OFF))}."
        found.error(key, f'vLLM has no dtype "{value[:40]}".', hint)
    else:
        return False
    return True


def _vllm_arg(
    key: Key, flag: str, value: ArgValue, found: Findings, unknown: Callable[..., None]
) -> None:
    if not _is_flag(flag):
        close = nearest(flag, FLAGS, cutoff=0.75)
        hint = f"Did you mean `{close}`? " if close else ""
        hint += (
            "A vLLM that has it (newer, patched, with a plug-in): engine.allow_unknown_args = true."
        )
        unknown(key, f"vLLM 0.32 has no argument --{flag}.", hint, named=True)
    elif wanted := misfit(flag, value):
        found.error(key, f"{flag} must be {wanted}, not {shown(value)}.")


def _is_flag(flag: str) -> bool:
    return flag in FLAGS or flag.removeprefix("no-") in FLAGS or flag.partition(".")[0] in FLAGS


def _env(fleet: FleetSpec, table: Key, name: str, found: Findings) -> None:
    key = (*table, name)
    if name in RESERVED_ENV:
        if name == "VLLM_CPU_OMP_THREADS_BIND" and not any(pool.cores for pool in fleet.pools):
            return
        found.error(key, f"{name} is set by pdctl.", RESERVED_ENV[name], named=True)
    elif name in GONE_ENV:
        found.warn(key, f"{name} is obsolete.", GONE_ENV[name])


def _options(fleet: FleetSpec, found: Findings) -> None:
    for name, value in fleet.connector.options:
        key: Key = ("connector", "options", name)
        if name == "kv_lease_duration":
            found.error(
                key, "kv_lease_duration is set by pdctl.", "Set connector.lease.", named=True
            )
        elif name == "enforce_handshake_compat" and value is False:
            found.warn(
                key, "The handshake check is off.", "Mismatched KV is then read as if right."
            )
        elif fleet.connector.name == "nixl" and name not in CONNECTOR_OPTIONS:
            close = nearest(name, CONNECTOR_OPTIONS)
            hint = (
                f"Did you mean `{close}`?" if close else f"Known: {', '.join(CONNECTOR_OPTIONS)}."
            )
            found.warn(key, f"NixlConnector has no option {name}.", hint)


def _match(fleet: FleetSpec, found: Findings) -> None:
    """Pools that may hand KV to each other must share what the handshake compares."""
    unchecked = dict(fleet.connector.options).get("enforce_handshake_compat") is False
    senders = [pool for pool in fleet.pools if pool.role is not Role.DECODE]
    takers = [pool for pool in fleet.pools if pool.role is not Role.PREFILL]
    note = found.warn if unchecked else found.error
    for one, other in ((p, d) for p in senders for d in takers if p is not d):
        ours, theirs = _effective(fleet, one), _effective(fleet, other)
        for name in (*MUST_MATCH, *MUST_MATCH_ENV):
            if _same(name, ours.get(name), theirs.get(name)):
                continue
            kind = "env" if name in MUST_MATCH_ENV else "args"
            message = (
                f"{name} differs: {_said(ours.get(name))} in {one.name}, "
                f"{_said(theirs.get(name))} in {other.name}."
            )
            hint = f"Prefill and decode must share it: set it in [engine.{kind}]."
            note(_place(found, one, other, kind, name), message, hint)


def _same(name: str, one: ArgValue | None, other: ArgValue | None) -> bool:
    """Equal as vLLM reads them: left out is the default, and some words have two spellings."""

    def read(value: ArgValue | None) -> str:
        text = str(DEFAULTS.get(name, "") if value is None else value)
        return {"half": "float16", "float": "float32"}.get(text, text)

    return read(one) == read(other)


def _place(found: Findings, one: PoolSpec, other: PoolSpec, kind: str, name: str) -> Key:
    for pool in (other, one):
        key = _written(found, ("pools", pool.name, kind), name)
        if key in found.places.places:
            return key
    return ("engine", kind, name)


def _said(value: ArgValue | None) -> str:
    return "not set" if value is None else str(value)[:60]


def _effective(fleet: FleetSpec, pool: PoolSpec) -> dict[str, ArgValue]:
    args: dict[str, ArgValue] = {**dict(fleet.engine.args), **dict(pool.args)}
    return {**args, **dict(fleet.engine.env), **dict(pool.env)}


def _parallel(fleet: FleetSpec, pool: PoolSpec, found: Findings) -> None:
    sizes = {
        flag: ranks(fleet, pool, flag)
        for flag in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    }
    need = 1
    for size in sizes.values():
        need *= size
    for index, entry in enumerate(pool.devices):
        have = len(entry.split(","))
        if have == need:
            continue
        key: Key = ("pools", pool.name, "devices", index)
        which = " x ".join(f"{flag} {size}" for flag, size in sizes.items() if size > 1) or "1 rank"
        devices = "1 device" if have == 1 else f"{have} devices"
        message = f"{dotted(key)} is {devices}, and an instance needs {need} ({which})."
        if have < need:
            found.error(key, message, f'List {need} devices in one entry: "0,1,..."')
        else:
            found.warn(key, message, "The others stay idle.", named=False)
    for index, entry in enumerate(pool.cores):
        if len(entry.split("|")) != need and entry not in ("auto", "nobind"):
            key = ("pools", pool.name, "cores", index)
            message = f"{dotted(key)} binds {_times(len(entry.split('|')), 'rank')} of {need}."
            found.error(key, message, 'Give the cores of each rank, joined by "|": "0-3|4-7".')
    _whole(fleet, pool, sizes["data-parallel-size"], found)
    for other in fleet.pools:
        _tensor_parallel(fleet, pool, other, found)


def _times(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _whole(fleet: FleetSpec, pool: PoolSpec, size: int, found: Findings) -> None:
    """All data-parallel ranks of an instance are here: it would wait for the others for ever."""
    flag = "data-parallel-size-local"
    local = ranks(fleet, pool, flag) if flag in _effective(fleet, pool) else size
    if local != size:
        message = f"{flag} is {local}, and data-parallel-size is {size}."
        hint = f"Leave {flag} out: pdctl runs whole instances, all ranks on this machine."
        found.error(_place(found, pool, pool, "args", flag), message, hint)


def _tensor_parallel(fleet: FleetSpec, pool: PoolSpec, other: PoolSpec, found: Findings) -> None:
    if pool.role is not Role.PREFILL or other.role is not Role.DECODE:
        return
    flag = "tensor-parallel-size"
    ours, theirs = ranks(fleet, pool, flag), ranks(fleet, other, flag)
    if ours % theirs and theirs % ours:
        message = f"{flag} is {ours} in {pool.name} and {theirs} in {other.name}."
        hint = "NIXL hands KV over only when one is a multiple of the other."
        found.error(_place(found, pool, other, "args", flag), message, hint)


def _device(fleet: FleetSpec, pool: PoolSpec, found: Findings) -> None:
    buffer = fleet.connector.buffer_device
    key = ("connector", "buffer_device")
    if pool.cores and buffer != "cpu" and not found.said(key):
        message = f'connector.buffer_device is "{buffer}", and {pool.name} runs on CPU cores.'
        found.error(key, message, 'Set buffer_device = "cpu".')
    total = sum(one.size for one in fleet.pools)
    if buffer == "cuda" and not pool.devices and not pool.cores and total > 1:
        hint = f'Give it devices, for example devices = ["0"] with size {pool.size}.'
        message = f"The pool {pool.name} has no devices: all its instances would take GPU 0."
        found.warn(("pools", pool.name), message, hint)
