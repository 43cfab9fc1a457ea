"""Pairs: which prefill hands over to which decode, since when not, and why not."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from pdctl.contract.resources import PairView
from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import ViewState
from pdctl_console.screens.base import MainScreen
from pdctl_console.screens.instance import InstanceScreen
from pdctl_console.styled import Line, clean, plain, told
from pdctl_console.widgets import pair_matrix
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.pair_matrix import PairMatrix
from pdctl_console.widgets.pair_panel import PairPanel
from pdctl_console.widgets.row_table import RowTable


class PairsScreen(MainScreen):
    """The matrix, the pair under its cursor in words, and the list that begins with trouble."""

    NAME = "pairs"
    LOOK = Look(gauges=False, latency=False)
    AUTO_FOCUS = "#matrix"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "open(0)", "Its prefill"),
        Binding("d", "open(1)", "Its decode"),
    ]

    def body(self) -> ComposeResult:
        """Matrix, what it says, list."""
        yield Block(id="hint")
        yield PairMatrix(id="matrix")
        yield Block(id="cell")
        yield PairPanel(id="list")

    def draw(self, state: ViewState) -> None:
        """Draw the pairs."""
        now = state.as_of(self.console.now())
        self.query_one("#hint", Block).put(pair_matrix.legend(state.pairs))
        self.query_one(PairMatrix).show(state.pairs)
        self.query_one(PairPanel).show(state.pairs, now)
        self._tell(state)

    def _tell(self, state: ViewState) -> None:
        one = self.query_one(PairMatrix).selected
        now = state.as_of(self.console.now())
        ago = f"{fmt.age(one.last_ok, now)} ago" if one and one.last_ok else "never"
        self.query_one("#cell", Block).put(*(words(one, ago) if one else ()))

    def on_pair_matrix_moved(self) -> None:
        """Another pair in words."""
        self._tell(self.console.state)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """A pair of the list: show it in the matrix."""
        event.stop()
        prefill, _, decode = event.key.partition(">")
        self.query_one(PairMatrix).point(prefill, decode)

    def action_open(self, end: int) -> None:
        """One end of the pair, in full."""
        one = self.query_one(PairMatrix).selected
        if one is not None:
            self.app.push_screen(InstanceScreen(one.decode if end else one.prefill))


def words(one: PairView, ago: str) -> list[Line]:
    """A pair in words: its state, its last handoff, and what went wrong."""
    took = f", in {fmt.ms(one.handoff_ms)}" if one.handoff_ms is not None else ""
    head: Line = (
        (f"{clean(one.prefill)} → {clean(one.decode)}  ", "strong"),
        fmt.badge(one.state, fmt.PAIRS.get(one.state, fmt.FAILING)),
        (f"  last good handoff {ago}{took}", ""),
    )
    why = plain(one.message) or told("Nothing is wrong with it.", "muted")
    return [head, why if one.state != "ok" or one.message else ()]
