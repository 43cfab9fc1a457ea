"""The pure step from a state and a fact to the next state, by table."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pdctl.contract.plans import OperationPage, OperationView
from pdctl.contract.resources import EventView, FleetView, PairView, RequestView
from pdctl.domain.handoff import Outcome, Path
from pdctl_console import model
from pdctl_console.model import ViewState

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
FLEET: dict[str, Any] = {
    "seq": 3, "epoch": "a", "at": NOW, "name": "f", "model": "m", "served_name": "s",
    "shape": "1p1d", "mode": "pd", "revision": 1, "router": {"url": "http://r"},
    "pools": [], "instances": [],
}  # fmt: skip
ROW: dict[str, Any] = {
    "id": "r1", "endpoint": "/v1/completions", "path": "pd", "outcome": "ok", "status": 200,
    "error": "", "ttft_ms": 5.0, "tpot_ms": 1.0, "e2e_ms": 2000.0, "prompt_tokens": 3,
    "completion_tokens": 4, "prefill": "prefill-0", "decode": "decode-0",
}  # fmt: skip
FRESH = ViewState(
    fleet=FleetView(**FLEET), streaming=True, trouble="", last_seen=NOW,
    fleet_old=False, pairs_old=False, requests_old=False, latency_old=False,
    operations_old=False, revisions_old=False, audit_old=False, signals_old=False,
)  # fmt: skip


FLAGS = {one.name for one in fields(ViewState) if one.name.endswith("_old")}


def event(kind: str, subject: str = "x", seq: int = 10, **data: object) -> EventView:
    return EventView(seq=seq, at=NOW, kind=kind, subject=subject, data=data)


def pair(prefill: str = "p", decode: str = "d", state: str = "untried") -> PairView:
    return PairView(prefill=prefill, decode=decode, state=state)


@pytest.mark.parametrize(
    ("kind", "old"),
    [
        ("instance.changed", {"fleet_old"}),
        ("fleet.changed", {"fleet_old", "operations_old", "revisions_old"}),
        ("pair.changed", {"pairs_old"}),
        ("operation", {"operations_old", "audit_old"}),
        ("signal.changed", {"fleet_old", "signals_old"}),
        ("notice", set()),
        ("something.new", set()),
    ],
)
def test_what_an_event_makes_old(kind: str, old: set[str]) -> None:
    after = model.on_event(FRESH, event(kind))
    assert {flag for flag in FLAGS if getattr(after, flag)} == old
    assert after.old is bool(old)
    assert [one.kind for one in after.events] == [kind]


def test_an_event_seen_before_changes_nothing() -> None:
    once = model.on_event(FRESH, event("notice", seq=10))
    assert model.on_event(once, event("notice", seq=10)) is once
    assert model.on_event(once, event("notice", seq=9)) is once


def test_events_are_bounded() -> None:
    state = FRESH
    for seq in range(model.EVENTS_KEPT + 20):
        state = model.on_event(state, event("notice", seq=seq + 1))
    assert (len(state.events), state.events[-1].seq) == (model.EVENTS_KEPT, 520)


def test_a_finished_request_becomes_the_first_row() -> None:
    state = replace(FRESH, requests=(RequestView(**ROW | _unsaid() | {"id": "r0"}),))
    after = model.on_event(state, event("request.finished", "r1", **ROW))
    assert [one.id for one in after.requests] == ["r1", "r0"]
    first = after.requests[0]
    assert (first.path, first.outcome, first.decode) == (Path.PD, Outcome.OK, "decode-0")
    assert first.received_at == NOW - timedelta(seconds=2)
    assert (after.latency_old, after.requests_old, after.events) == (True, False, ())
    assert model.on_event(after, event("request.finished", "r1", **ROW)) is after


def _unsaid() -> dict[str, Any]:
    return {"received_at": NOW, "stream": True, "mode": "pd"}


def test_rows_are_bounded() -> None:
    state = FRESH
    for number in range(model.REQUESTS_KEPT + 5):
        data = ROW | {"id": f"r{number}"}
        state = model.on_event(state, event("request.finished", f"r{number}", **data))
    assert len(state.requests) == model.REQUESTS_KEPT
    assert state.requests[0].id == "r104"


@pytest.mark.parametrize(
    "data", [{"count": 40, "by": {"pd/ok": 40}}, {"id": "r1"}, ROW | {"outcome": "unheard of"}, {}]
)
def test_many_at_once_or_too_little_is_listed_instead(data: dict[str, Any]) -> None:
    after = model.on_event(FRESH, event("request.finished", "requests", **data))
    assert (after.requests_old, after.latency_old, after.requests) == (True, True, ())
    assert model.on_event(after, event("request.finished", "requests", **data)) is after


def test_a_pair_is_kept_by_its_events() -> None:
    state = replace(FRESH, pairs=(pair(), pair("p", "e")))
    changed = event("pair.changed", "p>e", state="ok", message="", handoff_ms=3.5)
    after = model.on_event(state, changed)
    assert [(one.state, one.handoff_ms) for one in after.pairs] == [("untried", None), ("ok", 3.5)]
    assert (after.pairs[1].last_ok, after.pairs_old) == (NOW, False)
    broken = model.on_event(after, event("pair.changed", "p>e", 11, state="failing", message="no"))
    assert (broken.pairs[1].state, broken.pairs[1].message) == ("failing", "no")
    assert broken.pairs[1].last_ok == NOW


def test_very_many_pairs_are_listed_instead() -> None:
    many = tuple(pair("p", f"d{number}") for number in range(model.PAIRS_APPLIED + 1))
    after = model.on_event(replace(FRESH, pairs=many), event("pair.changed", "p>d1", state="ok"))
    assert after.pairs_old
    assert after.pairs == many


def test_a_new_epoch_is_a_restart() -> None:
    same = model.on_fleet(FRESH, FleetView(**FLEET), NOW)
    anew = model.on_fleet(FRESH, FleetView(**FLEET | {"epoch": "b"}), NOW)
    assert (same.restarts, same.requests_old) == (0, False)
    assert (anew.restarts, anew.requests_old, anew.pairs_old) == (1, True, True)
    assert model.on_fleet(ViewState(), FleetView(**FLEET), NOW).restarts == 0


def test_trouble_keeps_what_is_shown_and_stops_its_clock() -> None:
    later = NOW + timedelta(minutes=5)
    lost = model.on_trouble(FRESH, "gone")
    assert (FRESH.connected, lost.connected, lost.fleet) == (True, False, FRESH.fleet)
    assert (FRESH.as_of(later), lost.as_of(later)) == (later, NOW)
    assert model.on_trouble(FRESH, "gone", until=later).as_of(NOW) == later
    assert model.on_trouble(lost, "still", until=later).as_of(NOW) == NOW
    back = model.on_fleet(model.on_stream(lost), FleetView(**FLEET), later)
    assert (back.connected, back.trouble) == (True, "")


def test_ages_are_counted_on_the_servers_clock() -> None:
    ours = NOW - timedelta(hours=1)
    state = model.on_fleet(FRESH, FleetView(**FLEET), ours)
    assert state.as_of(ours + timedelta(seconds=7)) == NOW + timedelta(seconds=7)


def test_a_list_is_fresh_when_it_came() -> None:
    old = model.on_stream(FRESH)
    assert (old.fleet_old, old.pairs_old, old.requests_old, old.latency_old) == (True,) * 4
    fresh = model.on_latency(model.on_requests(model.on_pairs(old, [pair()]), []), [])
    assert (fresh.pairs_old, fresh.requests_old, fresh.latency_old) == (False,) * 3
    assert fresh.pairs == (pair(),)


def test_any_fact_may_be_the_next_step_of_an_operation_that_runs() -> None:
    run = OperationView(
        id="op-1", plan="plan-1", change=["decode 2 -> 3"], actor="a", source="cli",
        state="running", steps_done=0, steps_total=3, revision=2, expected_s=9.0, started_at=NOW,
    )  # fmt: skip
    state = model.on_operations(FRESH, OperationPage(items=[run], note="older ones are gone"))
    assert state.operations_note == "older ones are gone"
    assert model.on_event(state, event("notice")).operations_old
    done = run.model_copy(update={"state": "done"})
    state = model.on_operations(FRESH, OperationPage(items=[done]))
    assert not model.on_event(state, event("notice")).operations_old
