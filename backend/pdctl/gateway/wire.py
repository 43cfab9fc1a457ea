"""One connection to an engine: HTTP/1.1 answers, one after the other, parsed by httptools (llhttp).

Law: whatever an engine sends, its answer is either complete or says how it broke off; a connection
on which anything stood that was not asked for is not used again.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

MOST_HEAD = 64 * 1024
"""Bytes of a head, of trailers, or of a chunk's extensions."""
HELD = 256 * 1024
"""Bytes of an answer that may wait here: a client that takes nothing slows its engine down."""
_BODILESS = (204, 304)


class Reply:
    """An engine's answer, as far as it has come; one reader."""

    __slots__ = (
        "_pieces", "_size", "_taken", "_waiter", "_wire", "broke", "complete", "headers", "reason",
        "status",
    )  # fmt: skip

    def __init__(self, wire: Wire) -> None:
        self._wire: Wire | None = wire
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._taken: Callable[[], bool] | None = None
        self.status = 0
        """0 until the head has come."""
        self.reason = ""
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.complete = False
        """All of it has come; `take` may still have some."""
        self.broke = ""
        """Why nothing more comes, in words without an address."""

    @property
    def content_type(self) -> str:
        """The media type, in lower case and without parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int | None:
        """As the engine told it; the parser has checked it."""
        length = self.headers.get("Content-Length")
        return None if length is None else int(length)

    @property
    def drained(self) -> bool:
        """It was complete, and all of it was taken."""
        return self.complete and not self._pieces

    async def change(self, taken: Callable[[], bool] | None = None) -> None:
        """Wait until more of it came, or it broke off.

        `taken` is asked first, while the packet is at hand: what it says True to wakes nobody.
        """
        self._waiter, self._taken = asyncio.get_running_loop().create_future(), taken
        try:
            await self._waiter
        finally:
            self._waiter = self._taken = None

    def take(self) -> bytes:
        """The bytes of the body that have come since the last time."""
        pieces = self._pieces
        if not pieces:
            return b""
        self._pieces, self._size = [], 0
        if self._wire is not None:
            self._wire.go_on()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def give_back(self) -> None:
        """Nothing more is wanted: the next request may have the connection, if it is in order."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.free(self)

    def close(self) -> None:
        """Nothing more is wanted, and the engine hears of it at once."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()

    def came(self, piece: bytes) -> bool:
        """One piece more; True when there is no room for another."""
        self._pieces.append(piece)
        self._size += len(piece)
        return self._size > HELD

    def wake(self) -> None:
        """Tell the reader, unless it was told and has not come yet: then it finds this as well."""
        waiter = self._waiter
        if waiter is None or waiter.done() or (self._taken is not None and self._taken()):
            return
        waiter.set_result(None)


class Wire(asyncio.Protocol):
    """The connection. The names that begin with `on_` are httptools'."""

    def __init__(self, freed: Callable[[Wire], None], lost: Callable[[Wire], None]) -> None:
        self._freed, self._lost = freed, lost
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._reply: Reply | None = None
        self._headless = False
        self._keep = self._to_the_end = self._paused = False
        self._since_body = 0
        self._reason = b""
        self._fields: list[tuple[str, str]] = []
        self.idle_since = 0.0
        """By the loop's clock, while it is free."""

    @property
    def usable(self) -> bool:
        """Whether the engine has kept it open."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, head: bytes, body: bytes, *, only_head: bool) -> Reply:
        """Send a request; its answer has no body when `only_head` was asked for."""
        reply = self._reply = Reply(self)
        self._headless, self._since_body = only_head, 0
        self._keep = self._to_the_end = False
        if self._transport is None:
            reply.broke = "the connection closed"
        elif len(body) < MOST_HEAD:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return reply

    def free(self, reply: Reply) -> None:
        """Its answer is not wanted any more."""
        if self._reply is not reply:
            return
        transport, self._reply = self._transport, None
        sent = transport is not None and not transport.get_write_buffer_size()
        if reply.drained and self._keep and sent and self.usable:
            self._freed(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close it now. What ends because we end it is not complete."""
        self._to_the_end = False
        if self._transport is not None:
            self._transport.abort()

    def go_on(self) -> None:
        """There is room for more."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass of it

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer; nobody asked for any others."""
        reply = self._reply
        if reply is None or reply.complete:
            self.abort()
            return
        self._since_body += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(f"not an HTTP answer ({type(error).__name__})")
        if self._since_body > MOST_HEAD:
            self._fail(f"more than {MOST_HEAD} bytes that are no body")
        reply.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed: that ends an answer that had no length of its own."""
        self._transport = None
        reply = self._reply
        if reply is not None:
            if self._to_the_end and exc is None and reply.status and not reply.broke:
                reply.complete = True
            elif not reply.complete:
                reply.broke = reply.broke or in_words(exc)
            reply.wake()
        self._lost(self)

    def on_message_begin(self) -> None:
        """An answer begins; after a complete one nothing should."""
        if self._reply is not None and self._reply.complete:
            self._keep = False
        self._reason, self._fields = b"", []

    def on_status(self, words: bytes) -> None:
        """A part of the reason phrase."""
        self._reason += words

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; trailers are of no use."""
        if self._reply is not None and not self._reply.status:
            self._fields.append((_text(name), _text(value)))

    def on_headers_complete(self) -> None:
        """The head, perhaps of an interim answer (RFC 9110, 15.2)."""
        reply, status = self._reply, self._parser.get_status_code()
        if reply is None or reply.complete or 100 <= status < 200:
            return
        reply.headers, reply.reason = CIMultiDict(self._fields), _text(self._reason)
        reply.status = status
        self._since_body = 0
        coding = reply.headers.get("Transfer-Encoding", "").lower()
        measured = "chunked" in coding or "Content-Length" in reply.headers
        self._to_the_end = not measured and status not in _BODILESS
        if self._headless:
            reply.complete = True

    def on_body(self, piece: bytes) -> None:
        """Bytes of the body."""
        self._since_body = 0
        reply = self._reply
        if reply is not None and not reply.complete and reply.came(piece) and not self._paused:
            self._paused = True
            if self._transport is not None:
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The end of an answer."""
        reply = self._reply
        if reply is not None and reply.status and not reply.complete:
            reply.complete = True
            self._keep = self._parser.should_keep_alive()

    def _fail(self, why: str) -> None:
        """Nothing of this connection is believed any more."""
        self._keep = False
        if self._reply is not None and not self._reply.complete:
            self._reply.broke = self._reply.broke or why
        self.abort()


def in_words(error: BaseException | None) -> str:
    """Words without an address: asyncio puts host and port into its messages."""
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return "the connection closed" if error is None else type(error).__name__


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
