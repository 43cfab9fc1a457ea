"""What a restart finds again: runs with their revision, wishes, and leases of one holder each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select
from tests.adapters.store.test_codec import instance
from tests.adapters.store.test_repository import store, url
from tests.fakes.world import spec

from pdctl.adapters.store.repository import SqlStore
from pdctl.adapters.store.tables import LeaseRow
from pdctl.domain.actions import Wishes
from pdctl.domain.errors import ConflictError
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Slot
from pdctl.domain.leases import Lease
from pdctl.domain.rehearsal import Step
from pdctl.domain.runs import RunRecord, RunState
from pdctl.domain.topology import Mode, Role

__all__ = ["store", "url"]
STEPS = (
    Step(
        1, "launch", "decode-1", 0.0, 20.5, "decode", Role.DECODE, Slot(1, 18001, 18101), (18001,)
    ),
    Step(2, "probe", "prefill-0>decode-1", 20.5, None, why="new"),
)


def run(revision: int, state: RunState = RunState.RUNNING) -> RunRecord:
    return RunRecord(
        f"op-{revision}", "plan-1", revision, ("decode 1 -> 2",), "ada", "cli", 5.0, STEPS,
        about=("decode",), state=state,
    )  # fmt: skip


async def test_a_run_and_its_revision_are_one_transaction(store: SqlStore) -> None:
    fleet = spec()
    await store.save_revision(fleet, actor="me", reason="", at=1.0, run=run(1))
    assert await store.run("op-1") == run(1)
    other = replace(fleet, mode=Mode.CHUNKED)
    with pytest.raises(ConflictError):
        await store.save_revision(other, actor="me", reason="", at=2.0, run=run(9))
    assert await store.run("op-9") is None
    assert await store.run("op-\0") is None


async def test_runs_advance_and_come_newest_first(store: SqlStore) -> None:
    await store.save_runs([run(n) for n in (2, 3, 5)])
    done = replace(run(3, RunState.DONE), done=(1, 2), ended_at=9.5, message="m", resumed=1)
    await store.save_runs([done])
    assert await store.runs(limit=2) == [run(5), done]
    assert await store.runs(before=3) == [run(2)]


async def test_wishes_are_replaced_as_a_whole(store: SqlStore) -> None:
    assert await store.load_wishes() == Wishes()
    first = Wishes(frozenset({(InstanceId("a"), 1)}), frozenset({(InstanceId("a"), 1)}))
    second = Wishes(restart=frozenset({(InstanceId("a"), 2), (InstanceId("b"), 1)}))
    for wishes in (first, second):
        await store.save_wishes(replace(wishes, close_by=5.0))
        assert await store.load_wishes() == wishes


async def leased(store: SqlStore) -> dict[str, tuple[str, int]]:
    async with store._read() as db:
        rows = (await db.execute(select(LeaseRow))).all()
    return {f"{row.kind} {row.value}": (row.instance, row.generation) for row in rows}


async def test_leases_follow_the_picture_and_have_one_holder_each(store: SqlStore) -> None:
    one, other = InstanceId("decode-0"), InstanceId("decode-1")
    await store.save_instances(
        [instance()], 1.0, [Lease("port", "18000", one, 1), Lease("core", "1", one, 1)]
    )
    await store.save_instances(
        [instance()], 2.0, [Lease("port", "18000", other, 1), Lease("core", "1", one, 2)]
    )
    held = {"port 18000": ("decode-1", 1), "core 1": ("decode-0", 2)}
    assert await leased(store) == held
    await store.save_instances([], 3.0)
    assert await leased(store) == {}
