"""A live simulated world behind the real API on a loopback port, and verbs run in this process."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.fakes.people import access
from tests.fakes.world import State, World

from pdctl.adapters.clock import SystemClock
from pdctl.api import create_api
from pdctl.cli.main import app

FOREIGN = (
    "PDCTL_URL", "PDCTL_TOKEN", "PDCTL_TOKEN_FILE", "PDCTL_ADMIN_PORT", "PDCTL_ROUTER_PORT",
    "PDCTL_DEBUG", "PDCTL_STATE_DIR", "NO_COLOR", "FORCE_COLOR", "PDCTL_ENGINE", "PDCTL_MODEL",
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """How a verb ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in FOREIGN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PDCTL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def go(*words: object) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            app([str(word) for word in words], prog_name="pdctl")
        caught = capsys.readouterr()
        return Ran(int(ended.value.code or 0), caught.out, caught.err)

    return go


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Live:
    """The world served from a thread; `do` runs something in its loop."""

    def __init__(
        self, state: State, folder: Path, token: str | None = None, *, users: bool = False
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.state, self.token, self.users = folder, state, token, users
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Live:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        def end() -> None:
            self.api.state.streams.close()
            self._server.should_exit = True

        self.loop.call_soon_threadsafe(end)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def do(self, action: Callable[[], object]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self.loop.call_soon_threadsafe(act)
        assert done.wait(30)

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        clock = SystemClock()
        self.world = World(clock, self.state, self.folder)
        self.world.plane.data_plane_url = self.url  # so that /readyz finds a router that answers
        self.api = create_api(
            self.world.plane, token=self.token,
            access=access(self.folder, clock) if self.users else None,
        )  # fmt: skip
        config = uvicorn.Config(self.api, log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        async with asyncio.TaskGroup() as group:
            intake = group.create_task(self.world.intake.run())
            group.create_task(self._say_ready())
            await self._server.serve([listening])
            intake.cancel()

    async def _say_ready(self) -> None:
        while not self._server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.02)
        self._ready.set()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with Live("normal", tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture
def url(live: Live, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PDCTL_URL", live.url)
    return live.url
