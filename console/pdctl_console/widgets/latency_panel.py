"""Latency by path: percentiles of the router's own histograms over one window."""

from __future__ import annotations

from pdctl.contract.goodput import GoodputView
from pdctl.contract.resources import HistogramView
from pdctl.contract.truth import TruthView
from pdctl_console import format as fmt
from pdctl_console.model import ViewState
from pdctl_console.styled import Line, plain, told
from pdctl_console.widgets.block import Block

METRICS = ("ttft", "tpot", "itl", "e2e")
_WIDE = 112
"""From this width on there is room for p90."""


class LatencyPanel(Block):
    """A line per path that has finished requests; "none" is said, not drawn as zero."""

    def show(self, state: ViewState, window: str) -> None:
        """Draw the percentiles, and in the title what the router has in hand."""
        load = ""
        if state.fleet is not None:
            router = state.fleet.router
            load = f"{router.inflight} under way, {router.queued} waiting; "
        title = f" Router: {load}latency in ms, {window} "
        if self.border_title != title:
            self.border_title = title
        known = state.latency
        found = {(one.by.removeprefix("mode:"), one.metric): one for one in known if one.count}
        more = [*map(served, state.goodput), *moved(state.truth)] if found else []
        self.sketch(lambda width: [*lines(found, width), *more])


def lines(found: dict[tuple[str, str], HistogramView], width: int) -> list[Line]:
    """Two lines of head, then a line per path."""
    paths = list(dict.fromkeys(path for path, _ in found))
    if not paths:
        return [told("No finished requests in this window.", "muted")]
    quantiles = ("p50", "p90", "p99") if width >= _WIDE else ("p50", "p99")
    cell = 7 if width >= _WIDE else 6
    block = cell * len(quantiles)
    top = f"{'':<11}" + "  ".join(f"{metric.upper():^{block}}" for metric in METRICS)
    head = f"{'path':<11}" + "  ".join("".join(f"{q:>{cell}}" for q in quantiles) for _ in METRICS)
    rows = [_row(path, found, quantiles, cell) for path in paths]
    return [told(top.rstrip(), "muted"), told(f"{head}{'n':>7}", "muted"), *rows]


def served(one: GoodputView) -> Line:
    """An objective: how many met it, how many a second, and why the rest did not."""
    judged = one.met + one.missed
    if one.share is None:
        return told(f"within {one.slo}: no request can be judged", "muted")
    causes = sorted(one.causes.items(), key=lambda item: -item[1])
    missed = "; missed by " + ", ".join(f"{name} {count}" for name, count in causes)
    rate = "" if one.per_s is None else f", {one.per_s:.2f}/s"
    share = "100 %" if one.share >= 1 else f"{min(one.share * 100, 99.9):.1f} %"
    return plain(f"within {one.slo}: {share} of {judged}{rate}{missed if causes else ''}")


def moved(truth: TruthView | None) -> list[Line]:
    """Only what is wrong: KV that was computed twice, or pulled after its lease."""
    if truth is None:
        return []
    said = []
    if truth.recomputed:
        said.append(f"{truth.recomputed} handed-over requests silently computed twice")
    if truth.late:
        said.append(f"{truth.late} pulls ended after their lease")
    return [told(f"! {'; '.join(said)}: pdctl truth", "warn")] if said else []


def _row(
    path: str, found: dict[tuple[str, str], HistogramView], quantiles: tuple[str, ...], cell: int
) -> Line:
    blocks = []
    for metric in METRICS:
        one = found.get((path, metric))
        values = [getattr(one, f"{q}_ms") if one else None for q in quantiles]
        blocks.append("".join(f"{fmt.bare_ms(value):>{cell}}" for value in values))
    total = found.get((path, "e2e"))
    return plain(
        f"{path:<11}" + "  ".join(blocks) + f"{fmt.count(total.count if total else None):>7}"
    )
