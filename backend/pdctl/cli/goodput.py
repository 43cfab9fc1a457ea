"""`pdctl goodput`: requests within each named objective, and why the others were not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.latency import SinceStart, WindowS, group, refuse_unknown, span
from pdctl.cli.terminal import SIMULATED, ExitCode, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.goodput import GoodputPage, GoodputView, SloView

CAUSES = ("queue", "prefill", "transfer", "decode", "stall", "error")
EXAMPLES = """
  pdctl goodput
  pdctl goodput --slo chat --by mode:pd --by mode:chunked
  pdctl goodput --window 3600 --json
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "goodput", examples=EXAMPLES)
    def goodput(
        terminal: Terminal,
        slo: Annotated[list[str] | None, typer.Option(help="An objective; repeatable.")] = None,
        by: Annotated[
            list[str] | None,
            typer.Option(help="all, mode:pd, pool:NAME, model:NAME; repeatable."),
        ] = None,
        window: WindowS = None,
        since_start: SinceStart = False,
    ) -> ExitCode | None:
        """Show how many requests met each objective ([slo.*]), and why the rest missed it.

        Goodput is the rate of requests that meet all bounds of an objective. A failed request
        missed it, one that was refused for what it says (4xx) does not count, and one whose
        client left before a bound was broken is not judged. The first token of an answer that is
        not streamed is unknown, so that answer is judged only if it was quick as a whole.

        Causes: queue, prefill and transfer (what took longest before a first token that came
        late), decode (slow tokens all along), stall (a few long gaps), error.
        """
        seconds = span(window, since_start=since_start)
        groups = [group(one) for one in by or ()]

        async def read(client: AdminClient) -> GoodputPage:
            page = await client.goodput(slo, groups, seconds)
            for one in groups:
                if one not in page.known:
                    refuse_unknown(one, await client.fleet())
            return page

        page = ask(terminal, read)
        if terminal.json:
            terminal.document(page)
        else:
            _show(terminal, page, seconds)
        return None


def _show(terminal: Terminal, page: GoodputPage, seconds: int | None) -> None:
    if not page.slos:
        terminal.say(
            "The fleet file names no objective. Add one, for example:\n"
            '  [slo.chat]\n  ttft = "500ms"\n  tpot = "50ms"'
        )
        return
    head = ("SLO", "OF", "MET", "GOODPUT", "JUDGED", "UNJUDGED", "MISSED BY")
    terminal.data("\n".join(terminal.table(head, [_row(one) for one in page.items])))
    for slo in page.slos:
        terminal.say(f"{slo.name}: {bounds(slo)}")
    terminal.say("since the server started" if seconds is None else f"last {seconds} s")
    if page.simulated:
        terminal.say(SIMULATED)


def _row(one: GoodputView) -> tuple[str, ...]:
    judged = one.met + one.missed
    return (
        one.slo, one.by, figures.share(one.share), _rate(one),
        str(judged), str(one.unjudged), causes(one) or "-",
    )  # fmt: skip


def _rate(one: GoodputView) -> str:
    return figures.UNKNOWN if one.per_s is None else f"{one.per_s:.2f}/s"


def causes(one: GoodputView) -> str:
    """Why the rest missed it, most first: "prefill 4, queue 1"."""
    found = sorted(one.causes.items(), key=lambda item: (-item[1], CAUSES.index(item[0])))
    return ", ".join(f"{cause} {count}" for cause, count in found)


def bounds(slo: SloView) -> str:
    """An objective in words."""
    said = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("ITL p99", slo.itl_p99_ms))
    return ", ".join(f"{name} <= {figures.ms(ms)}" for name, ms in said if ms is not None)
