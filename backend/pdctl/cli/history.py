"""`pdctl history`, `diff`, `undo`, `audit`: what was wanted, what was done, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli import figures
from pdctl.cli.carry import DryRun, How, Timeout, Wait, Yes, carry_plan
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.history import AuditEntryView, RevisionView
    from pdctl.contract.plans import PlanView

HISTORY = """
  pdctl history
  pdctl history --before 40 --limit 10
"""
DIFF = """
  pdctl diff 3 7
  pdctl diff 3 7 --json | jq -r '.words[]'
"""
UNDO = """
  pdctl undo                       back to the revision before; twice is redo
  pdctl undo --to 3 --dry-run
  pdctl undo --to 3 --yes --wait
"""
AUDIT = """
  pdctl audit --verb resize
  pdctl audit --subject decode-1 --outcome refused
  pdctl audit --text "out of memory"
  pdctl audit --export > audit.jsonl
"""
OUTCOMES = {"done": "green", "refused": "yellow", "cancelled": "yellow", "failed": "red"}
Number = Annotated[int, typer.Argument(metavar="REVISION", min=1)]
Filter = Annotated[str | None, typer.Option(help="Only entries with this value.")]
About = Annotated[str | None, typer.Option(help="Only entries about this instance or pool.")]
Said = Annotated[str | None, typer.Option(help="Only entries that say this somewhere.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _history(app)
    _diff(app)
    _undo(app)
    _audit(app)


def _history(app: typer.Typer) -> None:
    @verb(app, "history", examples=HISTORY)
    def history(
        terminal: Terminal,
        limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
        before: Annotated[int | None, typer.Option(min=1, help="Only older ones.")] = None,
    ) -> ExitCode | None:
        """List the revisions of the desired fleet, newest first.

        Who wanted what, when and why. `pdctl undo --to N` goes back to one.
        """
        page = ask(terminal, lambda client: client.revisions(limit, before))
        if terminal.json:
            terminal.document(page)
            return None
        terminal.data("\n".join(_revisions(terminal, page.items)))
        if page.next is not None:
            terminal.say(f"Older ones: pdctl history --before {page.next}")
        return None


def _revisions(terminal: Terminal, items: Sequence[RevisionView]) -> list[str]:
    head = ("REVISION", "AT", "BY", "SHAPE", "MODE", "WHY")
    rows = [
        (
            f"{one.revision} *" if one.current else str(one.revision), figures.moment(one.at),
            one.author, one.shape, one.mode.value, one.reason or "; ".join(one.changes),
        )
        for one in items
    ]  # fmt: skip
    return terminal.table(head, rows)


def _diff(app: typer.Typer) -> None:
    @verb(app, "diff", examples=DIFF)
    def diff(terminal: Terminal, a: Number, b: Number) -> ExitCode | None:
        """Show what differs between two revisions, field by field."""
        found = ask(terminal, lambda client: client.diff(a, b))
        if terminal.json:
            terminal.document(found)
        elif found.words:
            terminal.data("\n".join(found.words))
        else:
            terminal.say(f"Revisions {a} and {b} want the same fleet.")
        return None


def _undo(app: typer.Typer) -> None:
    @verb(app, "undo", examples=UNDO)
    def undo(
        terminal: Terminal,
        *,
        to: Annotated[
            int | None, typer.Option(min=1, help="The revision to return to. Default: the last.")
        ] = None,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = "10m",
    ) -> ExitCode | None:
        """Return to an earlier revision of the desired fleet.

        Sizes, mode, launch flags and drains are wanted again as they were; the way there is a
        plan like any other. History keeps both.
        """

        async def way_back(client: AdminClient) -> PlanView:
            return await client.plan_undo(await _last(client) if to is None else to)

        return carry_plan(terminal, way_back, How(dry_run, yes, wait, timeout))


async def _last(client: AdminClient) -> int:
    """The revision before the one in force."""
    items = (await client.revisions(limit=2)).items
    if len(items) < 2:
        raise Stop(ExitCode.FAILED, "There is nothing to undo: this is the first revision.")
    return items[1].revision


def _audit(app: typer.Typer) -> None:
    @verb(app, "audit", examples=AUDIT)
    def audit(
        terminal: Terminal,
        *,
        verb: Filter = None,
        actor: Filter = None,
        source: Filter = None,
        outcome: Filter = None,
        subject: About = None,
        text: Said = None,
        after: Annotated[int | None, typer.Option(min=0, help="Only later entries.")] = None,
        before: Annotated[int | None, typer.Option(min=0, help="Only earlier entries.")] = None,
        limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50,
        export: Annotated[
            bool, typer.Option("--export", help="Every entry that matches, as JSON lines.")
        ] = False,
    ) -> ExitCode | None:
        """Show the operations log: who did what, from where, and what came of it.

        Verbs: set_mode, set_router, resize, drain, undrain, restart, move, stop, set_fleet, undo,
        clear, cancel, detach, adopt, kill_orphan, ack_signal, silence, unsilence, apply (several
        at once), operation (an applied plan ended). Outcomes: done, refused, failed, cancelled,
        resumed (after a restart). Sources: tui, web, cli, rest.
        """
        query = {
            "verb": verb, "actor": actor, "source": source, "outcome": outcome,
            "subject": subject, "text": text, "after": after, "before": before,
        }  # fmt: skip
        if export:
            ask(terminal, lambda client: _export(terminal, client, query))
            return None
        page = ask(terminal, lambda client: client.audit(limit=limit, **query))
        if terminal.json:
            terminal.document(page)
        else:
            terminal.data("\n".join(_entries(terminal, page.items)))
        if page.note:
            terminal.say(page.note)
        return None


async def _export(terminal: Terminal, client: AdminClient, query: dict[str, Any]) -> None:
    async with aclosing(client.export_audit(**query)) as lines:  # whoever reads them may stop
        async for line in lines:
            terminal.data(line)


def _entries(terminal: Terminal, items: Sequence[AuditEntryView]) -> list[str]:
    head = ("AT", "SEQ", "VERB", "SUBJECT", "BY", "OUTCOME", "CHANGE", "")
    rows = [
        (
            figures.moment(one.at), str(one.seq), one.verb, ",".join(one.about) or one.subject,
            f"{one.actor} ({one.source})", one.outcome, _change(one), one.message,
        )
        for one in items
    ]  # fmt: skip
    return terminal.table(head, rows, {5: OUTCOMES})


def _change(one: AuditEntryView) -> str:
    said = str(one.details.get("change", ""))
    if said or not one.before:
        return said
    return f"{one.before} -> {one.after}"
