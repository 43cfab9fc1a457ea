"""`pdctl plan`, `apply`, `operations`, `cancel`: see a change, do it by id, follow it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import carry, planshow
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient

PLAN = """
  pdctl plan prefill=2 decode=3
  pdctl plan mode=chunked
  pdctl plan --file new.toml
  pdctl plan decode=3 --json | jq '.risks'
"""
APPLY = """
  pdctl apply plan-1f3a9c2e
  pdctl apply plan-1f3a9c2e --wait --timeout 5m
  pdctl apply --file new.toml --yes --wait
"""
OPERATIONS = """
  pdctl operations
  pdctl operations --limit 5
  pdctl operations op-7b20c4d1 --wait
"""
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="POOL=SIZE|mode=MODE...", help="What the fleet should become."),
]
File = Annotated[
    Path | None, typer.Option("--file", help="A whole new fleet file; words come on top of it.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _plan(app)
    _apply(app)
    _operations(app)
    _cancel(app)


def _plan(app: typer.Typer) -> None:
    @verb(app, "plan", examples=PLAN)
    def plan(terminal: Terminal, change: Words = None, file: File = None) -> ExitCode | None:
        """Show what a change will do, and change nothing.

        The actions in their order with instances, devices, ports and streams; how long they
        should take by this fleet's own history; what capacity is left meanwhile; what is
        refused and why. Apply the plan by its id.
        """
        from pdctl.cli.changes import body

        asked = body(terminal, change or (), file)
        found = ask(terminal, lambda client: client.plan(asked))
        code = carry.show(terminal, found)
        if code is ExitCode.OK and not found.refused:
            terminal.say(f"Apply it with: pdctl apply {found.id}")
        return code


def _apply(app: typer.Typer) -> None:
    @verb(app, "apply", examples=APPLY)
    def apply(
        terminal: Terminal,
        plan: Annotated[
            str | None, typer.Argument(metavar="[PLAN]", help="The id of a plan.")
        ] = None,
        *,
        file: Annotated[
            Path | None, typer.Option("--file", help="A whole new fleet file: plan it, then apply.")
        ] = None,
        dry_run: carry.DryRun = False,
        yes: carry.Yes = False,
        wait: carry.Wait = False,
        timeout: carry.Timeout = "10m",
    ) -> ExitCode | None:
        """Do what a plan shows, or plan a fleet file and do it.

        A plan that was named is applied as it was read: refused with exit code 5 when the fleet
        has moved since it was made. Of a file, the plan is shown and asked about first.
        """
        from pdctl.cli.changes import body

        if (plan is None) is (file is None) or (plan is not None and dry_run):
            raise Stop(ExitCode.USAGE, "Name the plan to apply, or a fleet file: --file new.toml.")
        if plan is not None:
            go = partial(_apply_plan, terminal, plan, wait, carry.seconds(timeout))
            return ask(terminal, go)
        asked = body(terminal, (), file)
        return carry.carry_out(terminal, lambda: asked, carry.How(dry_run, yes, wait, timeout))


async def _apply_plan(
    terminal: Terminal, plan: str, wait: bool, patience: float, client: AdminClient
) -> ExitCode:
    return await carry.finish(terminal, client, await carry.applied(client, plan), wait, patience)


def _operations(app: typer.Typer) -> None:
    @verb(app, "operations", examples=OPERATIONS)
    def operations(
        terminal: Terminal,
        operation: Annotated[
            str | None, typer.Argument(metavar="[OPERATION]", help="One of them.")
        ] = None,
        *,
        limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
        before: Annotated[
            int | None, typer.Option(min=1, help="Only those of earlier revisions.")
        ] = None,
        wait: carry.Wait = False,
        timeout: carry.Timeout = "10m",
    ) -> ExitCode | None:
        """List applied plans, newest first, or show one and wait for it.

        Those of before a restart of pdctl are kept; one that was under way then goes on. `--wait`
        outlasts a restart too.
        """
        patience = carry.seconds(timeout)
        if operation is not None:
            return ask(terminal, partial(_follow, terminal, operation, wait, patience))
        page = ask(terminal, lambda client: client.operations(limit, before))
        if terminal.json:
            terminal.document(page)
        elif page.items:
            terminal.data("\n".join(planshow.operation_lines(terminal, page.items)))
            if page.next is not None:
                terminal.say(f"Older ones: pdctl operations --before {page.next}")
        else:
            terminal.say("No plan has been applied yet.")
        if page.note:
            terminal.say(page.note)
        return None


async def _follow(
    terminal: Terminal, id_: str, wait: bool, patience: float, client: AdminClient
) -> ExitCode:
    return await carry.finish(terminal, client, await client.operation(id_), wait, patience)


def _cancel(app: typer.Typer) -> None:
    @verb(app, "cancel", examples="  pdctl cancel op-7b20c4d1")
    def cancel(
        terminal: Terminal,
        operation: Annotated[str, typer.Argument(metavar="OPERATION", help="It must be running.")],
    ) -> ExitCode | None:
        """Take back an operation that is under way.

        The fleet that was desired before is desired again: what still drains returns to work,
        what was started leaves.
        """
        one = ask(terminal, lambda client: client.cancel(operation))
        if terminal.json:
            terminal.document(one)
        else:
            terminal.data(planshow.operation_line(one))
        return None
