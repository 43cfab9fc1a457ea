"""The console in a real terminal (tmux): it draws, takes keys, and says when its server is gone."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from pdctl.api import create_api
from tests.console.stage import world_of
from tests.fakes.admin import served

ROOT = Path(__file__).resolve().parents[2]
RUN = "import sys, pdctl_console; sys.exit(pdctl_console.run(sys.argv[1], utc=True))"
Tmux = Callable[..., Awaitable[str]]

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")


async def run(*words: str, env: dict[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *words, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    return (await process.communicate())[0].decode()


@asynccontextmanager
async def terminal(folder: Path, url: str) -> AsyncIterator[Tmux]:
    """A tmux server of our own with the console in it."""
    socket = str(folder / "tmux")
    path = os.pathsep.join([str(ROOT / "backend"), str(ROOT / "console")])
    env = dict(os.environ) | {"PYTHONPATH": path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    env.pop("TMUX", None)

    async def tmux(*words: str) -> str:
        return await run("tmux", "-f", "/dev/null", "-S", socket, *words, env=env)

    command = f"{shlex.join([sys.executable, '-c', RUN, url])}; echo ended with $?; sleep 600"
    await tmux("new-session", "-d", "-s", "t", "-x", "80", "-y", "24", command)
    try:
        yield tmux
    finally:
        await tmux("kill-server")


async def shows(tmux: Tmux, *parts: str) -> str:
    text = ""
    for _ in range(600):
        text = await tmux("capture-pane", "-p", "-t", "t")
        if all(part in text for part in parts):
            return text
        await asyncio.sleep(0.05)
    raise AssertionError(f"{parts} never came:\n{text}")


async def test_in_a_terminal(tmp_path: Path) -> None:
    world = world_of("normal", tmp_path)
    async with served(create_api(world.plane, token=None)) as url, terminal(tmp_path, url) as tmux:
        await shows(tmux, "SIMULATED", "● live", "prefill-0  ● ready", "q Quit")
        await tmux("send-keys", "-t", "t", "2")
        await shows(tmux, "newest first")
        await tmux("send-keys", "-t", "t", "Enter")
        await shows(tmux, "Where its time went", "esc Back")
        await tmux("send-keys", "-t", "t", "q", "1", "m")
        await shows(tmux, "Switch to chunked?", "pd → chunked")
        await tmux("resize-window", "-t", "t", "-x", "200", "-y", "40")
        text = await shows(tmux, "Switch to chunked?", "nixl · pdctl")
        assert max(map(len, text.splitlines())) <= 200
        await tmux("send-keys", "-t", "t", "n", "q")
        await shows(tmux, "ended with 0")


async def test_its_server_goes_away(tmp_path: Path) -> None:
    world = world_of("normal", tmp_path)
    async with AsyncExitStack() as stack:
        server = served(create_api(world.plane, token=None))
        tmux = await stack.enter_async_context(terminal(tmp_path, await server.__aenter__()))
        try:
            await shows(tmux, "● live")
        finally:
            await server.__aexit__(None, None, None)
        text = await shows(tmux, "✗ not connected", "Retrying.", "What you see is")
        assert "prefill-0  ● ready" in text, "what was known stays"
