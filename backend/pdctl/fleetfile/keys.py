"""Every key of a fleet file, section by section: how its value is read and what it is when absent.

Law: once shipped a key keeps working. Durations are text with a unit or plain seconds.
"""

from __future__ import annotations

from typing import Any

from pdctl import plugins
from pdctl.domain.live import ADMISSIONS, BOUNDS
from pdctl.domain.topology import Mode, PortBand, Role, RouterSpec
from pdctl.fleetfile import signals
from pdctl.fleetfile import values as v
from pdctl.fleetfile.reader import Field

DAY_S = 86_400
_ROUTER = RouterSpec()
Fields = dict[str, Field]


def every() -> dict[str, Fields]:
    """Keys by section; "" is the file itself. Plug-in names are looked up at each call."""
    sections = {
        "fleet": _fleet(),
        "engine": _engine(),
        "connector": _connector(),
        "pools": _pool(),
        "router": _router(),
        "ports": {
            "http": Field(v.band, PortBand(18000, 18099)),
            "side_channel": Field(v.band, PortBand(18100, 18299)),
        },
        "slo": {
            name: Field(v.seconds(0.0001, DAY_S, bare=False))
            for name in ("ttft", "tpot", "itl_p99")
        },
        "signals": signals.fields(),
        "golden": {
            "every": Field(v.seconds(30, DAY_S)),
            "prompt": Field(v.text),
            "tokens": Field(v.whole(1, 4096), 32),
        },
    }
    return {"": {name: Field(_anything) for name in sections}, **sections}


def _fleet() -> Fields:
    return {
        "name": Field(v.text),
        "model": Field(v.text, required=True),
        "served_name": Field(v.text),
        "mode": Field(v.choice(*(mode.value for mode in Mode)), "pd"),
    }


def _engine() -> Fields:
    return {
        "kind": Field(v.choice("vllm", "simulated"), "vllm"),
        "launcher": Field(v.choice(*_known(plugins.LAUNCHERS))),
        "python": Field(v.text),
        "start_timeout": Field(v.seconds(1, DAY_S), 900.0),
        "allow_unknown_args": Field(v.boolean, False),
        "args": Field(_anything),
        "env": Field(_anything),
    }


def _connector() -> Fields:
    return {
        "name": Field(v.choice(*_known(plugins.CONNECTORS)), "nixl"),
        # vLLM's heartbeat is a sixth of the lease, in whole seconds: below 6 s there is none.
        "lease": Field(v.whole_seconds(6, 3600), 30),
        "buffer_device": Field(v.choice("cuda", "cpu", "xpu")),
        "options": Field(_anything),
    }


def _pool() -> Fields:
    return {
        "role": Field(v.choice(*(role.value for role in Role))),
        "size": Field(v.whole(1, 1024)),
        "devices": Field(_list),
        "cores": Field(_list),
        "shutdown_timeout": Field(v.whole_seconds(1, DAY_S), 60),
        "drain_timeout": Field(v.seconds(0, DAY_S), 300.0),
        "surge": Field(v.whole(0, 1024), 1),
        "elastic": Field(v.boolean, False),
        "kv_events": Field(v.boolean),
        "args": Field(_anything),
        "env": Field(_anything),
    }


def _router() -> Fields:
    policy = v.choice(*_known(plugins.POLICIES))
    short, long = v.seconds(0.1, 3600), v.seconds(1, DAY_S)
    return {
        "host": Field(v.host, _ROUTER.host),
        "port": Field(v.whole(1, 65535), _ROUTER.port),
        "workers": Field(v.whole(0, 64), _ROUTER.workers),
        "prefill_policy": Field(policy, _ROUTER.prefill_policy),
        "decode_policy": Field(policy, _ROUTER.decode_policy),
        "pd_min_prompt_tokens": Field(
            v.whole(*BOUNDS["pd_min_prompt_tokens"]), _ROUTER.pd_min_prompt_tokens
        ),
        "max_inflight_per_instance": Field(
            v.whole(*BOUNDS["max_inflight_per_instance"]), _ROUTER.max_inflight_per_instance
        ),
        "queue_limit": Field(v.whole(*BOUNDS["queue_limit"]), _ROUTER.queue_limit),
        "queue_timeout": Field(short, _ROUTER.queue_timeout_s),
        "connect_timeout": Field(short, _ROUTER.connect_timeout_s),
        "first_byte_timeout": Field(long, _ROUTER.first_byte_timeout_s),
        "stall_timeout": Field(long, _ROUTER.stall_timeout_s),
        "slow_client_timeout": Field(long, _ROUTER.slow_client_timeout_s),
        "retries": Field(v.whole(*BOUNDS["retries"]), _ROUTER.retries),
        "slo": Field(v.text, _ROUTER.slo),
        "admission": Field(v.choice(*ADMISSIONS), _ROUTER.admission),
        "max_body": Field(v.size, _ROUTER.max_body_bytes),
        "keys_file": Field(v.text),
    }


def _known(kind: plugins.Kind) -> tuple[str, ...]:
    return tuple(name for name in plugins.names(kind) if not name.startswith("_"))


def _anything(value: Any) -> Any:
    """Tables are read by their own section."""
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise v.Wrong(f"must be a list, not {v.shown(value)}.", 'For example ["0", "1"].')
    return value
