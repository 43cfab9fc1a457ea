"""Connections of clients: how many, how long they may be silent, and what broken HTTP is told.

Law: no client can use up the process's files: engines, store and logs need some of their own.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from pdctl.gateway.headers import request_id
from pdctl.gateway.relay import error_response

log = logging.getLogger(__name__)
IDLE_S = 75.0
"""How long a connection may wait for its first request's headers, or for the next request's; longer
than the 60 s after which common proxies drop theirs, so that they never send into a closed one."""
RESERVED = 256
"""Files kept for everything that is no request."""
UNLIMITED = 2**20
_FULL = "The router has as many connections as it can hold."
_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nServer: pdctl\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\n\r\n%s"
)


class Connection(RequestHandler):
    """One connection; what is not HTTP on it is answered like any mistake, and fills no log."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """An error in OpenAI's envelope; the connection is closed after it."""
        if status >= 500:
            log.error("request failed inside the router", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer had begun")
        broken = f"This is not valid HTTP: {_plain(message)}"
        words = "The router failed." if status >= 500 else broken
        response = error_response(status, words, id_=request_id(request.headers))
        response.force_close()
        return response


class Door(web.Server):
    """Accepts connections, at most `most` at a time."""

    def __init__(self, handler: Any, *, most: int, idle_s: float = IDLE_S) -> None:
        super().__init__(
            handler, handler_cancellation=True, access_log=None, auto_decompress=False,
            keepalive_timeout=idle_s, logger=log,
        )  # fmt: skip
        self._most, self._open = most, 0

    def __call__(self) -> RequestHandler:
        """One more connection."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Take it, or say that there is no room."""
        super().connection_made(handler, transport)
        self._open += 1
        if self._open > self._most:
            response = error_response(503, _FULL, id_=request_id({}))
            body = response.body
            assert isinstance(body, bytes)  # noqa: S101 - we made it so
            transport.write(_ANSWER % (len(body), response.headers["X-Request-Id"].encode(), body))
            transport.close()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """It is gone."""
        super().connection_lost(handler, exc)
        self._open -= 1


def room() -> int:
    """Clients that can be connected at once: each may need a connection to an engine as well."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft in (resource.RLIM_INFINITY, -1):
        return UNLIMITED
    return max(16, (soft - RESERVED) // 2)


def _plain(message: str | None) -> str:
    """The first line of a parser's words, without its pointer into the bytes."""
    lines = (message or "").strip().splitlines()
    return lines[0][:200].rstrip(":") if lines else "it cannot be parsed"
