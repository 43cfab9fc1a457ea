"""A change as a page asks for it and as its plan shows it: what, in which order, at what cost.

Pure: query and wire models in, small frozen descriptions out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pdctl.contract import asks, steps
from pdctl.contract.asks import Ask
from pdctl.contract.plans import OperationView, StepView
from pdctl.contract.steps import StepRow
from pdctl.web.present import DASH, Badge


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a plan."""

    at: str
    action: str
    subject: str
    place: str
    streams: str
    takes: str
    why: str
    state: Badge | None = None
    """Of a step of an operation: whether it has been seen."""


SEEN, NEXT, TO_COME = (
    Badge("●", "Seen", "ok"),
    Badge("◔", "Next", "busy"),
    Badge("○", "To come", "idle"),
)
UNSEEN = Badge("—", "Not seen", "idle")
"""It ended before this was seen to happen."""


def asked(query: Mapping[str, str]) -> Ask | None:
    """The change that a URL names, None when it names none; ValueError when it cannot be."""
    if pool := query.get("pool"):
        return asks.resize({pool: int(query.get("size", ""))})
    if (one := query.get("move")) and (to := query.get("to")):
        return asks.move(one, to)
    if (name := query.get("router")) and (value := query.get("value")) is not None:
        return asks.router({name: value})
    return next((asks.on_one(verb, one) for verb in asks.ON_ONE if (one := query.get(verb))), None)


def rows(found: Sequence[StepView]) -> list[Row]:
    """The steps in order, long runs of probes folded."""
    return [_row(row) for row in steps.rows(found)]


def followed(one: OperationView) -> list[Row]:
    """Every step of an operation with how it stands; those that are awaited first are next."""
    left = [step.number for step in one.steps if not step.done]
    soon = set(left[: len(one.waiting_for)])

    def state(number: int, done: bool) -> Badge:
        if done:
            return SEEN
        return UNSEEN if one.state != "running" else NEXT if number in soon else TO_COME

    return [
        replace(_row(steps.row(step)), state=state(step.number, step.done)) for step in one.steps
    ]


def _row(row: StepRow) -> Row:
    ports = f"ports {row.ports}" if row.ports else ""
    return Row(
        at=f"+{row.starts_s:.0f} s", action=row.action, subject=row.subject.replace(">", " → "),
        place="; ".join(part for part in (row.place, ports) if part) or DASH,
        streams=row.streams or DASH, takes=row.takes or DASH, why=row.why,
    )  # fmt: skip
