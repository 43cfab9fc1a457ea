"""`pdctl golden`: do P/D and whole give the same answer?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.contract.golden import GoldenPage, GoldenView

EXAMPLES = """
  pdctl golden                              the pair that was checked longest ago
  pdctl golden --pair "prefill-0>decode-1"
  pdctl golden --list --json
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "golden", examples=EXAMPLES)
    def golden(
        terminal: Terminal,
        pair: Annotated[str | None, typer.Option(metavar="P>D", help="This pair.")] = None,
        list_: Annotated[bool, typer.Option("--list", help="Only show the newest checks.")] = False,
    ) -> ExitCode | None:
        """Ask a pair the same prompt over P/D and whole: both must give the same tokens.

        Greedy, and past every cache. A difference early in the answer means wrong KV; one late
        in it may be rounding on a GPU. [golden] every = "10m" in the fleet file does it by itself.
        Exits with 1 when the answers differ or an engine failed.
        """
        if list_:
            page = ask(terminal, lambda client: client.golden_checks())
            _list(terminal, page)
            return None
        prefill, sign, decode = (pair or "").partition(">")
        if pair is not None and not (sign and prefill and decode):
            raise Stop(ExitCode.USAGE, 'Give a pair as "prefill-0>decode-1".')
        terminal.say("asking both ways")
        found = ask(terminal, lambda client: client.check_golden(prefill.strip(), decode.strip()))
        if terminal.json:
            terminal.document(found)
        else:
            terminal.data(sentence(found))
        return ExitCode.OK if found.equal else ExitCode.FAILED


def _list(terminal: Terminal, page: GoldenPage) -> None:
    if terminal.json:
        terminal.document(page)
        return
    for one in page.items:
        terminal.data(f"{figures.moment(one.at)}  {sentence(one)}")
    if not page.items:
        terminal.say("No golden check since the server started.")
    every = "when asked for" if page.every_s is None else f"every {figures.span(page.every_s)}"
    terminal.say(f"Checks are made {every}.")
    if page.simulated:
        terminal.say(SIMULATED)


def sentence(one: GoldenView) -> str:
    """One check in words."""
    where = f"{one.prefill} > {one.decode}"
    if one.equal is None:
        return f"{where}: not checked: {one.why}"
    if one.equal:
        return f"{where}: equal, all {one.tokens} tokens"
    return f"{where}: DIFFERENT: {one.why}; whole {one.whole!r}, over P/D {one.handed_over!r}"
