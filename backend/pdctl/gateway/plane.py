"""The data plane in this process: routing table in, router events out (design: the seam).

Start it in the event loop that serves; `push` may come before or after `start`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator

from aiohttp import web

from pdctl.domain.errors import OperatorError
from pdctl.domain.handoff import Load, RouterEvent
from pdctl.domain.table import RoutingTable
from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.door import Door, room
from pdctl.gateway.exchange import Services
from pdctl.gateway.following import Feed, Following
from pdctl.gateway.front import Front
from pdctl.gateway.headers import request_id
from pdctl.gateway.legs import connector
from pdctl.gateway.relay import error_response
from pdctl.gateway.upstream import Upstream
from pdctl.ports import Clock, DataPlane

log = logging.getLogger(__name__)
BACKLOG = 4096


class LocalDataPlane(DataPlane):
    """The router, serving in this process."""

    def __init__(self, host: str, port: int, *, clock: Clock, feed: Feed | None = None) -> None:
        self._host, self._port, self._clock = host, port, clock
        self._dispatcher = Dispatcher(clock.monotonic)
        self._following = self._followed_by(feed) if feed else None
        self._services: Services | None = None
        self._front: Front | None = None
        self._runner: web.ServerRunner | None = None
        self._site: web.SockSite | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def url(self) -> str:
        """Where clients find it; the port is known once it has started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def load(self) -> Load:
        """What is open now."""
        return self._dispatcher.load()

    @property
    def admitted(self) -> int:
        """Open requests that count against an API key."""
        return 0 if self._front is None else self._front.admitted

    @property
    def dropped_events(self) -> int:
        """Records lost because nobody read `events` in time."""
        return self._dispatcher.outbox.dropped

    async def start(self, listener: socket.socket | None = None) -> None:
        """Listen, on `listener` if given. OperatorError when the address cannot be had."""
        listener = listener or listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        self._services = Services(
            dispatcher=self._dispatcher,
            upstream=Upstream(),
            now=self._clock.now,
            monotonic=self._clock.monotonic,
        )
        self._front = Front(self._services)
        door = Door(self._handle, most=room())
        self._runner = web.ServerRunner(door, shutdown_timeout=1.0)
        await self._runner.setup()
        self._site = web.SockSite(self._runner, listener, backlog=BACKLOG)
        await self._site.start()
        await self._follow()

    def _followed_by(self, feed: Feed) -> Following:
        desk = self._dispatcher
        return Following(feed, desk.memory.holdings, desk.outbox.load_changed)

    async def _follow(self) -> None:
        """Follow KV events while a policy asks for them."""
        board, services = self._dispatcher.board, self._services
        if self._following is None or board is None or services is None:
            return
        if board.wants_events:
            await self._following.follow(board.table, services.upstream)
        else:
            await self._following.stop()

    async def close_door(self) -> None:
        """Accept no new connection; those that are open may go on."""
        if self._site is not None:
            await self._site.stop()
            self._site = None

    async def stop(self, grace_s: float, *, linger_s: float = 0.0) -> None:
        """Accept nothing new, let open requests end within `grace_s`, then cut them.

        Connections without a request are closed after `linger_s`: one that was accepted just now
        may still send its first, and one that is reused is told to close after its next.
        """
        await self.close_door()
        if self._services is not None:
            await asyncio.sleep(linger_s)
            try:
                async with asyncio.timeout(grace_s):
                    await self._idle.wait()
            except TimeoutError:
                await self._cut(self._services)
            if self._following is not None:
                await self._following.stop()
            await self._services.upstream.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._dispatcher.outbox.close()

    async def leave(self, grace_s: float) -> None:
        """What of it can outlive this process goes on: nothing."""
        await self.stop(grace_s)

    async def push(self, table: RoutingTable) -> None:
        """Serve new requests by this table; requests under way finish on theirs."""
        connector(table.connector)  # load it now: a request would wait for the import
        self._dispatcher.push(table)
        await self._follow()

    def events(self) -> AsyncIterator[RouterEvent]:
        """Facts in order; one reader. Ends when the plane has stopped."""
        return self._dispatcher.outbox.events()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._front is not None  # noqa: S101 - the server exists only once it is set
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - handlers are coroutines of tasks
        self._tasks.add(task)
        self._idle.clear()
        id_ = request_id(request.headers)
        try:
            response = await self._front.handle(request, id_)
        except Exception:
            log.exception("request failed inside the router")
            response = error_response(500, "The router failed.", id_=id_)
        finally:
            self._tasks.discard(task)
            if not self._tasks:
                self._idle.set()
        if self._site is None:
            response.force_close()
        return response

    async def _cut(self, services: Services) -> None:
        services.stopping = True
        for task in tuple(self._tasks):
            task.cancel()
        try:
            async with asyncio.timeout(5):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d requests did not end when cut", len(self._tasks))


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket, `shared` with other processes of ours on the same address (SO_REUSEPORT)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OperatorError(
            "router_address",
            f"The router cannot listen on {host}:{port}: {error.strerror}.",
            "Is another pdctl running? Set router.host and router.port in the fleet file.",
        ) from error
    listener.setblocking(False)
    return listener
