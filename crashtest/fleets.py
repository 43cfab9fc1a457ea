"""The fleet files of the crash test: simulated engines with vLLM's family of processes, or vLLM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pdctl.cli.demo_fleet import arguments
from pdctl.engine_env import EngineEnv
from pdctl.engine_env.cpu import ENGINE_ARGS, ENGINE_ENV

UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""Any number of engines on any number of cores."""

ROOT = Path(__file__).resolve().parents[1]
SPAN = 100
"""Ports that a fleet takes: two of its own, then a band for each side of its engines."""
_BAND = 48


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of each role, and how many there may ever be."""

    prefill: int = 2
    decode: int = 2
    spare: int = 1
    """Instances that each pool may grow by; 0: the fleet is never resized."""
    most: int = 99
    """Instances of both pools together that there may ever be."""

    @classmethod
    def parse(cls, text: str) -> Shape:
        """ "2p2d"; ValueError when it is none."""
        prefill, middle, rest = text.partition("p")
        if not middle or not rest.endswith("d"):
            raise ValueError(f"{text!r} is no shape such as 2p2d")
        return cls(int(prefill), int(rest[:-1]))


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everything listens."""

    base: int

    @property
    def admin(self) -> int:
        """The admin API."""
        return self.base

    @property
    def router(self) -> int:
        """The front door."""
        return self.base + 1

    @property
    def http(self) -> tuple[int, int]:
        """The band of the engines' HTTP ports."""
        return self.base + 2, self.base + 1 + _BAND

    @property
    def side(self) -> tuple[int, int]:
        """The band of their side channels."""
        return self.base + 2 + _BAND, self.base + 1 + 2 * _BAND


def simulated(shape: Shape, ports: Ports, workers: int) -> str:
    """Engines that start in a moment; slow enough in answering for a kill to meet open streams."""
    engine = [
        'kind = "simulated"', 'launcher = "subprocess"',
        "args = { step-base-s = 0.02, handshake-s = 0.01 }",
        f"env = {{ PYTHONPATH = {json.dumps(str(ROOT / 'backend'))} }}",
    ]  # fmt: skip
    return _fleet(shape, ports, workers, model="tiny", engine=engine, lease=6, elastic=True)


REAL = Shape(1, 1, spare=1, most=3)
"""What a small machine has the memory for."""


def real(engine: EngineEnv, ports: Ports, workers: int) -> str:
    """vLLM on any core: old ones go first when they are renewed, so that there are never four."""
    lines = [
        f"python = {json.dumps(str(engine.python))}",
        f"args = {_table({**dict(arguments(ENGINE_ARGS)), 'max-model-len': 2048})}",
        f"env = {_table({**ENGINE_ENV, **UNBOUND})}",
    ]
    return _fleet(
        REAL, ports, workers, model=str(engine.model), engine=lines, lease=10, elastic=True,
        slots="surge = 0",
    )  # fmt: skip


def _fleet(
    shape: Shape, ports: Ports, workers: int, *, model: str, engine: list[str], lease: int,
    elastic: bool = False, slots: str = "",
) -> str:  # fmt: skip
    first = shape.prefill + shape.spare
    pools = (
        ("prefill", shape.prefill, range(first)),
        ("decode", shape.decode, range(first, first + shape.decode + shape.spare)),
    )
    lines = [
        "[fleet]", 'name = "crashtest"', f"model = {json.dumps(model)}", 'served_name = "tiny"',
        'mode = "pd"', "[engine]", *engine, "[connector]", 'name = "nixl"', f'lease = "{lease}s"',
        'buffer_device = "cpu"',
    ]  # fmt: skip
    for role, size, cores in pools:
        lines += [
            f"[pools.{role}]", f'role = "{role}"', f"size = {size}",
            slots or f"cores = {json.dumps([str(core) for core in cores])}",
            f'shutdown_timeout = "{lease + 2}s"', f"elastic = {str(elastic).lower()}",
        ]  # fmt: skip
    lines += ["[router]", f"port = {ports.router}", f"workers = {workers}", "[ports]"]
    lines += [f'http = "{_band(ports.http)}"', f'side_channel = "{_band(ports.side)}"', ""]
    return "\n".join(lines)


def _band(band: tuple[int, int]) -> str:
    return f"{band[0]}-{band[1]}"


def _table(values: Mapping[str, object]) -> str:
    """An inline table of TOML."""
    return f"{{ {', '.join(f'{json.dumps(k)} = {json.dumps(v)}' for k, v in values.items())} }}"
