"""A real Chromium before a real server, both in one event loop, over a simulated world."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import uvicorn
from fastapi import FastAPI
from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from starlette.types import ASGIApp, Receive, Scope, Send

from pdctl.adapters.clock import SystemClock
from pdctl.api import create_api
from pdctl.client.admin import AdminClient
from pdctl.web import create_web
from tests.fakes.world import State, World

CHROMIUM = os.environ.get("PDCTL_CHROMIUM") or shutil.which("chromium") or ""
ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE_MS = 30_000
WATCH = """
window.__violations = [];
addEventListener("securitypolicyviolation",
  (e) => window.__violations.push(e.violatedDirective + " " + e.blockedURI));
"""


class Server(uvicorn.Server):
    """Leaves signals to the test runner."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Site:
    """One world behind one port; can be stopped and started again."""

    world: World
    token: str | None = None
    port: int = 0
    root: str = ""
    """The prefix of a reverse proxy that strips it, such as "/pd"."""
    streams: int = 0
    """How many event streams are open."""
    _server: Server | None = None
    _task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        app = self._app()
        self._server = Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """End open streams, then the server."""
        if self._server is None or self._task is None:
            return
        self._server.config.app.state.streams.close()  # type: ignore[union-attr]
        self._server.should_exit = True
        await self._task
        self._server = self._task = None

    def _app(self) -> FastAPI:
        app = create_api(self.world.plane, token=self.token)
        client = AdminClient(self.url, transport=httpx2.ASGITransport(app), source="web")
        app.mount("/", create_web(client, root_path=self.root))
        app.add_middleware(Counted, site=self)
        return app


class Counted:
    """Counts the event streams that are open, and strips the prefix."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self.app = app
        self.site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.site.root and scope["path"].startswith(self.site.root):
            scope = {**scope, "path": scope["path"].removeprefix(self.site.root)}  # as a proxy does
        one = int(scope["type"] == "http" and scope["path"] == "/api/v1/events")
        self.site.streams += one
        try:
            await self.app(scope, receive, send)
        finally:
            self.site.streams -= one


@dataclass
class Tab:
    """A page with everything it complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    async def clean(self) -> None:
        """Fail when the console or the content policy had anything to say."""
        violations = await self.page.evaluate("window.__violations")
        assert self.complaints + violations == []


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def chromium() -> AsyncIterator[Browser]:
    if not CHROMIUM:
        pytest.skip("no Chromium: install it, or set PDCTL_CHROMIUM")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def sites(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Start sites; all are stopped at the end."""
    async with AsyncExitStack() as stack:

        async def start(state: State = "normal", token: str | None = None, root: str = "") -> Site:
            site = Site(World(SystemClock(), state, tmp_path), token, root=root)
            await site.start()
            stack.push_async_callback(site.stop)
            return site

        yield start


@pytest_asyncio.fixture(loop_scope="session")
async def tabs(chromium: Browser) -> AsyncIterator[Callable[..., Any]]:
    """Open pages, each in a browser profile of its own; all are closed before the sites stop."""
    contexts: list[BrowserContext] = []

    async def open_(url: str, width: int = 1280, **options: Any) -> Tab:
        context = await chromium.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        await context.add_init_script(WATCH)
        tab = Tab(await context.new_page())
        tab.page.on(
            "console",
            lambda m: tab.complaints.append(m.text) if m.type in ("error", "warning") else None,
        )
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        await tab.page.goto(url)
        return tab

    yield open_
    for context in contexts:
        await context.close()
