"""Engines beside the fleet: ended by key, adopted into a pool, and spoken of in one note."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from pdctl.control.lookout import LASTS_S, LATER_S, SOON_S, Lookout
from pdctl.control.orphans import Orphans
from pdctl.domain.audit import AuditEntry, AuditQuery
from pdctl.domain.errors import ConflictError, EngineError, NotFoundError, PdctlError
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.orphans import Kind, Shim
from pdctl.tasks import settle, spawn
from tests.fakes.asking import Who
from tests.fakes.engines import FakeFinder, family, leftover
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World

WHO: Who = {"actor": "ada", "source": "cli"}
THEIRS = Shim(9, "/other/run", "22", "prefill-0", served=True)


@dataclass
class Stage:
    """A fleet, and what runs beside it."""

    plane: Plane
    finder: FakeFinder

    def __post_init__(self) -> None:
        plane = self.plane
        self.lookout = Lookout(self.finder, plane.state, plane.clock, "/state/run")
        self.verbs = Orphans(
            self.lookout, plane.operations, reconciler=plane.reconciler, probe=plane.probe,
            launcher=plane.launcher,
        )  # fmt: skip

    async def log(self) -> list[AuditEntry]:
        self.plane.store.facts = self.plane.feed.recent(4096)
        return await self.plane.store.audit(AuditQuery())


async def test_a_leftover_is_ended_and_logged(world: World) -> None:
    stage = Stage(Plane(world), FakeFinder([leftover(50)]))
    gone = await stage.verbs.kill("50-500", force=False, **WHO)
    assert (gone.kind, gone.why) == (Kind.GONE, "Ended: 1 process; 1 shared-memory file removed.")
    (entry,) = await stage.log()
    assert (entry.verb, entry.subject, entry.outcome) == ("kill_orphan", "50-500", "done")
    assert entry.before == "orphaned EngineCore, pid 50, 1 process"
    assert entry.after == "gone"


@pytest.mark.parametrize(
    ("key", "code"),
    [("50-999", "identity_moved"), ("51-510", "identity_moved"), ("x", "no_such_engine")],
)
async def test_a_key_names_one_identity_for_ever(world: World, key: str, code: str) -> None:
    stage = Stage(Plane(world), FakeFinder([leftover(50)]))
    with pytest.raises((ConflictError, NotFoundError)) as refused:
        await stage.verbs.kill(key, force=True, **WHO)
    assert refused.value.code == code
    assert stage.finder.ended == []
    assert [one.outcome for one in await stage.log()] == ["refused"]


async def test_what_another_pdctl_supervises_takes_force(world: World) -> None:
    stage = Stage(Plane(world), FakeFinder([family(50, shim=THEIRS)]))
    with pytest.raises(ConflictError, match=r"prefill-0 of the pdctl .*--force") as refused:
        await stage.verbs.kill("50-500", force=False, **WHO)
    assert refused.value.code == "supervised"
    assert (await stage.verbs.kill("50-500", force=True, **WHO)).kind is Kind.GONE


async def test_an_instance_is_never_ended_as_an_orphan(world: World) -> None:
    plane = Plane(world, fleet(1, 1))
    async with plane:
        await plane.ready()
        one = plane.one("decode-0")
        shim = Shim(9, "/state/run", one.nonce, "decode-0")
        stage = Stage(plane, FakeFinder([family(50, shim=shim)]))
        with pytest.raises(ConflictError, match="pdctl stop decode-0"):
            await stage.verbs.kill("50-500", force=True, **WHO)


async def test_a_process_that_will_not_die_is_said(world: World) -> None:
    stage = Stage(Plane(world), FakeFinder([leftover(50)], survivors=(50,)))
    with pytest.raises(EngineError, match="could not end its processes 50"):
        await stage.verbs.kill("50-500", force=False, **WHO)
    assert [one.outcome for one in await stage.log()] == ["failed"]


async def test_an_adopted_engine_fills_the_seat_that_it_brings(world: World) -> None:
    world.squatted_ports.add(18005)
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        stage = Stage(plane, FakeFinder([family(50)]))
        adopting = spawn(stage.verbs.adopt("50-500", "decode", **WHO), name="adopt")
        await plane.clock.until(adopting.done)
        run, fits = await adopting
        assert (run.order.instance_id, run.order.slot.http_port) == ("decode-1", 18005)
        assert fits.warning == ""
        assert plane.state.fleet.desired.shape == "1p2d"
        await plane.ready()
        one = plane.one("decode-1")
        assert (one.phase, one.reason, one.pid) == (Phase.READY, Reason.ADOPTED, 50)
        assert one.message == "adopted while it ran (pid 50)"
        assert plane.data_plane.accepting == {"prefill-0", "decode-0", "decode-1"}
        assert [order.instance_id for order in world.launches].count("decode-1") == 1
        (entry,) = [one for one in await stage.log() if one.verb == "adopt"]
        assert (entry.outcome, entry.about) == ("done", ("decode-1", "decode"))
        assert plane.rungs("decode-1") == [], "it is no stray"
        await plane.clock.advance(60)
        assert plane.all_ready(3)


async def refused(stage: Stage, key: str = "50-500", pool: str = "decode") -> PdctlError:
    adopting = spawn(stage.verbs.adopt(key, pool, **WHO), name="adopt")
    await stage.plane.clock.until(adopting.done)
    error = adopting.exception()
    assert isinstance(error, PdctlError)
    return error


async def test_a_refused_adoption_changes_nothing(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        stage = Stage(plane, FakeFinder([family(50), family(60, 18006, "--block-size", "1")]))
        assert (await refused(stage)).code == "not_up"
        world.squatted_ports |= {18005, 18006}
        assert (await refused(stage, "60-600")).code == "other_layout"
        assert (await refused(stage, pool="nobody")).code == "no_such_pool"
        plane.launcher.refuse = "no shim today"
        assert (await refused(stage)).code == "start_failed"
        plane.launcher.refuse = ""
        plane.store.failing = True
        assert (await refused(stage)).code == "store_failed"
        plane.store.failing = False
        assert plane.state.fleet.desired.shape == "1p1d"
        assert plane.all_ready(2)
        assert len(world.alive) == 2, "what could not be wanted was let go"
        outcomes = [one.outcome for one in await stage.log() if one.verb == "adopt"]
        assert outcomes == ["refused", "refused", "refused", "failed", "failed"]


async def test_a_launcher_without_processes_cannot_adopt(world: World) -> None:
    plane = Plane(world)
    verbs = Orphans(
        Lookout(FakeFinder([family(50)]), plane.state, plane.clock, ""), plane.operations,
        reconciler=plane.reconciler, probe=plane.probe, launcher=object(),
    )  # fmt: skip
    with pytest.raises(ConflictError, match='launcher = "subprocess"'):
        await verbs.adopt("50-500", "decode", **WHO)


async def test_only_orphans_that_last_are_noted_and_the_note_goes_with_them(world: World) -> None:
    finder, told = FakeFinder([family(60), leftover(50)]), asyncio.Event()
    stage = Stage(Plane(world), finder)
    watching = spawn(stage.lookout.watch(told.set), name="watch")
    try:
        await world.clock.settle()
        assert list(stage.lookout.notes) == [], "it may just be being ended"
        await world.clock.advance(LASTS_S)
        (note,) = list(stage.lookout.notes)
        assert note.startswith("1 orphaned engine holds 3.0 GiB of memory")
        assert told.is_set()
        finder.broken = True
        await world.clock.advance(SOON_S)
        finder.broken, finder.families = False, []
        await world.clock.advance(LATER_S)
        assert list(stage.lookout.notes) == []
    finally:
        await settle(watching)


async def test_the_holder_of_a_port_is_named(world: World) -> None:
    finder = FakeFinder([family(50)])
    stage = Stage(Plane(world), finder)
    assert await stage.lookout.holder(18005) == (
        "simulated engine 50-500 (foreign): Started without pdctl; its parent is bash (pid 1)."
    )
    assert await stage.lookout.holder(1) == ""
    finder.broken = True
    assert await stage.lookout.holder(18005) == ""
