"""One simulated engine: its parts put together, started and stopped.

Use it in process (`await engine.start()`, `engine.url`), hundreds at a time, or as the program
`python -m pdctl.simulated`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from dataclasses import replace
from typing import Any

from aiohttp import web

from pdctl.simulated.blocks import BlockPool
from pdctl.simulated.clock import SimClock
from pdctl.simulated.config import SimConfig
from pdctl.simulated.faults import Faults
from pdctl.simulated.leases import LeaseBook
from pdctl.simulated.metrics import EngineMetrics
from pdctl.simulated.ranks import Rank
from pdctl.simulated.scheduler import Scheduler
from pdctl.simulated.server import Server
from pdctl.tasks import settle, spawn

_CUT_AFTER_S = 0.001
"""Real seconds that a stopping server gives to its handlers; for aiohttp 0 would be no limit."""


class SimulatedEngine:
    """An engine that can be talked to over HTTP."""

    def __init__(self, config: SimConfig | None = None, faults: Faults | None = None) -> None:
        config = config or SimConfig()
        if not config.engine_id:
            config = replace(config, engine_id=str(uuid.uuid4()))
        self.config = config
        self.faults = faults or Faults()
        self.clock = SimClock(config.speed)
        numbers = range(config.data_parallel_size)
        self.ranks = [Rank(config, self.clock, self.faults, number) for number in numbers]
        self.server = Server(config, self.faults, self.ranks)
        self.host = ""
        self.port = 0
        self.exits_process = False
        """Whether the `exit_code` fault ends the process (the program form) or only this engine."""
        self._runner: web.AppRunner | None = None
        self._site: web.BaseSite | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._changed = asyncio.Event()
        self.faults.watchers.append(self._changed.set)

    @property
    def url(self) -> str:
        """Where the engine listens."""
        return f"http://{self.host}:{self.port}"

    @property
    def has_work(self) -> bool:
        """Whether a rank has some."""
        return any(rank.has_work for rank in self.ranks)

    # Of the first rank, which is the only one unless data_parallel_size says otherwise.

    @property
    def pool(self) -> BlockPool:
        """Its KV blocks."""
        return self.ranks[0].pool

    @property
    def scheduler(self) -> Scheduler:
        """Its steps."""
        return self.ranks[0].scheduler

    @property
    def metrics(self) -> EngineMetrics:
        """Its metrics."""
        return self.ranks[0].metrics

    @property
    def leases(self) -> LeaseBook:
        """What it holds for others."""
        return self.ranks[0].leases

    @property
    def side_channel_port(self) -> int:
        """Where others reach it."""
        return self.ranks[0].side_channel_port

    def drain(self) -> None:
        """Take nothing new: what comes now ends as aborted."""
        for rank in self.ranks:
            rank.scheduler.draining = True

    async def start(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        side_channel_port: int = 0,
        listener: socket.socket | None = None,
    ) -> None:
        """Listen on `port` and `side_channel_port`; 0 lets the system choose.

        `listener` is a socket that is bound to `port` already.
        """
        for rank in self.ranks:
            await rank.start(side_channel_port)
        self._runner = web.AppRunner(
            self.server.app(),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_CUT_AFTER_S,
        )
        await self._runner.setup()
        self.host, self.port = host, port
        await self._listen(listener)
        self._tasks = [
            *(
                spawn(rank.scheduler.run(), name=f"steps of {rank.config.engine_id}")
                for rank in self.ranks
            ),
            spawn(self._follow_faults(), name=f"faults of {self.config.engine_id}"),
        ]

    async def stop(self) -> None:
        """Stop at once; requests under way are cut."""
        await settle(*self._tasks)
        self._tasks = []
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        for rank in self.ranks:
            await rank.stop()

    async def _listen(self, listener: socket.socket | None = None) -> None:
        """Open the HTTP port, the same one when it was open before."""
        if self._runner is None or self._site is not None:
            return
        if listener is None:
            listener = socket.create_server((self.host, self.port), backlog=2048)
        self.port = listener.getsockname()[1]
        self._site = web.SockSite(self._runner, listener)
        await self._site.start()

    async def _follow_faults(self) -> None:
        """Carry out the faults that are about the whole engine."""
        while True:
            self._changed.clear()
            if self.faults.exit_code is not None:
                self._crash(self.faults.exit_code)
            if self.faults.refuse_connections:
                if self._site is not None:
                    site, self._site = self._site, None
                    await site.stop()
            else:
                await self._listen()
            await self._changed.wait()

    def _crash(self, code: int) -> None:
        if self.exits_process:
            os._exit(code)
        self.server.is_dead = True
        if not self.faults.refuse_connections:  # setting it wakes our caller again
            self.faults.refuse_connections = True
