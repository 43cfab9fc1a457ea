"""Half a minute of accidents leaves nothing behind (`make soak` is the long form)."""

from __future__ import annotations

from benchmarks.soak import soak


async def test_nothing_is_left_of_streams_that_broke_left_or_ended() -> None:
    report = await soak(30, 40, seed=1)
    assert report.clean, report
    assert report.accidents["kill"] >= 1
    assert report.answers["whole"] > 50
    assert report.answers["left"] > 0
    assert not [one for one in report.answers if one.startswith("broken")]
    assert report.outcomes["ok"] >= report.answers["whole"]
