"""Connections to engines: one pool, and every way a leg can fail told apart.

Idle connections are dropped after 3 s, before vLLM drops them (VLLM_HTTP_TIMEOUT_KEEP_ALIVE is 5);
answers have no total time limit, but reaching the engine, its first byte and every gap have one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from multidict import CIMultiDict

from pdctl.domain.table import Target
from pdctl.gateway.watch import Watch
from pdctl.gateway.wire import Reply, Wire, in_words
from pdctl.routing.signals import Failed, Failure

KEEP_ALIVE_S = 3.0
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Requests that say nothing of a body when they have none."""
_REPEATABLE = _BODILESS | {"PUT", "DELETE"}
"""RFC 9110, 9.2.2: sent again when a connection that was kept turns out to be closed."""


Take = Callable[[bytes], bool]
"""Takes a piece of an answer; False when its reader must come before the next."""


class LegError(Exception):
    """A leg failed; `failed` says how."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.why)
        self.failed = failed


class Parcel:
    """A body that knows whether any of it was sent: unsent KV params are still on prefill."""

    __slots__ = ("content", "sent")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.sent = False


@dataclass(slots=True)
class Call:
    """One request to an engine."""

    target: Target
    method: str
    path: str
    """Path and query, percent-encoded as the client sent them."""
    headers: CIMultiDict[str]
    body: Parcel | None
    connect_s: float
    first_byte_s: float


class Upstream:
    """The pool. Open it inside the event loop that serves."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[Wire]] = {}
        self._open: dict[Wire, tuple[str, int]] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for wire in tuple(self._open):
            wire.abort()
        await asyncio.sleep(0)  # transports close in the loop's next turn

    async def send(self, call: Call) -> Reply:
        """Send it and wait for the answer's headers; LegError when they do not come."""
        head = _head(call)
        try:
            async with asyncio.timeout(call.first_byte_s):
                wire, kept = self._kept(call.target), True
                while True:
                    if wire is None:
                        wire, kept = await self._connect(call), False
                    reply = await _ask(wire, head, call)
                    if reply.status:
                        return reply
                    if not kept or call.method not in _REPEATABLE:
                        raise LegError(Failed(Failure.DIED, reply.broke))
                    wire = None
        except TimeoutError as error:
            why = f"no answer within {call.first_byte_s:g} s"
            raise LegError(Failed(Failure.TIMEOUT, why)) from error

    def _kept(self, target: Target) -> Wire | None:
        """A connection that is open already: the one that was used last."""
        wires, oldest = self._idle.get((target.host, target.port)), self._loop.time() - KEEP_ALIVE_S
        while wires:
            wire = wires.pop()
            if wire.usable and wire.idle_since > oldest:
                return wire
            wire.abort()
        return None

    async def _connect(self, call: Call) -> Wire:
        if self._closed:
            raise LegError(Failed(Failure.STOPPED, "the router is stopping"))
        place = call.target.host, call.target.port
        try:
            async with asyncio.timeout(call.connect_s):
                _, wire = await self._loop.create_connection(
                    lambda: Wire(self._freed, self._lost), *place
                )
        except TimeoutError as error:
            why = f"no connection within {call.connect_s:g} s"
            raise LegError(
                Failed(Failure.CONNECT, in_words(error) if error.errno else why)
            ) from error
        except OSError as error:
            raise LegError(Failed(Failure.CONNECT, in_words(error))) from error
        self._open[wire] = place
        if self._closed:
            wire.abort()
        return wire

    def _freed(self, wire: Wire) -> None:
        wire.idle_since = self._loop.time()
        self._idle.setdefault(self._open[wire], []).append(wire)
        if self._timer is None:
            self._timer = self._loop.call_later(KEEP_ALIVE_S, self._sweep)

    def _lost(self, wire: Wire) -> None:
        place = self._open.pop(wire, None)
        if place is not None and wire in (wires := self._idle.get(place, [])):
            wires.remove(wire)

    def _sweep(self) -> None:
        """Close what nobody used for long, the oldest of each instance first."""
        self._timer, oldest = None, self._loop.time() - KEEP_ALIVE_S
        for place, wires in tuple(self._idle.items()):
            for wire in wires:
                if wire.idle_since <= oldest:
                    wire.abort()
            if not wires:
                del self._idle[place]
        if self._idle and not self._closed:
            self._timer = self._loop.call_later(KEEP_ALIVE_S / 3, self._sweep)


class Reader:
    """Reads one answer, piece by piece, with a limit on every wait."""

    __slots__ = ("_answer", "_refused", "_stalled", "_take", "_watch")

    def __init__(self, answer: Reply, first_byte_s: float) -> None:
        self._answer = answer
        self._watch = Watch(first_byte_s, self._give_up)
        self._stalled: float | None = None
        self._take: Take | None = None
        self._refused = False

    async def read(self) -> bytes:
        """What is there, at least one byte; b"" at the end. LegError when it broke off."""
        while not (data := self._answer.take()):
            if self._answer.complete:
                return b""
            await self._more()
        return data

    async def flow(self, take: Take) -> bool:
        """Give `take` every piece as it comes, out of the engine's packet: a task that woke for
        each would cost more than the piece. True once it wants no more; False at the end.
        LegError when the answer broke off.
        """
        self._take, self._refused = take, False
        try:
            self._offer()
            while not self._refused:
                if self._answer.complete:
                    return False
                await self._more(self._offer)
        finally:
            self._take = None
        return True

    def _offer(self) -> bool:
        """Pass on what has come; False when `flow` must wake."""
        answer = self._answer
        assert self._take is not None  # noqa: S101 - offered inside `flow` only
        if data := answer.take():
            self._refused = not self._take(data)
        if self._refused or answer.complete or answer.broke or self._stalled is not None:
            return False
        self._watch.begin()
        return True

    async def _more(self, taken: Callable[[], bool] | None = None) -> None:
        """Wait for more, or raise LegError when there is none to come."""
        if self._stalled is not None:
            raise LegError(Failed(Failure.TIMEOUT, f"nothing for {self._stalled:g} s"))
        if self._answer.broke:
            raise LegError(Failed(Failure.DIED, self._answer.broke))
        self._watch.begin()
        try:
            await self._answer.change(taken)
        finally:
            self._watch.end()

    @property
    def ended(self) -> bool:
        """Everything was read, and the engine's answer was whole."""
        return self._answer.drained

    async def rest(self) -> bytes:
        """Everything up to the end."""
        pieces = []
        while piece := await self.read():
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def put_back(self, within_s: float) -> None:
        """The answer is complete by its own words: reuse its connection once it has ended."""
        self._watch.limit(within_s)
        try:
            ended = not await self.read()
        except LegError:
            ended = False
        self.close(reusable=ended)

    def flowing(self, stall_s: float) -> None:
        """The first token is there: from now on gaps are limited by `stall_s`."""
        self._watch.limit(stall_s)

    def close(self, *, reusable: bool = False) -> None:
        """Stop watching; the connection is reused only when its answer was read to the end."""
        self._watch.stop()
        if reusable:
            self._answer.give_back()
        else:
            self._answer.close()

    def _give_up(self, waited_s: float) -> None:
        self._stalled = waited_s
        self._answer.close()
        self._answer.wake()


async def _ask(wire: Wire, head: bytes, call: Call) -> Reply:
    """Its answer, once there is a head, or none will come; whoever gives up waiting closes it."""
    body = call.body
    if body is not None:
        body.sent = True
    reply = wire.ask(head, body.content if body else b"", only_head=call.method == "HEAD")
    try:
        while not reply.status and not reply.broke:
            await reply.change()
    except BaseException:
        reply.close()
        raise
    return reply


def _head(call: Call) -> bytes:
    """The request's head. A client's parser took no line break in a value, and none leaves here."""
    host, path = call.target.host, call.path.partition("#")[0]
    lines = [f"{name}: {value}" for name, value in call.headers.items()]
    where = f"[{host}]" if ":" in host else host
    lines[:0] = [f"{call.method} {path} HTTP/1.1", f"Host: {where}:{call.target.port}"]
    if call.body is not None or call.method not in _BODILESS:
        lines.append(f"Content-Length: {len(call.body.content) if call.body else 0}")
    head = "\r\n".join(lines)
    if head.count("\r") + head.count("\n") != 2 * (len(lines) - 1):
        raise LegError(Failed(Failure.DIED, "a header holds a line break"))
    return head.encode("utf-8", "surrogateescape") + b"\r\n\r\n"
