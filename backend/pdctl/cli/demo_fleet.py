"""The fleet file that the demo writes: one prefill and one decode instance on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

HEAD = """\
# Written by `pdctl demo`, anew at each run. Copy it to start a fleet file of your own:
#   pdctl validate FILE, then pdctl serve --file FILE

[fleet]
name = "demo"
model = {model}
served_name = "tiny"
mode = "pd"
"""
ROUTER = """
[router]
host = "127.0.0.1"
port = {port}

[slo.interactive]
ttft = "2s"
tpot = "100ms"
"""


def simulated(port: int) -> str:
    """For simulated engines."""
    pools = "\n[pools.prefill]\nsize = 1\n\n[pools.decode]\nsize = 1\n"
    head = HEAD.format(model='"simulated/tiny"')
    # As processes of their own, so that one can be killed, and adopted by the next pdctl.
    engine = '[engine]\nkind = "simulated"\nlauncher = "subprocess"\n'
    return f"{head}\n{engine}{pools}{ROUTER.format(port=port)}"


def real(port: int, python: Path, model: Path) -> str:
    """For vLLM on CPU: the constants are those of `pdctl.engine_env.cpu`, one core for each."""
    from pdctl.engine_env import cpu

    lines = [
        HEAD.format(model=json.dumps(str(model))),
        "[engine]",
        'kind = "vllm"',
        f"python = {json.dumps(str(python))}",
        'start_timeout = "5m"',
        "",
        "[engine.args]",
        *(f"{name} = {json.dumps(value)}" for name, value in arguments(cpu.ENGINE_ARGS)),
        "",
        "[engine.env]",
        *(f"{name} = {json.dumps(value)}" for name, value in cpu.ENGINE_ENV.items()),
        "",
        "[connector]",
        'name = "nixl"',
        f'lease = "{cpu.KV_LEASE_SECONDS}s"',
        f"buffer_device = {json.dumps(cpu.KV_BUFFER_DEVICE)}",
    ]
    usable = sorted(os.sched_getaffinity(0))
    for index, role in enumerate(("prefill", "decode")):
        lines += ["", f"[pools.{role}]", "size = 1"]
        if len(usable) > 1:  # on one core both share it, unbound
            lines.append(f'cores = ["{usable[index]}"]')
        lines += [f'shutdown_timeout = "{cpu.KV_LEASE_SECONDS + 10}s"', 'drain_timeout = "30s"']
    return "\n".join(lines) + "\n" + ROUTER.format(port=port)


def arguments(words: Iterable[str]) -> list[tuple[str, str | bool]]:
    """("--dtype", "float32", "--enforce-eager") as names and values."""
    result: list[tuple[str, str | bool]] = []
    for word in words:
        if word.startswith("--"):
            result.append((word.removeprefix("--"), True))
        else:
            result[-1] = (result[-1][0], word)
    return result
