"""One worker as the control plane holds it: its process, the wire to it, what it last said."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from pdctl.adapters.routers.roster import Entry, Roster
from pdctl.adapters.supervision.exits import Watch
from pdctl.domain.handoff import Load, RequestRecord, RouterEvent
from pdctl.domain.table import RoutingTable
from pdctl.ports import RouterWorker
from pdctl.seam import frames
from pdctl.tasks import settle, spawn

log = logging.getLogger(__name__)
RETRY_S = 0.05
SILENT = 10
"""Looks in a row at which nothing had been heard from a worker that hangs."""
Key = tuple[str, float]
Deliver = Callable[["Handle", RouterEvent, bool], Awaitable[bool]]
"""(worker, event, told before) -> True when it is put away already."""


class Handle:
    """Connects, and connects again, until the process has ended."""

    def __init__(self, entry: Entry, roster: Roster, deliver: Deliver) -> None:
        self.entry, self._roster, self._deliver = entry, roster, deliver
        self.state, self.why = "", ""
        self.load: Load | None = None
        self.dropped = 0
        self.last_table: RoutingTable | None = None
        """The table it had when we first met it."""
        self.hello, self.changed = asyncio.Event(), asyncio.Event()
        self.ended = asyncio.Event()
        self.retired = False
        """It was told to end: its end is no news."""
        self._met = self._beats = self._heard = False
        self._misses = 0
        self._table: RoutingTable | None = None
        self._listen = False
        self._drain: tuple[float, float] | None = None
        self._taken = 0
        self._pending: dict[int, Key] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._watch = Watch.open(entry.pid, entry.start, self._exited)
        if self._watch is None:
            self.ended.set()
        self._link = spawn(self._run(), name=f"router worker {entry.pid}")

    @property
    def connected(self) -> bool:
        """Whether it hears us now."""
        return self._writer is not None

    @property
    def view(self) -> RouterWorker:
        """For the faces."""
        return RouterWorker(
            self.entry.slot, self.entry.pid, self._shown, self.entry.version,
            sum(self.load.inflight.values()) if self.load else 0, self.dropped,
            self.entry.started_at,
        )  # fmt: skip

    @property
    def _shown(self) -> str:
        return "silent" if self.silent else self.state if self.connected else "away"

    @property
    def silent(self) -> bool:
        """It has said nothing for so long that it hangs; older ones do not beat at all."""
        return self._misses >= SILENT

    def tick(self) -> None:
        """Call it every BEAT_S. Looks are counted, not seconds: we may have hung ourselves."""
        self._misses = self._misses + 1 if self._beats and not self._heard else 0
        self._heard = False
        if self.silent:
            self.changed.set()

    def is_draining(self) -> bool:
        """Whether it has closed the front door for itself."""
        return self.state in (frames.DRAINING, frames.DONE)

    # What it is told; said again on every new connection.

    def push(self, table: RoutingTable) -> None:
        """Route by this from now on."""
        self._table = table
        self.changed.set()
        self._say(frames.TABLE, table=table.to_json())

    def listen(self) -> None:
        """Open the front door, on the socket it was started with if there was one."""
        self._listen = True
        self._say(frames.LISTEN)

    def drain(self, grace_s: float, linger_s: float = 0.0) -> None:
        """Take nothing new, end what is open within `grace_s`, then end (gateway `stop`)."""
        self.retired = True
        self._drain = (grace_s, linger_s)
        self._say(frames.DRAIN, grace_s=grace_s, linger_s=linger_s)

    def stored(self, keys: set[Key]) -> None:
        """These records are put away."""
        seqs = [seq for seq, key in self._pending.items() if key in keys]
        for seq in seqs:
            del self._pending[seq]
        if seqs:
            self._say(frames.ACK, seqs=seqs)

    def kill(self) -> None:
        """At once."""
        if self._watch is not None:
            self._watch.send(signal.SIGKILL)

    async def close(self) -> None:
        """Let go of it; it goes on."""
        await settle(self._link)
        if self._watch is not None:
            self._watch.close()

    async def until(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Wait until `done`, the process ends, or time is up; whether it is done."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not done() and not self.ended.is_set():
                    self.changed.clear()
                    await self.changed.wait()
        return done()

    # The wire.

    def _exited(self, _status: int | None = None) -> None:
        self.ended.set()
        self.changed.set()

    def _say(self, name: str, **data: Any) -> None:
        if self._writer is not None:
            self._writer.write(frames.pack(name, **data))

    async def _run(self) -> None:
        while not self.ended.is_set():
            try:
                reader, writer = await asyncio.open_unix_connection(
                    self._roster.socket(self.entry.nonce)
                )
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._converse(reader, writer)
            finally:
                self._writer = None
                self.changed.set()
                writer.close()
            await asyncio.sleep(RETRY_S)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (frame := await frames.read(reader)) is not None:
            self._heard, self._misses = True, 0
            try:
                await self._take(frame, writer)
            except (KeyError, TypeError, ValueError):
                log.exception("a %s frame of a router worker makes no sense", frame.get("t"))

    async def _take(self, frame: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        match frame["t"]:
            case frames.HELLO:
                self._greeted(frame, writer)
                await self._counted(frame["load"])
            case frames.STATE:
                self.state, self.why = frame["state"], frame["why"]
            case frames.LOAD:
                self.dropped = int(frame["dropped"])
                await self._counted(frame["load"])
            case frames.RECORD | frames.SUSPECT:
                await self._told(frame)
        self.changed.set()

    def _greeted(self, frame: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.state, self.dropped = frame["state"], int(frame["dropped"])
        if not self._met:
            self.last_table = _understood(frame["table"])
        self._met, self._writer = True, writer
        self._beats = bool(frame.get("beats"))
        if self._table is not None:
            self.push(self._table)
        if self._listen:
            self.listen()
        if self._drain is not None:
            self.drain(*self._drain)
        self.hello.set()

    async def _counted(self, data: dict[str, Any]) -> None:
        self.load = frames.load_of(data)
        await self._deliver(self, self.load, False)

    async def _told(self, frame: dict[str, Any]) -> None:
        """Take a fact once; what is put away, or is no record, is acknowledged at once."""
        seq, put_away = int(frame["seq"]), True
        if seq > self._taken:
            self._taken = seq
            if frame["t"] == frames.RECORD:
                record = RequestRecord.from_json(frame["data"])
                self._pending[seq] = (record.id, record.received_at)
                put_away = await self._deliver(self, record, bool(frame["again"]))
            else:
                await self._deliver(self, frames.suspect_of(frame["data"]), bool(frame["again"]))
        elif seq in self._pending:
            put_away = False
        if put_away:
            self._pending.pop(seq, None)
            self._say(frames.ACK, seqs=[seq])


def _understood(data: dict[str, Any] | None) -> RoutingTable | None:
    """The table that it serves by; None also when a pdctl of another version made it strange."""
    try:
        return None if data is None else RoutingTable.from_json(data)
    except (KeyError, TypeError, ValueError) as error:
        log.warning("the table of an adopted router worker cannot be read: %r", error)
        return None
