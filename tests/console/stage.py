"""The console in a terminal of a chosen size before the real API over a simulated world.

Time stands still, so that what is drawn is the same on every run.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from textual.pilot import Pilot

from pdctl.api import create_api
from pdctl_console.app import ConsoleApp
from pdctl_console.screens.logs import LogsScreen
from pdctl_console.widgets.line_log import LineLog
from tests.fakes.admin import served
from tests.fakes.clock import VirtualClock
from tests.fakes.waiting import until
from tests.fakes.world import State, World


@dataclass
class Stage:
    """A running console and the world that it looks at."""

    app: ConsoleApp
    pilot: Pilot[int]
    world: World

    def text(self) -> str:
        """What the terminal shows, without colours."""
        return screen_text(self.app)

    async def press(self, *keys: str) -> str:
        """Press keys; what is shown then."""
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text()

    async def shows(self, *parts: str) -> str:
        """Wait until all of it is shown; everything shown then."""
        await self.until(lambda: all(part in self.text() for part in parts))
        return self.text()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; on failure, say what was shown instead."""
        try:
            await until(condition)
        except TimeoutError:
            raise AssertionError(self.text()) from None

    async def go(self, key: str, name: str) -> None:
        """Press a key and wait for the main screen that it leads to, with all that it needs."""
        await self.press(key)
        await self.until(lambda: getattr(self.app.screen, "NAME", "") == name)
        await self.settled()

    async def resize(self, width: int, height: int) -> None:
        """Another terminal size."""
        await self.pilot.resize_terminal(width, height)
        await self.pilot.pause()
        self.app._draw()
        await self.pilot.pause()

    async def told(self) -> None:
        """Wait until it has heard of all that was published."""
        await self.until(
            lambda: [one.seq for one in self.app.state.events][-1:] == [self.world.feed.seq]
        )
        await self.settled()

    async def settled(self) -> None:
        """Wait until everything that the screen in view needs is listed and drawn."""
        await self.until(lambda: self.app.state.connected and not self._old())
        self.app._draw()
        await self.pilot.pause()
        await self.pilot.pause()

    async def log_lines(self) -> list[str]:
        """Wait until the whole log is shown; its lines."""
        screen = self.app.screen
        assert isinstance(screen, LogsScreen)
        log = screen.query_one("#log", LineLog)
        await self.until(lambda: len(log.lines) >= len(self._written(screen.instance)) > 0)
        await self.pilot.pause()
        return ["".join(text for text, _ in line) for line in log.lines]

    def _written(self, instance: str) -> list[str]:
        file = self.world.folder / f"{instance}.log"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def _old(self) -> bool:
        state, looking = self.app.state, self.app.looking
        needs = getattr(self.app.screen, "LOOK", looking)
        return (
            replace(needs, window_s=looking.window_s) != looking
            or state.fleet_old
            or state.pairs_old
            or (looking.requests and state.requests_old)
            or (looking.latency and state.latency_old)
            or (looking.operations and state.operations_old)
            or (looking.revisions and state.revisions_old)
            or (looking.audit and state.audit_old)
            or (looking.signals and state.signals_old)
        )


def screen_text(app: ConsoleApp) -> str:
    """The rows of the screen in view, joined."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


def steady(text: str) -> str:
    """Text without what differs between runs: the test server's port, and random ids."""
    text = re.sub(r"127\.0\.0\.1:[3-6]\d{4}", "127.0.0.1:NNNNN", text)
    return re.sub(
        r"\b(op|plan)-([0-9a-f]{4,8})\b", lambda id_: f"{id_[1]}-{'x' * len(id_[2])}", text
    )


def world_of(state: State, folder: Path) -> World:
    """A world in which no time passes."""
    return World(VirtualClock(), state, folder)


@asynccontextmanager
async def staged(
    state: State,
    folder: Path,
    size: tuple[int, int] = (120, 34),
    *,
    token: str | None = None,
    known: bool = True,
    read_only: bool = False,
) -> AsyncIterator[Stage]:
    """Run the console; `known` says whether it has the server's token."""
    world = world_of(state, folder)
    async with (
        served(create_api(world.plane, token=token)) as url,
        looking(url, world, size, token if known else None, read_only) as stage,
    ):
        if known:
            await stage.settled()
        yield stage


@asynccontextmanager
async def looking(
    url: str,
    world: World,
    size: tuple[int, int] = (120, 34),
    token: str | None = None,
    read_only: bool = False,
) -> AsyncIterator[Stage]:
    """The console at a URL."""
    app = ConsoleApp(
        url, token, read_only=read_only, utc=True,
        now=lambda: datetime.fromtimestamp(world.clock.now(), UTC),
    )  # fmt: skip
    intake = asyncio.create_task(world.intake.run())
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Stage(app, pilot, world)
    finally:
        intake.cancel()
        await asyncio.gather(intake, return_exceptions=True)
