"""Two latency distributions side by side, and the moments between which they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.contract.compare import DifferenceView, EstimateView, SideView

FOUND = {"higher": "higher", "lower": "lower", "unclear": "not beyond chance"}
EXAMPLES = """
  pdctl mark before-switch
  pdctl mark                       list them
  pdctl mark --delete before-switch
  pdctl latency --compare all@2h..before-switch --compare all@before-switch
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "mark", examples=EXAMPLES)
    def mark(
        terminal: Terminal,
        name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Of now.")] = None,
        delete: Annotated[bool, typer.Option("--delete", "-d", help="Forget NAME.")] = False,
    ) -> ExitCode | None:
        """Name this moment, to compare what was before with what came after; or list the names.

        A name that is there already is moved to now. Marks outlive restarts.
        """
        if name is None:
            if delete:
                raise Stop(ExitCode.USAGE, "Which one? Give its name.")
            _list(terminal)
        elif delete:
            ask(terminal, lambda client: client.unmark(name))
            terminal.say(f"{name} is forgotten.")
        else:
            made = ask(terminal, lambda client: client.mark(name))
            if terminal.json:
                terminal.document(made)
            else:
                terminal.say(f"{made.name} is {figures.moment(made.at)}.")
        return None


def _list(terminal: Terminal) -> None:
    page = ask(terminal, lambda client: client.marks())
    if terminal.json:
        terminal.document(page)
    elif page.items:
        rows = [(one.name, figures.moment(one.at), one.actor) for one in page.items]
        terminal.data("\n".join(terminal.table(("NAME", "AT", "BY"), rows)))
    else:
        terminal.say("No marks yet: `pdctl mark NAME` names this moment.")


def compare_two(terminal: Terminal, sides: list[str], metric: list[str] | None) -> ExitCode | None:
    """The second side against the first."""
    if len(sides) != 2:
        raise Stop(ExitCode.USAGE, "Give --compare twice: the second is set against the first.")
    page = ask(terminal, lambda client: client.compare_latency(sides[0], sides[1], metric))
    if terminal.json:
        terminal.document(page)
        return None
    rows = [_row(one) for one in page.items]
    head = ("METRIC", "", f"A: {page.a.asked}", f"B: {page.b.asked}", "B - A", "B IS")
    terminal.data("\n".join(terminal.table(head, rows)))
    terminal.say(f"A: {when(page.a)}; B: {when(page.b)}. In brackets: the 95 % interval.")
    if page.note:
        terminal.say(page.note)
    if page.simulated:
        terminal.say(SIMULATED)
    return None


def _row(one: DifferenceView) -> tuple[str, ...]:
    return (
        one.metric, f"p{one.q * 100:g}", estimate(one.a), estimate(one.b), difference(one),
        FOUND.get(one.found) or f"too few: {one.needed} each are needed",
    )  # fmt: skip


def estimate(one: EstimateView) -> str:
    """A quantile with its interval: "41.0 ms [38.0 ms, 45.0 ms] of 1200"."""
    interval = f" [{figures.ms(one.low_ms)}, {figures.ms(one.high_ms)}]"
    return f"{figures.ms(one.ms)}{interval if one.low_ms is not None else ''} of {one.count}"


def difference(one: DifferenceView) -> str:
    """By how much the second is more, with its interval."""
    if one.ms is None:
        return figures.UNKNOWN
    said = _signed(one.ms)
    if one.low_ms is None or one.high_ms is None:
        return said
    return f"{said} [{_signed(one.low_ms)}, {_signed(one.high_ms)}]"


def _signed(ms: float) -> str:
    return f"{'-' if ms < 0 else '+'}{figures.ms(abs(ms))}"


def when(side: SideView) -> str:
    """The time of a side in words."""
    if side.since is not None and side.until is not None:
        return f"{figures.moment(side.since)} to {figures.moment(side.until)}"
    return "since the server started" if side.window_s is None else f"last {side.window_s} s"
