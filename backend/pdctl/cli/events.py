"""`pdctl events`: the facts of the fleet, stored and live."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import EventView

TOPICS = ("fleet", "instance", "pair", "request", "operation", "signal", "notice")
"""What events are about: the first part of their kind."""
EXAMPLES = """
  pdctl events --limit 50
  pdctl events --follow --topic instance --topic pair
  pdctl events --json --follow | jq -c '{kind, subject}'
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "events", examples=EXAMPLES)
    def events(
        terminal: Terminal,
        after: Annotated[
            int | None, typer.Option(min=0, help="Only events after this number.")
        ] = None,
        limit: Annotated[int, typer.Option(min=1, max=1000, help="How many stored ones.")] = 50,
        topic: Annotated[
            list[str] | None,
            typer.Option(help=f"Only {', '.join(TOPICS)}; repeatable."),
        ] = None,
        follow: Annotated[
            bool, typer.Option("--follow", "-f", help="Then show events as they happen.")
        ] = False,
    ) -> ExitCode | None:
        """List what happened, oldest first.

        Phases of instances, pairs, rungs of a stop, operators' verbs, notices.
        """
        topics = _topics(topic)

        async def read(client: AdminClient) -> None:
            page = await client.events_page(after, limit)
            if topics:
                page.items = [one for one in page.items if one.kind.partition(".")[0] in topics]
            if terminal.json and not follow:
                terminal.document(page)
                return
            if page.simulated:
                terminal.say(SIMULATED)
            for one in page.items:
                _line(terminal, one)
            if follow:
                await _follow(terminal, client, page.seq, topics)

        ask(terminal, read)
        return None


def _topics(given: list[str] | None) -> list[str]:
    for one in given or ():
        if one not in TOPICS:
            known = ", ".join(TOPICS)
            raise Stop(ExitCode.USAGE, f"There is no topic {one!r}. Topics: {known}.")
    return given or []


def _line(terminal: Terminal, one: EventView) -> None:
    if terminal.json:
        terminal.document(one, line=True)
        return
    said = " ".join(
        f"{name}={_value(value)}" for name, value in one.data.items() if value not in (None, "", {})
    )
    kind = terminal.paint(one.kind.ljust(18), "cyan")
    terminal.raw(f"{figures.clock(one.at)}  {one.seq:>6}  {kind}  {one.subject}  {said}\n")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


async def _follow(terminal: Terminal, client: AdminClient, seq: int, topics: list[str]) -> None:
    from pdctl.client.stream import Disconnected, Reset, watch
    from pdctl.contract.resources import EventView

    async for event in watch(client, seq, topics):
        if isinstance(event, Disconnected):
            terminal.say(f"{event.error} (trying again)")
        elif isinstance(event, Reset):
            terminal.say("Some events were missed.")
        elif isinstance(event, EventView):
            _line(terminal, event)
