"""`pdctl signals`: what is wrong, what it means, and the knob to turn."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ListFirst, ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.signals import SignalPage, SignalView, SilenceView

LIST = """
  pdctl signals
  pdctl signals --watch
  pdctl signals --json | jq -r '.items[] | select(.state == "firing") | .id'
"""
ACK = """
  pdctl signals ack stall:decode-0 --note "restarting it"
  pdctl signals ack --all
"""
SILENCE = """
  pdctl signals silence kv_nearly_full --for 2h --note "load test"
  pdctl signals silence --subject 'decode-*' --for 30m
"""
SEVERITIES = {"critical": "red", "warning": "yellow"}
STATES = {"firing": "red", "pending": "yellow", "resolved": "green"}
_SPAN = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
Note = Annotated[str, typer.Option(help="Why; shown beside it.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    group = typer.Typer(
        cls=ListFirst, rich_markup_mode=None,
        help="What is wrong with the fleet and which knob to turn: list, ack, silence, history.",
    )  # fmt: skip
    for add in (_list, _rules, _history, _ack, _silence, _unsilence):
        add(group)
    app.add_typer(group, name="signals")


def _list(group: typer.Typer) -> None:
    @verb(group, "list", examples=LIST)
    def list_(
        terminal: Terminal,
        watch: Annotated[
            bool, typer.Option("--watch", "-w", help="Keep showing it until Ctrl-C.")
        ] = False,
        interval: Annotated[
            float, typer.Option(min=0.2, help="Seconds between two looks with --watch.")
        ] = 2.0,
    ) -> ExitCode | None:
        """List what fires, what is pending and what is kept quiet, the worst first."""
        if watch:
            ask(terminal, lambda client: _watch(terminal, client, interval))
        page = ask(terminal, lambda client: client.signals())
        if terminal.json:
            terminal.document(page)
        else:
            terminal.data("\n".join(lines(terminal, page)))
        return None


async def _watch(terminal: Terminal, client: AdminClient, interval: float) -> None:
    from pdctl.client.errors import Unreachable

    seen: object = None
    page = await client.signals()  # a first failure is an answer, a later one is news
    while True:
        shape = [(one.id, one.state, one.ack, one.silence, one.known) for one in page.items]
        if terminal.tty and not terminal.json:
            terminal.out.write("\x1b[H\x1b[2J")
        if shape != seen or (terminal.tty and not terminal.json):
            seen = shape
            if terminal.json:
                terminal.document(page, line=True)
            else:
                terminal.data("\n".join([*lines(terminal, page), ""]))
        await asyncio.sleep(interval)
        try:
            page = await client.signals()
        except Unreachable as error:
            terminal.say(f"{error} (still looking)")


def lines(terminal: Terminal, page: SignalPage) -> list[str]:
    """What is wrong, as text."""
    if not page.enabled:
        return ["Nothing is watched: [signals] enabled = false in the fleet file."]
    result = [terminal.paint(SIMULATED, "yellow")] if page.simulated and page.items else []
    if not page.items:
        result.append(
            f"Nothing is wrong: {len(page.rules)} rules are watched (pdctl signals rules)."
        )
    for one in page.items:
        result += _block(terminal, one, page)
    result += [_quiet(one, page) for one in page.silences]
    if page.webhook.failures:
        result.append(f"The webhook does not take signals: {page.webhook.error}.")
    return result


def _block(terminal: Terminal, one: SignalView, page: SignalPage) -> list[str]:
    state = terminal.paint(one.state.value.upper(), STATES[one.state])
    severity = terminal.paint(one.severity.value, SEVERITIES[one.severity])
    age = figures.age(one.fired_at or one.since, page.at)
    head = f"{state} {age}  {severity}  {one.id}"
    said = f"  {one.title}: {one.value_text} (from {one.threshold_text})"
    said += f"; {one.detail}" if one.detail else ""
    if not one.known:
        said += f"; not known since {figures.clock(one.seen_at)}"
    if one.state == "pending":
        return [head, said, ""]
    result = [head, said, f"  {one.means} {one.matters}", f"  Do: {one.knob}"]
    if one.ack:
        note = f": {one.ack.note}" if one.ack.note else ""
        result.append(f"  Taken up by {one.ack.by} {figures.age(one.ack.at, page.at)} ago{note}")
    if one.silence:
        result.append(f"  Silenced until {figures.moment(one.silence.until)} ({one.silence.id})")
    return [*result, ""]


def _quiet(one: SilenceView, page: SignalPage) -> str:
    note = f": {one.note}" if one.note else ""
    left = figures.span((one.until - page.at).total_seconds())
    return f"silence {one.id}: {one.rule} of {one.subject}, {left} left, by {one.by}{note}"


def _rules(group: typer.Typer) -> None:
    @verb(group, "rules", examples="  pdctl signals rules")
    def rules(terminal: Terminal) -> ExitCode | None:
        """List what is watched, and from which number on it is wrong."""
        page = ask(terminal, lambda client: client.signals())
        if terminal.json:
            terminal.document({"rules": [rule.model_dump(mode="json") for rule in page.rules]})
            return None
        rows = [
            (
                rule.name, rule.threshold_text, _wait(rule.for_s),
                rule.severity.value, rule.title,
            )
            for rule in page.rules
        ]  # fmt: skip
        head = ("RULE", "FROM", "FOR", "SEVERITY", "SAYS")
        terminal.data("\n".join(terminal.table(head, rows, {3: SEVERITIES})))
        terminal.say("Change one in the fleet file: [signals.NAME] threshold, for, severity.")
        return None


def _wait(seconds: float) -> str:
    return figures.span(seconds) if seconds else "at once"


def _history(group: typer.Typer) -> None:
    @verb(group, "history", examples="  pdctl signals history --limit 20")
    def history(
        terminal: Terminal,
        limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
        before: Annotated[str | None, typer.Option(help="Only those before this one.")] = None,
    ) -> ExitCode | None:
        """List signals that fired, newest first."""
        page = ask(terminal, lambda client: client.signal_history(limit=limit, before=before))
        if terminal.json:
            terminal.document(page)
            return None
        if not page.items:
            terminal.say("No signal has fired.")
            return None
        rows = [
            (
                figures.moment(one.fired_at or one.since), _lasted(one), one.state.value,
                one.severity.value, one.id, one.worst_text, one.ack.by if one.ack else "",
                one.ending,
            )
            for one in page.items
        ]  # fmt: skip
        head = ("FIRED", "LASTED", "STATE", "SEVERITY", "SIGNAL", "WORST", "TAKEN UP", "ENDED")
        terminal.data("\n".join(terminal.table(head, rows, {2: STATES, 3: SEVERITIES})))
        if page.next:
            terminal.say(f"Older ones: pdctl signals history --before '{page.next}'")
        return None


def _lasted(one: SignalView) -> str:
    if one.resolved_at is None or one.fired_at is None:
        return figures.UNKNOWN
    return figures.span((one.resolved_at - one.fired_at).total_seconds())


def _ack(group: typer.Typer) -> None:
    @verb(group, "ack", examples=ACK)
    def ack(
        terminal: Terminal,
        keys: Annotated[
            list[str] | None, typer.Argument(metavar="SIGNAL...", help="As `pdctl signals` shows.")
        ] = None,
        *,
        every: Annotated[bool, typer.Option("--all", help="Every one that fires.")] = False,
        note: Note = "",
    ) -> ExitCode | None:
        """Say that you have taken a signal up: it is no longer counted until it fires anew."""
        if bool(keys) is every:
            raise Stop(ExitCode.USAGE, "Name the signals that you take up, or say --all.")

        async def take(client: AdminClient) -> list[SignalView]:
            named = keys or [one.id for one in (await client.signals()).items if one.loud]
            return [await client.ack_signal(one, note) for one in named]

        done = ask(terminal, take)
        if terminal.json:
            terminal.document({"items": [one.model_dump(mode="json") for one in done]})
            return None
        for one in done:
            terminal.data(f"{one.id}: taken up by {one.ack.by if one.ack else figures.UNKNOWN}.")
        if not done:
            terminal.say("Nothing fires that nobody has taken up.")
        return None


def _silence(group: typer.Typer) -> None:
    @verb(group, "silence", examples=SILENCE)
    def silence(
        terminal: Terminal,
        rule: Annotated[
            str, typer.Argument(metavar="[RULE]", help="Name of a rule; every rule without it.")
        ] = "*",
        *,
        subject: Annotated[
            str, typer.Option(help="Whom it concerns; a pattern such as 'decode-*'.")
        ] = "*",
        for_: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d.")] = "1h",
        note: Note = "",
    ) -> ExitCode | None:
        """Keep signals quiet for a while: they are watched and shown, not counted and not sent."""
        from pdctl.contract.signals import SilenceBody

        wanted = SilenceBody(rule=rule, subject=subject, for_s=seconds(for_), note=note)
        made = ask(terminal, lambda client: client.silence(wanted))
        if terminal.json:
            terminal.document(made)
            return None
        until = figures.moment(made.until)
        terminal.data(f"silence {made.id}: {made.rule} of {made.subject} until {until}.")
        terminal.say(f"End it earlier with: pdctl signals unsilence {made.id}")
        return None


def seconds(text: str) -> int:
    """A span such as "90m" in seconds; a Stop that says how to write one."""
    match = _SPAN.fullmatch(text.strip())
    found = int(match[1]) * _SECONDS[match[2]] if match and len(text) < 12 else 0
    if not 60 <= found <= 30 * 86_400:
        raise Stop(ExitCode.USAGE, f"{text!r} is no span from 1m to 30d. For example 2h.")
    return found


def _unsilence(group: typer.Typer) -> None:
    @verb(group, "unsilence", examples="  pdctl signals unsilence 3fa9c2d1")
    def unsilence(
        terminal: Terminal,
        id_: Annotated[str, typer.Argument(metavar="ID", help="As `pdctl signals` shows it.")],
    ) -> ExitCode | None:
        """End a silence now."""
        gone = ask(terminal, lambda client: client.unsilence(id_))
        if terminal.json:
            terminal.document(gone)
        else:
            terminal.data(f"{gone.rule} of {gone.subject} is heard again.")
        return None
