"""One worker: a data plane, and the socket on which a control plane may come and go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdctl.domain.handoff import Load
from pdctl.domain.table import RoutingTable
from pdctl.gateway.plane import LocalDataPlane
from pdctl.router_worker.backlog import Backlog
from pdctl.router_worker.listeners import Desk, obtain
from pdctl.seam import frames
from pdctl.tasks import settle, spawn

log = logging.getLogger(__name__)
BATCH = 200
BEAT_S = 10.0
"""How often what has nothing to do with requests is looked after."""
ORPHAN_S = 60.0
"""A worker that nobody has told to listen by then is nobody's."""
LAST_WORDS_S = 10.0
"""How long, after its last request, it waits for its facts to be put away."""
REPLACE_S = 30.0
"""How long after SIGTERM it waits for a successor before it drains without one."""
LINGER_S = 2.0
"""How long it keeps connections without a request when it drains on its own account."""
DRAIN_S = 600.0
"""How long requests may take that are open when it drains on its own account."""


class Worker:
    """Serves until told to end; run it in the folder of workers."""

    def __init__(
        self, plane: LocalDataPlane, *, nonce: str, slot: int, address: tuple[str, int],
        version: str, listener: socket.socket | None = None,
        on_beat: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._plane, self._nonce, self._slot, self._version = plane, nonce, slot, version
        self._host, self._port = address
        self._listener, self._on_beat = listener, on_beat
        self._backlog = Backlog()
        self._state = frames.WAITING
        self._why = ""
        self._table: RoutingTable | None = None
        self._load = Load(0)
        self._load_due = self._state_due = False
        self._news = asyncio.Event()
        self._moved = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._sender: asyncio.Task[None] | None = None
        self._controlled: asyncio.Task[None] | None = None
        self._desk: Desk | None = None
        self._drain: asyncio.Task[None] | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Until the end."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._asked_to_end)
        for number in (signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, lambda: None)
        path = Path(f"{self._nonce}.sock")
        server = await asyncio.start_unix_server(self._serve_control, path=str(path))
        self._pumping = spawn(self._pump(), name="events")
        beat = spawn(self._beat(), name="beat")
        guard = loop.call_later(ORPHAN_S, self._orphaned)
        try:
            await self._over.wait()
        finally:
            guard.cancel()
            server.close()
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - a socket file of our own
            await settle(self._pumping, beat, *([self._sender] if self._sender else []))
            if self._writer is not None and self._controlled is not None:
                self._writer.close()
                await asyncio.wait(
                    [self._controlled], timeout=1
                )  # cancelled, it would leave a traceback

    async def _beat(self) -> None:
        while True:
            self._on_beat()
            await asyncio.sleep(BEAT_S)

    async def _pump(self) -> None:
        async for event in self._plane.events():
            if isinstance(event, Load):
                self._load, self._load_due = event, True
            else:
                self._backlog.put(event)
            self._news.set()

    # What the control plane says.

    async def _serve_control(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The newest control plane is the right one: an older connection is closed."""
        if self._writer is not None:
            self._writer.close()
        if self._sender is not None:
            await settle(self._sender)
        self._writer, self._controlled = writer, asyncio.current_task()
        self._backlog.rewind()
        self._sender = spawn(self._tell(writer), name="sender")
        self._sender.add_done_callback(lambda _: writer.close())  # it is no wire that tells nothing
        while (frame := await frames.read(reader)) is not None and self._writer is writer:
            try:
                await self._obey(frame)
            except Exception:
                log.exception("a %s frame could not be carried out", frame.get("t"))
        if self._writer is writer:
            await settle(self._sender)
            self._writer = self._sender = None
        writer.close()

    async def _obey(self, frame: dict[str, Any]) -> None:
        match frame["t"]:
            case frames.TABLE:
                self._table = RoutingTable.from_json(frame["table"])
                await self._plane.push(self._table)
            case frames.LISTEN:
                await self._listen(frame.get("predecessor"))
            case frames.DRAIN:
                self._begin_drain(float(frame["grace_s"]), float(frame["linger_s"]))
            case frames.ACK:
                self._backlog.acknowledge(frame["seqs"])
                self._moved.set()

    async def _listen(self, predecessor: str | None) -> None:
        if self._state != frames.WAITING:
            return
        try:
            listener = self._listener or await obtain(self._host, self._port, predecessor)
        except Exception as error:
            self._enter(frames.WAITING, str(error))
            raise
        self._desk = Desk(self._nonce, listener)
        await self._plane.start(listener)
        self._enter(frames.LISTENING)

    def _begin_drain(self, grace_s: float, linger_s: float) -> None:
        if self._state != frames.DONE:
            if self._drain is not None:  # told again: with less patience, as a rule
                self._drain.cancel()
            self._drain = spawn(self._finish(grace_s, linger_s), name="drain")

    async def _finish(self, grace_s: float, linger_s: float) -> None:
        if self._desk is not None:
            self._desk.close()
            self._desk = None
        await self._plane.close_door()
        self._enter(frames.DRAINING)
        await self._plane.stop(grace_s, linger_s=linger_s)
        if self._pumping is not None:
            await asyncio.wait([self._pumping])  # it takes what was told last
        self._enter(frames.DONE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                while len(self._backlog):
                    self._moved.clear()
                    await self._moved.wait()
        self._over.set()

    def _asked_to_end(self) -> None:
        """SIGTERM: a control plane puts a successor in our place first; alone we just drain."""
        if self._state == frames.LISTENING and self._writer is not None:
            self._enter(frames.REPLACE)
            asyncio.get_running_loop().call_later(REPLACE_S, self._give_up_waiting)
        else:
            self._begin_drain(DRAIN_S, LINGER_S)

    def _give_up_waiting(self) -> None:
        if self._state == frames.REPLACE:
            self._begin_drain(DRAIN_S, LINGER_S)

    def _orphaned(self) -> None:
        if self._state == frames.WAITING:
            log.warning("nobody told this worker to listen; it ends")
            self._over.set()

    # What the control plane is told.

    def _enter(self, state: str, why: str = "") -> None:
        self._state, self._why, self._state_due = state, why, True
        self._news.set()

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        table = None if self._table is None else self._table.to_json()
        writer.write(
            frames.pack(
                frames.HELLO, pid=os.getpid(), nonce=self._nonce, slot=self._slot,
                version=self._version, host=self._host, port=self._port, state=self._state,
                table=table, load=self._plane.load, dropped=self._dropped, kept=len(self._backlog),
                beats=True,
            )
        )  # fmt: skip
        with contextlib.suppress(ConnectionError):
            while True:
                self._news.clear()
                while news := self._next():
                    writer.write(news)
                    await writer.drain()
                try:
                    async with asyncio.timeout(frames.BEAT_S):
                        await self._news.wait()
                except TimeoutError:
                    writer.write(frames.pack(frames.BEAT))

    def _next(self) -> bytes:
        """What is new: facts before the load that was counted after them."""
        out = [
            frames.pack_fact(seq, fact, again=again)
            for seq, fact, again in self._backlog.take(BATCH)
        ]
        if self._load_due:
            self._load_due = False
            out.append(frames.pack(frames.LOAD, load=self._load, dropped=self._dropped))
        if self._state_due:
            self._state_due = False
            out.append(frames.pack(frames.STATE, state=self._state, why=self._why))
        return b"".join(out)

    @property
    def _dropped(self) -> int:
        return self._backlog.dropped + self._plane.dropped_events
