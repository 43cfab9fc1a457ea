"""Engines as processes of this machine, each under its own shim (ports.Launcher).

Law: instances outlive us. What we know is re-read from the folders of their starts, and a process
is ours only by boot, pid, start time and nonce together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pdctl import tasks
from pdctl.adapters.supervision import attaching, leftovers, logs, spawning, starts
from pdctl.adapters.supervision.exits import Announcer, Watch
from pdctl.adapters.vllm import progress
from pdctl.domain.errors import EngineError
from pdctl.domain.instance import ExitInfo, Progress
from pdctl.fleetfile import references
from pdctl.ports import Clock, LaunchOrder, Lost, Running
from pdctl.shim import procfs, records

log = logging.getLogger(__name__)
KILL_WAIT_S = 8.0
"""How long a shim may take to end its family before we do it ourselves."""
ROOM = 16 * 1024
"""Free bytes that it takes to record an end."""
SHIM_LOST = "The instance's supervisor was killed; what was left of the engine was ended."
UNRECORDED = "It ended, and its supervisor could not record how: is the disk full?"
REBOOTED = "The machine was restarted."
UNREAD = "It ended, and pdctl could not make out how."


@dataclass(slots=True)
class _Start:
    """One start that somebody still has to be told about."""

    home: Path
    order: LaunchOrder
    who: starts.Identity | None = None
    watch: Watch | None = None
    exit: ExitInfo | None = None
    progress: Progress | None = None
    doom: str = ""
    """A line of its log after which this start can come to nothing."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    cursor: logs.Cursor | None = None

    async def over(self, within_s: float) -> bool:
        """Whether it has ended, after waiting for that for at most `within_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.ended.wait()
        return self.ended.is_set()

    def running(self) -> Running:
        """As the port tells it; alive until the whole family is gone and its ports are free."""
        alive = not self.ended.is_set()
        return Running(
            order=self.order,
            shim_pid=self.who.shim_pid if self.who else None,
            pid=self.who.pid if self.who else None,
            alive=alive,
            started_at=self.who.started_at if self.who else 0.0,
            log_path=str(logs.newest(self.home)),
            exit=self.exit,
            progress=self.progress,
            doom=self.doom,
        )


class SubprocessLauncher:
    """Starts shims, finds them again, and is told by the kernel when they end."""

    def __init__(
        self,
        runtime_dir: Path,
        clock: Clock,
        *,
        log_bytes: int = 16 * 1024 * 1024,
        log_parts: int = 4,
        keep_starts: int = 5,
    ) -> None:
        self._dir, self._clock = runtime_dir, clock
        self._limits = {"log_bytes": log_bytes, "log_parts": log_parts}
        self._keep = keep_starts
        self._starts: dict[str, _Start] = {}
        self._ignored: set[str] = set()
        """Folders that need no look again: starts that were read, and what is not ours."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._ends = Announcer()
        self._endings: set[asyncio.Task[None]] = set()

    async def launch(self, order: LaunchOrder) -> Running:
        """Start it. Idempotent by nonce. Raises EngineError when the process cannot be started."""
        async with self._lock(order.nonce):
            if order.nonce not in self._starts and not await self._adopt(self._home(order.nonce)):
                await self._begin(order)
            return self._starts[order.nonce].running()

    async def attach(self, order: LaunchOrder, leader: tuple[int, int], since: float) -> Running:
        """Watch an engine that runs without a supervisor: `leader` is (pid, start).

        `since` is when it began, wall time. EngineError when it cannot be watched.
        """
        home = self._home(order.nonce)
        async with self._lock(order.nonce):
            at = self._clock.now()
            try:
                await asyncio.to_thread(
                    attaching.prepare, home, order, leader, since=since, at=at
                )  # fmt: skip
                await spawning.spawn(home)
            except (OSError, EngineError) as error:
                await asyncio.to_thread(attaching.discard, home)
                raise self._unwritable(error) if isinstance(error, OSError) else error from None
            await self._take(_Start(home, order))
            return self._starts[order.nonce].running()

    async def detach(self, nonce: str) -> None:
        """Stop watching what `attach` took, and leave it running as it was."""
        start = self._starts.pop(nonce, None)
        self._ignored.add(nonce)
        if start is None or start.watch is None or start.who is None:
            return
        start.watch.send(signal.SIGKILL)
        start.watch.close()
        await spawning.bury(start.who.shim_pid, patience_s=0.0)
        await asyncio.to_thread(attaching.discard, start.home)

    async def terminate(self, nonce: str) -> None:
        """SIGTERM to the leader (vLLM then drains for its --shutdown-timeout). Unknown: no-op."""
        if (start := self._starts.get(nonce)) and start.watch:
            start.watch.send(signal.SIGTERM)  # the shim passes it on

    async def kill(self, nonce: str) -> None:
        """SIGKILL to the whole group of the instance, and the sweep of what it left behind."""
        start = self._starts.get(nonce)
        if start is None or start.ended.is_set():
            return
        if start.watch:
            start.watch.send(signal.SIGUSR1)  # to the shim: end your family now
        if await start.over(KILL_WAIT_S):
            return
        await asyncio.to_thread(leftovers.clear, start.home, nonce, start.who, with_shim=True)
        if not await start.over(KILL_WAIT_S):
            log.error("instance %s: its supervisor cannot be killed", start.order.instance_id)

    async def list(self) -> list[Running]:
        """Every start that lives or ended unread, including those of an earlier control plane."""
        for home in await asyncio.to_thread(starts.homes, self._dir):
            known = home.name in self._starts or home.name in self._ignored
            if not known and not self._lock(home.name).locked():
                async with self._lock(home.name):
                    if not await self._try_adopt(home):
                        self._ignored.add(home.name)
        await asyncio.to_thread(self._read_logs, list(self._starts.values()))
        return [start.running() for start in self._starts.values()]

    async def lost(self, nonces: Collection[str] = ()) -> tuple[Lost, ...]:
        """Living processes of starts without a record: of those in `nonces`, and what we find."""
        folders = await asyncio.to_thread(starts.folders, self._dir)
        busy = {nonce for nonce, lock in self._locks.items() if lock.locked()}
        candidates, known = {*nonces, *folders} - {""}, self._starts.keys() | busy
        found = await asyncio.to_thread(leftovers.lost, self._dir, candidates, known)
        return tuple(Lost(nonce, tuple(sorted(pids))) for nonce, pids in sorted(found.items()))

    async def end_lost(self, lost: Lost) -> tuple[int, ...]:
        """SIGKILL them and sweep up after them; the pids that would not die."""
        home, pids = self._home(lost.nonce), set(lost.pids)
        return tuple(await asyncio.to_thread(leftovers.end_lost, home, pids))

    def order(self, nonce: str) -> LaunchOrder | None:
        """What began a start that lives or ended unread; None when there is no such start."""
        start = self._starts.get(nonce)
        return start.order if start else None

    async def forget(self, nonce: str) -> None:
        """Drop the record of an ended start (its log files stay)."""
        start = self._starts.get(nonce)
        if start is None or not start.ended.is_set():
            return
        del self._starts[nonce]
        self._ignored.add(nonce)
        self._locks.pop(nonce, None)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(starts.forget, start.home)
            await asyncio.to_thread(starts.prune, self._dir, start.order.instance_id, self._keep)

    def changed(self) -> AsyncIterator[str]:
        """Nonces as their processes exit (seen through pidfd), for a prompt look."""
        return self._ends.listen()

    async def close(self) -> None:
        """Release our own handles; instances go on running."""
        await tasks.settle(*self._endings)
        for start in self._starts.values():
            if start.watch:
                start.watch.close()
        self._starts.clear()

    def log_path(self, instance_id: str, previous: bool = False) -> Path | None:
        """The log of an instance's last start, or of the one before; None when there is none."""
        return starts.log_path(self._dir, instance_id, previous)

    def _home(self, nonce: str) -> Path:
        return self._dir / nonce

    def _lock(self, nonce: str) -> asyncio.Lock:
        return self._locks.setdefault(nonce, asyncio.Lock())

    async def _begin(self, order: LaunchOrder) -> None:
        home = self._home(order.nonce)
        env = spawning.base_env(order.argv[0], os.environ)
        env |= await asyncio.to_thread(references.resolve, order.env)
        env[records.NONCE_VARIABLE] = order.nonce
        try:
            await asyncio.to_thread(
                starts.prepare, home, order, env, at=self._clock.now(), **self._limits
            )
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            await spawning.spawn(home)
        except EngineError:
            with contextlib.suppress(OSError):  # the caller is told now; nobody needs to read it
                await asyncio.to_thread(leftovers.clear, home, order.nonce, with_shim=True)
                await asyncio.to_thread(starts.forget, home)
            raise
        await self._take(_Start(home, order))

    def _unwritable(self, error: OSError) -> EngineError:
        return EngineError(
            "runtime_dir",
            f"The folder of run-time records cannot be written: {error}.",
            f"Free space, or make {self._dir} writable.",
        )

    async def _adopt(self, home: Path) -> bool:
        """Take a start from disk if there is one that somebody still has to be told about."""
        if home.name in self._starts:
            return True
        order = await asyncio.to_thread(starts.order_of, home)
        if order is None or order.nonce != home.name or starts.is_forgotten(home):
            return False
        await self._take(_Start(home, order))
        return True

    async def _take(self, start: _Start) -> None:
        """Find out whether it lives: then watch it, else bring its end in order."""
        nonce = start.order.nonce
        start.who = await asyncio.to_thread(leftovers.identity, start.home)
        start.cursor = logs.Cursor(start.home / records.LOG_DIR)
        if start.who is not None and start.who.boot_id == procfs.boot_id():
            start.watch = Watch.open(
                start.who.shim_pid, start.who.shim_start,
                lambda status: self._on_exit(start, status),
            )  # fmt: skip
        self._starts[nonce] = start
        if start.watch is None:
            await self._conclude(start)
            return
        with contextlib.suppress(OSError):
            await asyncio.to_thread(starts.seal, start.home)

    async def _try_adopt(self, home: Path) -> bool:
        """`_adopt`; trouble with one start must not hide the others."""
        try:
            return await self._adopt(home)
        except Exception:
            log.exception("the start in %s cannot be read", home)
            return False

    def _on_exit(self, start: _Start, status: int | None) -> None:
        start.watch = None
        name = f"conclude-{start.order.nonce[:8]}"
        task = tasks.spawn(self._conclude(start, status), name=name)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _conclude(self, start: _Start, status: int | None = None) -> None:
        """The shim is gone: read its last words, or end what it could not and write them.

        Whatever goes wrong with that, the start has ended: nobody may wait for it for ever.
        """
        try:
            start.exit = await asyncio.to_thread(self._end_of, start, status)
        except Exception:
            log.exception("instance %s: its end cannot be made out", start.order.instance_id)
        finally:
            if start.exit is None:
                start.exit = ExitInfo(None, None, self._clock.now(), (), UNREAD)
            start.ended.set()
            self._ends.tell(start.order.nonce)

    def _end_of(self, start: _Start, status: int | None) -> ExitInfo:
        if (said := starts.exit_of(start.home)) is not None:
            return said
        nonce, why = start.order.nonce, SHIM_LOST
        if start.who is not None and start.who.boot_id != procfs.boot_id():
            why = REBOOTED
        elif (status is not None and os.WIFEXITED(status)) or _is_full(start.home):
            why = UNRECORDED
        log.warning("instance %s (start %s): %s", start.order.instance_id, nonce[:8], why)
        return leftovers.conclude(start.home, nonce, why, start.who, self._clock.now())

    def _read_logs(self, found: Sequence[_Start]) -> None:
        """Bring the progress of those that are still starting up to date (in a thread)."""
        for start in found:
            while start.cursor is not None and (lines := start.cursor.read()):
                for line in lines:
                    start.progress = progress.parse(line, start.progress)
                    start.doom = start.doom or progress.doom(line)
            if start.ended.is_set() or progress.finished(start.progress):
                start.cursor = None


def _is_full(home: Path) -> bool:
    """Whether the disk of `home` has no room for a record."""
    try:
        disk = os.statvfs(home)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < ROOM or (disk.f_files > 0 and disk.f_favail == 0)


LAUNCHER = SubprocessLauncher
