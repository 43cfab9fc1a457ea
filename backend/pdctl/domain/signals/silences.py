"""Silences: signals that nobody wants to hear of for a while. They are watched all the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pdctl.domain.signals.book import Signal

ANY = "*"


@dataclass(frozen=True, slots=True)
class Silence:
    """Signals that match make no noise until it ends."""

    id: str
    rule: str
    """Name of a rule; shell patterns: "*" is every rule."""
    subject: str
    """Whom it concerns; shell patterns: "decode-*"."""
    at: float
    """Wall time, UTC seconds."""
    until: float
    by: str
    note: str = ""

    def matches(self, signal: Signal) -> bool:
        """Whether it is about `signal`."""
        return fnmatchcase(signal.rule, self.rule) and fnmatchcase(signal.subject, self.subject)


def silenced(signal: Signal, silences: Iterable[Silence], now: float) -> Silence | None:
    """The silence that holds `signal` longest; None when none does at `now`."""
    holding = [one for one in silences if one.until > now and one.matches(signal)]
    return max(holding, key=lambda one: one.until, default=None)
