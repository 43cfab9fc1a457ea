"""Our restart is not their restart: what still runs is taken over before anything is started.

Law: nothing is launched until the launcher's list has been read, and nothing runs on beside it. An
adopted instance is UNKNOWN until it has been looked at; one that served before serves again after
one good look, and its pairs are probed anew behind the traffic; one told to stop goes on stopping.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from pdctl.control.deadline import within
from pdctl.control.feed import Feed
from pdctl.control.observed import Observed
from pdctl.control.processes import KILL_DEADLINE_S, Processes
from pdctl.control.stopping import TERM_SLACK_S
from pdctl.domain import pairing
from pdctl.domain.compat import derived
from pdctl.domain.events import EventKind
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import Instance, Vitals
from pdctl.domain.lifecycle import Phase, Reason, Trigger, step
from pdctl.ports import Clock, Launcher, Lost, Running, Store

log = logging.getLogger(__name__)
LIST_DEADLINE_S = 60.0
_LEFT = frozenset({Phase.STOPPING})
_LEAVING = _LEFT | {Phase.DRAINING}
ADOPTED = "adopted after a restart of pdctl"


class Adoption:
    """One reading of what an earlier control plane left behind."""

    def __init__(
        self,
        observed: Observed,
        processes: Processes,
        launcher: Launcher,
        store: Store,
        clock: Clock,
        *,
        feed: Feed,
    ) -> None:
        self._observed, self._processes, self._clock = observed, processes, clock
        self._launcher, self._store, self._feed = launcher, store, feed
        self._remembered: dict[str, InstanceId] = {}
        """Who a start belonged to, by nonce, as far as the store knows."""

    async def run(self) -> list[Instance]:
        """Take over what runs, record what ended; the instances that are alive."""
        work = self._launcher.list()
        found = await within(self._clock, LIST_DEADLINE_S, work, name="list processes")
        saved = {one.id: one for one in await self._recall()}
        for one in saved.values():
            self._observed.generations[one.id] = one.generation
        self._remembered = {one.nonce: one.id for one in saved.values() if one.nonce}
        await self.sweep()
        chosen = newest(found)
        for run in chosen:
            self._take(run, saved.get(InstanceId(run.order.instance_id)))
        alive = {run.order.nonce for run in chosen if run.alive}
        trusted = {
            one.id for one in saved.values() if one.phase is Phase.READY and one.nonce in alive
        }
        self._trust(trusted)
        return [one for one in self._observed.instances if one.nonce in alive]

    async def sweep(self) -> tuple[str, ...]:
        """End what runs of this fleet without a record; what could not be ended, in words.

        Nothing is known of such an engine but its processes: it cannot be adopted, and beside it
        none may be started in its place.
        """
        names = self._remembered | {one.nonce: one.id for one in self._observed.instances}
        work = self._launcher.lost(names.keys())
        found = await within(self._clock, LIST_DEADLINE_S, work, name="find lost processes")
        left = [await self._end(lost, names.get(lost.nonce)) for lost in found]
        return tuple(sentence for sentence in left if sentence)

    async def _end(self, lost: Lost, id_: InstanceId | None) -> str:
        whose = id_ or f"an instance (start {lost.nonce})"
        work = self._launcher.end_lost(lost)
        survivors = await within(
            self._clock, KILL_DEADLINE_S, work, name=f"end lost {lost.nonce}"
        )  # fmt: skip
        message = (
            f"{whose} ran on, but the record of its start is lost or damaged, so it could not be "
            f"adopted: its processes ({_listed(lost.pids)}) were ended"
        )
        left = f"processes {_listed(survivors)} of {whose}, which SIGKILL could not end"
        if survivors:
            message += f", except {_listed(survivors)}, which may still hold ports and devices"
        log.error("%s", message)
        self._feed.publish(
            EventKind.NOTICE, id_ or "fleet", {"level": "error", "message": message}
        )  # fmt: skip
        return left if survivors else ""

    async def _recall(self) -> list[Instance]:
        try:
            return await self._store.load_instances()
        except Exception:
            log.exception("the last known instances cannot be read; adopting without them")
            return []

    def take_over(self, run: Running, message: str) -> None:
        """An engine that ran without a supervisor is an instance from now on."""
        self._observed.add(replace(self._observe(run, None), message=message))

    def _take(self, run: Running, saved: Instance | None) -> None:
        same = saved is not None and saved.nonce == run.order.nonce
        one = self._observe(run, saved)
        if same and saved is not None and saved.phase in (_LEFT if run.alive else _LEAVING):
            one = self._leaving(one, saved, run.order.shutdown_timeout_s)
        self._observed.add(one)
        if not run.alive:
            self._processes.ended(one, run.exit)

    def _leaving(self, one: Instance, saved: Instance, shutdown_s: int) -> Instance:
        """It was told to stop: it may still answer, but aborts what it is sent."""
        kill_at = self._clock.monotonic() + shutdown_s + TERM_SLACK_S
        return replace(
            one, phase=step(one.phase, Trigger.STOP_BEGUN), reason=saved.reason,
            message=saved.message, vitals=replace(one.vitals, kill_at=kill_at),
        )  # fmt: skip

    def _observe(self, run: Running, saved: Instance | None) -> Instance:
        order, now = run.order, self._clock.now()
        one = Instance(
            id=InstanceId(order.instance_id),
            pool=PoolName(order.pool),
            role=order.role,
            slot=order.slot,
            fingerprint=order.fingerprint,
            phase=step(Phase.PENDING, Trigger.ADOPTED),
            reason=Reason.ADOPTED,
            message=ADOPTED,
            since=now,
            endpoint=order.endpoint,
            compat=order.compat,
            generation=order.generation,
            nonce=order.nonce,
            pid=run.pid,
            shim_pid=run.shim_pid,
            failures=saved.failures if saved else 0,
            exit=saved.exit if saved else None,
            first_failure=saved.first_failure if saved else None,
            vitals=Vitals(progress_at=self._clock.monotonic()),
        )
        return replace(one, compat=derived(self._observed.desired, one))

    def _trust(self, trusted: set[InstanceId]) -> None:
        now = self._clock.monotonic()
        for id_ in trusted:
            if (one := self._observed.get(id_)) is not None:
                vitals = replace(one.vitals, ready_at=now)
                self._observed.edit(one, vitals=vitals)
        for pair in self._observed.pairs:
            fits = pair.state != pairing.INCOMPATIBLE
            if fits and {pair.prefill, pair.decode} <= trusted:
                message = "taken to work: both ends served before the restart of pdctl"
                known = replace(pair, state=pairing.OK, message=message, retry_at=now)
                self._observed.put_pair(known)


def _listed(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:8]))
    return shown if len(pids) <= 8 else f"{shown} and {len(pids) - 8} more"


def newest(found: Sequence[Running]) -> list[Running]:
    """One start for each id: a living one before an ended one, then the latest generation."""
    best: dict[str, Running] = {}
    for run in sorted(found, key=lambda run: (run.alive, run.order.generation)):
        best[run.order.instance_id] = run
    return [best[id_] for id_ in sorted(best)]
