"""uvicorn as a part of our process: our socket, our signals, our shutdown order.

uvicorn exits the process when a port is taken and owns SIGINT; both would skip the stop ladder. It
waits for ever for a request that never ends, and takes any number of connections; we do not.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI
from h11 import IDLE, SEND_BODY
from uvicorn.protocols.http.h11_impl import H11Protocol

from pdctl.domain.errors import OperatorError

BACKLOG = 2048
REQUEST_S = 20.0
"""Within so many seconds a request has to be there as a whole, its body included."""
MOST = 512
"""Connections at a time, followers of events and logs included: the router shares our files."""


class _Protocol(H11Protocol):
    """HTTP/1.1 with an end to its patience."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, unless there are too many."""
        if len(self.connections) >= MOST:
            transport.abort()
            return
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request: the clock runs until they are all there."""
        super().data_received(data)
        if self.conn.their_state not in (IDLE, SEND_BODY):
            self._end()
        elif self._limit is None:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._end()
        if self in self.connections:
            super().connection_lost(exc)

    def _begin(self) -> None:
        self._limit = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _end(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def listen(host: str, port: int, *, what: str, setting: str) -> socket.socket:
    """A listening socket, or a sentence that says who may hold the port and how to move ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)  # now: until it listens, another may bind the same port beside it
    except OSError as error:
        sock.close()
        raise OperatorError(
            "port_unavailable",
            f"{what} cannot listen on {host}:{port}: {error.strerror}.",
            f"Free the port, or move {what.lower()} with {setting}.",
        ) from error
    return sock


@dataclass(frozen=True, slots=True)
class Wire:
    """How bytes come to the admin port."""

    cert: str | None = None
    """Certificate chain and private key (PEM files); none: plain HTTP."""
    key: str | None = None
    proxies: str = ""
    """Addresses whose X-Forwarded-* headers count, comma-separated. Nobody else's do."""


class AdminServer:
    """Serves one ASGI app on one socket until told to stop."""

    def __init__(self, app: FastAPI, sock: socket.socket, wire: Wire | None = None) -> None:
        self._sock, wire = sock, wire or Wire()
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_Protocol,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=5,
                ssl_certfile=wire.cert,
                ssl_keyfile=wire.key,
                proxy_headers=bool(wire.proxies),
                forwarded_allow_ips=wire.proxies or "",
            )
        )

    async def run(self) -> None:
        """Serve; returns after `stop`."""
        await self._server.serve(sockets=[self._sock])

    def stop(self) -> None:
        """Stop accepting and let open answers end."""
        self._server.should_exit = True
