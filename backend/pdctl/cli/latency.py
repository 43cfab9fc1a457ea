"""`pdctl latency`: TTFT, TPOT, ITL, total and queue time as measured at the router."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.compare import compare_two
from pdctl.cli.requests import known
from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import FleetView, HistogramPage

WINDOWS = (60, 300, 3600)
"""Seconds; what the server keeps (`control.latency.WINDOWS_S`, which a test compares)."""
GROUPS = ("mode", "pool", "model", "instance", "pair")
METRICS = ("ttft", "tpot", "itl", "e2e", "queue", "prefill", "transfer")
EXAMPLES = """
  pdctl latency
  pdctl latency --by mode:pd --by mode:chunked --metric ttft
  pdctl latency --since-start --json
  pdctl latency --since 24h --by mode:pd
  pdctl latency --compare mode:chunked --compare mode:pd
  pdctl latency --compare all@before..switch --compare all@switch --metric itl
"""
Metrics = Annotated[list[str] | None, typer.Option(help=f"{', '.join(METRICS)}; repeatable.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(help="all, mode:pd, pool:NAME, model:NAME, instance:ID, pair:P>D; repeatable."),
]
WindowS = Annotated[
    int | None, typer.Option(metavar="60|300|3600", help="Seconds back from now [300].")
]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="From then on, however long ago.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="With --since: up to then.")]
Compare = Annotated[
    list[str] | None,
    typer.Option(metavar="GROUP[@TIME]", help="Twice: the second against the first."),
]
SinceStart = Annotated[bool, typer.Option("--since-start", help="Since the server started.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "latency", examples=EXAMPLES)
    def latency(
        terminal: Terminal,
        *,
        metric: Metrics = None,
        by: Groups = None,
        window: WindowS = None,
        since_start: SinceStart = False,
        since: Since = None,
        until: Until = None,
        compare: Compare = None,
    ) -> ExitCode | None:
        """Show latency percentiles of one time window, or two side by side.

        TIME is 60, 300, 3600 (default), all, or SINCE[..UNTIL]: a duration back ("24h"), a
        moment ("2026-01-31T12:00") or a mark (`pdctl mark NAME`). Beyond an hour latency is kept
        by minute: of all, modes, pools and models.

        A comparison gives each quantile with its 95 % interval, and says whether the difference
        is beyond chance.
        """
        if compare:
            return compare_two(terminal, compare, metric)
        for one in metric or ():
            known(one, METRICS, "metric")
        seconds = span(window, since_start=since_start, since=since, until=until)
        groups = [group(one) for one in by or ["all"]]

        read = partial(_read, metric or list(METRICS), groups, seconds, since, until)
        page = ask(terminal, read)
        if terminal.json:
            terminal.document(page)
        else:
            _show(terminal, page, seconds)
        return None


async def _read(  # noqa: PLR0917 - what is asked for, in the order of the options
    metrics: list[str],
    groups: list[str],
    seconds: int | None,
    since: str | None,
    until: str | None,
    client: AdminClient,
) -> HistogramPage:
    page = await client.histograms(metrics, groups, seconds, since=since, until=until)
    for one in groups:
        if one not in page.known:
            refuse_unknown(one, await client.fleet())
    return page


def span(
    window: int | None, *, since_start: bool, since: str | None = None, until: str | None = None
) -> int | None:
    """Seconds back from now; None since the start."""
    if until is not None and since is None:
        raise Stop(ExitCode.USAGE, "--until needs --since.")
    if since is not None and (since_start or window is not None):
        raise Stop(ExitCode.USAGE, "Give --since, or --window or --since-start, not both.")
    if since_start and window is not None:
        raise Stop(ExitCode.USAGE, "Give --window or --since-start, not both.")
    if window is not None and window not in WINDOWS:
        kept = ", ".join(map(str, WINDOWS))
        raise Stop(
            ExitCode.USAGE, f"--window cannot be {window}. Windows: {kept}, or --since-start."
        )
    return None if since_start else window or 300


def group(by: str) -> str:
    """`by`, when it has the form of a group."""
    kind, _, name = by.partition(":")
    if by != "all" and (kind not in GROUPS or not name):
        forms = ", ".join(f"{kind}:NAME" for kind in GROUPS)
        raise Stop(ExitCode.USAGE, f"--by cannot be {by!r}. Known: all, {forms}.")
    return by


def refuse_unknown(by: str, fleet: FleetView) -> None:
    """A group without data is empty; one that cannot have any is a slip of the pen."""
    kind, _, name = by.partition(":")
    names = {
        "mode": ("pd", "chunked"),
        "pool": tuple(pool.name for pool in fleet.pools),
        "instance": tuple(one.id for one in fleet.instances),
        "pair": tuple(f"{one.prefill}>{one.decode}" for one in fleet.pairs),
    }
    if kind in names:
        known(name, names[kind], kind)


def _show(terminal: Terminal, page: HistogramPage, seconds: int | None) -> None:
    rows = [
        (
            one.metric, one.by, str(one.count), figures.ms(one.p50_ms), figures.ms(one.p90_ms),
            figures.ms(one.p99_ms), figures.ms(one.max_ms),
        )
        for one in page.items
    ]  # fmt: skip
    head = ("METRIC", "OF", "COUNT", "P50", "P90", "P99", "MAX")
    terminal.data("\n".join(terminal.table(head, rows)))
    if page.since is not None and page.until is not None:
        terminal.say(f"{figures.moment(page.since)} to {figures.moment(page.until)}")
    else:
        terminal.say("since the server started" if seconds is None else f"last {seconds} s")
    if page.simulated:
        terminal.say(SIMULATED)
