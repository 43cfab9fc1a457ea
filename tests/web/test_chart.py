"""Latency over time is drawn as it was: every slice on the chart, gaps left open."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.contract.latency import PointView, SeriesPage, SeriesView
from pdctl.web import chart
from tests.web.site import Browser

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def page(values: dict[int, float]) -> SeriesPage:
    """One series of five minutes: milliseconds by slice of ten seconds, 0 the oldest."""
    points = [
        PointView(
            at=NOW - timedelta(seconds=300 - 10 * place), count=1, p50_ms=value / 2, p90_ms=value,
            p99_ms=value,
        )
        for place, value in sorted(values.items())
    ]  # fmt: skip
    series = SeriesView(metric="ttft", by="mode:pd", window_s=300, slice_s=10, points=points)
    return SeriesPage(at=NOW, items=[series])


@given(st.dictionaries(st.integers(0, 29), st.floats(0.01, 1e6), min_size=1))
@settings(max_examples=60, deadline=None)
def test_every_slice_is_on_the_chart(values: dict[int, float]) -> None:
    one = chart.charts(page(values), 300)[0]
    assert [line.quantile for line in one.lines] == ["p50", "p99"]
    assert len(one.rows) == len(values)
    assert one.ticks[0] == 0
    assert one.ticks[-1] >= max(values.values()) * 0.999999
    assert len(one.ticks) <= 7
    for line in one.lines:
        places = re.findall(r"[ML]([\d.]+) (-?[\d.]+)", line.d)
        assert len(places) == len(values)
        assert all(0 <= float(x) <= 100 and -0.01 <= float(y) <= 100 for x, y in places)
        begun = sum(place - 1 not in values for place in values)
        assert line.d.count("M") == begun, "a gap is not bridged"


def test_nothing_measured_is_no_line() -> None:
    charts = chart.charts(SeriesPage(at=NOW, items=[]), 300)
    assert [(one.metric, one.lines, one.rows) for one in charts] == [
        ("ttft", (), ()), ("tpot", (), ()), ("itl", (), ()),
    ]  # fmt: skip


async def test_the_chart_has_its_table(browser: Browser) -> None:
    found = await browser.get("/latency?window=3600")
    for word in ("TTFT", "TPOT", "ITL", "PD p99", "Values", "p90", "simulated"):
        assert word in found.text, word
    assert len(found.all("table")) == 4, "one of them is the goodput"
    assert found.html.count('class="trend-lines"') == 3
