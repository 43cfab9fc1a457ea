"""The loop: observe, plan, act, publish. The only writer of what is observed.

Law: level-triggered. Every pass starts from the whole picture, so a lost event can delay but never
corrupt; at rest nothing runs but the scrapes. Nothing is planned before adoption is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pdctl import tasks
from pdctl.control.adoption import Adoption
from pdctl.control.alarm import Alarm
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.jobs import Jobs
from pdctl.control.launching import Command, Launching
from pdctl.control.lookout import Lookout
from pdctl.control.observed import Observed
from pdctl.control.probing import Probing
from pdctl.control.processes import Processes
from pdctl.control.rotation import Rotation
from pdctl.control.saving import Saving
from pdctl.control.stopping import Stopping
from pdctl.control.watching import Watching
from pdctl.domain import actions as do
from pdctl.domain import quarantine
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Load, RequestRecord, Suspect
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase, Reason, Trigger
from pdctl.domain.moving import reassigned
from pdctl.domain.plan import plan
from pdctl.ports import Clock, DataPlane, Launcher, Probe, Running, Store

log = logging.getLogger(__name__)
WATCH_TICK_S = 0.1
"""Looks that fall due within it start together."""
RETRY_S = 5.0
"""Pause before adoption is tried again."""
COMPLAIN_S = 60.0
"""A defect that lasts is told this often."""
CLOSE_GRACE_S = 10.0
"""How long streams may go on when the whole fleet is shut down."""


class Reconciler:
    """Brings the observed fleet to the desired one, and keeps it there."""

    def __init__(
        self,
        *,
        state: FleetState,
        feed: Feed,
        launcher: Launcher,
        probe: Probe,
        data_plane: DataPlane,
        clock: Clock,
        store: Store,
        command: Command,
        scrape_interval_s: float,
        lookout: Lookout | None = None,
        traced: bool = False,
    ) -> None:
        self._state, self._feed, self._clock = state, feed, clock
        self._lookout = lookout
        self._alarm, self._tick = Alarm(clock), Alarm(clock)
        self._jobs = Jobs(clock, self.wake)
        seen = self._observed = Observed(state, feed, clock)
        self._watching = Watching(
            seen, probe, clock, self._jobs, wake=self.wake, scrape_interval_s=scrape_interval_s
        )
        self._processes = Processes(seen, launcher, clock, self._jobs, feed=feed, wake=self.wake)
        self._adoption = Adoption(seen, self._processes, launcher, store, clock, feed=feed)
        self._saving = Saving(state, seen, store, clock, feed=feed)
        self._launching = Launching(
            state, seen, launcher, probe, clock, jobs=self._jobs, command=command,
            saving=self._saving, lookout=lookout,
        )  # fmt: skip
        self._probing = Probing(state, seen, probe, clock, self._jobs)
        self._stopping = Stopping(state, seen, launcher, clock, self._jobs, feed=feed)
        self._rotation = Rotation(state, seen, data_plane, clock, self._jobs, traced=traced)
        self._running: asyncio.Task[None] | None = None
        self._adopted = False
        self._leave = self._given_up = False
        self._complaints: dict[str, float] = {}

    async def run(self) -> None:
        """Adopt, then reconcile until shut down, detached or cancelled (instances go on then)."""
        self._running = asyncio.current_task()
        helpers: list[asyncio.Task[None]] = []
        try:
            await self._adopt()
            helpers = [
                tasks.spawn(self._processes.watch_exits(self._tick.ring), name="fleet:exits"),
                tasks.spawn(self._watch(), name="fleet:watch"),
            ]
            if self._lookout is not None:
                helpers.append(tasks.spawn(self._lookout.watch(self.wake), name="fleet:lookout"))
            while not self._leave:
                began = self._clock.monotonic()
                until = self._try_pass()
                took = self._clock.monotonic() - began
                if took > 0:  # a big fleet in a storm of news: plan for a fifth of the time at most
                    await self._clock.sleep(4 * took)
                await self._alarm.rest(until)
        finally:
            await tasks.settle(*helpers)
            await self._jobs.settle()
            self._running = None

    def wake(self) -> None:
        """Look at the whole picture again, now."""
        self._alarm.ring()

    def on_load(self, load: Load) -> None:
        """The router's numbers."""
        if self._rotation.on_load(load):
            self.wake()

    def on_record(self, record: RequestRecord) -> None:
        """A finished request: what it says about its pairs may change who is in rotation."""
        wall, now, quarantined = self._clock.now(), self._clock.monotonic(), False
        for seen in quarantine.evidence(record):
            pair = self._observed.pair(InstanceId(seen.prefill), InstanceId(seen.decode))
            if pair is None:
                continue
            new = quarantine.weigh(pair, seen, received_at=record.received_at, wall=wall, now=now)
            if new is not pair:
                self._observed.put_pair(new)
                quarantined |= new.state != pair.state
        if quarantined:
            self.wake()

    @contextmanager
    def expecting(self, nonce: str) -> Iterator[None]:
        """A start that nobody answers for yet is no stray while the block is open."""
        self._processes.expected.add(nonce)
        try:
            yield
        finally:
            self._processes.expected.discard(nonce)

    def next_generation(self, id_: str) -> int:
        """The number of the next start of that instance."""
        return self._observed.generations.get(InstanceId(id_), 0) + 1

    def take_over(self, run: Running, message: str) -> None:
        """What runs already is an instance from now on; it is looked at before it gets work."""
        self._adoption.take_over(run, message)
        self.wake()

    def on_suspect(self, suspect: Suspect) -> None:
        """The router met a dead connection: look at that instance at once."""
        one = self._observed.get(suspect.instance)
        if one is not None and one.generation == suspect.generation:
            self._watching.suspect(one)
            self._tick.ring()

    async def shutdown(
        self, progress: Callable[[str], None] | None = None, *, grace_s: float = CLOSE_GRACE_S
    ) -> tuple[str, ...]:
        """Drain and stop every instance; what could not be ended, in words."""
        deadline = self._clock.monotonic() + grace_s
        self._state.set_wishes(replace(self._state.wishes, close_by=deadline))
        self.wake()
        own, self._leave = None, False
        if self._running is None:
            own = tasks.spawn(self.run(), name="fleet:shutdown")
        said: tuple[str, ...] = ()
        while not self._given_up and (left := self._left()):
            if progress is not None and left != said:
                progress(f"stopping: {', '.join(left)}")
                said = left
            await self._clock.sleep(0.05)
        await self._saving.save()
        self._leave = True
        self.wake()
        if own is not None:
            await own
        return (*self._left(), *self._processes.survivors, *await self._unrecorded())

    async def _unrecorded(self) -> tuple[str, ...]:
        """Before it is said that nothing is left: end what has no record; what could not be."""
        if not self._adopted:
            return ()
        try:
            return await self._adoption.sweep()
        except Exception as error:
            log.exception("the processes of this machine cannot be looked through")
            return (f"perhaps processes without a record, which could not be looked for: {error}",)

    def _left(self) -> tuple[str, ...]:
        if not self._adopted:
            return ("what an earlier pdctl left running, which cannot be read",)
        return tuple(_in_words(one) for one in self._observed.instances)

    def force(self) -> None:
        """While shutting down: kill what is left now."""
        now = self._clock.monotonic()
        self._state.set_wishes(replace(self._state.wishes, close_by=now, force=True))
        self.wake()

    def give_up(self) -> None:
        """While shutting down: wait no longer for what does not end."""
        self._given_up = True

    async def detach(self) -> None:
        """Stop reconciling and leave everything running; the next control plane adopts it."""
        self._leave = True
        self.wake()
        if self._running is not None and self._running is not asyncio.current_task():
            await asyncio.wait([self._running])
        await self._saving.save()

    async def _adopt(self) -> None:
        while not (self._adopted or self._leave):
            try:
                found = await self._adoption.run()
            except Exception as error:
                log.exception("adoption failed")
                self._notice("error", f"what still runs cannot be read, so nothing starts: {error}")
                await self._clock.sleep(RETRY_S)
                continue
            if found:
                names = ", ".join(one.id for one in found)
                self._notice("info", f"adopted {len(found)} running instances: {names}")
            self._adopted = self._state.adopted = True

    async def _watch(self) -> None:
        while True:
            try:
                at = self._processes.begin()
                if (look := self._watching.begin()) is not None:
                    at = min(at, look)
            except Exception as error:
                at = self._complain("watch the fleet", error)
            await self._tick.rest(max(at, self._clock.monotonic() + WATCH_TICK_S))

    def _try_pass(self) -> float | None:
        """A defect in one pass must not end supervision."""
        try:
            return self._pass()
        except Exception as error:
            return self._complain("look after the fleet", error)

    def _complain(self, what: str, error: Exception) -> float:
        """Say a defect of ours, now and then while it lasts; when to try again."""
        now, said = self._clock.monotonic(), f"pdctl failed to {what}, trying again: {error!r}"
        if self._complaints.get(said, 0.0) <= now:
            self._complaints = {one: at for one, at in self._complaints.items() if at > now}
            self._complaints[said] = now + COMPLAIN_S
            log.error("%s", said, exc_info=error)
            self._notice("error", said)
        return now + RETRY_S

    def _pass(self) -> float | None:
        """One look at the whole picture; when the next is due."""
        self._probing.abandon()
        fleet = self._state.fleet
        ahead = plan(
            fleet.desired,
            self._observed.instances,
            self._observed.pairs,
            self._clock.monotonic(),
            self._state.wishes,
        )
        retry_at = None
        for action in ahead.actions:
            try:
                if self._act(action):
                    self.wake()
            except Exception as error:  # one instance's trouble must not hold up the others
                retry_at = self._complain(f"{type(action).__name__.lower()} an instance", error)
        notes = (*ahead.notes, *(self._lookout.notes if self._lookout else ()))
        if notes != self._state.fleet.notes:
            self._observed.note(notes)
        self._rotation.refresh()
        if self._observed.unsaved:
            self._jobs.start("save", self._saving.save_again, quiet=True)
        self._tick.ring()
        return min((at for at in (ahead.next_look, retry_at) if at is not None), default=None)

    def _act(self, action: do.Action) -> bool:
        """Carry it out or begin to; True when the picture changed, so that more may follow."""
        match action:
            case do.Launch():
                self._launching.launch(action)
            case do.Warm():
                self._probing.warm(action)
            case do.ProbePair():
                self._probing.probe(action)
            case do.Stop():
                return self._stopping.stop(action)
            case do.Drain():
                self._stopping.drain(action)
                return True
            case do.Undrain():
                self._stopping.undrain(action)
                return True
            case do.Reassign():
                self._reassign(action)
                return True
            case _:
                return self._note_down(action)
        return False

    def _note_down(
        self, action: do.MarkReady | do.Retry | do.Settle | do.GiveUp | do.Forget
    ) -> bool:
        """Actions that only change the picture."""
        one = self._observed.get(action.id)
        if one is None:
            return False
        match action:
            case do.MarkReady():
                self._ready(one)
            case do.Retry():
                self._retry(one, fresh=action.fresh)
            case do.Settle():
                self._observed.edit(one, failures=0, first_failure=None)
            case do.GiveUp():
                self._observed.move(
                    one, Trigger.GAVE_UP, reason=action.why, message=action.message, retry_at=None
                )
                self._notice("error", f"{one.id} is given up: {action.message}")
            case do.Forget():
                self._observed.drop(one)
        return True

    def _reassign(self, action: do.Reassign) -> None:
        one, pool = self._observed.get(action.id), self._state.fleet.desired.pool(action.pool)
        if one is not None and pool is not None:
            self._observed.reassign(reassigned(one, pool))

    def _ready(self, one: Instance) -> None:
        vitals = replace(one.vitals, ready_at=self._clock.monotonic(), stalled_since=None, misses=0)
        reason = one.reason if one.reason is Reason.ADOPTED else Reason.DESIRED
        message = one.message if reason is Reason.ADOPTED else ""
        self._observed.move(one, Trigger.PROBED, reason=reason, message=message, vitals=vitals)

    def _retry(self, one: Instance, *, fresh: bool) -> None:
        trigger = Trigger.CLEARED if one.phase is Phase.FAILED else Trigger.RETRY_DUE
        reason = one.reason if one.reason is Reason.PORT_RACE else Reason.DESIRED
        streak = {"failures": 0, "first_failure": None} if fresh else {}
        self._observed.move(
            one, trigger, reason=reason, message="to be started again", retry_at=None, **streak
        )

    def _notice(self, level: str, message: str) -> None:
        self._feed.publish(EventKind.NOTICE, "fleet", {"level": level, "message": message})


def _in_words(one: Instance) -> str:
    if one.phase is Phase.DRAINING:
        return f"{one.id} draining ({one.inflight} streams)"
    return f"{one.id} {one.phase}"
