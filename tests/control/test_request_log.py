"""The ring of finished requests: bounds, order, filters, paging and repeated ids."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.control.request_log import RequestLog
from pdctl.domain.handoff import Outcome, Path, RequestRecord
from pdctl.domain.request_query import RequestQuery
from tests.fakes.records import record


def some(count: int, seed: int = 1) -> list[RequestRecord]:
    rng = Random(seed)
    return [record(rng, number, 1000.0 + number) for number in range(count)]


def filled(records: list[RequestRecord], capacity: int = 2000) -> RequestLog:
    log = RequestLog(capacity)
    for one in records:
        log.add(one)
    return log


def test_keeps_the_newest_and_forgets_the_rest() -> None:
    records = some(30)
    log = filled(records, capacity=10)
    assert len(log) == 10
    assert log.full
    assert log.oldest is records[20]
    assert log.get(records[5].id) is None
    assert log.get(records[29].id) is records[29]
    assert log.query(RequestQuery(limit=3)) == [records[29], records[28], records[27]]
    assert sum(log.totals.values()) == 30


def test_a_repeated_id_is_the_newest_and_paging_still_ends() -> None:
    first, second, third = some(3)
    second = replace(second, id=first.id)
    log = filled([first, second, third])
    assert log.get(first.id) is second
    assert log.query(RequestQuery(before=first.id)) == []
    assert log.query(RequestQuery(before=third.id)) == [second, first]


def test_forgetting_an_old_twin_keeps_the_newer_one() -> None:
    first, second, third = some(3)
    second = replace(second, id=first.id)
    log = filled([first, second, third], capacity=2)
    assert log.get(first.id) is second


def test_an_unknown_position_has_nothing_after_it() -> None:
    assert filled(some(5)).query(RequestQuery(before="never seen")) == []


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 60),
    st.builds(
        RequestQuery,
        limit=st.integers(1, 7),
        before=st.none(),
        path=st.sampled_from([None, *Path]),
        outcome=st.sampled_from([None, *Outcome]),
        instance=st.sampled_from([None, "decode-0", "prefill-1", "nobody"]),
        slowest=st.booleans(),
    ),
)
def test_pages_together_are_the_whole_filtered_list(count: int, query: RequestQuery) -> None:
    records = some(count)
    log = filled(records)
    path, outcome, instance = query.path, query.outcome, query.instance
    seen: list[RequestRecord] = []
    while page := log.query(query):
        seen += page
        query = replace(query, before=page[-1].id)
    wanted = [
        one
        for one in reversed(records)
        if (path is None or one.path is path)
        and (outcome is None or one.outcome is outcome)
        and (instance is None or instance in {leg.instance for leg in one.legs})
    ]
    if query.slowest:
        wanted = sorted(
            (one for one in wanted if one.e2e_ms is not None), key=lambda one: -(one.e2e_ms or 0)
        )
    assert seen == wanted
