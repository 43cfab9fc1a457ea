"""The in-process launcher keeps the same contract as the one with processes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.adapters.launchers.orders import command, of, until

from pdctl.adapters.clock import SystemClock
from pdctl.adapters.launchers.simulated import SimulatedLauncher
from pdctl.adapters.supervision import logs
from pdctl.adapters.vllm.probe import HttpProbe
from pdctl.domain.errors import EngineError
from pdctl.domain.instance import Endpoint
from pdctl.ports import LaunchOrder


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def simulated(port: int, *more: str, instance: str = "") -> LaunchOrder:
    """An order for a simulated engine on `port`."""
    return command(
        "python", "-m", "pdctl.simulated", "--port", str(port), "--side-channel-port", "0", *more,
        instance=instance,
    )  # fmt: skip


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[SimulatedLauncher]:
    """A launcher whose engines end with the test."""
    one = SimulatedLauncher(tmp_path, SystemClock())
    yield one
    await one.close()


@pytest.fixture
async def probe() -> AsyncIterator[HttpProbe]:
    """A probe to see whether engines answer."""
    one = HttpProbe()
    yield one
    await one.close()


async def serving(launcher: SimulatedLauncher, nonce: str) -> None:
    """Wait until the start says that it serves."""

    def stage() -> str:
        progress = launcher._starts[nonce].progress
        return progress.stage if progress else ""

    await until(lambda: stage() == "serving")


async def test_it_serves_drains_and_ends(launcher: SimulatedLauncher, probe: HttpProbe) -> None:
    port = free_port()
    one = simulated(port, "--shutdown-timeout", "5")
    running = await launcher.launch(one)
    assert (await launcher.launch(one)).order is running.order
    await serving(launcher, one.nonce)
    assert (await probe.look(Endpoint("127.0.0.1", port, 0))).up
    await launcher.terminate(one.nonce)
    await until(lambda: launcher._starts[one.nonce].exit is not None)
    end = of(await launcher.list(), one.nonce)
    assert end.exit is not None
    assert (end.alive, end.exit.code) == (False, 0)
    assert not (await probe.look(Endpoint("127.0.0.1", port, 0))).up
    await launcher.forget(one.nonce)
    assert await launcher.list() == []


async def test_kill_is_told_and_the_log_stays(launcher: SimulatedLauncher) -> None:
    changes = launcher.changed()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    one = simulated(free_port(), instance="decode-0")
    await launcher.launch(one)
    await serving(launcher, one.nonce)
    await launcher.kill(one.nonce)
    assert await asyncio.wait_for(waiting, 5) == one.nonce
    await launcher.forget(one.nonce)
    path = launcher.log_path("decode-0")
    assert path is not None
    assert "Application startup complete" in logs.read_tail(path, 1)[0]
    await changes.aclose()  # type: ignore[attr-defined]


async def test_a_taken_port_is_an_exit_that_says_so(launcher: SimulatedLauncher) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        one = simulated(taken.getsockname()[1])
        await launcher.launch(one)
        await until(lambda: launcher._starts[one.nonce].exit is not None)
    end = of(await launcher.list(), one.nonce)
    assert end.exit is not None
    assert end.exit.code == 1
    assert "Address already in use" in end.exit.first_error


async def test_bad_arguments_are_named(launcher: SimulatedLauncher) -> None:
    with pytest.raises(EngineError, match="unrecognized arguments: --dtype"):
        await launcher.launch(simulated(0, "--dtype", "float32"))
    assert await launcher.list() == []


async def test_a_crash_ends_with_its_code(launcher: SimulatedLauncher) -> None:
    one = simulated(free_port())
    await launcher.launch(one)
    await serving(launcher, one.nonce)
    launcher._starts[one.nonce].options.faults.exit_code = 17
    await until(lambda: launcher._starts[one.nonce].exit is not None)
    end = of(await launcher.list(), one.nonce)
    assert end.exit is not None
    assert end.exit.code == 17
