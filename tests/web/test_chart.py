"""Latency over time is drawn as it was: every slice on the chart, gaps left open."""

from __future__ import annotations

import json
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
    one = chart.charts(page(values), 300, chart.MODES)[0]
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
    charts = chart.charts(SeriesPage(at=NOW, items=[]), 300, chart.MODES)
    assert [(one.metric, one.lines, one.rows) for one in charts] == [
        ("ttft", (), ()), ("tpot", (), ()), ("itl", (), ()), ("rate", (), ()),
    ]  # fmt: skip


async def test_the_chart_has_its_table(browser: Browser) -> None:
    found = await browser.get("/latency?window=3600")
    for word in ("TTFT", "TPOT", "ITL", "PD p99", "Throughput", "Values", "p90", "simulated"):
        assert word in found.text, word
    drawn = found.html.count('class="trend-lines"')
    assert 3 <= drawn <= 4, "the throughput needs a slice that has ended"
    assert len(found.all("table")) == drawn + 1, "one of them is the goodput"


async def test_lines_by_pool(browser: Browser) -> None:
    found = await browser.get("/latency?by=pool")
    assert "decode p99" in found.text
    assert "PD p99" not in found.text
    assert 'hx-get="/ui/trends?window=300&amp;by=pool"' in found.html


def test_throughput_is_what_ended_by_slices_that_have_ended() -> None:
    points = [
        PointView(at=NOW - timedelta(seconds=back), count=count, p50_ms=1.0)
        for back, count in ((35, 20), (15, 10), (5, 1))
    ]
    series = SeriesView(metric="e2e", by="mode:pd", window_s=300, slice_s=10, points=points)
    rate = chart.charts(SeriesPage(at=NOW, items=[series]), 300, chart.MODES)[-1]
    assert rate.lines[0].values == (2.0, 0.0, 1.0)
    assert [point.count for _, point in rate.rows] == [10, 20], (
        "the open slice would look like a fall"
    )
    columns = json.loads(rate.columns)
    assert columns["lines"][0]["label"] == "PD per second"
    assert len(columns["times"]) == 3
