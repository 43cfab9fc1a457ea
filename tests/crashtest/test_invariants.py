"""Every checker is shown a world that is well and one that is not: one that cannot fail is none."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from crashtest.invariants import Fate, Hour, Kill
from crashtest.scene import Kind, Process, Scene, Start
from crashtest.traffic import Answer

from crashtest import invariants
from pdctl.contract.plans import OperationView
from pdctl.contract.resources import FleetView, RequestView
from pdctl.shim import procfs

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = "one two three"
WHOLE = Answer("r1", 0, 10.0, 20.0, status=200, text=TEXT, done=True)
REFUSED = Answer("r1", 0, 10.0, 20.0, status=502, error='{"error": "the engine is gone"}')
EVENT = Answer("r1", 0, 10.0, 20.0, status=200, text="one", error='{"error": "it died"}')
CUT = Answer("r1", 0, 10.0, 20.0, status=200, text="one", broken="reset")
ENGINE = Kill(15.0, 15.0, Kind.CORE, 5, "decode-0", healed=30.0)
ROUTER = Kill(15.0, 15.0, Kind.ROUTER, 6, healed=30.0)
CONTROL = Kill(15.0, 15.0, Kind.CONTROL, 7, healed=30.0)


def record(*instances: str) -> RequestView:
    legs = [{"kind": "decode", "instance": one, "sent_ms": 1.0} for one in instances]
    return RequestView.model_validate(
        {
            "id": "r1", "received_at": NOW, "endpoint": "/v1/completions", "stream": True,
            "mode": "pd", "path": "pd", "outcome": "truncated", "status": 200, "legs": legs,
        }
    )  # fmt: skip


def test_fates() -> None:
    fates = [invariants.fate(one) for one in (WHOLE, REFUSED, EVENT, CUT)]
    assert fates == [Fate.WHOLE, Fate.REFUSED, Fate.ERROR_EVENT, Fate.CUT]


@pytest.mark.parametrize("answer", [WHOLE, REFUSED, EVENT, CUT], ids=lambda one: str(one.status))
def test_an_honest_answer_is_truthful(answer: Answer) -> None:
    assert invariants.truthful(answer, TEXT) == []


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (replace(WHOLE, text="one TWO"), "wrong text"),
        (replace(WHOLE, text="one two"), "[DONE] after 7 of 13"),
        (replace(CUT, text="onx"), "wrong text"),
        (replace(EVENT, done=True), "[DONE] beside an error"),
        (replace(WHOLE, done=False), "without [DONE] and without an error"),
        (replace(WHOLE, done=False, hung=True), "had no end"),
        (replace(REFUSED, status=400), "status 400"),
        (replace(REFUSED, status=404), "status 404"),
        (replace(REFUSED, error="cannot connect to 127.0.0.1:18000"), "an address"),
    ],
)
def test_a_lie_is_not(answer: Answer, complaint: str) -> None:
    (said,) = invariants.truthful(answer, TEXT)
    assert complaint in said


@pytest.mark.parametrize("answer", [REFUSED, EVENT])
def test_an_error_is_excused_by_an_engine_that_it_was_on(answer: Answer) -> None:
    hour = Hour([ENGINE], routers=2)
    assert invariants.excused(answer, record("prefill-0", "decode-0"), hour) == []
    assert invariants.excused(answer, record(), hour) == []
    assert invariants.excused(answer, None, hour) == []


@pytest.mark.parametrize("answer", [REFUSED, EVENT])
@pytest.mark.parametrize("kills", [
    (), (CONTROL,), (ROUTER,),
    (replace(ENGINE, at=21.0, until=21.0),), (replace(ENGINE, healed=9.0),),
], ids=["nobody", "control", "router", "later", "healed"])  # fmt: skip
def test_an_error_without_a_killed_engine_is_not(answer: Answer, kills: tuple[Kill, ...]) -> None:
    (said,) = invariants.excused(answer, record("decode-0"), Hour(kills, routers=2))
    assert "though no engine was killed" in said


def test_an_error_on_an_instance_that_stayed_is_not_excused() -> None:
    (said,) = invariants.excused(EVENT, record("prefill-0", "decode-1"), Hour([ENGINE], routers=2))
    assert "on decode-1, prefill-0, which nobody touched" in said


def test_a_cut_is_excused_by_the_end_of_who_serves_the_door() -> None:
    assert invariants.excused(CUT, None, Hour([ROUTER], routers=2)) == []
    assert invariants.excused(CUT, None, Hour([CONTROL], routers=0)) == []
    late = replace(CUT, began=16.0)
    queue = replace(CONTROL, at=17.0, until=17.0)
    assert invariants.excused(late, None, Hour([ROUTER, queue], routers=2)) == []
    assert invariants.excused(late, None, Hour([ROUTER, replace(ROUTER, pid=8)], routers=2)) == []


@pytest.mark.parametrize(("answer", "kills"), [
    (CUT, ()), (CUT, (CONTROL, ENGINE)), (replace(CUT, began=16.0), (ROUTER,)),
    (CUT, (replace(ROUTER, at=25.0, until=25.0),)),
], ids=["nobody", "others", "another router stood", "later"])  # fmt: skip
def test_a_cut_without_is_not(answer: Answer, kills: tuple[Kill, ...]) -> None:
    (said,) = invariants.excused(answer, None, Hour(kills, routers=2))
    assert "its router was not killed" in said


def living(nonce: str, kind: Kind) -> Process:
    """A process that surely lives: this one."""
    me = procfs.look(os.getpid())
    assert me is not None
    return Process(me.pid, me.start, kind, nonce)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Start("b", "decode-0", (3, 4), core="1"), "instance decode-0"),
        (Start("b", "decode-1", (2, 4), core="1"), "port 2"),
        (Start("b", "decode-1", (3, 4), core="0"), "core 0"),
        (Start("b", "decode-1", (3, 4), device="G", core="1"), "device G"),
    ],
)
def test_nobody_has_two(other: Start, what: str) -> None:
    mine = Start("a", "decode-0", (1, 2), device="G", core="0")
    starts = {"a": mine, "b": other}
    scene = Scene((living("a", Kind.API), living("b", Kind.WORKER)), starts)
    assert any(f"two starts have {what}" in said for said in invariants.doubled(scene))
    dead = Process(2**22, 1, Kind.API, "b")
    assert invariants.doubled(Scene((living("a", Kind.API), dead), starts)) == []
    shim = living("b", Kind.SHIM)
    assert invariants.doubled(Scene((living("a", Kind.API), shim), starts)) == []
    other = Start("b", "decode-9", (8, 9), device="H", core="9")
    apart = Scene((living("a", Kind.API), living("b", Kind.API)), {"a": mine, "b": other})
    assert invariants.doubled(apart) == []


def fleet(**changes: Any) -> FleetView:
    """One decode instance and one prefill, all well."""
    one = {"pool": "decode", "role": "decode", "phase": "ready", "reason": "desired", "since": NOW}
    decode = {
        **one,
        "id": "decode-0",
        "pid": 2,
        "shim_pid": 1,
        "http_port": 1,
        "side_channel_port": 2,
    }
    prefill = {**decode, "id": "prefill-0", "pid": 12, "shim_pid": 11, "http_port": 3,
               "side_channel_port": 4, "role": "prefill", "pool": "prefill"}  # fmt: skip
    worker = {"slot": 0, "pid": 21, "state": "listening"}
    whole: dict[str, Any] = {
        "seq": 1, "at": NOW, "name": "f", "model": "m", "served_name": "m", "shape": "1p1d",
        "mode": "pd", "revision": 1, "router": {"url": "http://x", "workers": [worker]},
        "pools": [
            {"name": name, "role": name, "desired": 1, "ready": 1, "instances": [f"{name}-0"]}
            for name in ("decode", "prefill")
        ],
        "instances": [decode, prefill],
        "pairs": [{"prefill": "prefill-0", "decode": "decode-0", "state": "ok"}],
    }  # fmt: skip
    return FleetView.model_validate({**whole, **changes})


def everybody() -> list[Process]:
    family = (Kind.SHIM, Kind.API, Kind.CORE, Kind.WORKER)
    return [
        *(Process(n, 0, kind, "d") for n, kind in enumerate(family, 1)),
        *(Process(n, 0, kind, "p") for n, kind in enumerate(family, 11)),
        Process(21, 0, Kind.ROUTER), Process(22, 0, Kind.CONTROL),
    ]  # fmt: skip


STARTS = {"d": Start("d", "decode-0"), "p": Start("p", "prefill-0"), "x": Start("x", "decode-0")}


def test_a_whole_fleet_leaves_nothing_over() -> None:
    assert invariants.leftover(Scene(tuple(everybody()), STARTS), fleet(), routers=1) == []


@pytest.mark.parametrize("stray", [Kind.SHIM, Kind.API, Kind.CORE, Kind.WORKER, Kind.OTHER])
def test_a_process_of_no_instance_is_left_over(stray: Kind) -> None:
    scene = Scene((*everybody(), Process(99, 0, stray, "x")), STARTS)
    (said,) = invariants.leftover(scene, fleet(), routers=1)
    assert said == f"{stray} (pid 99) of decode-0 belongs to no instance"


@pytest.mark.parametrize("missing", range(10))
def test_a_missing_process_is_missed(missing: int) -> None:
    there = everybody()
    gone = there.pop(missing)
    said = invariants.leftover(Scene(tuple(there), STARTS), fleet(), routers=1)
    assert any(str(gone.kind) in one or str(gone.pid) in one for one in said), said


@pytest.mark.parametrize("kind", [Kind.ROUTER, Kind.CONTROL])
def test_a_second_one_of_what_is_single_is_too_many(kind: Kind) -> None:
    scene = Scene((*everybody(), Process(99, 0, kind)), STARTS)
    assert invariants.leftover(scene, fleet(), routers=1) == [f"2 of 1: {kind}"]


def test_a_port_that_no_instance_has_is_strange() -> None:
    assert invariants.strange_ports(fleet(), {1, 2, 3, 4}) == []
    (said,) = invariants.strange_ports(fleet(), {1, 5})
    assert "port 5" in said


def test_who_holds_a_port_that_is_not_its_own_trespasses() -> None:
    core, router = Process(3, 0, Kind.CORE, "d"), Process(21, 0, Kind.ROUTER)
    scene = Scene((core, router), {"d": Start("d", "decode-0", (1, 2))})
    assert invariants.trespassing(scene, {core: {1, 2}, router: {8000}}) == []
    (said,) = invariants.trespassing(scene, {core: {1, 8000}, router: {8000}})
    assert said == "EngineCore (pid 3) of decode-0 holds port 8000, which is not its own"


def test_a_whole_fleet_is_settled() -> None:
    assert invariants.unsettled(fleet(), routers=1) == []


def _with(part: str, at: int, **changes: Any) -> FleetView:
    items = fleet().model_dump(mode="json")[part]
    items[at] |= changes
    return fleet(**{part: items})


@pytest.mark.parametrize(
    "view",
    [
        _with("instances", 0, phase="backoff"),
        _with("instances", 1, phase="unknown"),
        _with("pools", 0, ready=0),
        _with("pools", 0, desired=2),
        _with("pairs", 0, state="quarantined"),
        fleet(router={"url": "http://x", "workers": []}),
        fleet(router={"url": "http://x", "workers": [{"slot": 0, "pid": 1, "state": "away"}]}),
    ],
)
def test_a_fleet_that_is_not_whole_is_not_settled(view: FleetView) -> None:
    assert invariants.unsettled(view, routers=1)


def test_who_is_held_counts_as_settled() -> None:
    view = _with("instances", 0, phase="draining")
    pools = view.model_dump(mode="json")["pools"]
    pools[0]["ready"] = 0
    pairs = [{"prefill": "prefill-0", "decode": "decode-0", "state": "paused"}]
    held = fleet(instances=view.model_dump(mode="json")["instances"], pools=pools, pairs=pairs)
    assert invariants.unsettled(held, routers=1) == []


def test_what_was_killed_has_to_be_noticed_before_a_fleet_is_whole() -> None:
    worker = Kill(1.0, 1.0, Kind.WORKER, 4, "decode-0", "d")
    there = [one for one in everybody() if one.pid != 4]
    (said,) = invariants.unnoticed([worker], Scene(tuple(there), STARTS), fleet())
    assert said == "nobody has noticed yet that decode-0 lost its Worker (pid 4)"
    successors = [one for one in everybody() if one.nonce != "d"]
    view = _with("instances", 0, pid=102, shim_pid=101)
    assert invariants.unnoticed([worker], Scene(tuple(successors), STARTS), view) == []
    door = Kill(1.0, 1.0, Kind.ROUTER, 21)
    closed = Scene(tuple(one for one in everybody() if one.pid != 21), STARTS)
    (said,) = invariants.unnoticed([door], closed, fleet())
    assert "the front door lost its router worker" in said
    view = fleet(router={"url": "http://x", "workers": [{"slot": 0, "pid": 31, "state": "away"}]})
    assert invariants.unnoticed([door], closed, view) == []


def operation(state: str, message: str = "why") -> OperationView:
    return OperationView(
        id="op-1", plan="plan-1", change=[], actor="a", source="rest", state=state, message=message,
        steps_done=0, steps_total=1, revision=1, expected_s=1.0, started_at=NOW,
    )  # fmt: skip


@pytest.mark.parametrize(("told", "asked", "shape", "complaint"), [
    (operation("done", ""), "op-1", "after", ""),
    (operation("cancelled"), "op-1", "before", ""),
    (operation("failed"), "op-1", "after", ""),
    (None, "", "before", ""),
    (None, "", "after", ""),
    (None, "", "other", "neither"),
    (None, "op-1", "after", "not known any more"),
    (operation("running"), "op-1", "after", "still running"),
    (operation("done"), "op-1", "before", "but the fleet is"),
    (operation("cancelled"), "op-1", "after", "but the fleet is"),
    (operation("failed", ""), "op-1", "before", "does not say why"),
])  # fmt: skip
def test_an_operation_ends_and_says_how(
    told: OperationView | None, asked: str, shape: str, complaint: str
) -> None:
    said = invariants.concluded(told, asked, shape, "before", "after")
    assert bool(said) == bool(complaint)
    assert complaint in "".join(said)
