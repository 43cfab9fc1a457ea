"""The middle of a stream: from the engine's packet into the client's socket, and no task wakes.

Law: only while the client's connection has room. A client that is slow, the stream's last event and
whatever else needs patience are the request's own task's, which writes through aiohttp.
"""

from __future__ import annotations

from aiohttp import web

from pdctl.gateway.sse import Scan, Scanner
from pdctl.gateway.trace import Trace


class Piper:
    """Reads one stream's pieces, and writes those that can be written at once."""

    __slots__ = ("_chunked", "_request", "_scanner", "_trace", "kept")

    def __init__(
        self, scanner: Scanner, trace: Trace, request: web.BaseRequest, *, chunked: bool
    ) -> None:
        self._scanner, self._trace, self._request = scanner, trace, request
        self._chunked = chunked
        self.kept = Scan(b"", 0)
        """What was read of the last piece, when it was not written."""

    def keep(self, data: bytes) -> bool:
        """Read a piece; the task writes it."""
        self.kept = self._scanner.feed(data)
        return False

    def take(self, data: bytes) -> bool:
        """Read a piece and write it now; False when the task must."""
        ready, tokens = scan = self._scanner.feed(data)
        protocol = self._request.protocol
        transport = None if protocol is None else protocol.transport
        if (
            not self._chunked or self._scanner.done or protocol is None
            or protocol.writing_paused or transport is None or transport.is_closing()
        ):  # fmt: skip
            self.kept = scan
            return False
        if ready:
            transport.write(b"%x\r\n%b\r\n" % (len(ready), ready))
        if tokens:
            self._trace.wrote_tokens(tokens)
        return True
