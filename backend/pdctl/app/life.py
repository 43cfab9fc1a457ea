"""The running parts, and the one place that knows in which order they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from pdctl import tasks
from pdctl.adapters.adminserver import AdminServer
from pdctl.adapters.routers.processes import ProcessDataPlane
from pdctl.adapters.vllm.probe import HttpProbe
from pdctl.client.admin import AdminClient
from pdctl.control.archive import Archive
from pdctl.control.handover import Handover
from pdctl.control.intake import Intake
from pdctl.control.reconciler import Reconciler
from pdctl.domain.errors import OperatorError
from pdctl.gateway.plane import LocalDataPlane
from pdctl.ports import Launcher

log = logging.getLogger(__name__)
Say = Callable[[str], None]
Run = Callable[[], Coroutine[Any, Any, None]]
"""A part that works until it is cancelled."""
ROUTER_GRACE_S = 5.0
NOTHING_LEFT = "stopped; nothing of this fleet is left running"
PARTS_S = 10.0
"""How long parts that were told to end may take."""


@dataclass(slots=True)
class Served:
    """A running control plane, as a companion in the same process sees it (the demo)."""

    admin_url: str
    router_url: str
    client: AdminClient
    stopping: asyncio.Event

    def stop(self) -> None:
        """Stop the fleet and let `serve` return."""
        self.stopping.set()


Companion = Callable[[Served], Awaitable[None]]
RouterPart = LocalDataPlane | ProcessDataPlane


@dataclass(frozen=True, slots=True)
class Face:
    """The admin side: API and web console on one socket, and a client of both without a wire."""

    url: str
    client: AdminClient
    api: FastAPI
    server: AdminServer


@dataclass(slots=True)
class System:
    """The running parts, and the one place that knows in which order they stop."""

    face: Face
    router: RouterPart
    reconciler: Reconciler
    intake: Intake
    archive: Archive
    launcher: Launcher
    probe: HttpProbe
    handover: Handover
    owner: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Keeps the database ours, and ends when it no longer is."""
    beside: Mapping[str, Run] = field(default_factory=dict)
    """What else runs as long as this does, by name."""

    async def run(self, companion: Companion | None, say: Say) -> int:
        """Until a signal, `Served.stop` or the end of a part that must not end."""
        say = _quietly(say)
        stopping = asyncio.Event()
        self._listen_to_signals(stopping, say)
        served = Served(self.face.url, self.router.url, self.face.client, stopping)
        parts = {
            tasks.spawn(self.face.server.run(), name="admin server"),
            tasks.spawn(self.reconciler.run(), name="reconciler"),
            tasks.spawn(self.intake.run(), name="intake"),
        }
        helpers = {tasks.spawn(self.archive.run(), name="archive")}
        helpers |= {tasks.spawn(run(), name=name) for name, run in self.beside.items()}
        if self.owner is not None:
            helpers.add(tasks.spawn(self.owner(), name="owner of the database"))
        stop = tasks.spawn(stopping.wait(), name="stop")
        leave = tasks.spawn(self.handover.asked.wait(), name="handover")
        say(f"console and admin API on {self.face.url}, router on {self.router.url}")
        beside = [tasks.spawn(_beside(companion, served), name="companion")] if companion else []
        ended, _ = await asyncio.wait(
            {stop, leave, *parts, *helpers}, return_when=asyncio.FIRST_COMPLETED
        )
        broken = [part.get_name() for part in ended & (parts | helpers)]
        await tasks.settle(*beside, stop, leave)
        leaving = bool(broken) or stop not in ended
        end = await (self._let_go(broken, say) if leaving else self._stop_all(say))
        await self._close(helpers, parts, leave=leaving)
        say(end)
        return 1 if broken else 0

    async def _let_go(self, broken: list[str], say: Say) -> str:
        if broken:
            log.error("%s ended, which must not be", ", ".join(broken))
        else:
            say("letting go: engines and router workers go on")
        await self.reconciler.detach()
        why = "stopped; a part of pdctl failed" if broken else "let go"
        return f"{why}; engines go on running for the next pdctl serve to adopt"

    async def _stop_all(self, say: Say) -> str:
        left = ", ".join(await self.reconciler.shutdown(say))
        return f"stopped; left behind: {left}" if left else NOTHING_LEFT

    async def _close(
        self, helpers: set[asyncio.Task[None]], parts: set[asyncio.Task[None]], *, leave: bool
    ) -> None:
        await (self.router.leave if leave else self.router.stop)(ROUTER_GRACE_S)
        self.face.api.state.streams.close()
        self.face.server.stop()
        await asyncio.wait(parts, timeout=PARTS_S)
        await tasks.settle(*helpers, *parts)
        await self.face.client.close()
        await self.probe.close()
        await self.launcher.close()

    def _listen_to_signals(self, stopping: asyncio.Event, say: Say) -> None:
        forced = False

        def on_signal() -> None:
            nonlocal forced
            if self.handover.asked.is_set():
                say("letting go already: nothing is stopped")
            elif not stopping.is_set():
                say("stopping: streams may end, then engines stop (again to force)")
                stopping.set()
            elif not forced:
                say("stopping now: engines are killed (again to leave behind what does not end)")
                self.reconciler.force()
                forced = True
            else:
                self.reconciler.give_up()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_signal)
        loop.add_signal_handler(signal.SIGUSR2, self._leave, say)

    def _leave(self, say: Say) -> None:
        """SIGUSR2: what `pdctl detach` asks for, for those who know our pid only."""
        try:
            self.handover.begin(actor="SIGUSR2", source="cli")
        except OperatorError as error:
            say(f"not let go: {error}")


def _quietly(say: Say) -> Say:
    """`say`, although nobody may listen any more: a closed terminal must not keep engines up."""

    def try_to(text: str) -> None:
        with contextlib.suppress(OSError):
            say(text)

    return try_to


async def _beside(companion: Companion, served: Served) -> None:
    try:
        await companion(served)
    except asyncio.CancelledError:
        raise
    except Exception:
        served.stop()
        raise
