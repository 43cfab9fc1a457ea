"""The web face over the real API over a simulated world, all in process; time stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from tests.fakes.clock import VirtualClock
from tests.fakes.people import access
from tests.fakes.world import State, World
from tests.web.site import HERE, Browser, mounted

Opener = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    """Build a world in some state and a browser that looks at its web face."""
    async with AsyncExitStack() as stack:

        async def build(
            state: State = "normal",
            *,
            token: str | None = None,
            root_path: str = "",
            users: bool = False,
        ) -> Browser:
            clock = VirtualClock()
            world = World(clock, state, tmp_path)
            known = access(tmp_path / "access", clock) if users else None
            app: FastAPI = mounted(world, token=token, root_path=root_path, access=known)
            transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
            http = httpx2.AsyncClient(transport=transport, base_url=HERE)
            return Browser(await stack.enter_async_context(http), world)

        yield build


@pytest.fixture
async def browser(opened: Opener) -> Browser:
    """The normal world."""
    found: Browser = await opened()
    return found
