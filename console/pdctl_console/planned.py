"""A plan and an operation in words: what happens in which order, where, and what it costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pdctl.contract import steps
from pdctl.contract.plans import OperationStepView, OperationView, PlanView, StepView
from pdctl.contract.steps import StepRow
from pdctl_console import format as fmt
from pdctl_console.styled import Line, Part, clean, fit, plain, told, width_of, wrap

GAP = 2
LEAST_WHY = 24
"""A step takes one line where its reason keeps so many cells; else its particulars follow below."""
ACTIONS = {
    "drain": "warn", "stop": "warn", "kill": "bad", "give_up": "bad", "ready": "ok",
    "undrain": "ok", "launch": "busy", "route": "key",
}  # fmt: skip
STATES: dict[str, fmt.Look] = {
    "running": ("◑", "busy"), "done": ("●", "ok"), "failed": ("✗", "bad"),
    "cancelled": ("■", "warn"),
}  # fmt: skip
DONE = "●"
_HEAD = ("#", "Seconds", "Action", "Subject", "On", "Ports", "Streams", "Takes", "Why")


def plan_lines(plan: PlanView, width: int) -> list[Line]:
    """The whole plan, `width` cells wide."""
    lines = [*_head(plan, width), *_refused(plan, width)]
    for title, said in (("risk", plan.risks), ("warning", plan.warnings)):
        for one in said:
            lines += wrap(((f"▲ {title}  ", "warn"), *plain(one)), width)
    takes = (f"Capacity: {one}" for one in steps.capacity(plan))
    lines += [row for one in takes for row in wrap(plain(one), width)]
    return (
        [*lines, (), *step_lines(plan.steps, width), *_rest(plan, width)] if plan.steps else lines
    )


def _rest(one: PlanView | OperationView, width: int) -> list[Line]:
    """What is not listed."""
    return wrap(told(f"… {one.rest.words}", "muted"), width) if one.rest else []


def _head(plan: PlanView, width: int) -> list[Line]:
    lines = [row for one in plan.change for row in wrap(told(one, "strong"), width)]
    shape, mode = steps.shapes(plan)
    takes = f", {expected(plan)}" if plan.steps else ""
    said = ((clean(shape), "key"), (f", {mode}{takes}", ""), (f"  {clean(plan.id)}", "muted"))
    return [*lines, *wrap(said, width)]


def expected(plan: PlanView) -> str:
    """How long it should take, and what that rests on."""
    timed = [step for step in plan.steps if step.samples is not None]
    guessed = sum(not step.samples for step in timed)
    if not timed:
        return "at once"
    basis = "by this fleet's own history"
    if guessed:
        basis = f"{guessed} of {len(timed)} durations are assumed"
    if plan.rest is not None:
        basis += f", not rehearsed after {steps.span(plan.rest.seen_s)}"
    return f"{plan.about} {steps.span(plan.expected_s)} ({basis})"


def _refused(plan: PlanView, width: int) -> list[Line]:
    lines: list[Line] = []
    for one in plan.refused:
        lines += wrap(told(f"✗ refused: {one.message.rstrip('.')}.", "bad"), width)
        if one.hint:
            lines += [(("  ", ""), *row) for row in wrap(plain(one.hint), width - 2, 0)]
    if plan.stale:
        lines += wrap(
            told(f"▲ The fleet has moved since: {plan.stale}. r plans it again.", "warn"), width
        )
    return lines


def step_lines(found: Sequence[StepView], width: int) -> list[Line]:
    """The steps in their order, long runs of probes folded."""
    rows = steps.rows(found)
    table = [_HEAD, *(_cells(row) for row in rows)]
    sizes = [max(width_of(plain(cells[at])) for cells in table) for at in range(8)]
    room = width - sum(sizes) - GAP * len(sizes)
    return _table(table, rows, sizes, room) if room >= LEAST_WHY else _stacked(rows, width)


def _cells(row: StepRow) -> tuple[str, ...]:
    """In the order of the head."""
    return tuple(
        clean(cell)
        for cell in (
            f"{_mark(row)}{row.number}", _when(row), row.action, row.subject, row.place,
            row.ports, row.streams, row.takes, row.why,
        )
    )  # fmt: skip


def _mark(row: StepRow) -> str:
    """Whether steps of an operation have been seen to happen; a plan's steps have no mark."""
    done = [step.done for step in row.steps if isinstance(step, OperationStepView)]
    if not done:
        return ""
    return f"{DONE if all(done) else '◑' if any(done) else '○'} "


def _when(row: StepRow) -> str:
    starts = f"{row.starts_s:.0f}"
    if row.ends_s is None:
        return f"{starts}-?"
    ends = f"{row.ends_s:.0f}"
    return starts if starts == ends else f"{starts}-{ends}"


def _table(
    table: Sequence[tuple[str, ...]], rows: Sequence[StepRow], sizes: Sequence[int], room: int
) -> list[Line]:
    """One line a step; the reason has `room` cells and goes on below where they are too few."""
    lines: list[Line] = []
    for at, cells in enumerate(table):
        role = "muted" if at == 0 else ""
        parts: list[Part] = []
        for column, (size, cell) in enumerate(zip(sizes, cells, strict=False)):
            ink = ACTIONS.get(rows[at - 1].kind, role) if column == 2 and at else role
            ink = "ok" if column == 0 and cell.startswith(DONE) else ink
            parts += [*fit(((cell, ink),), size), (" " * GAP, "")]
        why, *more = wrap(((cells[8], "muted"),), room, 0)
        lines.append((*parts, *why))
        indent = sum(sizes) + GAP * len(sizes)
        lines += [((" " * indent, ""), *row) for row in more]
    return lines


def _stacked(rows: Sequence[StepRow], width: int) -> list[Line]:
    """What and where on one line, the particulars on the next."""
    table = [_cells(row) for row in rows]
    numbers = max(len(cells[0]) for cells in table)
    times = max(len(cells[1]) for cells in table) + 2
    lines: list[Line] = []
    for row, (number, at, action, subject, place, ports, *rest) in zip(rows, table, strict=True):
        where = ", ".join(part for part in (place, f"ports {ports}" if ports else "") if part)
        mark = "ok" if number.startswith(DONE) else "muted"
        first: Line = (
            (f"{number:<{numbers}}  ", mark), (f"{at + ' s':<{times}}  ", "muted"),
            (f"{action} ", ACTIONS.get(row.kind, "")), (subject, "strong"),
            (f"  {where}".rstrip(), ""),
        )  # fmt: skip
        streams, takes, why = rest
        said = "; ".join(part for part in (takes, streams, why) if part)
        indent = numbers + times + 4
        lines += wrap(first, width, indent)
        if said:
            more = wrap(told(said, "muted"), max(8, width - indent), 0)
            lines += [((" " * indent, ""), *line) for line in more]
    return lines


def operation_lines(one: OperationView, now: datetime, width: int) -> list[Line]:
    """How far an operation is, or how it ended."""
    lines: list[Line] = [
        row for said in one.change for row in wrap(told(said, "strong"), width)
    ]  # fmt: skip
    lines.append((
        state(one), (f"  {fmt.bar(one.share, 20)} ", "busy"),
        (f"{one.progress}, {took(one, now)}", ""),
    ))  # fmt: skip
    lines.append(told(f"{one.id}, by {one.actor} ({one.source})", "muted"))
    if one.message:
        lines += wrap(told(one.message, "bad" if one.state == "failed" else "warn"), width)
    if one.waiting_for:
        left = one.steps_total - one.steps_done - len(one.waiting_for)
        more = f", and {left} more" if left > 0 else ""
        lines += wrap((("to come  ", "muted"), *plain(", ".join(one.waiting_for) + more)), width)
    return [*lines, (), *step_lines(one.steps, width), *_rest(one, width)] if one.steps else lines


def state(one: OperationView) -> Part:
    """Its state as a badge."""
    return fmt.badge(one.state, STATES.get(one.state, ("?", "warn")))


def took(one: OperationView, now: datetime) -> str:
    """How long it took; while it runs, beside what was expected."""
    so_far = steps.span(max(0.0, ((one.ended_at or now) - one.started_at).total_seconds()))
    if one.ended_at is not None:
        return f"took {so_far}"
    return f"{so_far} of {one.about} {steps.span(one.expected_s)}"
