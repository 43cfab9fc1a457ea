"""Watches the fleet for what is wrong, and keeps what operators say to it.

Law: it looks, it never acts on the fleet. Every look is at the whole picture; nothing is judged
before it is known what an earlier pdctl left running.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.operations import Operations
from pdctl.control.signals.courier import Courier
from pdctl.control.signals.memory import SignalStore, Unsaved, recall
from pdctl.control.signals.tally import Tally
from pdctl.domain.errors import InternalError, NotFoundError, OperatorError, PdctlError
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Load, RequestRecord
from pdctl.domain.signals.book import Ack, Key, Signal, State, evaluate
from pdctl.domain.signals.readings import PAIRS, RECOMPUTE, Facts, Machine, read
from pdctl.domain.signals.rules import RULES, Rule, Severity, in_force
from pdctl.domain.signals.silences import Silence, silenced
from pdctl.ports import Clock

log = logging.getLogger(__name__)
EVERY_S = 2.0
DISK_EVERY_S = 30.0
MAX_SILENCE_S = 30 * 86_400.0
MAX_SILENCES = 200
NOTE = 500
"""Characters of a note that are kept."""


Handoffs = Callable[[], Mapping[str, Mapping[str, float]]]
"""By pair: what became of KV that was handed over lately; those of which there is something bad."""


@dataclass(frozen=True, slots=True)
class Ground:
    """How to look at what is under pdctl."""

    disk_used: Callable[[], float | None]
    """The share (0..1) of the disk that holds the state; blocking."""
    orphans: Callable[[], str]
    """What orphaned engines hold, in words."""


class SignalDesk:
    """All signals of one fleet."""

    def __init__(
        self, *, state: FleetState, feed: Feed, clock: Clock, store: SignalStore, tally: Tally,
        load: Callable[[], Load], handoffs: Handoffs, ground: Ground, scrape_interval_s: float,
        operations: Operations, courier: Callable[[Callable[[Sequence[Signal]], None]], Courier],
    ) -> None:  # fmt: skip
        self._state, self._feed, self._clock, self._store = state, feed, clock, store
        self._tally, self._load, self._handoffs, self._ground = tally, load, handoffs, ground
        self._stale_s, self._operations = 3 * scrape_interval_s, operations
        self._courier = courier(self._delivered)
        self._unsaved = Unsaved(store)
        self._book: dict[Key, Signal] = {}
        self._silences: tuple[Silence, ...] = ()
        self._looked: float | None = None
        self._disk: float | None = None
        self._disk_at: float | None = None
        self._failing = False

    @property
    def courier(self) -> Courier:
        """Who tells the webhook."""
        return self._courier

    @property
    def rules(self) -> dict[str, Rule]:
        """What is watched now."""
        return in_force(self._state.fleet.desired.signals)

    def all(self) -> list[Signal]:
        """What fires and what is pending: the worst first, then the oldest."""
        return sorted(
            self._book.values(),
            key=lambda one: (
                one.state is not State.FIRING, one.severity is not Severity.CRITICAL, one.since,
            ),
        )  # fmt: skip

    def loud(self) -> int:
        """How many fire that nobody has taken up or silenced."""
        return sum(
            one.state is State.FIRING and one.ack is None and self.silenced(one) is None
            for one in self._book.values()
        )

    def silences(self) -> list[Silence]:
        """Those in force, the first to end first."""
        now = self._clock.now()
        return sorted((one for one in self._silences if one.until > now), key=lambda one: one.until)

    def silenced(self, signal: Signal) -> Silence | None:
        """The silence that holds it now."""
        return silenced(signal, self._silences, self._clock.now())

    async def history(self, before: str | None, limit: int) -> list[Signal]:
        """Signals that fired, newest first; those that fire still among them as they are now."""
        await self._unsaved.save()
        held = {one.episode: one for one in self._book.values() if one.state is State.FIRING}
        stored = await self._store.signal_history(before=before, limit=limit)
        return [held.get(one.episode, one) for one in stored]

    def heard(self, record: RequestRecord) -> None:
        """A request has ended."""
        self._tally.add(record, self._state.fleet.desired.slos)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._recall()
        while True:
            try:
                await self._look_at_disk()
                if self._state.adopted:
                    self.look()
                await self._unsaved.save()
                self._failing = False
            except Exception as error:
                self._complain(error)
            await self._clock.sleep(EVERY_S)

    async def _recall(self) -> None:
        try:
            self._book = await recall(self._store)
            self._silences = tuple(await self._store.silences(after=self._clock.now()))
        except Exception as error:
            log.warning("signals of before cannot be read: %s", error)

    def look(self) -> None:
        """Judge the whole picture once."""
        now, at = self._clock.monotonic(), self._clock.now()
        elapsed = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        fleet = self._state.fleet
        self._tally.sample(fleet.instances)
        spec = fleet.desired.signals
        facts = Facts(
            fleet, self._load(), at, now, self._stale_s,
            self._tally.growth(fleet.instances),
            replace(
                self._tally.traffic(fleet.desired.slos, spec.objective),
                kv={**{pair: {} for pair in self._about(RECOMPUTE)}, **self._handoffs()},
            ),
            Machine(
                self._disk, self._ground.orphans(), self._courier.failures, self._courier.error
            ),
            self._about(PAIRS),
        )  # fmt: skip
        self._book, moved = evaluate(self.rules, read(facts), self._book, now=at, elapsed=elapsed)
        for one in moved:
            self._tell(one)
        self._unsaved.add(moved)
        self._send(moved)

    def _about(self, rule: str) -> frozenset[str]:
        """Whom the signals of a rule concern now."""
        return frozenset(subject for name, subject in self._book if name == rule)

    def _send(self, moved: Sequence[Signal]) -> None:
        """Level, not edge: whatever fires and was not told is told, once its silence is over."""
        for one in self._book.values():
            fires = one.state is State.FIRING and not one.told
            if fires and self.silenced(one) is None:
                self._courier.tell(one)
        for one in moved:
            began = replace(one, state=State.FIRING)
            if one.state is State.RESOLVED and (one.told or self._courier.awaits(began)):
                self._courier.tell(one)

    def _delivered(self, signals: Sequence[Signal]) -> None:
        for one in signals:
            held = self._book.get(one.key)
            if held is not None and held.episode == one.episode and one.state is State.FIRING:
                self._put(replace(held, told=True))

    def _put(self, signal: Signal) -> None:
        self._book[signal.key] = signal
        self._unsaved.add([signal])

    def _tell(self, signal: Signal) -> None:
        rule = RULES.get(signal.rule)
        title, ack = rule.title if rule else signal.rule, signal.ack
        taken = f"taken up by {ack.by}" if ack else ""
        data = {
            "rule": signal.rule, "state": signal.state.value, "severity": signal.severity.value,
            "message": ". ".join(
                said for said in (title, signal.detail, taken, signal.ending) if said
            ),
            "value": signal.value, "acknowledged_by": ack.by if ack else "",
        }  # fmt: skip
        self._feed.publish(EventKind.SIGNAL_CHANGED, signal.subject, data)

    async def _look_at_disk(self) -> None:
        now = self._clock.monotonic()
        if self._disk_at is None or now - self._disk_at >= DISK_EVERY_S:
            self._disk_at = now
            self._disk = await asyncio.to_thread(self._ground.disk_used)

    def _complain(self, error: Exception) -> None:
        if not self._failing:
            log.error("signals cannot be judged, trying again", exc_info=error)
            said = f"pdctl failed to judge its signals, trying again: {error!r}"
            self._feed.publish(EventKind.NOTICE, "fleet", {"level": "error", "message": said})
        self._failing = True

    async def ack(self, id_: str, *, note: str, actor: str, source: str) -> Signal:
        """Say that somebody has taken it up; NotFoundError when it does not fire."""
        data = {"actor": actor, "source": source, "signal": id_, "note": note[:NOTE]}
        with self._operations.told("ack_signal", id_.partition(":")[2] or id_, data):
            held = self._find(id_)
            taken = replace(held, ack=Ack(actor, self._clock.now(), note[:NOTE]))
            await self._stored(self._store.save_signals([taken]))
            now = self._book.get(held.key)
            if now is not None and now.episode == held.episode:
                self._book[held.key] = taken = replace(now, ack=taken.ack)
                self._tell(taken)
        await self._operations.remember()
        return taken

    async def silence(
        self, *, rule: str, subject: str, for_s: float, note: str, actor: str, source: str
    ) -> Silence:
        """Let signals that match make no noise for a while."""
        data = {
            "actor": actor, "source": source, "rule": rule, "matches": subject,
            "for_s": for_s, "note": note[:NOTE],
        }  # fmt: skip
        with self._operations.told("silence", "fleet", data):
            _refuse_rule(rule)
            self._refuse_more()
            now = self._clock.now()
            new = Silence(
                secrets.token_hex(4), rule, subject, at=now, until=now + min(for_s, MAX_SILENCE_S),
                by=actor, note=note[:NOTE],
            )  # fmt: skip
            data["after"] = f"silence {new.id}: {rule} of {subject}"
            await self._stored(self._store.put_silence(new))
            self._silences = (*self._silences, new)
        await self._operations.remember()
        return new

    async def unsilence(self, id_: str, *, actor: str, source: str) -> Silence:
        """End a silence now."""
        data = {"actor": actor, "source": source}
        with self._operations.told("unsilence", "fleet", data):
            found = next((one for one in self.silences() if one.id == id_), None)
            if found is None:
                known = ", ".join(one.id for one in self.silences()) or "none"
                raise NotFoundError(
                    "no_silence", f"There is no silence {id_!r}.", f"In force: {known}."
                )
            data["before"] = f"silence {id_}: {found.rule} of {found.subject}"
            await self._stored(self._store.drop_silence(id_))
            self._silences = tuple(one for one in self._silences if one.id != id_)
        await self._operations.remember()
        return found

    def _find(self, id_: str) -> Signal:
        firing = {one.id: one for one in self._book.values() if one.state is State.FIRING}
        if (found := firing.get(id_)) is None:
            known = ", ".join(firing) or "none"
            raise NotFoundError(
                "no_signal", f"No signal {id_!r} fires.", f"Those that fire: {known}."
            )
        return found

    def _refuse_more(self) -> None:
        if len(self.silences()) >= MAX_SILENCES:
            raise OperatorError(
                "too_many_silences", f"There are {MAX_SILENCES} silences already.",
                "End some with `pdctl signals unsilence ID`.",
            )  # fmt: skip

    async def _stored(self, write: Awaitable[None]) -> None:
        """A store that fails: the verb says so, and has changed nothing."""
        try:
            await write
        except PdctlError:
            raise
        except Exception as error:
            raise InternalError(
                "store_failed", f"It could not be stored, so it was not done: {error}.",
                "See `pdctl doctor`.",
            ) from error  # fmt: skip


def _refuse_rule(rule: str) -> None:
    """A rule that is misspelt would silence nothing."""
    if any(sign in rule for sign in "*?[") or rule in RULES:
        return
    close = get_close_matches(rule, RULES, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise OperatorError(
        "no_such_rule", f"There is no rule {rule!r}.", f"{hint}Rules: {', '.join(RULES)}."
    )
