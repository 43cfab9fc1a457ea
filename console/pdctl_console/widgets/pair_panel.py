"""Prefill x decode pairs: how many in which state, and the failing ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from pdctl.contract.resources import PairView
from pdctl_console import format as fmt
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets.row_table import Column, Row, RowTable

COLUMNS = (
    Column("Pair", longest=40),
    Column("State"),
    Column("Handoff", right=True),
    Column("Ok", right=True),
    Column("What", longest=200),
)
LISTED = 200
"""So many rows at most; the summary counts them all."""
_ORDER = {"untried": 2, "probing": 1, "ok": 3}


class PairPanel(RowTable):
    """A table that begins with what needs a look."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(COLUMNS, id=id)
        self._source: tuple[PairView, ...] = ()
        self._known: list[PairView] = []

    def show(self, pairs: tuple[PairView, ...], now: datetime) -> None:
        """Draw the pairs."""
        many = len(pairs) > LISTED
        title = f" Pairs: the first {LISTED} of {len(pairs)} " if many else " Pairs "
        if self.border_title != title:
            self.border_title = title
        if pairs is not self._source:
            self._source = pairs
            self._known = sorted(pairs, key=lambda one: _ORDER.get(one.state, 0))[:LISTED]
        self.sync([_row(one, now) for one in self._known], told("No pairs.", "muted"))


def summary(pairs: Sequence[PairView]) -> Line:
    """Counts by state in few words."""
    if not pairs:
        return ()
    counts = Counter(pair.state for pair in pairs)
    parts: list[Part] = [(f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} ", "strong")]
    for state in sorted(counts, key=lambda one: _ORDER.get(one, 0)):
        glyph, role = fmt.PAIRS.get(state, fmt.FAILING)
        parts.append((f"{glyph} {counts[state]} {clean(state)} ", role))
    return tuple(parts)


def _row(one: PairView, now: datetime) -> Row:
    took = fmt.ms(one.handoff_ms) if one.handoff_ms is not None else fmt.UNKNOWN
    ago = f"{fmt.age(one.last_ok, now)} ago" if one.last_ok else "never"
    return f"{one.prefill}>{one.decode}", (
        plain(f"{one.prefill} → {one.decode}"),
        (fmt.badge(one.state, fmt.PAIRS.get(one.state, fmt.FAILING)),),
        plain(took),
        told(ago, "muted"),
        plain(one.message),
    )
