"""What the launcher knows, brought into the picture: progress of starts, ends, and strays.

Law: an end is judged once. A process that no instance answers for is a second copy and is ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pdctl.control.deadline import within
from pdctl.control.failing import crashed
from pdctl.control.feed import Feed
from pdctl.control.jobs import Jobs
from pdctl.control.observed import Observed
from pdctl.domain import verdict
from pdctl.domain.events import EventKind
from pdctl.domain.instance import ExitInfo, Instance, Progress, Vitals
from pdctl.domain.lifecycle import ALIVE, Phase, Reason, Trigger
from pdctl.ports import Clock, Launcher, Running

LIST_DEADLINE_S = 30.0
KILL_DEADLINE_S = 30.0
SICK = frozenset({Reason.UNHEALTHY, Reason.START_TIMEOUT, Reason.PORT_RACE})
"""Reasons for which a process is killed by us and still counts as failed."""
_GONE: dict[str, Any] = {
    "pid": None, "shim_pid": None, "progress": None, "stats": None, "inflight": 0
}  # fmt: skip
_COMING = frozenset({Phase.STARTING, Phase.LOADING})
_UP = frozenset({Phase.WARMING, Phase.PROBING, Phase.READY, Phase.DRAINING})


class Processes:
    """Keeps instances in step with the launcher's list."""

    def __init__(
        self,
        observed: Observed,
        launcher: Launcher,
        clock: Clock,
        jobs: Jobs,
        *,
        feed: Feed,
        wake: Callable[[], None],
    ) -> None:
        self._observed, self._launcher, self._clock = observed, launcher, clock
        self._jobs, self._feed, self._wake = jobs, feed, wake
        self._due = clock.monotonic()
        self.expected: set[str] = set()
        """Nonces of starts that are about to be an instance's."""
        self.survivors: list[str] = []
        """Processes that SIGKILL could not end, in words."""

    async def watch_exits(self, ring: Callable[[], None]) -> None:
        """Ask for a fresh list whenever a process ends, until cancelled."""
        async for _ in self._launcher.changed():
            self._due = self._clock.monotonic()
            ring()

    def begin(self) -> float:
        """List when it is due; when the next list is (monotonic)."""
        now = self._clock.monotonic()
        self._due = min(self._due, now + self._every())
        if self._due <= now and self._jobs.start("list", self._list, quiet=True):
            self._due = now + self._every()
        return max(self._due, now + 0.05)

    def _every(self) -> float:
        """Loading progress is worth a look a second; ends are announced, so the rest is a net."""
        loading = any(
            one.phase in _COMING or (one.phase is Phase.UNKNOWN and one.reason is Reason.ADOPTED)
            for one in self._observed.instances
        )
        return 1.0 if loading else 10.0

    async def _list(self) -> None:
        before = {one.nonce: one for one in self._observed.instances if one.phase in ALIVE}
        found = await within(
            self._clock, LIST_DEADLINE_S, self._launcher.list(), name="list processes"
        )
        for run in found:
            self._take(run)
        for nonce in before.keys() - {run.order.nonce for run in found}:
            one = self._observed.same(before[nonce])
            if one is not None and one.phase in ALIVE:
                self.ended(one, None)

    def _take(self, run: Running) -> None:
        one = self._observed.get(run.order.instance_id)
        if one is None or one.nonce != run.order.nonce:
            self._stray(run)
        elif run.alive and one.phase in ALIVE:
            self._alive(one, run)
        elif not run.alive:
            if one.phase in ALIVE:
                self.ended(one, run.exit)
            if one.phase is not Phase.PENDING:  # its launch is under way and will say itself
                self._forget(run.order.nonce)

    def _alive(self, one: Instance, run: Running) -> None:
        if (one.pid, one.shim_pid) != (run.pid, run.shim_pid):
            one = self._observed.edit(one, pid=run.pid, shim_pid=run.shim_pid)
        loading = one.phase in _COMING or (
            one.phase is Phase.UNKNOWN and one.reason is Reason.ADOPTED and one.vitals.misses > 0
        )  # an adopted one is looked at first: it may have been up for long
        if run.doom and loading and one.vitals.kill_at is None:
            self._doomed(one, run.doom)
            return
        if run.progress is None or run.progress == one.progress or not loading:
            return
        vitals = replace(one.vitals, progress_at=self._clock.monotonic())
        message = _in_words(run.progress)
        changes = {"progress": run.progress, "vitals": vitals, "message": message}
        self._observed.move(one, Trigger.LOAD_SEEN, **changes)

    def _doomed(self, one: Instance, line: str) -> None:
        """It hangs for ever and will not say so: end it now; the next start gets other ports."""
        vitals = replace(one.vitals, kill_at=self._clock.monotonic())
        message = f"another process took its port first: {line}"
        self._observed.edit(one, reason=Reason.PORT_RACE, message=message, vitals=vitals)
        self._wake()

    def ended(self, one: Instance, exit_: ExitInfo | None) -> None:
        """The process of `one` is gone: stopped as asked, or failed."""
        left = self._warn_of_survivors(one, exit_)
        if one.phase in (Phase.STOPPING, Phase.DRAINING):
            message = (f"stopped: {one.message}" if one.message else "stopped") + left
            fate = {**_GONE, "exit": exit_ or one.exit, "vitals": Vitals(), "drain_deadline": None}
            self._observed.move(one, Trigger.EXITED, message=message, **fate)
        else:
            self._crashed(one, exit_, left)
        self._wake()

    def _warn_of_survivors(self, one: Instance, exit_: ExitInfo | None) -> str:
        """Say which processes could not be killed; the words for the instance's message."""
        if exit_ is None or not exit_.survivors:
            return ""
        pids = ", ".join(map(str, exit_.survivors))
        message = (
            f"{one.id} has ended, but SIGKILL could not end its processes {pids}: they may still "
            f"hold {one.slot.device or 'its device'}, ports and memory until a reboot"
        )
        self._feed.publish(EventKind.NOTICE, one.id, {"level": "error", "message": message})
        self.survivors.append(f"processes {pids} of {one.id}, which SIGKILL could not end")
        return f" (processes {pids} could not be killed)"

    def _crashed(self, one: Instance, exit_: ExitInfo | None, left: str) -> None:
        was_up = one.phase in _UP or (
            one.phase is Phase.UNKNOWN and one.reason is not Reason.ADOPTED
        )
        why = verdict.judge(exit_, was_up=was_up)
        if one.reason in SICK and not (exit_ is not None and exit_.at < one.since):
            # What had ended before it was given up ended by itself: that says more.
            why = verdict.Verdict(one.reason, one.message)
        why = replace(why, message=why.message + left)
        crashed(self._observed, self._clock, one, why, exit_, **_GONE)

    def _stray(self, run: Running) -> None:
        nonce, id_ = run.order.nonce, run.order.instance_id
        if nonce in self.expected:
            return
        if not run.alive:
            self._forget(nonce)
        elif self._jobs.start(f"stray:{nonce}", partial(self._kill, nonce)):
            message = f"ended a copy of {id_} that is not the one in charge (pid {run.pid})"
            self._feed.publish(
                EventKind.STOP_RUNG, id_, {"rung": "kill", "message": message}
            )  # fmt: skip

    async def _kill(self, nonce: str) -> None:
        work = self._launcher.kill(nonce)
        await within(self._clock, KILL_DEADLINE_S, work, name=f"kill {nonce}")

    def _forget(self, nonce: str) -> None:
        async def forget() -> None:
            await within(
                self._clock, LIST_DEADLINE_S, self._launcher.forget(nonce), name="forget start"
            )

        self._jobs.start(f"forget:{nonce}", forget, quiet=True)


def _in_words(progress: Progress) -> str:
    """Stage and tenths: fine enough to see it move, coarse enough not to flood the feed."""
    if progress.fraction is None:
        return progress.stage
    return f"{progress.stage}, {int(progress.fraction * 10) * 10} %"
