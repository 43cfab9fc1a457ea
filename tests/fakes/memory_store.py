"""A store that forgets with its process; `failing` makes every call raise, as a full disk would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdctl.control.request_log import arrange
from pdctl.domain import events
from pdctl.domain.actions import Wishes
from pdctl.domain.audit import AuditEntry, AuditQuery, entry_of, matches
from pdctl.domain.errors import ConflictError, InternalError
from pdctl.domain.events import Event, EventQuery
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.instance import Instance
from pdctl.domain.leases import Lease
from pdctl.domain.minutes import Mark, Minute
from pdctl.domain.request_query import RequestQuery
from pdctl.domain.runs import RunRecord
from pdctl.domain.signals.book import Signal, State
from pdctl.domain.signals.silences import Silence
from pdctl.domain.topology import FleetSpec
from pdctl.ports import Answer, Revision


class MemoryStore:
    """Implements `ports.Store` in lists."""

    def __init__(self) -> None:
        self.failing = False
        self.lost = False
        """Another pdctl has taken it over."""
        self.ran: dict[str, RunRecord] = {}
        self.wishes = Wishes()
        self.leases: tuple[Lease, ...] = ()
        self.revisions: list[FleetSpec] = []
        self.saved: list[Revision] = []
        self.answers: dict[str, Answer] = {}
        self.instances: list[Instance] = []
        self.records: list[RequestRecord] = []
        self.facts: list[Event] = []
        self.signals: dict[str, Signal] = {}
        self.kept_minutes: list[Minute] = []
        self.named: dict[str, Mark] = {}
        self.quiet: dict[str, Silence] = {}

    async def save_revision(
        self, fleet: FleetSpec, *, actor: str, reason: str, at: float, run: RunRecord | None = None
    ) -> None:
        self._work()
        if run is not None:
            self.ran[run.id] = run
        self.revisions.append(fleet)
        self.saved.append(Revision(fleet, actor, reason, at))

    async def latest_revision(self) -> FleetSpec | None:
        self._work()
        return self.revisions[-1] if self.revisions else None

    async def history(self, *, before: int | None = None, limit: int = 50) -> list[Revision]:
        self._work()
        older = [one for one in self.saved if before is None or one.fleet.revision < before]
        return older[::-1][:limit]

    async def revision(self, number: int) -> Revision | None:
        self._work()
        return next((one for one in self.saved if one.fleet.revision == number), None)

    async def save_runs(self, runs: Sequence[RunRecord]) -> None:
        self._work()
        self.ran |= {run.id: run for run in runs}

    async def runs(self, *, before: int | None = None, limit: int = 50) -> list[RunRecord]:
        self._work()
        found = [one for one in self.ran.values() if before is None or one.revision < before]
        return sorted(found, key=lambda one: -one.revision)[:limit]

    async def run(self, id_: str) -> RunRecord | None:
        self._work()
        return self.ran.get(id_)

    async def save_wishes(self, wishes: Wishes) -> None:
        self._work()
        self.wishes = Wishes(wishes.restart, wishes.clear)

    async def load_wishes(self) -> Wishes:
        self._work()
        return self.wishes

    async def take_key(self, claim: Answer, *, expired: float) -> Answer | None:
        self._work()
        self.answers = {key: one for key, one in self.answers.items() if one.at >= expired}
        held = self.answers.setdefault(claim.key, claim)
        return None if held is claim else held

    async def keep_answer(self, answer: Answer) -> None:
        self._work()
        self.answers[answer.key] = answer

    async def free_key(self, key: str) -> None:
        self._work()
        del self.answers[key]

    async def save_instances(
        self, instances: Sequence[Instance], at: float, held: Sequence[Lease] = ()
    ) -> None:
        self._work()
        assert len({(one.kind, one.value) for one in held}) == len(held)
        if self.lost:
            raise ConflictError("database_lost", "Another pdctl owns the store.", "Look there.")
        self.instances, self.leases = list(instances), tuple(held)

    async def load_instances(self) -> list[Instance]:
        self._work()
        return list(self.instances)

    async def add_requests(self, records: Sequence[RequestRecord]) -> None:
        self._work()
        self.records.extend(records)

    async def requests(self, query: RequestQuery) -> list[RequestRecord]:
        self._work()
        return arrange(reversed(self.records), query)[: query.limit]

    async def request(self, id_: str) -> RequestRecord | None:
        self._work()
        return next((one for one in reversed(self.records) if one.id == id_), None)

    async def add_events(self, events: Sequence[Event]) -> None:
        self._work()
        known = {fact.seq for fact in self.facts}
        self.facts += [event for event in events if event.seq not in known]
        self.facts.sort(key=lambda fact: fact.seq)

    async def events(self, query: EventQuery) -> list[Event]:
        self._work()
        found = [fact for fact in self.facts if events.matches(fact, query)]
        return found[-query.limit :] if query.after is None else found[: query.limit]

    async def audit(self, query: AuditQuery) -> list[AuditEntry]:
        self._work()
        log = [entry for fact in self.facts if (entry := entry_of(fact)) is not None]
        found = [entry for entry in log if matches(entry, query)]
        return found[-query.limit :] if query.after is None else found[: query.limit]

    async def save_signals(self, signals: Sequence[Signal]) -> None:
        self._work()
        self.signals |= {one.episode: one for one in signals}

    async def firing_signals(self) -> list[Signal]:
        self._work()
        return [one for one in self.signals.values() if one.state is State.FIRING]

    async def signal_history(self, *, before: str | None, limit: int) -> list[Signal]:
        self._work()
        found = sorted(
            self.signals.values(), key=lambda one: (one.fired_at or 0, one.episode), reverse=True
        )
        if before is not None:
            names = [one.episode for one in found]
            found = found[names.index(before) + 1 :] if before in names else []
        return found[:limit]

    async def put_silence(self, silence: Silence) -> None:
        self._work()
        self.quiet[silence.id] = silence

    async def drop_silence(self, id_: str) -> None:
        self._work()
        self.quiet.pop(id_, None)

    async def silences(self, *, after: float) -> list[Silence]:
        self._work()
        return [one for one in self.quiet.values() if one.until > after]

    async def last_seq(self) -> int:
        self._work()
        return max((fact.seq for fact in self.facts), default=0)

    async def prune(self, *, events: int) -> None:
        self._work()
        self.facts = self.facts[-events:]

    async def drop_requests(self, *, keep: int, before: float, most: int) -> tuple[int, int]:
        self._work()
        old = [one for one in self.records if one.received_at < before][:most]
        self.records = [one for one in self.records if one not in old]
        many = min(most, max(0, len(self.records) - keep))
        del self.records[:many]
        return len(old), many

    async def request_bytes(self) -> float | None:
        self._work()
        return 1000.0 if self.records else None

    async def add_minutes(self, minutes: Sequence[Minute], *, older_than: float) -> None:
        self._work()
        self.kept_minutes += minutes
        self.kept_minutes = [one for one in self.kept_minutes if one.at >= older_than]

    async def minutes(self, by: str, since: float, until: float) -> list[Minute]:
        self._work()
        return [one for one in self.kept_minutes if one.by == by and since <= one.at < until]

    async def put_mark(self, mark: Mark) -> None:
        self._work()
        self.named[mark.name] = mark

    async def drop_mark(self, name: str) -> bool:
        self._work()
        return self.named.pop(name, None) is not None

    async def marks(self) -> list[Mark]:
        self._work()
        return sorted(self.named.values(), key=lambda one: -one.at)

    async def check(self) -> dict[str, Any]:
        self._work()
        return {"url": "memory", "head": "none", "requests": len(self.records)}

    async def close(self) -> None:
        return

    def _work(self) -> None:
        if self.failing:
            raise InternalError("store_failed", "The disk is full.", "Make room on it.")
