"""The steps of a plan in words, for every face: what happens when, to whom, where, and why. Pure.

An empty text is nothing to say; how that is drawn (a dash, a gap) is the face's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdctl.contract.plans import DipView, PlanView, StepView

FOLD = 4
"""So many probes in a row, or more, take one line."""
ACTIONS = {
    "route": "switch routing", "warm": "warm up", "ready": "take work", "retry": "try again",
    "give_up": "give up", "reassign": "change pool",
}  # fmt: skip
"""Kinds of steps that are not their own word."""
_LEAVES = ("drain", "stop", "kill")


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step, or a run of probes."""

    steps: tuple[StepView, ...]
    number: str
    starts_s: float
    ends_s: float | None
    subject: str
    place: str = ""
    ports: str = ""
    streams: str = ""
    """How many are open on what leaves, and what KV it may still have to keep."""
    takes: str = ""
    why: str = ""

    @property
    def kind(self) -> str:
        """As on the wire."""
        return self.steps[0].kind

    @property
    def action(self) -> str:
        """The kind in words."""
        return ACTIONS.get(self.kind, self.kind)


def rows(steps: Sequence[StepView]) -> list[StepRow]:
    """The steps in order, long runs of probes folded."""
    found, at = [], 0
    while at < len(steps):
        end = at
        while end < len(steps) and steps[end].kind == "probe":
            end += 1
        if end - at >= FOLD:
            found.append(_folded(steps[at:end]))
            at = end
        else:
            found.append(row(steps[at]))
            at += 1
    return found


def row(step: StepView) -> StepRow:
    """One step."""
    return StepRow(
        (step,), str(step.number), step.starts_s, step.ends_s, step.subject, _place(step),
        ",".join(map(str, step.ports)), _streams(step), _takes(step), step.why,
    )  # fmt: skip


def _folded(steps: Sequence[StepView]) -> StepRow:
    first, last = steps[0], steps[-1]
    ends = max(step.ends_s or step.starts_s for step in steps)
    return StepRow(
        tuple(steps), f"{first.number}-{last.number}", first.starts_s, ends,
        f"{first.subject} and {len(steps) - 1} more pairs",
        takes=_took(ends - first.starts_s, min(step.samples or 0 for step in steps)),
    )  # fmt: skip


def _place(step: StepView) -> str:
    if step.device:
        return f"device {step.device}"
    return f"core {step.core}" if step.core else ""


def _streams(step: StepView) -> str:
    if step.kind not in _LEAVES:
        return ""
    lease = f", KV lease {span(step.lease_s)}" if step.lease_s else ""
    return f"{step.streams} open{lease}"


def _takes(step: StepView) -> str:
    if step.samples is None:
        return ""
    if step.ends_s is None:
        return "not known"
    took = step.ends_s - step.starts_s
    return "" if step.kind == "drain" and not took else _took(took, step.samples)


def _took(seconds: float, samples: int) -> str:
    return f"{span(seconds)}, {f'seen {samples}x' if samples else 'assumed'}"


def shapes(plan: PlanView, arrow: str = "→") -> tuple[str, str]:
    """The sizes and the mode: as they are, or from what to what."""
    pairs = (
        (plan.shape_before, plan.shape_after),
        (plan.mode_before.value, plan.mode_after.value),
    )
    shape, mode = (old if old == new else f"{old} {arrow} {new}" for old, new in pairs)
    return shape, f"mode {mode}"


def capacity(plan: PlanView, arrow: str = "→") -> list[str]:
    """How many instances of each role take new work before, at the lowest, and after."""
    return [_dip(dip, arrow) for dip in plan.lowest if dip.before or dip.lowest or dip.after]


def _dip(dip: DipView, arrow: str) -> str:
    name = "any role" if dip.role == "serving" else dip.role
    if dip.lowest == dip.before == dip.after:
        return f"{name} {dip.before} all along"
    low = ""
    if dip.lowest < min(dip.before, dip.after):
        low = f", and only {dip.lowest} from +{span(dip.at_s)} on for {span(dip.for_s)}"
    return f"{name} {dip.before} {arrow} {dip.after}{low}"


def span(seconds: float) -> str:
    """A short duration to read: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "< 0.1 s" if seconds else "0 s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    large, small = ("h", "min") if whole >= 7200 else ("min", "s")
    count, rest = divmod(whole // 60 if whole >= 7200 else whole, 60)
    return f"{count} {large} {rest} {small}" if rest else f"{count} {large}"
