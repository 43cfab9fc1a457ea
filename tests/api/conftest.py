"""A simulated world under the real API; time stands still until a test moves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.client.admin import AdminClient

HERE = "http://127.0.0.1"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock, tmp_path: Path) -> World:
    return World(clock, "normal", tmp_path)


@pytest.fixture
def app(world: World) -> FastAPI:
    return create_api(world.plane, token=None)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        yield client


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[AdminClient]:
    async with AdminClient(HERE, transport=httpx2.ASGITransport(app), source="web") as admin:
        yield admin
