"""One real fleet per test run, behind a file lock: two of them would fill a small machine."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pdctl.cli.demo_fleet import arguments
from pdctl.engine_env import find_engine
from pdctl.engine_env.cpu import ENGINE_ARGS, ENGINE_ENV
from tests.e2e.live import LiveFleet

LOCK = Path(tempfile.gettempdir()) / "pdctl-real-fleet.lock"


SUBPROCESS = 'launcher = "subprocess"'
"""Simulated engines as processes of their own, under shims like real ones."""


def _toml(values: Mapping[str, object]) -> str:
    def one(value: object) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return f'"{value}"' if isinstance(value, str) else str(value)

    return "\n".join(f'"{name}" = {one(value)}' for name, value in values.items())


def _run(fleet: LiveFleet) -> Iterator[LiveFleet]:
    fleet.write()
    fleet.start()
    try:
        fleet.wait_ready()
        yield fleet
    finally:
        left = fleet.engines()
        if fleet.process is not None and fleet.process.poll() is None:
            fleet.stop()
        fleet.http.close()
        for process in left:
            if process.is_running():
                process.kill()


@pytest.fixture(scope="package")
def simulated_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """1 prefill + 1 decode of simulated engines, each a process of its own."""
    yield from _run(LiveFleet("simulated", tmp_path_factory.mktemp("sim"), SUBPROCESS, "tiny"))


@pytest.fixture(scope="package")
def real_machine() -> Iterator[None]:
    """The right to run real engines here: fleets of one test run may share it."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def real_engine(args: Mapping[str, object], env: Mapping[str, object]) -> tuple[str, str]:
    """The [engine] lines of a fleet of real engines with more of both, and their model."""
    engine = find_engine()
    if engine is None:
        pytest.fail("the engine environment is not built; run `make engine`")
    lines = (
        f'python = "{engine.python}"\n'
        f"[engine.args]\n{_toml({**dict(arguments(ENGINE_ARGS)), **args})}\n"
        f"[engine.env]\n{_toml({**ENGINE_ENV, **env})}"
    )
    return lines, str(engine.model)


@pytest.fixture(scope="package")
def real_fleet(tmp_path_factory: pytest.TempPathFactory, real_machine: None) -> Iterator[LiveFleet]:
    """1 prefill + 1 decode of real vLLM joined by NIXL, on the CPU."""
    yield from _run(LiveFleet("vllm", tmp_path_factory.mktemp("real"), *real_engine({}, {})))


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def fleet(request: pytest.FixtureRequest) -> LiveFleet:
    """The same scenario on simulated and on real engines."""
    live: LiveFleet = request.getfixturevalue(f"{request.param}_fleet")
    live.set_mode("pd")
    return live
