"""A change as a page asks for it and as its plan shows it: what, in which order, at what cost.

Pure: query and wire models in, small frozen descriptions out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pdctl.contract import steps
from pdctl.contract.plans import ChangeBody, OperationView, StepView
from pdctl.contract.steps import StepRow
from pdctl.web.present import DASH, Badge

ON_ONE = {
    "restart": "Restart {0}?",
    "drain": "Keep {0} out of rotation?",
    "undrain": "Let {0} work again?",
    "stop": "Stop {0} for good?",
}
"""Changes of one instance, by the field of `ChangeBody` that asks for them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A change that somebody thinks of."""

    title: str
    cli: tuple[str, ...]
    body: ChangeBody | None = None
    path: str = "/api/v1/plans"
    """Where the admin API is asked for it."""
    act: str = ""
    """The page that does it; by default the one that applies the plan."""
    button: str = "Apply"


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


def asked(query: Mapping[str, str]) -> Asked | None:
    """The change that a URL names, None when it names none; ValueError when it cannot be."""
    if pool := query.get("pool"):
        size = int(query.get("size", ""))
        body = ChangeBody(sizes={pool: size})
        return Asked(f"Resize {pool} to {size}?", ("pdctl", "resize", f"{pool}={size}"), body)
    if (one := query.get("move")) and (to := query.get("to")):
        words = ("pdctl", "move", one, "--role", to)
        return Asked(f"Move {one} to {to}?", words, ChangeBody(move={one: to}))
    if (name := query.get("router")) and (value := query.get("value")) is not None:
        said = ("pdctl", "router", "set", f"{name}={value}")
        return Asked(f"Switch {name} to {value}?", said, ChangeBody(router={name: value}))
    for verb, title in ON_ONE.items():
        if one := query.get(verb):
            body = ChangeBody.model_validate({verb: [one]})
            return Asked(title.format(one), ("pdctl", verb, one), body)
    return None


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
