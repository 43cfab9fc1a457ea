"""From a change to its end: show the plan, ask, apply it by id, wait. The way of every change."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import planshow
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.plans import ChangeBody, OperationView, PlanView

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Apply the plan without asking.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done.")]
Timeout = Annotated[
    str, typer.Option(metavar="TIME", help='How long --wait may take: "90s", "5m", "1h".')
]
TRIES = 5
"""How often a change that needs no word from anybody is planned: a fleet that rolls moves often."""
_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_UNITS = {None: 1, "s": 1, "m": 60, "h": 3600}
_MISSPELT = frozenset(
    {"no_such_pool", "no_such_instance", "which_pool", "bad_size", "needs_restart"}
)
"""Refusals for what was asked, not for how the fleet is."""


@dataclass(frozen=True, slots=True)
class How:
    """How a verb goes about its change."""

    dry_run: bool = False
    yes: bool = False
    wait: bool = False
    timeout: str = "10m"


def seconds(text: str) -> float:
    """The seconds in "90", "90s", "5m" or "1h"."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise Stop(ExitCode.USAGE, f"{text!r} is no time. Write 90s, 5m or 1h.")
    return float(found[1]) * _UNITS[found[2]]


def carry_out(terminal: Terminal, change: Callable[[], ChangeBody], how: How) -> ExitCode:
    """Plan a change, and apply it when asked to."""
    return carry_plan(terminal, lambda client: client.plan(change()), how)


def carry_plan(
    terminal: Terminal, make: Callable[[AdminClient], Awaitable[PlanView]], how: How
) -> ExitCode:
    """Make a plan, and apply it when asked to."""
    limit = seconds(how.timeout)
    if not (how.yes or how.dry_run or _may_ask()):
        raise Stop(
            ExitCode.USAGE,
            "Nothing was changed: there is no terminal to ask on. Add --yes to apply the plan, "
            "or --dry-run to see it.",
        )

    async def go(client: AdminClient, tries: int = TRIES) -> ExitCode:
        from pdctl.client.errors import Conflict

        plan = await make(client)
        if _nothing_to_do(plan):
            return _done(terminal, plan)
        if plan.refused or how.dry_run:
            return show(terminal, plan)
        if not how.yes:
            terminal.say("\n".join(planshow.plan_lines(terminal, plan)))
            if not typer.confirm("Apply it?", err=True):
                raise Stop(ExitCode.FAILED, "Nothing was changed.")
        elif how.wait:
            terminal.say(f"{plan.id}: {plan.about} {plan.expected_s:.0f} s")
        try:
            operation = await applied(client, plan.id)
        except Conflict as error:
            if error.problem.code != "plan_stale" or not how.yes or tries <= 1:
                raise
            terminal.say(f"{error.problem.detail} Planning again.")
            return await go(client, tries - 1)
        return await finish(terminal, client, operation, how.wait, limit)

    return ask(terminal, go)


async def applied(client: AdminClient, plan: str) -> OperationView:
    """Apply a plan; when pdctl died over it, the operation that it left, if it left one."""
    from pdctl.client.errors import Conflict

    try:
        return await client.apply(plan)
    except Conflict as error:
        if error.problem.code != "outcome_unknown":
            raise
        for one in (await client.operations()).items:
            if one.plan == plan:
                return one
        raise Stop(
            ExitCode.FAILED,
            f"pdctl ended before it had applied {plan}: nothing was changed. Make the plan again.",
        ) from error


async def finish(
    terminal: Terminal, client: AdminClient, operation: OperationView, wait: bool, limit: float
) -> ExitCode:
    """Tell what was begun, or wait for its end; the code says how it ended."""
    if wait:
        operation = await _wait(terminal, client, operation, limit)
    if terminal.json:
        terminal.document(operation)
    else:
        terminal.data(planshow.operation_line(operation))
    if operation.state == "running":
        if wait:
            raise Stop(
                ExitCode.TIMEOUT,
                f"It is not done after {limit:g} s and goes on; see: pdctl operations",
            )
        terminal.say(f"Follow it with: pdctl operations {operation.id}")
    return {"failed": ExitCode.FAILED, "cancelled": ExitCode.CONFLICT}.get(
        operation.state, ExitCode.OK
    )


async def _wait(
    terminal: Terminal, client: AdminClient, operation: OperationView, limit: float
) -> OperationView:
    from pdctl.client.errors import Unreachable

    end, said = time.monotonic() + limit, ""
    while operation.state == "running" and time.monotonic() < end:
        now = operation.progress
        if operation.waiting_for:
            now += f", next: {operation.waiting_for[0]}"
        if operation.message:
            now += f" ({operation.message})"
        if now != said:
            terminal.say(now)
            said = now
        await asyncio.sleep(min(0.3, max(0.02, end - time.monotonic())))
        try:
            operation = await client.operation(operation.id)
        except Unreachable as error:
            terminal.say(f"{error} (still waiting)")
    return operation


def show(terminal: Terminal, plan: PlanView) -> ExitCode:
    """The plan as data; the code says whether it could be applied."""
    if terminal.json:
        terminal.document(plan)
    else:
        terminal.data("\n".join(planshow.plan_lines(terminal, plan)))
    if not plan.refused:
        return ExitCode.OK
    if all(one.code in _MISSPELT for one in plan.refused):
        return ExitCode.USAGE
    return ExitCode.FAILED


def _nothing_to_do(plan: PlanView) -> bool:
    return [one.code for one in plan.refused] == ["nothing_to_do"]


def _done(terminal: Terminal, plan: PlanView) -> ExitCode:
    if terminal.json:
        terminal.document(plan)
    else:
        terminal.data("Nothing to do: the fleet is like that already.")
    return ExitCode.OK


def _may_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
