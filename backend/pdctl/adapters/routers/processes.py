"""The router in processes of its own that share the front door and outlive the control plane.

Law: what serves goes on serving. Running workers are adopted, a successor listens before its
predecessor drains, and an adopted worker keeps its table until ours knows all that it routes to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path

from pdctl.adapters.routers.address import Listeners, dismiss, hold
from pdctl.adapters.routers.handle import Handle
from pdctl.adapters.routers.merging import covers, merged, share
from pdctl.adapters.routers.roster import Entry, Roster
from pdctl.domain.errors import OperatorError
from pdctl.domain.handoff import Load, RequestRecord, RouterEvent
from pdctl.domain.table import RoutingTable
from pdctl.ports import DataPlane, RouterWorker
from pdctl.seam import frames, parts
from pdctl.tasks import settle, spawn

log = logging.getLogger(__name__)
Tell = Callable[[str, str], None]
"""(level, sentence for operators)."""
Known = Callable[[RequestRecord], Awaitable[bool]]
HELLO_S = 10.0
UP_S = 60.0
"""How long a new worker may take until it listens: an import on a machine that starts engines."""
HOLD_S = 5.0
"""How long an adopted worker keeps its own table when ours does not know all that it routes to."""
REPLACED_S = 600.0
"""How long requests may take that a replaced worker has open."""
LINGER_S = 2.0
"""How long it keeps connections that have no request."""
END_S = 20.0
"""How long, beyond its grace, a worker may take to end before it is killed."""
KILL_S = 30.0
"""How long a hung worker that has a successor may take to wake."""
BACKOFF_S = (0.0, 0.2, 1.0, 5.0, 15.0, 60.0)
STEADY_S = 30.0
"""A worker that lived so long did not fail at its start."""
QUEUE = 20_000
SERVING = (frames.LISTENING, frames.REPLACE)


class ProcessDataPlane(DataPlane):
    """N workers as one data plane."""

    def __init__(
        self, host: str, port: int, *, workers: int, home: Path, version: str,
        tell: Tell, known: Known,
    ) -> None:  # fmt: skip
        self._host, self._port, self._version = host, port, version
        self._count, self._home = workers, home
        self._tell, self._known = tell, known
        self._untold: list[tuple[str, str]] = []
        """Said before the first table, which is before anybody keeps what we say."""
        self._handles: dict[str, Handle] = {}
        self._current: dict[int, Handle] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._table: RoutingTable | None = None
        self._hold_until: float | None = None
        self._routed = False
        """Workers route by a table of ours."""
        self._farewells: set[asyncio.Task[None]] = set()
        self._queue: asyncio.Queue[RouterEvent | None] = asyncio.Queue(QUEUE)
        self._dropped: dict[str, int] = {}
        self._holder: socket.socket | None = None
        self._listeners = Listeners()

    @property
    def url(self) -> str:
        """Where clients find it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def load(self) -> Load:
        """What is open now in all workers; one that has not listened yet can have nothing open."""
        loads = (one.load for one in self._handles.values() if one.state != frames.WAITING)
        latest = self._table.seq if self._table else 0
        return merged((one for one in loads if one is not None), latest_seq=latest)

    def workers(self) -> list[RouterWorker]:
        """Every process, the draining ones last."""
        every = sorted(self._handles.values(), key=lambda one: (one.retired, one.entry.slot))
        return [one.view for one in every if not one.ended.is_set()]

    def log(self, name: str) -> Path | None:
        """The newest part of the log of "router-0"; None when there is no such worker."""
        slot = name.removeprefix("router-")
        if name == slot or not slot.isdecimal() or int(slot) >= self._count:
            return None
        return max(parts.folder(self._home, int(slot)).glob("*.log"), default=None)

    async def start(self) -> None:
        """Adopt or start the workers. OperatorError when the address cannot be had."""
        self._roster = Roster(self._home)
        await self._adopt(self._roster.alive())
        adopted = set(self._handles)
        ours = any(one.state in SERVING for one in self._handles.values() if self._is_here(one))
        try:
            strays = await asyncio.to_thread(self._roster.strays)
            if pids := ", ".join(str(one.pid) for one in strays):
                self._say("error", f"Router workers without a record are sent away: {pids}.")
            self._holder = await dismiss(strays, lambda: hold(self._host, self._port, ours=ours))
            self._port = self._holder.getsockname()[1]
            missing = [slot for slot in range(self._count) if slot not in self._current]
            came = await asyncio.gather(
                *(self._bring_up(slot) for slot in missing), return_exceptions=True
            )
            for one in came:
                if isinstance(one, BaseException):
                    raise one
        except BaseException:
            await self._end([self._handles[nonce] for nonce in set(self._handles) - adopted])
            await self._let_go()
            raise
        for slot in range(self._count):
            self._keepers.append(spawn(self._keep(slot), name=f"router slot {slot}"))
        self._keepers.append(spawn(self._listen_for_beats(), name="router beats"))

    async def push(self, table: RoutingTable) -> None:
        """Serve new requests by this table; adopted workers once it knows what they route to."""
        self._table = table
        while self._untold:
            self._tell(*self._untold.pop(0))
        loop = asyncio.get_running_loop()
        if not self._routed and not all(covers(table, old) for old in self._old_tables()):
            if self._hold_until is None:
                self._hold_until = loop.time() + HOLD_S
                loop.call_later(HOLD_S, self._spread)
            if loop.time() < self._hold_until:
                return
        self._spread()

    def _spread(self) -> None:
        self._routed = True
        if self._table is not None:
            for one in self._handles.values():
                one.push(share(self._table, self._count))

    def _old_tables(self) -> list[RoutingTable]:
        serving = [one for one in self._handles.values() if not one.retired]
        return [one.last_table for one in serving if one.last_table is not None]

    async def events(self) -> AsyncIterator[RouterEvent]:
        """Facts of all workers, each worker's in order; one reader. Ends with `stop` or `leave`."""
        while (event := await self._queue.get()) is not None:
            yield event

    def stored(self, records: Sequence[RequestRecord]) -> None:
        """These are put away: workers need not keep them for the next control plane."""
        keys = {(one.id, one.received_at) for one in records}
        for handle in self._handles.values():
            handle.stored(keys)

    async def stop(self, grace_s: float) -> None:
        """Accept nothing new, let open requests end within `grace_s`, end every worker."""
        await settle(*self._keepers)
        self._listeners.close()
        await self._end([one for one in self._handles.values() if one.silent])
        handles = list(self._handles.values())
        for one in handles:
            one.drain(grace_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s + END_S):
                await asyncio.gather(*(one.ended.wait() for one in handles))
        await self._end([one for one in handles if not one.ended.is_set()])
        await self._let_go()

    async def leave(self, grace_s: float) -> None:
        """Let go of the workers; they go on serving for the next control plane to adopt."""
        await settle(*self._keepers)
        await self._let_go()

    async def _let_go(self) -> None:
        self._listeners.close()
        await settle(*(one for one in self._farewells if one is not asyncio.current_task()))
        await asyncio.gather(*(one.close() for one in self._handles.values()))
        self._roster.close()
        if self._holder is not None:
            self._holder.close()
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(None)

    # Taking over, starting, keeping.

    async def _adopt(self, entries: Sequence[Entry]) -> None:
        found = [self._hold_on(one) for one in entries]
        await asyncio.gather(*(one.until(one.hello.is_set, HELLO_S) for one in found))
        for one in sorted(found, key=self._reluctance):
            slot = one.entry.slot
            free = slot < self._count and slot not in self._current
            if not one.hello.is_set():
                self._say("error", f"Router worker {one.entry.pid} did not answer; it is killed.")
                one.retired = True
                one.kill()
            elif free and self._is_here(one) and await self._serves(one):
                self._current[slot] = one
            else:
                one.drain(REPLACED_S, LINGER_S)
        for slot, one in self._current.items():
            await self._listeners.keep(slot, self._roster, one.entry.nonce)
        if pids := [str(one.entry.pid) for one in self._current.values()]:
            self._say("info", f"Adopted {len(pids)} router workers that serve: {', '.join(pids)}.")

    def _reluctance(self, one: Handle) -> tuple[bool, bool]:
        """Ours before those of another version, who serves before who has yet to."""
        return one.entry.version != self._version, one.state not in SERVING

    async def _serves(self, one: Handle) -> bool:
        """Whether an adopted one does, or can.

        One that nobody told to listen has outlived who started it: on the socket that it was
        given, clients may have been waiting ever since.
        """
        return one.state in SERVING or (one.state == frames.WAITING and await self._open(one))

    async def _open(self, one: Handle) -> bool:
        """Let it listen; whether it does."""
        olds = self._old_tables()
        if self._table is not None and (self._routed or not olds):
            one.push(share(self._table, self._count))
        elif olds:
            one.push(max(olds, key=lambda one: one.seq))
        one.listen()
        await one.until(lambda: one.state == frames.LISTENING or bool(one.why), UP_S)
        return one.state == frames.LISTENING

    def _is_here(self, handle: Handle) -> bool:
        return (handle.entry.host, handle.entry.port) == (self._host, self._port)

    def _hold_on(self, entry: Entry) -> Handle:
        handle = Handle(entry, self._roster, self._deliver)
        self._handles[entry.nonce] = handle
        self._later(self._see_off(handle), f"end of router worker {entry.pid}")
        return handle

    def _later(self, coro: Coroutine[None, None, None], name: str) -> None:
        farewell = spawn(coro, name=name)
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    async def _bring_up(self, slot: int) -> Handle:
        """A worker that listens; OperatorError when there is none to be had."""
        listener = self._listeners.get(slot)
        entry = self._roster.spawn(slot, self._host, self._port, self._version, listener)
        handle = self._hold_on(entry)
        if not await self._open(handle):
            why = handle.why or self._roster.last_line(entry.nonce) or "it says nothing"
            await self._end([handle])
            raise OperatorError(
                "router_worker", f"Router worker {slot} does not start: {why}",
                f"Its log is in {parts.folder(self._home, slot)}.",
            )  # fmt: skip
        self._current[slot] = handle
        await self._listeners.keep(slot, self._roster, entry.nonce)
        self._say("info", f"Router worker {slot} listens (process {handle.entry.pid}).")
        return handle

    async def _keep(self, slot: int) -> None:
        """One worker in this slot, whatever happens to it."""
        loop, failed = asyncio.get_running_loop(), 0
        since = loop.time()
        while True:
            handle = self._current[slot]
            await self._until_due(handle)
            if loop.time() - since > STEADY_S:
                failed = 0
            await asyncio.sleep(BACKOFF_S[min(failed, len(BACKOFF_S) - 1)])
            gone, hung = handle.ended.is_set(), handle.silent
            since = loop.time()
            failed += 1
            try:
                new = await self._bring_up(slot)
            except (OperatorError, OSError) as error:
                self._say("error", f"{error} It is tried again.")
                if gone or hung:
                    self._listeners.drop(slot)
                continue
            if not gone:
                failed = 0
                handle.drain(REPLACED_S, LINGER_S)
            if hung and not gone:
                self._later(self._bury(handle, new), f"hung router worker {handle.entry.pid}")

    async def _bury(self, hung: Handle, new: Handle) -> None:
        """It is given time to wake; it has been told to drain then."""
        who = f"Router worker {hung.entry.slot} (process {hung.entry.pid})"
        self._say("error", f"{who} hangs: process {new.entry.pid} serves in its place.")
        if not await hung.until(lambda: not hung.silent, KILL_S) and not hung.ended.is_set():
            self._say(
                "error", f"{who} did not wake in {KILL_S:.0f} s and is killed with its streams."
            )
            hung.kill()

    async def _listen_for_beats(self) -> None:
        while True:
            await asyncio.sleep(frames.BEAT_S)
            for one in self._handles.values():
                one.tick()

    async def _until_due(self, handle: Handle) -> None:
        """Until it has ended, hangs, wants a successor, or is of another version and we route."""
        leaving = (frames.REPLACE, frames.DRAINING, frames.DONE)
        other = handle.entry.version != self._version

        def due() -> bool:
            return handle.silent or handle.state in leaving or (other and self._routed)

        while not handle.ended.is_set() and not await handle.until(due, 3600):
            pass

    async def _end(self, handles: Sequence[Handle]) -> None:
        """At once; nobody is told of it as of an accident."""
        for one in handles:
            one.retired = True
            one.kill()
        for one in handles:
            await one.until(one.ended.is_set, HELLO_S)

    async def _see_off(self, handle: Handle) -> None:
        await handle.ended.wait()
        entry = handle.entry
        handle.why = handle.why or self._roster.last_line(entry.nonce)
        if handle.retired:
            self._say("info", f"Router worker {entry.slot} has ended (process {entry.pid}).")
        else:
            text = f"Router worker {entry.slot} died (process {entry.pid}); its streams were cut"
            self._say("error", f"{text}. Its last words: {handle.why or 'none'}")
        self._handles.pop(entry.nonce, None)
        self._roster.forget(entry.nonce)
        await handle.close()
        await self._queue.put(self.load)

    # What they tell.

    async def _deliver(self, handle: Handle, event: RouterEvent, again: bool) -> bool:
        if isinstance(event, Load):
            self._count_dropped(handle)
            event = self.load
        elif again and isinstance(event, RequestRecord) and await self._known(event):
            return True
        await self._queue.put(event)
        return not isinstance(event, RequestRecord)

    def _say(self, level: str, message: str) -> None:
        if self._table is None:
            self._untold.append((level, message))
        else:
            self._tell(level, message)

    def _count_dropped(self, handle: Handle) -> None:
        if handle.dropped > self._dropped.get(handle.entry.nonce, 0):
            self._dropped[handle.entry.nonce] = handle.dropped
            text = f"Router worker {handle.entry.pid} lost {handle.dropped} facts about requests"
            self._say("error", f"{text}: nobody took them in time.")


async def clear(home: Path) -> None:
    """No worker is wanted: those that run stop listening now, and end with their last request."""
    roster = Roster(home)

    async def ignore(handle: Handle, event: RouterEvent, again: bool) -> bool:
        return False

    handles = [Handle(one, roster, ignore) for one in roster.alive()]
    await dismiss(await asyncio.to_thread(roster.strays), lambda: None)
    for one in handles:
        one.drain(REPLACED_S, LINGER_S)
    await asyncio.gather(*(one.until(one.is_draining, HELLO_S) for one in handles))
    await asyncio.gather(*(one.close() for one in handles))
    roster.close()
