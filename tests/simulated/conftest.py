"""Engines that stop with the test, and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest_asyncio

from pdctl.simulated import SimConfig, SimulatedEngine
from tests.simulated.talk import Client

Engines = Callable[..., Awaitable[SimulatedEngine]]


@pytest_asyncio.fixture
async def engines() -> AsyncIterator[Engines]:
    """Starts an engine from `SimConfig` fields, at 50 times real time unless told otherwise.

    Leases are long by default, so that a busy machine does not let them run out.
    """
    started: list[SimulatedEngine] = []

    async def start(**fields: Any) -> SimulatedEngine:
        engine = SimulatedEngine(SimConfig(**{"speed": 50.0, "kv_lease_duration": 600.0, **fields}))
        await engine.start()
        started.append(engine)
        return engine

    yield start
    for engine in started:
        await engine.stop()


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    """A client of its own connections."""
    async with aiohttp.ClientSession() as session:
        yield Client(session)
