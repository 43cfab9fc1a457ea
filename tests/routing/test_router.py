"""decide: decode first, proven pairs only, and a reason for every path that was not taken."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.routing.boards import board

from pdctl.domain.handoff import Path
from pdctl.domain.ids import InstanceId
from pdctl.domain.topology import Mode
from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate
from pdctl.routing.router import Avoid, Board, Refusal, Route, decide

FACTS = RequestFacts("/v1/completions", prompt_tokens=100)


def loads(**legs: int) -> dict[str, Candidate]:
    return {id_: Candidate(InstanceId(id_), n, n * 100) for id_, n in legs.items()}


def route(on: Board, **more: Any) -> Route:
    found = ask(on, **more)
    assert isinstance(found, Route), found
    return found


def ask(on: Board, **more: Any) -> Route | Refusal:
    facts = more.pop("facts", FACTS)
    return decide(facts, on, more.pop("loads", {}), Random(0), more.pop("avoid", None))


def ends(found: Route) -> tuple[str, str, str, str]:
    return (
        found.path.value,
        found.path_reason,
        found.prefill.id if found.prefill else "",
        found.decode.id,
    )


def test_pd_takes_a_pair_and_says_why() -> None:
    found = route(board("p0", "d0"))
    assert ends(found) == ("pd", "", "p0", "d0")
    assert found.instances == ("p0", "d0")
    assert found.decode_why
    assert found.prefill_why


def test_decode_is_chosen_first_then_a_prefill_proven_with_it() -> None:
    on = board("p0", "p1", "d0", "d1", pairs=(("p0", "d0"), ("p1", "d1")))
    found = route(on, loads=loads(d0=3, p1=9))
    assert ends(found) == ("pd", "", "p1", "d1")


@pytest.mark.parametrize("kind", ["p0", "d0"])
def test_a_full_end_leads_to_the_other_pair(kind: str) -> None:
    on = board("p0", "p1", "d0", "d1", max_inflight_per_instance=1)
    found = route(on, loads=loads(**{kind: 1}))
    assert kind not in found.instances


def test_all_full_is_a_reason_to_wait_not_to_change_the_path() -> None:
    on = board("p0", "d0", max_inflight_per_instance=1)
    for full in ({"p0": 1}, {"d0": 1}):
        refusal = ask(on, loads=loads(**full))
        assert isinstance(refusal, Refusal)
        assert (refusal.status, refusal.wait) == (429, True)


def test_chunked_uses_every_instance() -> None:
    on = board("p0", "d0", mode=Mode.CHUNKED)
    assert ends(route(on, loads=loads(d0=1))) == ("chunked", "", "", "p0")
    assert ends(route(on, loads=loads(p0=1))) == ("chunked", "", "", "d0")


def test_what_pd_cannot_serve_is_aggregated_on_decode() -> None:
    facts = RequestFacts("/v1/completions", blocker="n")
    on = board("p0", "d0", "d1")
    assert ends(route(on, facts=facts, loads=loads(d0=1))) == ("aggregated", "n", "", "d1")


@pytest.mark.parametrize(
    ("ids", "more", "avoid", "reason", "on"),
    [
        (("d0",), {}, None, "no_prefill", "d0"),
        (("p0",), {}, None, "no_decode", "p0"),
        (("p0", "d0"), {"pairs": ()}, None, "no_pair", "d0"),
        (("p0", "d0"), {"draining": ("p0",)}, None, "no_prefill", "d0"),
        (("p0", "d0"), {"draining": ("d0",)}, None, "no_decode", "p0"),
        (("p0", "d0"), {}, Avoid(frozenset({"p0"})), "no_prefill", "d0"),
        (("p0", "d0"), {}, Avoid(frozenset({"d0"})), "no_decode", "p0"),
        (("p0", "d0"), {}, Avoid(pairs=frozenset({("p0", "d0")})), "no_pair", "d0"),
    ],
)
def test_without_a_pair_it_is_served_whole_and_says_why(
    ids: tuple[str, ...], more: dict[str, Any], avoid: Avoid | None, reason: str, on: str
) -> None:
    assert ends(route(board(*ids, **more), avoid=avoid)) == ("aggregated", reason, "", on)


def test_nothing_accepting_is_503_and_all_suspect_is_another_503() -> None:
    none = ask(board("p0", "d0", draining=("p0", "d0")))
    suspect = ask(board("d0"), avoid=Avoid(frozenset({"d0"})))
    assert isinstance(none, Refusal)
    assert isinstance(suspect, Refusal)
    assert (none.status, none.wait, none.retry_after_s) == (503, False, 5)
    assert (suspect.status, suspect.wait) == (503, False)
    assert "failing" in suspect.message


def test_elastic_instances_pair_in_both_directions_but_never_with_themselves() -> None:
    on = board("b0", "b1", pairs=(("b0", "b1"), ("b1", "b0"), ("b0", "b0")))
    ends = {str(decode.id): [one.id for one in prefills] for decode, prefills in on.pairs}
    assert ends["b0"] == ["b1"]
    assert route(on).path is Path.PD


IDS = st.lists(st.sampled_from(["p0", "p1", "p2", "d0", "d1", "d2", "b0"]), unique=True, max_size=7)


@settings(max_examples=80, deadline=None)
@given(
    ids=IDS,
    data=st.data(),
    mode=st.sampled_from(list(Mode)),
    blocker=st.sampled_from(["", "n"]),
)
def test_a_route_never_uses_what_it_must_not(
    ids: list[str], data: st.DataObject, mode: Mode, blocker: str
) -> None:
    some = st.lists(st.sampled_from(ids), unique=True) if ids else st.just([])
    draining, avoided = data.draw(some), data.draw(some)
    busy = {id_: Candidate(InstanceId(id_), legs=2) for id_ in data.draw(some)}
    pairs = tuple((p, d) for p in ids for d in ids if p != d)
    on = board(*ids, pairs=pairs, mode=mode, draining=tuple(draining), max_inflight_per_instance=2)
    found = ask(
        on,
        facts=RequestFacts("/v1/completions", blocker=blocker),
        loads=busy,
        avoid=Avoid(frozenset(avoided)),
    )
    free = set(ids) - set(draining) - set(avoided)
    if isinstance(found, Refusal):
        assert found.wait == bool(free)
        return
    assert set(found.instances) <= free - set(busy)
    assert len(set(found.instances)) == len(found.instances)
    if found.prefill is not None:
        assert (found.prefill.id, found.decode.id) in on.table.pairs
        assert mode is Mode.PD
        assert not blocker
