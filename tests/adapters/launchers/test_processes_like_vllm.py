"""Simulated engines as processes: the nearest thing to vLLM that needs no vLLM."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from tests.adapters.launchers.orders import of, until
from tests.adapters.launchers.test_simulated import free_port

from pdctl.adapters.clock import SystemClock
from pdctl.adapters.launchers.subprocess import SubprocessLauncher
from pdctl.adapters.vllm.command import build_command
from pdctl.adapters.vllm.probe import HttpProbe
from pdctl.domain.ids import PoolName
from pdctl.domain.instance import Endpoint, Slot
from pdctl.domain.topology import ConnectorSpec, EngineSpec, FleetSpec, Mode, PoolSpec, Role
from pdctl.ports import LaunchOrder, Running
from pdctl.shim import procfs, segments

PREFILL = PoolSpec(PoolName("prefill"), Role.PREFILL, 1, shutdown_timeout_s=5)
DECODE = PoolSpec(PoolName("decode"), Role.DECODE, 1, shutdown_timeout_s=5)
FLEET = FleetSpec(
    name="f",
    model="tiny",
    served_name="tiny",
    mode=Mode.PD,
    engine=EngineSpec(
        kind="simulated",
        args=(("speed", 20.0), ("startup-delay", 0.2)),
    ),
    connector=ConnectorSpec(lease_s=10),
    pools=(PREFILL, DECODE),
)


def order(pool: PoolSpec, index: int, generation: int = 1) -> LaunchOrder:
    """What the reconciler would order."""
    slot = Slot(index, free_port(), free_port())
    nonce = os.urandom(16).hex()
    argv, env = build_command(FLEET, pool, f"{pool.name}-0", slot, nonce)
    return LaunchOrder(
        instance_id=f"{pool.name}-0",
        pool=pool.name,
        role=pool.role,
        generation=generation,
        nonce=nonce,
        fingerprint="f",
        slot=slot,
        endpoint=Endpoint("127.0.0.1", slot.http_port, slot.side_channel_port),
        argv=argv,
        env=env,
        shutdown_timeout_s=pool.shutdown_timeout_s,
    )


async def when(launcher: SubprocessLauncher, nonce: str, stage: str) -> Running:
    """The start once it is in that stage ("serving", "ended")."""
    deadline = time.monotonic() + 30
    while True:
        one = of(await launcher.list(), nonce)
        if (stage == "ended" and not one.alive) or (one.progress and one.progress.stage == stage):
            return one
        assert time.monotonic() < deadline, one
        assert one.alive, one.exit
        await asyncio.sleep(0.05)


async def test_a_pair_starts_hands_over_survives_a_crash_and_drains(tmp_path: Path) -> None:
    launcher, probe = SubprocessLauncher(tmp_path, SystemClock()), HttpProbe()
    prefill, decode = order(PREFILL, 0), order(DECODE, 1)
    await asyncio.gather(launcher.launch(prefill), launcher.launch(decode))
    for one in (prefill, decode):
        await when(launcher, one.nonce, "serving")
        await until_up(probe, one.endpoint)
    first = await probe.handoff(prefill.endpoint, decode.endpoint, "tiny", lease_s=10)
    assert first.ok, first.message

    running = await when(launcher, prefill.nonce, "serving")
    assert running.pid is not None
    children = procfs.descendants({running.pid}, procfs.everyone())
    assert len(children) == 2, "an EngineCore and its Worker"
    shared = segments.seen(children)
    assert shared
    os.kill(running.pid, signal.SIGKILL)
    crashed = await when(launcher, prefill.nonce, "ended")
    assert crashed.exit is not None
    assert crashed.exit.signal == signal.SIGKILL
    assert not children & procfs.everyone().keys()
    assert not segments.existing(shared)

    again = order(PREFILL, 0, generation=2)
    await launcher.launch(again)
    await when(launcher, again.nonce, "serving")
    await until_up(probe, again.endpoint)
    second = await probe.handoff(again.endpoint, decode.endpoint, "tiny", lease_s=10)
    assert second.ok, second.message

    for one in (again, decode):
        await launcher.terminate(one.nonce)
    for one in (again, decode):
        ended = await when(launcher, one.nonce, "ended")
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.first_error) == (0, "")
    await probe.close()
    await launcher.close()


async def until_up(probe: HttpProbe, endpoint: Endpoint) -> None:
    """Wait until it answers."""
    up: list[bool] = []

    async def look() -> None:
        while not up:
            if (await probe.look(endpoint)).up:
                up.append(True)
            await asyncio.sleep(0.05)

    looking = asyncio.ensure_future(look())
    await until(lambda: up)
    await looking
