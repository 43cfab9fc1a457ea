"""What pages show is decided by pure functions: state in a word, grids, bars, questions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.contract.resources import (
    FleetView,
    HistogramView,
    InstanceView,
    ModeView,
    PairView,
    PoolView,
    RequestView,
    RouterView,
    SpanView,
)
from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode, Role
from pdctl.web import latency, verbs, waterfall
from pdctl.web.overview import grid, pool_rows, servable, state_of

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ROLES = {"p": Role.PREFILL, "d": Role.DECODE, "b": Role.BOTH}


def instance(letter: str, index: int, phase: Phase) -> InstanceView:
    role = ROLES[letter]
    return InstanceView(
        id=f"{role.value}-{index}", pool=role.value, role=role, phase=phase, reason=Reason.DESIRED,
        since=NOW, http_port=18000, side_channel_port=18100,
    )  # fmt: skip


def fleet(*instances: InstanceView, mode: Mode = Mode.PD, desired: int | None = None) -> FleetView:
    pools = []
    for role in dict.fromkeys(one.role for one in instances):
        members = [one for one in instances if one.role is role]
        ready = sum(one.phase is Phase.READY for one in members)
        size = len(members) if desired is None else desired
        pools.append(PoolView(name=role.value, role=role, desired=size, ready=ready))
    return FleetView(
        seq=1, at=NOW, name="f", model="m", served_name="s", shape="1p1d", mode=mode, revision=1,
        router=RouterView(url="http://x"), pools=pools, instances=list(instances),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "mode", "word"),
    [
        ("p:ready d:ready", Mode.PD, "Ready"),
        ("p:loading d:starting", Mode.PD, "Starting"),
        ("p:ready d:loading", Mode.PD, "Degraded"),
        ("p:ready d:loading", Mode.CHUNKED, "Degraded"),
        ("p:ready p:backoff d:ready", Mode.PD, "Degraded"),
        ("p:ready p:failed d:ready", Mode.PD, "Failing"),
        ("p:failed d:ready", Mode.PD, "Failing"),
        ("p:failed d:failed", Mode.PD, "Down"),
        ("p:stopped d:stopped", Mode.PD, "Down"),
        ("b:ready", Mode.PD, "Ready"),
    ],
)
def test_the_state_in_a_word(shape: str, mode: Mode, word: str) -> None:
    parts = [part.split(":") for part in shape.split()]
    built = [instance(letter, i, Phase(phase)) for i, (letter, phase) in enumerate(parts)]
    state = state_of(fleet(*built, mode=mode))
    assert state.word == word
    assert state.glyph
    assert "instances ready" in state.why


def test_a_fleet_that_is_being_shut_down_is_not_ready() -> None:
    leaving = instance("d", 0, Phase.DRAINING).model_copy(update={"reason": Reason.SHUTDOWN})
    state = state_of(fleet(instance("p", 0, Phase.READY), leaving))
    assert state.word == "Stopping"
    assert "shutting down" in state.why


def test_a_fleet_that_wants_nothing_is_empty_not_down() -> None:
    assert state_of(fleet()).word == "Empty"
    assert not servable(fleet(), Mode.CHUNKED)


def test_instances_of_a_pool_that_is_gone_are_still_shown() -> None:
    view = fleet(instance("p", 0, Phase.READY), instance("d", 0, Phase.DRAINING))
    rows = pool_rows(view.model_copy(update={"pools": view.pools[:1]}))
    assert [(row.pool.name, row.pool.desired) for row in rows] == [("prefill", 1), ("decode", 0)]
    assert rows[1].phases == ((Phase.DRAINING, 1),)


def test_a_grid_becomes_counts_when_it_would_be_unreadable() -> None:
    def pairs(size: int) -> list[PairView]:
        states = ["ok"] * (size * size - 1) + ["failing"]
        names = [(f"p{a}", f"d{b}") for a in range(size) for b in range(size)]
        return [
            PairView(prefill=p, decode=d, state=state)
            for (p, d), state in zip(names, states, strict=True)
        ]

    small, large = grid(pairs(3)), grid(pairs(21))
    assert (small.small, large.small) == (True, False)
    assert small.prefills == ("p0", "p1", "p2")
    assert large.counts == (("failing", 1), ("ok", 440))
    assert [pair.decode for pair in large.troubled] == ["d20"]


def histogram(metric: str, by: str, buckets: list[tuple[float, float, int]]) -> HistogramView:
    count = sum(number for *_, number in buckets)
    return HistogramView(metric=metric, by=by, window_s=60, count=count, buckets=buckets)


edges = st.floats(0, 1e6, allow_nan=False)
buckets = st.lists(
    st.tuples(edges, edges, st.integers(1, 999)).map(lambda b: (min(b[:2]), max(b[:2]), b[2])),
    min_size=1,
    max_size=30,
)


@given(buckets, buckets)
@settings(max_examples=40, deadline=None)
def test_bars_count_everything_and_stay_on_the_axis(
    first: list[tuple[float, float, int]], second: list[tuple[float, float, int]]
) -> None:
    views = [histogram("ttft", "mode:pd", first), histogram("ttft", "mode:chunked", second)]
    row = next(row for row in latency.rows(views) if row.metric == "ttft")
    assert row.series[2].view is None
    for series, given_ in zip(row.series, (first, second), strict=False):
        assert sum(bar.count for bar in series.bars) == sum(number for *_, number in given_)
        assert all(0 <= bar.x <= 100 - bar.width and 0 < bar.height <= 100 for bar in series.bars)
        assert max(bar.height for bar in series.bars) == 100


def test_nothing_measured_is_empty_and_not_zero() -> None:
    rows = latency.rows([histogram("ttft", "mode:pd", [])])
    assert [row.metric for row in rows] == list(latency.METRICS)
    assert all(row.empty and all(s.view is None for s in row.series) for row in rows)
    assert [latency.window_of(t) for t in ("60", "all", None, "x")] == [60, None, 300, 300]


def request(*spans: tuple[str, float, float, str], e2e: float | None = 100.0) -> RequestView:
    return RequestView(
        id="r", received_at=NOW, endpoint="/v1/completions", stream=True, mode="pd", path=Path.PD,
        outcome=Outcome.OK, status=200, e2e_ms=e2e, ttft_ms=40.0,
        spans=[SpanView(name=n, start_ms=a, end_ms=b, source=s) for n, a, b, s in spans],
    )  # fmt: skip


def test_bars_of_a_waterfall() -> None:
    chart = waterfall.chart(
        request(
            ("prefill queue", 0, 10, "derived"),
            ("prefill compute", 10, 30, "measured"),
            ("decode admission + KV pull", 30, 40, "guessed"),
            ("decode streaming", 40, 100, "measured"),
        )
    )
    assert chart is not None
    assert [(bar.x, bar.width, bar.kind, bar.source) for bar in chart.bars] == [
        (0, 10, "wait", "derived"),
        (10, 20, "prefill", "measured"),
        (30, 10, "transfer", "unknown"),
        (40, 60, "decode", "measured"),
    ]
    assert [tick.ms for tick in chart.ticks] == [0, 20, 40, 60, 80]
    assert chart.marks[0].x == 40
    assert chart.sources == ("measured", "derived", "unknown")


def test_no_spans_no_chart() -> None:
    assert waterfall.chart(request()) is None
    assert waterfall.chart(request(("queue", 0, 0, "measured"), e2e=None)) is None


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 1e7)), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_no_bar_leaves_the_axis(pairs: list[tuple[float, float]]) -> None:
    spans = [("x", min(pair), max(pair), "measured") for pair in pairs]
    chart = waterfall.chart(request(*spans, e2e=1.0))
    assert chart is not None
    assert all(bar.x >= 0 and bar.width > 0 and bar.x + bar.width <= 100.001 for bar in chart.bars)
    assert len(chart.ticks) <= 6


def test_a_switch_that_would_serve_nobody_says_so() -> None:
    now = fleet(instance("p", 0, Phase.READY), instance("d", 0, Phase.LOADING), mode=Mode.CHUNKED)
    ask = verbs.switch(now, ModeView(mode=Mode.CHUNKED, inflight={"chunked": 1}), Mode.PD)
    assert any("no ready prefill and decode pair" in risk for risk in ask.risks)
    assert any("1 request under way finishes" in line for line in ask.effects)
    same = verbs.switch(now, ModeView(mode=Mode.CHUNKED), Mode.CHUNKED)
    assert any("already" in risk for risk in same.risks)
