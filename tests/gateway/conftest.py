"""A desk, and engines of two kinds that stop with the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
import uvloop
from tests.gateway.desk import Desk
from tests.gateway.rogue import Rogue

from pdctl.simulated import SimConfig, SimulatedEngine

Engines = Callable[..., Awaitable[SimulatedEngine]]
Rogues = Callable[[str], Awaitable[Rogue]]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that carries the data plane in use: its transports are of classes of their own."""
    return {"uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def desk() -> AsyncIterator[Desk]:
    """A data plane that listens, without a table."""
    async with Desk() as one:
        yield one


@pytest_asyncio.fixture
async def engines(desk: Desk) -> AsyncIterator[Engines]:
    """Adds a simulated engine under an id; call `desk.push` afterwards."""
    started: list[SimulatedEngine] = []

    async def add(id_: str, **fields: Any) -> SimulatedEngine:
        role = {"p": "prefill", "d": "decode", "b": "both"}[id_[0]]
        engine = SimulatedEngine(SimConfig(**{"role": role, "speed": 50.0, **fields}))
        await engine.start()
        started.append(engine)
        desk.engines[id_] = engine
        return engine

    yield add
    for engine in started:
        await engine.stop()


@pytest_asyncio.fixture
async def rogues(desk: Desk) -> AsyncIterator[Rogues]:
    """Adds a rogue engine under an id."""
    started: list[Rogue] = []

    async def add(id_: str) -> Rogue:
        rogue = Rogue()
        await rogue.start()
        started.append(rogue)
        desk.engines[id_] = rogue
        return rogue

    yield add
    for rogue in started:
        await rogue.stop()
