"""What "mode:pd@1h" means: a group of requests and a time, read from memory or from the minutes."""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.api.views import moment
from pdctl.contract.compare import SideView
from pdctl.control.latency import METRICS
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import OperatorError
from pdctl.domain.histogram import Histogram

SHORT = {"60": 60, "300": 300, "3600": 3600, "all": None}
"""Windows that memory has, of every group."""


@dataclass(frozen=True, slots=True)
class Side:
    """One group over one time: what was measured, by metric."""

    view: SideView
    found: dict[str, Histogram]

    def of(self, metric: str) -> Histogram:
        """One metric; empty when nothing was measured."""
        return self.found.get(metric) or Histogram()


async def side(plane: ControlPlane, asked: str) -> Side:
    """Read "GROUP@TIME"; TIME is 60, 300, 3600, all, or SINCE[..UNTIL]. Default: 3600."""
    by, _, when = asked.partition("@")
    when = when or "3600"
    if when in SHORT:
        seconds = SHORT[when]
        found = {metric: plane.latency.view(metric, by, seconds) for metric in METRICS}
        return Side(SideView(asked=asked, by=by, window_s=seconds), found)
    begin, _, end = when.partition("..")
    return await between(plane, by, begin, end or None, asked)


async def between(
    plane: ControlPlane, by: str, since: str, until: str | None, asked: str = ""
) -> Side:
    """One group between two moments, each a duration back, ISO 8601 or a mark; until: now."""
    if plane.minutes is None:
        raise OperatorError("no_minutes", "This pdctl keeps no minutes.", "Use a newer pdctl.")
    begin = await plane.minutes.moment(since)
    end = plane.clock.now() if until is None else await plane.minutes.moment(until)
    if end <= begin:
        raise OperatorError(
            "times_reversed", f"{since} is not before {until or 'now'}.", "Give the earlier first."
        )
    view = SideView(asked=asked, by=by, since=moment(begin), until=moment(end))
    return Side(view, await plane.minutes.view(by, begin, end))
