"""Who is killed: any kind as likely as another, however many processes of it there are."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Sequence

from crashtest.invariants import Kill
from crashtest.scene import Kind, Process, Scene
from crashtest.world import World

KINDS = (Kind.CONTROL, Kind.ROUTER, Kind.SHIM, Kind.API, Kind.CORE, Kind.WORKER)
MOST = 3
FREEZE = 0.2
"""Share of the victims that are frozen (SIGSTOP) for a moment before they are killed."""
_FROZEN_S, _BETWEEN_S = 1.0, 0.7


def choose(draw: random.Random, scene: Scene, taken: Sequence[int]) -> Process | None:
    """A living process; None when nobody is left."""
    there = [kind for kind in KINDS if any(one.pid not in taken for one in scene.of(kind))]
    if not there:
        return None
    kind = draw.choice(there)
    return draw.choice(sorted(
        (one for one in scene.of(kind) if one.pid not in taken), key=lambda one: one.pid
    ))  # fmt: skip


async def kill_some(draw: random.Random, world: World) -> list[Kill]:
    """Kill one to three processes within a moment."""
    kills: list[Kill] = []
    for _ in range(draw.randint(1, MOST)):
        scene = await world.look()
        victim = choose(draw, scene, [one.pid for one in kills])
        if victim is None:
            break
        kills.append(await _kill(draw, scene, victim))
        await asyncio.sleep(draw.uniform(0, _BETWEEN_S))
    return kills


async def _kill(draw: random.Random, scene: Scene, victim: Process) -> Kill:
    at = time.monotonic()
    if draw.random() < FREEZE:
        victim.send(signal.SIGSTOP)
        await asyncio.sleep(draw.uniform(0.1, _FROZEN_S))
    until = time.monotonic()
    victim.send(signal.SIGKILL)
    return Kill(at, until, victim.kind, victim.pid, scene.instance(victim), victim.nonce)
