"""Requests: the newest first, with the path they took; Enter opens the waterfall."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from pdctl.contract.resources import RequestView
from pdctl.domain.handoff import Outcome
from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import REQUESTS_KEPT, ViewState
from pdctl_console.screens.base import MainScreen
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.row_table import Column, Row, RowTable

COLUMNS = (
    Column("Time"),
    Column("Outcome"),
    Column("Path"),
    Column("TTFT", right=True),
    Column("E2E", right=True),
    Column("Where", longest=30),
    Column("Request", longest=40),
    Column("TPOT", right=True),
    Column("In", right=True),
    Column("Out", right=True),
    Column("Endpoint"),
    Column("Error", longest=160),
)
"""The most telling columns come first; the rest is a key to the right. In and Out are tokens."""


class RequestsScreen(MainScreen):
    """A live table."""

    NAME = "requests"
    LOOK = Look(gauges=False, latency=False, requests=True)
    AUTO_FOCUS = "#requests"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter"),
        Binding("f", "faults", "Faults only"),
        Binding("s", "slowest", "Slowest"),
        Binding("space", "pause", "Pause"),
        Binding("escape", "drop", "Drop filters", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._text, self._faults, self._slowest = "", False, False
        self._held: tuple[RequestView, ...] | None = None

    def body(self) -> ComposeResult:
        """Filter line, what is shown, table."""
        yield Input(
            placeholder="part of an id, instance, path, outcome, endpoint or error",
            id="filter", compact=True,
        )  # fmt: skip
        yield Block(id="hint")
        yield RowTable(COLUMNS, newest_first=True, id="requests")

    def on_mount(self) -> None:
        """The filter shows itself when asked for."""
        self.query_one(Input).display = False

    def draw(self, state: ViewState) -> None:
        """Draw the rows that pass the filters."""
        known = state.requests if self._held is None else self._held
        rows = [one for one in known if self._passes(one)]
        if self._slowest:
            rows.sort(key=lambda one: -(one.e2e_ms or 0.0))
        empty = "No request passes the filter." if known else "No request has been seen yet."
        url = state.fleet.router.url if state.fleet else ""
        if not known and url:
            empty += f" Send one to {url}/v1/chat/completions."
        table = self.query_one("#requests", RowTable)
        table.sync([row(one, utc=self.console.utc) for one in rows], told(empty, "muted"))
        self.query_one("#hint", Block).put(self._hint(len(rows), len(known), state))

    def _hint(self, shown: int, known: int, state: ViewState) -> Line:
        if not known:
            return ()
        newer = 0
        if self._held is not None:
            ids = {one.id for one in self._held}
            newer = sum(one.id not in ids for one in state.requests)
        order = "slowest first" if self._slowest else "newest first"
        parts: list[Part] = [(f"{shown} of the last {known}, {order}", "muted")]
        if self._text:
            parts += [("  with ", "muted"), (clean(self._text), "key")]
        if self._faults:
            parts.append(("  only those that failed", "warn"))
        if self._held is not None:
            more = f"{newer} newer" if newer < REQUESTS_KEPT else f"at least {newer} newer"
            parts.append((f"  paused, {more}", "warn"))
        return tuple(parts)

    def _passes(self, one: RequestView) -> bool:
        if self._faults and one.outcome is Outcome.OK:
            return False
        text = (
            f"{one.id} {one.prefill} {one.decode} {one.path.value} {one.outcome.value} "
            f"{one.endpoint} {one.error}"
        )
        return self._text.lower() in text.lower()

    def on_row_table_chosen(self, message: RowTable.Chosen) -> None:
        """Open the waterfall."""
        message.stop()
        self.console.open_request(message.key)

    def action_filter(self) -> None:
        """Type a filter."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_drop(self) -> None:
        """Drop all filters and go on."""
        self._text, self._faults, self._slowest, self._held = "", False, False, None
        field = self.query_one(Input)
        field.value, field.display = "", False
        self.query_one("#requests").focus()
        self.draw(self.console.state)

    def action_faults(self) -> None:
        """Only requests that did not end well."""
        self._faults = not self._faults
        self.draw(self.console.state)

    def action_slowest(self) -> None:
        """Order by total time, among those that are kept."""
        self._slowest = not self._slowest
        self.draw(self.console.state)

    def action_pause(self) -> None:
        """Hold the table still."""
        self._held = self.console.state.requests if self._held is None else None
        self.draw(self.console.state)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._text = event.value.strip()
        self.draw(self.console.state)

    def on_input_submitted(self) -> None:
        """Back to the rows."""
        self.query_one("#requests").focus()


def row(one: RequestView, *, utc: bool) -> Row:
    """A request as a row."""
    where = f"{one.prefill} → {one.decode}" if one.prefill else one.decode or fmt.UNKNOWN
    least = "≥" if one.completion_derived else ""
    return one.id, (
        plain(fmt.clock(one.received_at, utc=utc)),
        (fmt.outcome(one.outcome),),
        plain(one.path.value),
        plain(fmt.ms(one.ttft_ms)),
        plain(fmt.ms(one.e2e_ms)),
        plain(where),
        plain(one.id),
        plain(fmt.ms(one.tpot_ms)),
        plain(fmt.count(one.prompt_tokens)),
        plain(f"{least}{fmt.count(one.completion_tokens)}"),
        plain(one.endpoint),
        told(one.error, "bad"),
    )
