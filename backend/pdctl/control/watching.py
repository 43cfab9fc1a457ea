"""Looks at engines: is it up, is it alive, does it step. Facts only; the planner judges them.

Law: a refused look is a miss, a timeout is slowness, and slowness without any answer is silence,
which is said and shown. An instance that serves is looked at by its scrape interval and not more
often, so a fleet at rest costs next to nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pdctl.control.adoption import ADOPTED
from pdctl.control.deadline import within
from pdctl.control.jobs import Jobs
from pdctl.control.observed import Observed
from pdctl.domain.instance import EngineStats, Instance, Vitals
from pdctl.domain.lifecycle import Phase, Reason, Trigger
from pdctl.ports import Clock, Health, Probe

LOOK_DEADLINE_S = 10.0
PATIENT_S = 75.0
"""The same for one that has gone silent: three slow answers may take it that long."""
_EVERY_S = {
    Phase.STARTING: 1.0,
    Phase.LOADING: 1.0,
    Phase.UNKNOWN: 1.0,
    Phase.PROBING: 5.0,
    Phase.READY: 10.0,
}
"""How often an instance of that phase is looked at, seconds."""
_MISSED_S = 1.0
"""How soon after a miss, seconds."""
_SLOW = ("timeout", "timed out", "no answer within")
"""Words of a probe that ran out of time: slow under load, not dead."""
_SCRAPED = frozenset({Phase.PROBING, Phase.READY, Phase.DRAINING})
SILENT_S = 6.0
"""After so many seconds in which it answered nothing, looks and scrapes alike, one is silent."""

PUZZLE_S = 30.0
"""After so many seconds in which requests were open on it, none of them ran by its own count and
nothing moved, it is asked to answer one itself: perhaps clients are slow to read, perhaps it hangs
since before it could count them."""
QUESTION_S = 150.0
"""How long it may take; by then it has been judged."""


class Watching:
    """Starts looks and scrapes when they are due, and records what they saw."""

    def __init__(
        self,
        observed: Observed,
        probe: Probe,
        clock: Clock,
        jobs: Jobs,
        *,
        wake: Callable[[], None],
        scrape_interval_s: float,
    ) -> None:
        self._observed, self._probe, self._clock, self._jobs = observed, probe, clock, jobs
        self._wake, self._interval = wake, scrape_interval_s
        self._due: dict[tuple[str, str], float] = {}
        self._asked: dict[str, float] = {}
        """By nonce: when the first call began that nothing has been heard since."""
        self._still: dict[str, float] = {}
        """By nonce: since when requests are open on it and it neither runs any nor moves."""

    def begin(self) -> float | None:
        """Start what is due; when the next is (monotonic), None when nothing needs watching."""
        now, due, wanted = self._clock.monotonic(), dict[tuple[str, str], float](), []
        for one in self._observed.instances:
            if one.phase in _EVERY_S and one.vitals.kill_at is None:
                wanted.append((f"look:{one.id}", one, self._look_every(one)))
            if one.phase in _SCRAPED:
                wanted.append((f"scrape:{one.id}", one, self._interval))
        for key, one, every in wanted:
            at = min(self._due.get((key, one.nonce), now), now + every)
            if at <= now:
                work = self._look if key.startswith("look:") else self._scrape
                self._jobs.start(key, partial(work, one), quiet=True)
                at = now + every
            due[key, one.nonce] = at
        self._due = due
        return min([*due.values(), *self._listen(now)], default=None)

    def _listen(self, now: float) -> list[float]:
        """Say who has gone silent; when the next will have, unless it answers."""
        watched = {one.nonce: one for one in self._observed.instances if one.phase in _SCRAPED}
        self._asked = {nonce: at for nonce, at in self._asked.items() if nonce in watched}
        self._still = {nonce: at for nonce, at in self._still.items() if nonce in watched}
        due = []
        for nonce, at in self._asked.items():
            one = watched[nonce]
            if one.vitals.silent_since is None and at + SILENT_S > now:
                due.append(at + SILENT_S)
            elif one.vitals.silent_since is None:
                self._silent(one, at, self._clock.now() - (now - at))
        return due

    def _silent(self, one: Instance, since: float, wall: float) -> None:
        changes: dict[str, Any] = {"vitals": replace(one.vitals, silent_since=since)}
        if one.phase is Phase.READY:
            when = datetime.fromtimestamp(wall, UTC)
            changes["message"] = f"does not answer since {when:%H:%M:%S} UTC"
        self._observed.edit(one, **changes)
        self._wake()

    def _ask(self, one: Instance) -> None:
        self._asked.setdefault(one.nonce, self._clock.monotonic())

    def _heard(self, one: Instance, begun: float) -> Instance:
        """It has answered what it was asked at `begun`: late, or it is not silent (any more)."""
        self._asked.pop(one.nonce, None)
        if one.vitals.silent_since is None:
            return one
        if (now := self._clock.monotonic()) - begun >= SILENT_S:  # too slow to be of use, not dead
            return self._observed.edit(one, vitals=replace(one.vitals, silent_since=now))
        changes: dict[str, Any] = {
            # its silence is no stall: how long it has not stepped is counted from now
            "vitals": replace(one.vitals, silent_since=None, stalled_since=None, scraped_at=None)
        }
        if one.phase is Phase.READY:
            changes["message"] = ADOPTED if one.reason is Reason.ADOPTED else ""
        self._wake()
        return self._observed.edit(one, **changes)

    def suspect(self, one: Instance) -> None:
        """Look at `one` at the next round."""
        self._due[f"look:{one.id}", one.nonce] = self._clock.monotonic()

    def _look_every(self, one: Instance) -> float:
        return _MISSED_S if one.vitals.misses else _EVERY_S[one.phase]

    async def _look(self, one: Instance) -> None:
        self._ask(one)
        begun, silent = self._clock.monotonic(), one.vitals.silent_since is not None
        try:
            work, limit_s = self._probe.look(one.endpoint), PATIENT_S if silent else LOOK_DEADLINE_S
            health = await within(self._clock, limit_s, work, name=f"look {one.id}")
        except TimeoutError:
            health = Health(up=False, why="timeout")
        if (current := self._observed.same(one)) is not None:
            self._looked(current, health, begun)

    def _looked(self, one: Instance, health: Health, begun: float) -> None:
        if not health.up:
            if not any(word in health.why for word in _SLOW):
                one = self._heard(one, begun)
                vitals = replace(one.vitals, misses=one.vitals.misses + 1)
                self._observed.refresh([replace(one, vitals=vitals)])
                self._wake()
            return
        one = self._heard(one, begun)
        vitals = replace(one.vitals, misses=0)
        if one.phase in (Phase.STARTING, Phase.LOADING, Phase.UNKNOWN):
            vitals = replace(vitals, progress_at=self._clock.monotonic())
            known = "" if one.phase is Phase.UNKNOWN else "the engine answers"
            self._observed.move(
                one, Trigger.ENGINE_UP, message=known or one.message, vitals=vitals, progress=None
            )
            self._wake()
        elif vitals != one.vitals:
            self._observed.refresh([replace(one, vitals=vitals)])

    async def _scrape(self, one: Instance) -> None:
        self._ask(one)
        begun = self._clock.monotonic()
        try:
            work = self._probe.scrape(one.endpoint)
            stats = await within(self._clock, LOOK_DEADLINE_S, work, name=f"scrape {one.id}")
        except TimeoutError:
            stats = None
        current = self._observed.same(one)
        if current is None:
            return
        if stats is None:
            self.suspect(current)
            return
        current = self._heard(current, begun)
        self._question(current, stats)
        asked = self._jobs.busy(f"question:{one.nonce}") and not stats.waiting
        vitals = pulse(current.vitals, current.stats, stats, self._clock.monotonic(), asked=asked)
        if not (stats.running or stats.waiting) and stats.kv_usage == 0:
            vitals = replace(vitals, bare_at=begun)
        self._observed.refresh([replace(current, stats=stats, vitals=vitals)])
        hung = vitals.stalled_since is not None
        if hung or one.phase is Phase.DRAINING or current.phase is Phase.DRAINING:
            self._wake()

    def _question(self, one: Instance, stats: EngineStats) -> None:
        """Ask it for one token when its numbers leave open whether it hangs."""
        now, moved = self._clock.monotonic(), one.stats is None or _moved(one.stats, stats)
        if moved or stats.running or not one.inflight:
            self._still.pop(one.nonce, None)
        elif now - self._still.setdefault(one.nonce, now) >= PUZZLE_S:
            self._still[one.nonce] = now
            work = partial(self._answer, one)
            self._jobs.start(f"question:{one.nonce}", work, quiet=True)

    async def _answer(self, one: Instance) -> None:
        with contextlib.suppress(TimeoutError):
            work = self._probe.warm(one.endpoint, self._observed.desired.served_name)
            await within(self._clock, QUESTION_S, work, name=f"question {one.id}")


def pulse(
    vitals: Vitals, last: EngineStats | None, stats: EngineStats, now: float, *, asked: bool = False
) -> Vitals:
    """What one more scrape says about work and progress: pure. `asked`: a request of ours waits."""
    moved = last is None or _moved(last, stats)
    busy = moved or stats.running > 0 or stats.waiting > 0
    hung = (stats.running > 0 or asked) and not moved and stats.iterations > 0
    before = now if vitals.scraped_at is None else vitals.scraped_at
    since = vitals.stalled_since if vitals.stalled_since is not None else before
    return replace(
        vitals,
        scraped_at=now,
        busy_at=now if busy else vitals.busy_at,
        stalled_since=since if hung else None,
    )


def _moved(last: EngineStats, stats: EngineStats) -> bool:
    return _counters(last) != _counters(stats)


def _counters(stats: EngineStats) -> tuple[float, ...]:
    return (
        stats.iterations,
        stats.generation_tokens,
        stats.prompt_tokens_local,
        stats.prompt_tokens_cached,
        stats.prompt_tokens_remote,
    )
