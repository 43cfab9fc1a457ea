"""The command line and environment of one instance: pure.

Precedence, last wins: what pdctl always sets, the connector's fragment, the fleet's engine
arguments, the pool's. What names the instance to its peers (ports, model, connector) is ours alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from pdctl import plugins
from pdctl.connectors import LaunchFragment
from pdctl.domain import redaction
from pdctl.domain.errors import OperatorError
from pdctl.domain.instance import Endpoint, Slot
from pdctl.domain.topology import ArgValue, FleetSpec, PoolSpec, Role

MODULE = "vllm.entrypoints.openai.api_server"
"""The module, not the `vllm` command: that one asks for a distribution that CPU wheels lack."""
SERVE = "vllm.entrypoints.cli.main"
"""The `vllm` command as a module. It alone starts several API servers: the other takes
--api-server-count and starts one all the same."""
HOST = "127.0.0.1"
RESERVED = frozenset({"host", "port", "model", "served-model-name", "kv-transfer-config", "uds"})
"""Arguments that pdctl decides itself: by them router and peers find the instance."""
QUIET = "/health,/metrics,/ping,/load,/version,/v1/models"
"""Endpoints that we ask every few seconds and that would drown the access log."""

Command = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
redact = redaction.redact


def build_command(
    fleet: FleetSpec, pool: PoolSpec, instance_id: str, slot: Slot, nonce: str
) -> Command:
    """(argv, env) that start `instance_id` in `slot`; OperatorError for a reserved argument."""
    endpoint = Endpoint(HOST, slot.http_port, slot.side_channel_port)
    fragment: LaunchFragment = plugins.load(
        plugins.CONNECTORS, fleet.connector.name
    ).launch_fragment(fleet.connector, _role(pool), endpoint)
    simulated = fleet.engine.kind == "simulated"
    ours = (
        _simulated_args(fleet, pool, slot) if simulated else _vllm_args(fleet, pool, slot, fragment)
    )
    ours |= _events_args(pool, nonce)
    args = _merge(ours, _given(fleet.engine.args), _given(pool.args))
    head = (sys.executable, "-m", "pdctl.simulated") if simulated else _vllm_head(fleet, args)
    env = {
        **_own_env(instance_id, slot, nonce),
        **dict(fragment.env),
        **dict(fleet.engine.env),
        **dict(pool.env),
    }
    return (*head, *_words(args)), tuple(env.items())


def _role(pool: PoolSpec) -> Role:
    """What it is launched as: an elastic one must be able to change sides while it runs."""
    return Role.BOTH if pool.elastic else pool.role


def _vllm_head(fleet: FleetSpec, args: dict[str, ArgValue]) -> tuple[str, ...]:
    """The module to run; `vllm serve` has the model as a word of its own, not in `args`."""
    if int(args.get("api-server-count", 1)) <= 1:
        return (fleet.engine.python, "-m", MODULE)
    return (fleet.engine.python, "-m", SERVE, "serve", str(args.pop("model")))


def _vllm_args(
    fleet: FleetSpec, pool: PoolSpec, slot: Slot, fragment: LaunchFragment
) -> dict[str, ArgValue]:
    return {
        "model": fleet.model,
        "served-model-name": fleet.served_name,
        "host": HOST,
        "port": slot.http_port,
        "shutdown-timeout": pool.shutdown_timeout_s,
        "enable-per-request-metrics": True,
        "enable-server-load-tracking": True,
        "enable-request-id-headers": True,
        "enable-prompt-tokens-details": True,
        "disable-access-log-for-endpoints": QUIET,
        **dict(fragment.args),
    }


def _events_args(pool: PoolSpec, nonce: str) -> dict[str, ArgValue]:
    """Publish KV events at addresses of this very start; the router asks the engine for them.

    vLLM 0.32 binds a TCP publisher to all interfaces or to none, and events hold the token ids of
    prompts: so these are abstract Unix sockets, which no other machine can reach, which leave no
    file, and which take no port.
    """
    if not pool.kv_events:
        return {}
    config = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"ipc://@pdctl-{nonce}-events",
        "replay_endpoint": f"ipc://@pdctl-{nonce}-replay",
    }
    return {"kv-events-config": json.dumps(config)}


def _simulated_args(fleet: FleetSpec, pool: PoolSpec, slot: Slot) -> dict[str, ArgValue]:
    """The same instance in the simulated engine's words; vLLM-only arguments have none."""
    return {
        "served-model-name": fleet.served_name,
        "host": HOST,
        "port": slot.http_port,
        "side-channel-port": slot.side_channel_port,
        "role": _role(pool).value,
        "kv-lease-duration": fleet.connector.lease_s,
        "shutdown-timeout": pool.shutdown_timeout_s,
        "enable-per-request-metrics": True,
        "enable-prompt-tokens-details": True,
        "with-engine-core": fleet.engine.launcher == "subprocess",
        **{name.replace("_", "-"): value for name, value in _sim_options(fleet)},
    }


def _sim_options(fleet: FleetSpec) -> Iterable[tuple[str, ArgValue]]:
    known = {"kv_load_failure_policy"}
    return (pair for pair in fleet.connector.options if pair[0] in known)


def _own_env(instance_id: str, slot: Slot, nonce: str) -> dict[str, str]:
    env = {
        # Every process of the instance names its owner in its title, for people and for clean-up.
        "VLLM_PROCESS_NAME_PREFIX": f"pd-{instance_id}-{nonce[:8]}",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_COLOR": "0",
        "PYTHONUNBUFFERED": "1",
    }
    if slot.device:
        env["CUDA_VISIBLE_DEVICES"] = slot.device
    if slot.core:
        env["VLLM_CPU_OMP_THREADS_BIND"] = slot.core
    return env


def _given(args: Iterable[tuple[str, ArgValue]]) -> dict[str, ArgValue]:
    given = {name.lstrip("-").replace("_", "-"): value for name, value in args}
    for name in given:
        if name in RESERVED:
            raise OperatorError(
                "reserved_argument",
                f"--{name} is decided by pdctl and cannot be given as an engine argument.",
                "Use the fleet file's own keys for model, served name, ports and connector.",
            )
    return given


def _merge(*layers: dict[str, ArgValue]) -> dict[str, ArgValue]:
    merged: dict[str, ArgValue] = {}
    for layer in layers:
        merged.update(layer)
    return merged


def _words(args: dict[str, ArgValue]) -> Iterable[str]:
    for name, value in args.items():
        if value is True:
            yield f"--{name}"
        elif value is False:
            yield f"--no-{name}"
        elif str(value).startswith("-"):
            yield f"--{name}={value}"  # else argparse takes the value for a flag
        else:
            yield f"--{name}"
            yield str(value)
