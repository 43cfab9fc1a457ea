"""A plan is a rehearsal: what it shows is what the reconciler then does on the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.control.plans import PlanRecord
from pdctl.domain import actions as do
from pdctl.domain.change import Change, parse
from pdctl.domain.errors import ConflictError, NotFoundError
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase
from pdctl.domain.pace import Span
from pdctl.domain.runs import RunRecord, RunState
from pdctl.domain.topology import Mode
from tests.fakes.asking import Who
from tests.fakes.fleets import Plane, elastic, fleet, reflagged
from tests.fakes.machine import World

WHO: Who = {"actor": "ada", "source": "cli"}
NAMES: dict[type, str] = {
    do.Launch: "launch", do.Warm: "warm", do.ProbePair: "probe", do.MarkReady: "ready",
    do.Reassign: "reassign", do.Drain: "drain", do.Undrain: "undrain", do.Forget: "forget",
    do.Retry: "retry",
}  # fmt: skip


TAKES = {Span.START: 20.05, Span.WARM: 0.5, Span.PROBE: 0.2, Span.STOP: 1.0}
"""Seconds, as on the fake machine."""


class Watched(Plane):
    """A control plane whose reconciler's actions are written down; asking again is not doing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acted: list[tuple[str, str]] = []
        act = self.reconciler._act

        def note(action: do.Action) -> bool:
            if isinstance(action, do.Stop):
                kind = "kill" if action.rung is do.Rung.KILL else "stop"
            else:
                kind = NAMES.get(type(action), "")
            subject = (
                f"{action.prefill}>{action.decode}"
                if isinstance(action, do.ProbePair)
                else str(action.id)
            )
            last = [one for one in self.acted if one[1] == subject]
            if kind and (kind == "probe" or not last or last[-1][0] != kind):
                self.acted.append((kind, subject))
            return act(action)

        self.reconciler._act = note  # type: ignore[method-assign]

    async def carry_out(self, change: Change) -> tuple[PlanRecord, RunRecord]:
        """Plan it, apply it, and let it come to its end."""
        record = await self.plans.make(change, **WHO)
        assert record.refused == (), record.refused
        self.acted.clear()
        run = await self.plans.apply(record.id, **WHO)
        await self.clock.until(lambda: self.plans.runs.get(run.id).state is not RunState.RUNNING)
        return record, self.plans.runs.get(run.id)


SAME_MOMENT_S = 2.0
"""What is foreseen this close together may happen in either order."""


def check_order(record: PlanRecord, acted: list[tuple[str, str]]) -> None:
    """The very same actions, each instance's in the same order, and all of them over time."""
    steps = [step for step in record.rehearsal.steps if step.kind != "route"]
    assert sorted(acted) == sorted((step.kind, step.subject) for step in steps)
    for subject in {step.subject for step in steps}:
        mine = [step.kind for step in steps if step.subject == subject]
        assert [kind for kind, whose in acted if whose == subject] == mine
    places: dict[tuple[str, str], list[int]] = {}
    for place, key in enumerate(acted):
        places.setdefault(key, []).append(place)
    timed = [(step.starts_s, places[step.kind, step.subject].pop(0)) for step in steps]
    for at, place in timed:
        later = [other for other_at, other in timed if other_at > at + SAME_MOMENT_S]
        assert all(place < other for other in later), (place, acted)


CHANGES = {
    "grow decode": (fleet(1, 1), parse(["decode=2"])),
    "grow both": (fleet(1, 1), parse(["prefill=2", "decode=3"])),
    "shrink decode": (fleet(1, 3), parse(["decode=1"])),
    "shrink prefill": (fleet(2, 1), parse(["prefill=1"])),
    "swap": (fleet(1, 2), parse(["prefill=2", "decode=1"])),
    "mode": (fleet(1, 1), parse(["mode=chunked"])),
    "no prefill at all": (fleet(1, 1), parse(["prefill=0"])),
    "stop one": (fleet(1, 2), Change(stop=("decode-0",))),
    "move": (fleet(1, 2), Change(move=(("decode-0", "prefill"),))),
    "move as it runs": (elastic(fleet(1, 2)), Change(move=(("decode-0", "prefill"),))),
    "drain": (fleet(1, 2), Change(drain=("decode-1",))),
    "restart one": (fleet(1, 2), Change(restart=("decode-1",))),
    "restart a pool": (fleet(1, 3), Change(restart=("decode",))),
    "restart the only one": (fleet(1, 1), Change(restart=("decode-0",))),
    "other flags": (fleet(1, 2), Change(fleet=reflagged(fleet(1, 2), max_num_seqs=7))),
    "other flags, full": (
        fleet(1, 1, cores=("0", "1")),
        Change(fleet=reflagged(fleet(1, 1, cores=("0", "1")), max_num_seqs=7)),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_is_shown_is_what_is_done(world: World, name: str) -> None:
    spec, change = CHANGES[name]
    async with Watched(world, spec) as plane:
        await plane.ready()
        await plane.clock.advance(5)
        for span, seconds in TAKES.items():
            plane.plans.timing.pace.add("prefill", span, seconds)
            plane.plans.timing.pace.add("decode", span, seconds)
        record, run = await plane.carry_out(change)
        check_order(record, plane.acted)
        assert run.state is RunState.DONE, run.message
        assert len(run.done) == len(run.steps)
        assert run.ended_at is not None
        took = run.ended_at - run.started_at
        assert took == pytest.approx(record.rehearsal.took_s, abs=6 + 0.2 * took)


async def test_durations_are_this_fleets_own(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        early = await plane.plans.make(parse(["decode=2"]), **WHO)
        assert any("assumed" in risk for risk in early.risks)
        await plane.ready()
        record = await plane.plans.make(parse(["decode=2"]), **WHO)
        launch = record.rehearsal.steps[0]
        assert launch.kind == "launch"
        assert launch.samples == 1
        assert launch.ends_s == pytest.approx(world.load_s, abs=4)
        assert not any("assumed" in risk for risk in record.risks)
        later = Plane(world, fleet(1, 1))
        later.plans.recall(plane.feed.recent(4096))
        assert later.plans.timing.pace.seen == plane.plans.timing.pace.seen


async def test_a_plan_changes_nothing(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        seq, before = plane.feed.seq, plane.state.fleet
        await plane.plans.make(parse(["decode=3", "mode=chunked"]), **WHO)
        await plane.clock.advance(30)
        assert plane.feed.seq == seq
        assert plane.state.fleet.desired is before.desired
        assert plane.store.revisions == []


async def test_a_plan_whose_world_moved_is_refused_and_says_what_moved(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        first = await plane.plans.make(parse(["decode=3"]), **WHO)
        second = await plane.plans.make(parse(["mode=chunked"]), **WHO)
        world.crash("decode-1")
        await plane.clock.advance(0.3)
        with pytest.raises(ConflictError, match="decode-1 is backoff, it was ready") as caught:
            await plane.plans.apply(first.id, **WHO)
        assert caught.value.code == "plan_stale"
        await plane.ready()
        with pytest.raises(ConflictError, match="decode-1 has been started again"):
            await plane.plans.apply(second.id, **WHO)
        outcomes = [e.data["outcome"] for e in plane.events(EventKind.OPERATION)]
        assert outcomes == ["refused", "refused"]
        assert plane.store.revisions == []


async def test_of_two_plans_over_one_world_the_second_to_be_applied_loses(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        one = await plane.plans.make(parse(["mode=chunked"]), **WHO)
        two = await plane.plans.make(parse(["decode=2"]), **WHO)
        await plane.plans.apply(one.id, **WHO)
        with pytest.raises(ConflictError, match="revision 2, it was 1"):
            await plane.plans.apply(two.id, **WHO)
        with pytest.raises(ConflictError, match="applied already"):
            await plane.plans.apply(one.id, **WHO)
        assert plane.state.fleet.desired.mode is Mode.CHUNKED


async def test_a_refused_plan_cannot_be_applied(world: World) -> None:
    async with Plane(world, fleet(1, 1, cores=("0", "1"))) as plane:
        await plane.ready()
        record = await plane.plans.make(parse(["decode=2"]), **WHO)
        (refusal,) = record.refused
        assert refusal.code == "no_free_slot"
        assert "none of its 2 cores is free (0: prefill-0; 1: decode-0)" in refusal.message
        with pytest.raises(ConflictError, match="cannot be applied: decode wants 2"):
            await plane.plans.apply(record.id, **WHO)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (parse(["decoed=2"]), "no_such_pool"),
        (parse(["decode=1"]), "nothing_to_do"),
        (Change(drain=("decode-0",)), "last_of_role"),
        (Change(stop=("decode-0",)), "last_of_role"),
        (Change(move=(("decode-0", "prefill"),)), "last_of_role"),
        (Change(drain=("decode-7",)), "no_such_instance"),
        (Change(fleet=replace(fleet(), name="other")), "needs_restart"),
    ],
)
async def test_what_is_refused_has_a_name_and_a_sentence(
    world: World, change: Change, code: str
) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        record = await plane.plans.make(change, **WHO)
        assert [one.code for one in record.refused] == [code]
        assert record.refused[0].message


async def test_what_was_amiss_before_is_a_risk_and_no_refusal(world: World) -> None:
    world.broken["decode-1"] = "vllm: error: unrecognized arguments: --nope"
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.clock.until(lambda: plane.phases.get("decode-1") is Phase.FAILED)
        await plane.clock.until(lambda: plane.phases["decode-0"] is Phase.READY)
        record = await plane.plans.make(parse(["mode=chunked"]), **WHO)
        assert record.refused == ()
        assert any("decode-1 is failed before this begins" in risk for risk in record.risks)
        run = await plane.plans.apply(record.id, **WHO)
        assert run.state is RunState.DONE


async def test_a_drained_instance_stays_drained_until_undrained(world: World) -> None:
    async with Watched(world, fleet(1, 2)) as plane:
        await plane.ready()
        plane.data_plane.open("decode-1", 3)
        await plane.carry_out(Change(drain=("decode-1",)))
        await plane.clock.advance(1000)
        assert plane.phases["decode-1"] is Phase.DRAINING
        assert plane.data_plane.accepting == {"prefill-0", "decode-0"}
        assert plane.one("decode-1").generation == 1
        assert plane.store.revisions[-1].orders.drained == ("decode-1",)
        await plane.carry_out(Change(undrain=("decode-1",)))
        await plane.clock.advance(1)
        assert "decode-1" in plane.data_plane.accepting


async def test_a_drained_instance_that_dies_comes_back_drained_and_a_shrink_takes_it_first(
    world: World,
) -> None:
    async with Watched(world, fleet(1, 3)) as plane:
        await plane.ready()
        await plane.carry_out(Change(drain=("decode-0",)))
        world.crash("decode-0")
        await plane.clock.until(
            lambda: (
                plane.one("decode-0").generation == 2 and plane.phases["decode-0"] is Phase.DRAINING
            )
        )
        seen = [target for table in plane.data_plane.tables for target in table.targets]
        assert not any(x.accepts for x in seen if (x.id, x.generation) == ("decode-0", 2))
        await plane.carry_out(parse(["decode=2"]))
        assert sorted(plane.phases) == ["decode-1", "decode-2", "prefill-0"]
        await plane.carry_out(parse(["decode=3"]))
        assert plane.all_ready(4)


async def test_an_elastic_instance_changes_sides_and_back_with_the_same_process(
    world: World,
) -> None:
    async with Watched(world, elastic(fleet(1, 2))) as plane:
        await plane.ready()
        plane.data_plane.open("decode-1", 3)
        await plane.clock.advance(1)
        record, _ = await plane.carry_out(Change(move=(("decode-1", "prefill"),)))
        assert "nothing is loaded" in record.said[0]
        steps = [(step.kind, step.subject, step.streams) for step in record.rehearsal.steps]
        assert steps == [("reassign", "decode-1", 3), ("probe", "decode-1>decode-0", 0)]
        assert plane.state.fleet.desired.shape == "2p1d"
        await plane.clock.advance(1)
        one = plane.one("decode-1")
        assert (one.pool, one.role, one.generation) == ("prefill", "prefill", 1)
        assert ("decode-1", "decode-0") in plane.data_plane.table.pairs
        assert len(world.launches) == 3
        await plane.carry_out(Change(move=(("decode-1", "decode"),)))
        await plane.clock.advance(1)
        assert plane.one("decode-1").role == "decode"
        assert plane.data_plane.accepting == {"prefill-0", "decode-0", "decode-1"}
        assert ("prefill-0", "decode-1") in plane.data_plane.table.pairs
        assert len(world.launches) == 3


async def test_a_moved_instance_stays_where_it_is_over_a_restart_and_a_crash(
    world: World,
) -> None:
    spec = elastic(fleet(1, 2))
    plane = Watched(world, spec)
    async with plane:
        await plane.ready()
        await plane.carry_out(Change(move=(("decode-1", "prefill"),)))
    later = Plane(world, plane.state.fleet.desired, plane.store, plane.data_plane)
    async with later:
        await later.ready()
        assert (later.one("decode-1").pool, later.one("decode-1").generation) == ("prefill", 1)
        assert len(world.launches) == 3
        world.crash("decode-1")
        await later.clock.advance(1)
        await later.ready()
        assert (later.one("decode-1").pool, later.one("decode-1").generation) == ("prefill", 2)


async def test_a_move_between_pools_of_other_flags_is_a_relaunch_and_says_why(
    world: World,
) -> None:
    spec = elastic(fleet(1, 2))
    first, *others = spec.pools
    spec = replace(spec, pools=(replace(first, args=(("max-num-seqs", 4),)), *others))
    async with Watched(world, spec) as plane:
        await plane.ready()
        record, _ = await plane.carry_out(Change(move=(("decode-1", "prefill"),)))
        assert "their launch flags differ" in record.said[0]
        assert sorted(plane.phases) == ["decode-0", "prefill-0", "prefill-1"]


async def test_cancelling_a_shrink_calls_back_what_still_serves(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        plane.data_plane.open("decode-1", 2)
        plane.data_plane.open("decode-0", 5)
        await plane.clock.advance(1)
        record = await plane.plans.make(parse(["decode=1"]), **WHO)
        assert "2 streams on decode-1" in " ".join(record.risks)
        run = await plane.plans.apply(record.id, **WHO)
        await plane.clock.advance(5)
        assert plane.phases["decode-1"] is Phase.DRAINING
        await plane.plans.cancel(run.id, **WHO)
        await plane.clock.advance(1)
        assert plane.all_ready(3)
        assert plane.one("decode-1").generation == 1
        assert plane.plans.runs.get(run.id).state is RunState.CANCELLED
        with pytest.raises(ConflictError, match="cannot be cancelled"):
            await plane.plans.cancel(run.id, **WHO)


async def test_a_start_that_is_given_up_fails_the_operation(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        world.broken["decode-1"] = "vllm: error: unrecognized arguments: --nope"
        record = await plane.plans.make(parse(["decode=2"]), **WHO)
        run = await plane.plans.apply(record.id, **WHO)
        await plane.clock.until(lambda: plane.plans.runs.get(run.id).state is not RunState.RUNNING)
        run = plane.plans.runs.get(run.id)
        assert run.state is RunState.FAILED
        assert "decode-1 is given up" in run.message
        assert "`pdctl undo` goes back" in run.message
        told = plane.events(EventKind.OPERATION)[-1].data
        assert (told["outcome"], told["operation"]) == ("failed", run.id)


async def test_another_change_takes_the_place_of_one_under_way(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        run = await plane.plans.apply(
            (await plane.plans.make(parse(["decode=2"]), **WHO)).id, **WHO
        )
        await plane.operations.set_mode(Mode.CHUNKED, **WHO)
        assert plane.plans.runs.get(run.id).state is RunState.CANCELLED
        assert "revision 3 took its place" in plane.plans.runs.get(run.id).message


async def test_plans_and_operations_are_kept_newest_first_and_forgotten_in_the_end(
    world: World,
) -> None:
    plane = Plane(world)
    records = [await plane.plans.make(parse(["mode=chunked"]), **WHO) for _ in range(201)]
    assert [one.id for one in plane.plans.plans()] == [one.id for one in records[:0:-1]]
    with pytest.raises(NotFoundError):
        plane.plans.plan(records[0].id)
    with pytest.raises(NotFoundError):
        plane.plans.runs.get("op-none")
