"""The SQL store as the control plane uses it: everything saved comes back, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import event, text
from tests.adapters.store.test_codec import instance
from tests.fakes.postgres import PostgresServer
from tests.fakes.records import record
from tests.fakes.world import spec

from pdctl.adapters.store.repository import SqlStore
from pdctl.control.request_log import arrange
from pdctl.domain.audit import AuditQuery, entry_of, matches
from pdctl.domain.errors import ConflictError, InternalError, OperatorError
from pdctl.domain.events import Event, EventKind, EventQuery
from pdctl.domain.events import matches as tells
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.ids import InstanceId, Seq
from pdctl.domain.instance import Vitals
from pdctl.domain.request_query import ANY_SLO, RequestQuery
from pdctl.domain.signals.book import Ack, Signal, State
from pdctl.domain.signals.rules import Severity
from pdctl.domain.signals.silences import Silence
from pdctl.domain.topology import Mode
from pdctl.ports import Answer


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'state' / 'pdctl.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return await server.database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqlStore]:
    opened = await SqlStore.open(url)
    yield opened
    await opened.close()


def some(count: int) -> list[RequestRecord]:
    rng = Random(11)
    return [record(rng, number, 1e9 + number) for number in range(count)]


def fact(seq: int, kind: EventKind = EventKind.NOTICE) -> Event:
    return Event(Seq(seq), 5.0 + seq, kind, "fleet", {"level": "info", "n": seq})


async def test_revisions_are_appended_and_never_rewritten(store: SqlStore) -> None:
    assert await store.latest_revision() is None
    first = spec()
    second = replace(first, mode=Mode.CHUNKED, revision=2)
    for fleet in (first, second, second):
        await store.save_revision(fleet, actor="me", reason="because", at=1.0)
    assert await store.latest_revision() == second
    with pytest.raises(ConflictError, match="Revision 2 already holds"):
        await store.save_revision(replace(first, revision=2), actor="me", reason="", at=2.0)
    assert await store.latest_revision() == second


async def test_history_is_newest_first_and_paged(store: SqlStore) -> None:
    fleets = [replace(spec(), revision=number) for number in range(1, 8)]
    for fleet in fleets:
        reason = f"reason {fleet.revision}"
        await store.save_revision(fleet, actor="ada", reason=reason, at=float(fleet.revision))
    assert [one.fleet for one in await store.history()] == fleets[::-1]
    older = await store.history(before=5, limit=2)
    assert [(one.fleet.revision, one.reason, one.at) for one in older] == [
        (4, "reason 4", 4.0),
        (3, "reason 3", 3.0),
    ]
    assert await store.revision(6) == (await store.history())[1]
    assert await store.revision(9) is None
    async with store._write() as db:
        await db.execute(text("UPDATE revisions SET spec = '{}' WHERE revision = 6"))
    assert await store.revision(6) is None
    assert len(await store.history()) == 6


async def test_a_key_is_taken_once_until_it_is_freed_or_expires(store: SqlStore) -> None:
    claim = Answer("ada:k", "print", at=100.0)
    taken = await asyncio.gather(*(store.take_key(claim, expired=0.0) for _ in range(4)))
    assert sorted(one is None for one in taken) == [False, False, False, True]
    assert claim in taken
    done = replace(claim, status=200, headers=(("etag", '"7"'),), body='{"n": 1}')
    await store.keep_answer(done)
    assert await store.take_key(replace(claim, fingerprint="other"), expired=50.0) == done
    await store.free_key("ada:k")
    assert await store.take_key(claim, expired=50.0) is None
    assert await store.take_key(replace(claim, at=200.0), expired=150.0) is None


async def test_instances_are_replaced_without_the_times_of_this_process(store: SqlStore) -> None:
    one = instance()
    other = replace(one, id=InstanceId("decode-1"), vitals=Vitals(ready_at=9.0))
    await store.save_instances([other, one], at=1.0)
    found = await store.load_instances()
    assert [here.id for here in found] == ["decode-1", "decode-0"]
    assert found[1] == replace(one, retry_at=None, drain_deadline=None)
    assert found[0].vitals == Vitals()
    await store.save_instances([], at=2.0)
    assert await store.load_instances() == []


async def test_rows_of_another_version_cost_no_more_than_themselves(store: SqlStore) -> None:
    one = instance()
    await store.save_instances([one, replace(one, id=InstanceId("decode-1"))], at=1.0)
    known, strange = some(2)
    await store.add_requests([known, strange])
    await store.save_revision(spec(), actor="me", reason="", at=1.0)
    async with store._write() as db:
        for table, column, key, where in (
            ("instances", "state", "phase", "id = 'decode-1'"),
            ("request_records", "record", "path", f"id = '{strange.id}'"),
            ("revisions", "spec", "mode", "true"),
        ):
            odd = f"json_set({column}, '$.{key}', 'new')"
            if db.dialect.name == "postgresql":
                odd = f"jsonb_set({column}::jsonb, '{{{key}}}', '\"new\"')::json"
            await db.exec_driver_sql(f"UPDATE {table} SET {column} = {odd} WHERE {where}")
    assert [here.id for here in await store.load_instances()] == [one.id]
    assert await store.requests(RequestQuery()) == [known]
    assert await store.request(strange.id) is None
    with pytest.raises(OperatorError, match="written by another pdctl"):
        await store.latest_revision()


async def test_requests_answer_every_query_as_memory_does(store: SqlStore) -> None:
    records = [
        replace(one, key="alice" if n % 3 else "", slo_missed=() if n % 4 else (("chat", "queue"),))
        for n, one in enumerate(some(120))
    ]
    await store.add_requests(records)
    queries = [
        RequestQuery(limit=7),
        RequestQuery(limit=7, slowest=True),
        RequestQuery(path="pd"),
        RequestQuery(outcome="upstream_error"),
        RequestQuery(key="alice", limit=30),
        RequestQuery(key="bob"),
        RequestQuery(model="tiny", limit=9),
        RequestQuery(model="tin"),
        RequestQuery(pair=("prefill-0", "decode-1")),
        RequestQuery(pair=("prefill-0", "decode-9")),
        RequestQuery(missed=ANY_SLO),
        RequestQuery(missed="chat", slowest=True, limit=6),
        RequestQuery(missed="cha"),
        RequestQuery(begins="req-00001"),
        RequestQuery(begins="req-_"),
        RequestQuery(instance="decode-1", limit=5),
        RequestQuery(instance="decode-%"),
        RequestQuery(before=records[60].id, limit=9),
        RequestQuery(before=records[60].id, slowest=True, path="pd"),
        RequestQuery(before="never seen"),
    ]
    for query in queries:
        wanted = arrange(reversed(records), query)[: query.limit]
        assert await store.requests(query) == wanted, query


async def test_paging_visits_every_request_once(store: SqlStore) -> None:
    records = some(50)
    await store.add_requests(records)
    for slowest in (False, True):
        query, seen = RequestQuery(limit=8, slowest=slowest), []
        while page := await store.requests(query):
            seen += page
            query = replace(query, before=page[-1].id)
        wanted = [one for one in records if not slowest or one.e2e_ms is not None]
        assert sorted(one.id for one in seen) == sorted(one.id for one in wanted)


async def test_an_id_used_twice_is_two_rows_and_the_newest_answers(store: SqlStore) -> None:
    first, second = some(2)
    second = replace(second, id=first.id)
    await store.add_requests([first, second])
    await store.add_requests([second])
    assert await store.request(first.id) == second
    assert len(await store.requests(RequestQuery())) == 3
    assert await store.requests(RequestQuery(before=first.id)) == []


@pytest.mark.parametrize("id_", ["", "a/b?c#d", "\0nul", "\ud800lone", "x" * 5000, "'; DROP --"])
async def test_any_id_that_a_client_sends_is_stored(store: SqlStore, id_: str) -> None:
    await store.add_requests([replace(some(1)[0], id=id_)])
    assert len(await store.requests(RequestQuery())) == 1


async def test_events_come_back_from_either_end(store: SqlStore) -> None:
    assert await store.last_seq() == 0
    facts = [fact(seq) for seq in (3, 5, 8, 13)]
    await store.add_events(facts)
    await store.add_events(facts[2:])
    assert await store.events(EventQuery()) == facts
    assert await store.events(EventQuery(after=3, limit=2)) == facts[1:3]
    assert await store.events(EventQuery(limit=2)) == facts[2:]
    assert await store.last_seq() == 13


VERB = {"verb": "drain", "actor": "ada", "source": "cli", "outcome": "done"}


def verb(seq: int, subject: str = "fleet", **said: object) -> Event:
    return Event(Seq(seq), 5.0 + seq, EventKind.OPERATION, subject, {**VERB, **said})


async def test_the_operations_log_answers_every_query_as_the_pure_one(store: SqlStore) -> None:
    events = [
        verb(2, about=["decode-1"], plan="plan-1", before="a", after="b"),
        fact(3),
        verb(4, "decode-1", verb="restart", source="web", outcome="refused", message="Not now."),
        verb(6, verb="resize", actor="bob", about=["decode", "100%", "a|b"]),
        verb(7, "\0odd", verb="x" * 300, actor="\ud800", about=["y" * 9000]),
        *(verb(seq, outcome="failed") for seq in range(10, 20)),
    ]
    await store.add_events(events)
    await store.add_events(events)
    log = [entry for one in events if (entry := entry_of(one)) is not None]
    for query in (
        AuditQuery(),
        AuditQuery(limit=3),
        AuditQuery(limit=3, after=0),
        AuditQuery(limit=2, before=10),
        AuditQuery(after=4, before=12, limit=4),
        AuditQuery(verb="restart"),
        AuditQuery(actor="bob"),
        AuditQuery(source="web", outcome="refused"),
        AuditQuery(subject="decode-1"),
        AuditQuery(subject="decode"),
        AuditQuery(subject="100%"),
        AuditQuery(subject="decode-_"),
        AuditQuery(outcome="nothing"),
        AuditQuery(text="NOT NOW"),
        AuditQuery(text="100%"),
        AuditQuery(text="ada", verb="restart"),
        AuditQuery(text="decode-_"),
    ):
        found = [entry for entry in log if matches(entry, query)]
        wanted = found[-query.limit :] if query.after is None else found[: query.limit]
        heard = await store.audit(query)
        assert [one.seq for one in heard] == [one.seq for one in wanted], query
        if 7 not in [one.seq for one in wanted]:
            assert heard == wanted


async def test_facts_answer_every_query_as_the_pure_one(store: SqlStore) -> None:
    def of(seq: int, subject: str, kind: EventKind = EventKind.INSTANCE_CHANGED) -> Event:
        return Event(Seq(seq), 5.0 + seq, kind, subject, {"message": "m"})

    events = [
        of(1, "decode-1"), of(2, "decode-1", EventKind.STOP_RUNG), of(3, "decode-11"),
        of(4, "prefill-0>decode-1", EventKind.PAIR_CHANGED), verb(5, about=["decode-1"]),
        of(6, "decode-1>decode-0", EventKind.PAIR_CHANGED), fact(7), of(8, "decode_1"),
    ]  # fmt: skip
    await store.add_events(events)
    for query in (
        EventQuery(),
        EventQuery(about="decode-1"),
        EventQuery(about="decode-1", before=6, limit=2),
        EventQuery(about="decode_1"),
        EventQuery(kinds=frozenset({EventKind.STOP_RUNG})),
        EventQuery(kinds=frozenset()),
        EventQuery(after=2, before=7, limit=3),
    ):
        found = [one for one in events if tells(one, query)]
        wanted = found[-query.limit :] if query.after is None else found[: query.limit]
        assert await store.events(query) == wanted, query


async def test_the_operations_log_is_never_pruned_nor_rewritten(store: SqlStore) -> None:
    await store.add_events([verb(seq) for seq in range(1, 11)])
    await store.prune(events=1)
    assert [one.seq for one in await store.events(EventQuery())] == [10]
    assert len(await store.audit(AuditQuery())) == 10
    for statement in ("DELETE FROM operations", "UPDATE operations SET actor = 'nobody'"):
        with pytest.raises(InternalError, match="append-only"):
            async with store._write() as db:
                await db.execute(text(statement))
    assert {one.actor for one in await store.audit(AuditQuery())} == {"ada"}


async def test_pruning_keeps_the_newest(store: SqlStore) -> None:
    records = some(30)
    await store.add_requests(records)
    await store.add_events([fact(seq) for seq in range(1, 21)])
    await store.prune(events=5)
    assert await store.drop_requests(keep=10, before=0.0, most=15) == (0, 15)
    assert await store.drop_requests(keep=10, before=0.0, most=15) == (0, 5)
    assert await store.drop_requests(keep=10, before=0.0, most=15) == (0, 0)
    assert await store.requests(RequestQuery(limit=99)) == records[:19:-1]
    assert [one.seq for one in await store.events(EventQuery())] == [16, 17, 18, 19, 20]
    edge = records[25].received_at
    old = sum(one.received_at < edge for one in records[20:])
    assert await store.drop_requests(keep=10, before=edge, most=99) == (old, 0)
    assert len(await store.requests(RequestQuery(limit=99))) == 10 - old
    assert (await store.request_bytes() or 0.0) > 500


async def test_check_tells_facts_and_no_secret(store: SqlStore) -> None:
    await store.add_requests(some(3))
    facts = await store.check()
    assert facts["head"] == "0007"
    assert facts["requests"] == 3
    assert facts["bytes"] > 0


async def test_writers_and_readers_at_once(store: SqlStore) -> None:
    async def write(number: int) -> None:
        await store.add_events([fact(number)])
        await store.add_requests(some(2))

    async def read() -> None:
        await store.requests(RequestQuery())
        await store.events(EventQuery())

    async with asyncio.TaskGroup() as group:
        for number in range(1, 41):
            group.create_task(write(number))
            group.create_task(read())
    assert await store.last_seq() == 40
    assert (await store.check())["requests"] == 80


async def test_two_stores_on_one_file_take_turns(store: SqlStore, url: str) -> None:
    other = await SqlStore.open(url)
    async with asyncio.TaskGroup() as group:
        for number in range(1, 21):
            group.create_task(store.add_events([fact(number)]))
            group.create_task(other.add_events([fact(100 + number)]))
    assert len(await other.events(EventQuery())) == 40
    await other.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_full_disk_is_a_sentence_and_the_rest_still_reads(store: SqlStore) -> None:
    await store.add_requests(some(5))
    async with store._engine.connect() as db:
        pages = (await db.exec_driver_sql("PRAGMA page_count")).scalar_one()
    await store._engine.dispose()

    # A page limit is how SQLite itself simulates a full disk; it is per connection.
    event.listen(
        store._engine.sync_engine,
        "connect",
        lambda db, _: db.execute(f"PRAGMA max_page_count={pages}"),
    )
    with pytest.raises(InternalError, match=r"No room is left for .*full"):
        await store.add_requests(some(2000))
    assert len(await store.requests(RequestQuery())) == 5


def fired(subject: str, at: float, state: State = State.FIRING) -> Signal:
    """A signal that fired at `at`."""
    return Signal(
        "stall", subject, Severity.CRITICAL, state, since=at - 1, seen_at=at, value=20.0,
        worst=30.0, fired_at=at, ack=Ack("me", at, "looking"), well_s=None,
    )  # fmt: skip


async def test_signals_outlive_a_restart_page_by_page(store: SqlStore) -> None:
    all_ = [fired(f"decode-{n}", 100.0 + n // 3) for n in range(8)]
    await store.save_signals(all_)
    await store.save_signals([replace(all_[0], state=State.RESOLVED, resolved_at=200.0)])
    assert len(await store.firing_signals()) == 7
    assert all_[7] in await store.firing_signals()
    seen: list[Signal] = []
    while page := await store.signal_history(before=seen[-1].episode if seen else None, limit=3):
        seen += page
    assert [one.subject for one in seen] == [f"decode-{n}" for n in range(7, -1, -1)]
    assert seen[-1].resolved_at == 200.0
    assert await store.signal_history(before="nothing", limit=3) == []


async def test_silences_are_kept_until_they_end(store: SqlStore) -> None:
    short = Silence("a1", "stall", "*", at=0.0, until=10.0, by="me")
    long = replace(short, id="b2", until=20.0)
    for one in (short, long):
        await store.put_silence(one)
    assert await store.silences(after=15.0) == [long]
    await store.drop_silence("b2")
    assert await store.silences(after=0.0) == []
