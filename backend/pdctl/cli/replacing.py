"""Putting one `pdctl serve` in another's place: `pdctl detach`, and `pdctl serve --replace`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.adapters.statelock import StateLock
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import DetachView
    from pdctl.settings import Settings

ANSWER_S = 10.0
LET_GO_S = 60.0
"""How long the old one may take to write its records and leave."""
LOOK_S = 0.02
DETACH = """
  pdctl detach                     then start a newer pdctl serve, which adopts what runs
  pdctl serve --file fleet.toml --replace     both in one step
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "detach", examples=DETACH)
    def detach(terminal: Terminal) -> ExitCode | None:
        """End pdctl serve, and leave its engines and router workers running.

        Requests go on being served. The next pdctl serve with the same state folder adopts all.
        Refused where something lives in the process of pdctl serve and would end with it.
        """
        view = ask(terminal, _detach_and_wait)
        if terminal.json:
            terminal.document(view)
        else:
            terminal.data(_goes_on(view))
        return None


async def _detach_and_wait(client: AdminClient) -> DetachView:
    """Ask, and wait until nobody answers any more."""
    from pdctl.client.errors import Unreachable

    view = await client.detach()
    end = time.monotonic() + LET_GO_S
    while time.monotonic() < end:
        try:
            await client.ready()
        except Unreachable:
            return view
        await asyncio.sleep(0.1)
    raise Stop(
        ExitCode.TIMEOUT,
        f"pdctl serve (pid {view.pid}) was told to let go {LET_GO_S:.0f} s ago and still answers. "
        f"kill -9 {view.pid} is safe: engines and router workers go on.",
    )


def take_over(terminal: Terminal, settings: Settings) -> StateLock:
    """The state folder's lock, from a running pdctl serve that lets go; Stop says why it is not."""
    from pdctl.adapters.statelock import StateLock, holder
    from pdctl.domain.errors import ConflictError

    try:
        lock = StateLock(settings.state_dir)
    except ConflictError:
        pid, url = holder(settings.state_dir)
    else:
        terminal.say(f"Nobody serves from {settings.state_dir}: nothing is replaced.")
        return lock
    if not url:
        raise Stop(
            ExitCode.CONFLICT,
            f"The pdctl that serves from {settings.state_dir} (pid {pid}) is still starting or "
            "ending. Try again in a moment.",
        )
    asyncio.run(_ask_to_leave(url, settings.secret, pid))
    terminal.say(f"pdctl serve (pid {pid}) lets go; waiting for it to leave")
    return _await_lock(settings.state_dir, pid)


async def _ask_to_leave(url: str, token: str | None, pid: str) -> None:
    from pdctl.client.admin import AdminClient
    from pdctl.client.errors import ClientError, NotFound, Unreachable

    async with AdminClient(url, token, source="cli") as client:
        try:
            async with asyncio.timeout(ANSWER_S):
                await client.ready()  # what is asked of one that hangs, it may do when it wakes
            await client.detach()
        except NotFound as error:
            raise Stop(ExitCode.CONFLICT, _cannot(pid, url, "is too old to be asked")) from error
        except (TimeoutError, Unreachable) as error:
            raise Stop(ExitCode.CONFLICT, _cannot(pid, url, "does not answer")) from error
        except ClientError as error:
            raise Stop(ExitCode.CONFLICT, f"It is not replaced: {error}") from error


def _cannot(pid: str, url: str, why: str) -> str:
    return (
        f"The pdctl serve that runs (pid {pid}, {url}) {why}; nothing was changed. "
        f"kill -9 {pid} leaves its engines and router workers running (a router inside it, "
        "router.workers = 0, ends with it); then start again."
    )


def _await_lock(state_dir: Path, pid: str) -> StateLock:
    from pdctl.adapters.statelock import StateLock
    from pdctl.domain.errors import ConflictError

    end = time.monotonic() + LET_GO_S
    while True:
        try:
            return StateLock(state_dir)
        except ConflictError as error:
            if time.monotonic() > end:
                raise Stop(ExitCode.TIMEOUT, _late(pid)) from error
        time.sleep(LOOK_S)


def _late(pid: str) -> str:
    return (
        f"pdctl serve (pid {pid}) was told to let go {LET_GO_S:.0f} s ago and has not left. "
        f"Requests go on being served. kill -9 {pid} is safe now; then start again."
    )


def _goes_on(view: DetachView) -> str:
    engines, routers = len(view.instances), len(view.router_workers)
    return (
        f"pdctl serve (pid {view.pid}) has let go. Running: {engines} "
        f"instance{'s' * (engines != 1)}, {routers} router worker{'s' * (routers != 1)}."
    )
