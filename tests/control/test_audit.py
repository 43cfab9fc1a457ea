"""Every verb leaves one entry: who, from where, before and after, and what came of it."""

from __future__ import annotations

import pytest

from pdctl.control.archive import Archive
from pdctl.domain.audit import AuditEntry, AuditQuery
from pdctl.domain.change import Change, parse
from pdctl.domain.errors import ConflictError
from pdctl.domain.topology import Mode
from pdctl.tasks import settle, spawn
from tests.fakes.asking import Who
from tests.fakes.clock import VirtualClock
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World

WHO: Who = {"actor": "ada", "source": "cli"}


async def log_of(plane: Plane) -> list[AuditEntry]:
    """What the store was given of the feed."""
    plane.store.facts = plane.feed.recent(4096)
    return await plane.store.audit(AuditQuery())


@pytest.mark.parametrize(
    ("change", "verb"),
    [
        (parse(["decode=3"]), "resize"),
        (parse(["mode=chunked"]), "set_mode"),
        (Change(drain=("decode-1",)), "drain"),
        (Change(stop=("decode-1",)), "stop"),
        (Change(restart=("decode-1",)), "restart"),
        (Change(move=(("decode-1", "prefill"),)), "move"),
    ],
)
async def test_an_applied_plan_is_logged_and_so_is_its_end(
    world: World, change: Change, verb: str
) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        record = await plane.plans.make(change, **WHO)
        run = await plane.plans.apply(record.id, **WHO)
        await plane.clock.until(lambda: plane.plans.runs.get(run.id).state != "running")
        begun, ended = (one for one in await log_of(plane) if one.operation == run.id)
    assert (begun.verb, begun.outcome, begun.actor, begun.source) == (verb, "done", "ada", "cli")
    assert begun.before == "revision 1: 1p2d, pd"
    assert begun.after.startswith("revision 2: ")
    assert (begun.plan, begun.about) == (record.id, record.about)
    assert (ended.verb, ended.outcome, ended.plan) == ("operation", "done", record.id)


async def test_what_is_refused_is_logged_with_its_sentence(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        never = await plane.plans.make(Change(stop=("prefill-0",)), **WHO)
        stale = await plane.plans.make(parse(["decode=3"]), **WHO)
        await plane.operations.set_mode(Mode.CHUNKED, **WHO)
        for record in (never, stale):
            with pytest.raises(ConflictError):
                await plane.plans.apply(record.id, **WHO)
        await plane.plans.make(parse(["decode=2"]), **WHO)  # like that already: no refusal
        first, _, second = await log_of(plane)
    assert (first.verb, first.outcome, first.plan) == ("stop", "refused", never.id)
    assert "last prefill" in first.message
    assert (first.before, first.about) == ("revision 1: 1p2d, pd", ("prefill-0",))
    assert (second.verb, second.outcome, second.plan) == ("resize", "refused", stale.id)
    assert "has moved" in second.message
    assert second.after == "1p3d, pd"


async def test_the_same_refusal_in_a_row_is_one_entry(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        for id_ in ("prefill-0", "prefill-0", "prefill-9", "decode-1", "prefill-9"):
            await plane.plans.make(Change(stop=(id_,)), **WHO)
        told = [one.message for one in await log_of(plane)]
    assert [("last prefill" in one, "prefill-9" in one) for one in told] == [
        (True, False), (False, True), (False, True),
    ]  # fmt: skip


async def test_verbs_on_one_instance_say_what_it_was(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        await plane.operations.restart_instance("decode-0", **WHO)
        with pytest.raises(ConflictError):
            await plane.operations.clear_failure("prefill-0", **WHO)
        restart, clear = await log_of(plane)
    assert (restart.subject, restart.before, restart.after) == (
        "decode-0", "ready, start 1", "start 2",
    )  # fmt: skip
    assert (clear.outcome, clear.before) == ("refused", "ready, 0 failures")


async def test_a_verb_does_not_wait_for_its_batch() -> None:
    clock = VirtualClock()
    plane = Plane(World(clock))
    archive = Archive(plane.feed, plane.store, clock, keep_events=9)
    task = spawn(archive.run(), name="archive")
    await clock.settle()
    await plane.operations.set_mode(Mode.CHUNKED, **WHO)
    await clock.settle()
    assert [entry.verb for entry in await plane.store.audit(AuditQuery())] == ["set_mode"]
    await settle(task)
    assert len(plane.store.facts) == 2, "nothing is written twice"
