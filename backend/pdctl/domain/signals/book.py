"""What follows from readings: pending, firing, resolved. Pure; the caller says how time went by.

Laws: nothing fires that was not known to be wrong for as long as its rule wants, without a break.
What is not known neither fires nor resolves, and is shown as not known. Time in which nobody looked
counts for nothing. A signal that fires goes on until it is known to be well for a while, so what
flaps is one signal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pdctl.domain.signals.rules import Rule, Severity

MAX_GAP_S = 30.0
"""Between two looks at most so much time counts: a suspended machine has not watched anything."""
GONE = "What it was about is no longer there."
OFF = "The rule was switched off."
WELL = "It is well again."
Key = tuple[str, str]
"""(rule, subject)"""


class State(StrEnum):
    """How far a signal is."""

    PENDING = "pending"
    """Wrong, but not for long enough."""
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one rule sees of one subject now."""

    rule: str
    subject: str
    """Instance, pair ("prefill-0>decode-0"), pool, objective, or a part of pdctl."""
    value: float | None
    """None: not known now (no metrics yet, or old ones)."""
    detail: str = ""
    """What is seen, in words."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Somebody has taken it up."""

    by: str
    at: float
    """Wall time, UTC seconds."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that is (or was) wrong. All times are wall time, UTC seconds."""

    rule: str
    subject: str
    severity: Severity
    state: State
    since: float
    """When it was first seen to be wrong."""
    seen_at: float
    """When its number was last known."""
    value: float
    """As last known."""
    worst: float
    detail: str = ""
    known: bool = True
    """False: its number is not known now, so it stays as it is."""
    fired_at: float | None = None
    resolved_at: float | None = None
    ending: str = ""
    """Why it was resolved."""
    ack: Ack | None = None
    told: bool = False
    """The webhook was told that it fires."""
    wrong_s: float = 0.0
    """For how long it has been known to be wrong without a break."""
    well_s: float | None = None
    """While it fires: for how long it has been known to be well; None while it is not."""

    @property
    def id(self) -> str:
        """Names it while it lasts."""
        return f"{self.rule}:{self.subject}"

    @property
    def episode(self) -> str:
        """Names this time that it fired, for ever."""
        return f"{self.id}@{self.fired_at or 0:.3f}"

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.rule, self.subject


Book = Mapping[Key, Signal]
"""Signals that are pending or fire."""


def evaluate(
    rules: Mapping[str, Rule], readings: Iterable[Reading], book: Book, *,
    now: float, elapsed: float,
) -> tuple[dict[Key, Signal], tuple[Signal, ...]]:  # fmt: skip
    """The next book, and the signals that began to fire or were resolved.

    `now`: wall time; `elapsed`: seconds since the last evaluation by a clock that never jumps.
    """
    gap = min(elapsed, MAX_GAP_S)
    new: dict[Key, Signal] = {}
    moved: list[Signal] = []
    seen = set()
    for reading in readings:
        key = reading.rule, reading.subject
        if (rule := rules.get(reading.rule)) is None or key in seen:
            continue
        seen.add(key)
        old = book.get(key)
        signal = _step(rule, reading, old, now, gap)
        if signal is None:
            continue
        if signal.state is not State.RESOLVED:
            new[key] = signal
        if signal.state is not State.PENDING and (old is None or old.state is not signal.state):
            moved.append(signal)
    for key, old in book.items():
        if key not in seen and old.state is State.FIRING:
            moved.append(_resolved(old, now, GONE if key[0] in rules else OFF))
    return new, tuple(moved)


def _step(
    rule: Rule, reading: Reading, old: Signal | None, now: float, gap: float
) -> Signal | None:
    if reading.value is None:
        return None if old is None else replace(old, known=False)
    if old is None:
        wrong = reading.value >= rule.threshold
        return _matured(_begun(rule, reading, reading.value, now), rule, now) if wrong else None
    news = replace(
        old, severity=rule.severity, seen_at=now, value=reading.value, detail=reading.detail,
        known=True, worst=max(old.worst, reading.value),
    )  # fmt: skip
    counted = gap if old.known else 0.0
    if old.state is State.FIRING:
        return _firing(news, rule, now, counted)
    if reading.value < rule.threshold:
        return None
    return _matured(replace(news, wrong_s=old.wrong_s + counted), rule, now)


def _begun(rule: Rule, reading: Reading, value: float, now: float) -> Signal:
    return Signal(
        rule.name, reading.subject, rule.severity, State.PENDING, since=now, seen_at=now,
        value=value, worst=value, detail=reading.detail,
    )  # fmt: skip


def _matured(signal: Signal, rule: Rule, now: float) -> Signal:
    if signal.wrong_s < rule.for_s:
        return signal
    return replace(signal, state=State.FIRING, fired_at=now)


def _firing(signal: Signal, rule: Rule, now: float, counted: float) -> Signal:
    if signal.value >= rule.threshold * rule.clear:
        return replace(signal, well_s=None)
    well = 0.0 if signal.well_s is None else signal.well_s + counted
    if well < rule.keep_s:
        return replace(signal, well_s=well)
    return _resolved(replace(signal, well_s=well), now, WELL)


def _resolved(signal: Signal, now: float, why: str) -> Signal:
    return replace(signal, state=State.RESOLVED, resolved_at=now, ending=why)
