"""A plan and an operation as text: what happens, in which order, where, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pdctl.cli import figures
from pdctl.cli.terminal import Terminal

if TYPE_CHECKING:
    from pdctl.contract.plans import OperationView, PlanView
    from pdctl.contract.steps import StepRow

HEAD = ("#", "AT", "ACTION", "INSTANCE", "ON", "PORTS", "STREAMS", "TAKES", "WHY")
ACTIONS = {
    "drain": "yellow", "stop": "yellow", "kill": "red", "take work": "green", "undrain": "green",
}  # fmt: skip
STATES = {"running": "cyan", "done": "green", "failed": "red", "cancelled": "yellow"}


def plan_lines(terminal: Terminal, plan: PlanView) -> list[str]:
    """The whole plan."""
    from pdctl.contract import steps

    shape, mode = steps.shapes(plan, "->")
    takes = f"  {plan.about} {steps.span(plan.expected_s)}" if plan.steps else ""
    lines = [f"{terminal.paint(plan.id, 'bold')}  {shape}  {mode}{takes}"]
    lines += [f"change: {one}" for one in plan.change]
    lines += [f"warning: {one}" for one in plan.warnings]
    if plan.steps:
        rows = [_row(row) for row in steps.rows(plan.steps)]
        lines += ["", *terminal.table(HEAD, rows, {2: ACTIONS})]
        lines += [f"... and {plan.rest.words}", ""] if plan.rest else [""]
        lines += [f"capacity: {one}" for one in steps.capacity(plan, "->")]
    lines += [f"risk: {one}" for one in plan.risks]
    for one in plan.refused:
        mark = terminal.paint("refused:", "red")
        lines.append(f"{mark} {one.message.rstrip('.')}. {one.hint}".rstrip())
    if plan.stale:
        lines.append(f"{terminal.paint('stale:', 'red')} {plan.stale}")
    if plan.operation:
        lines.append(f"applied as {plan.operation}")
    return lines


def _row(row: StepRow) -> tuple[str, ...]:
    cells = (
        row.number, f"+{row.starts_s:.0f}s", row.action, row.subject, row.place, row.ports,
        row.streams, row.takes, row.why,
    )  # fmt: skip
    return tuple(cell or figures.UNKNOWN for cell in cells[:-1]) + cells[-1:]


def operation_line(operation: OperationView) -> str:
    """One operation in one line."""
    change = "; ".join(operation.change)
    said = f": {operation.message}" if operation.message else ""
    return f"{operation.id} {operation.state} ({operation.progress}): {change}{said}"


def operation_lines(terminal: Terminal, operations: Sequence[OperationView]) -> list[str]:
    """A table of operations."""
    rows = [
        (
            one.id, one.state, one.progress,
            figures.moment(one.started_at),
            figures.span((one.ended_at - one.started_at).total_seconds())
            if one.ended_at
            else figures.UNKNOWN,
            f"{one.actor} ({one.source})", "; ".join(one.change), one.message,
        )
        for one in operations
    ]  # fmt: skip
    head = ("OPERATION", "STATE", "DONE", "BEGAN", "TOOK", "BY", "CHANGE", "")
    return terminal.table(head, rows, {1: STATES})
