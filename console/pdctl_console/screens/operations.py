"""Operations: applied plans, running and past, and the processes of the router."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from pdctl.contract import asks
from pdctl.contract.plans import OperationView
from pdctl.contract.resources import RouterView
from pdctl_console import format as fmt
from pdctl_console import planned
from pdctl_console.follower import Look
from pdctl_console.model import OPERATIONS_KEPT as PAGE
from pdctl_console.model import RUNNING, ViewState
from pdctl_console.screens.listing import ListScreen
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.row_table import Column, Row, RowTable

WORKERS: dict[str, fmt.Look] = {
    "listening": ("●", "ok"), "waiting": ("◔", "busy"), "replace": ("↻", "busy"),
    "draining": ("▽", "warn"), "done": ("■", "muted"), "away": ("?", "warn"),
    "silent": ("✗", "bad"),
}  # fmt: skip
_BAR = 6


class OperationsScreen(ListScreen):
    """Enter opens one: how far it is, its plan, and the way to take it back."""

    NAME = "operations"
    LOOK = Look(gauges=True, latency=False, operations=True)
    COLUMNS = (
        Column("State"), Column("Done"), Column("Change", longest=60), Column("Time", longest=32),
        Column("Began"), Column("By", longest=20), Column("What", longest=160), Column("Operation"),
    )  # fmt: skip
    NOUN = "operations"
    KEY = "id"
    EMPTY = "No plan has been applied yet. On the fleet screen + - d r v x and m make one."
    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "cancel", "Cancel it")]

    def body(self) -> ComposeResult:
        """The table, and the router's processes below it."""
        yield from super().body()
        yield Block(id="workers")

    def on_mount(self) -> None:
        """Name the panel."""
        super().on_mount()
        self.query_one("#workers").border_title = " Router "

    def items(self, state: ViewState) -> Sequence[OperationView]:
        """Newest first."""
        return state.operations

    async def before(self, oldest: OperationView) -> Sequence[OperationView]:
        """Earlier ones."""
        return (await self.console.client.operations(PAGE, oldest.revision)).items

    def row(self, item: OperationView, state: ViewState) -> Row:
        """An operation in its columns."""
        waits = f"to come: {', '.join(item.waiting_for)}" if item.waiting_for else ""
        said = "; ".join(part for part in (item.message, waits) if part)
        return item.id, (
            (planned.state(item),),
            ((fmt.bar(item.share, _BAR), "busy"), (f" {item.progress}", "")),
            plain("; ".join(item.change)),
            plain(planned.took(item, state.as_of(self.console.now()))),
            plain(fmt.clock(item.started_at, utc=self.console.utc)),
            told(f"{item.actor} ({item.source})", "muted"),
            told(said, "bad" if item.state == "failed" else ""),
            told(item.id, "muted"),
        )

    def faulty(self, item: OperationView) -> bool:
        """It did not end well."""
        return item.state not in (RUNNING, "done")

    def notes(self, state: ViewState) -> list[Part]:
        """What is missing."""
        note = state.operations_note
        return [(f"  {clean(note)}", "warn")] if note else []

    def draw(self, state: ViewState) -> None:
        """The table, and the workers."""
        super().draw(state)
        if state.fleet is not None:
            router, now = state.fleet.router, state.as_of(self.console.now())
            self.query_one("#workers", Block).put(*router_lines(router, state.fleet.version, now))

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """An operation, whole."""
        event.stop()
        self.console.open_operation(event.key)

    @work(exclusive=True, group="cancel")
    async def action_cancel(self) -> None:
        """Take the operation under the cursor back, after asking."""
        known = self.every(self.console.state)
        one = next((one for one in known if one.id == self.selected), None)
        if one is None:
            return
        if one.state != RUNNING:
            self.app.notify(f"{one.id} is {one.state}; undo (u) goes back to before it.")
            return
        if await self.console.sure_to_cancel(one):
            await self.console.carry_out(asks.cancel(one.id))


def router_lines(router: RouterView, version: str, now: datetime) -> list[Line]:
    """The front door, and a line for each of its processes."""
    head = f"{router.url}: {router.inflight} under way, {router.queued} waiting"
    if not router.workers:
        return [plain(head), told("It is served by the control plane's own process.", "muted")]
    lines: list[Line] = [plain(head)]
    for one in router.workers:
        parts: list[Part] = [
            (f"worker {one.slot}  ", "strong"),
            fmt.badge(one.state, WORKERS.get(one.state, ("?", "warn"))),
            (f"  pid {one.pid}, {one.inflight} legs under way", ""),
            (f", up for {fmt.age(one.since, now)}" if one.since else "", "muted"),
        ]  # fmt: skip
        if one.version and one.version != version:
            parts.append((f", version {clean(one.version)} (pdctl is {clean(version)})", "warn"))
        elif one.version:
            parts.append((f", version {clean(one.version)}", "muted"))
        if one.dropped:
            parts.append((f", {fmt.count(one.dropped)} facts lost", "bad"))
        lines.append(tuple(part for part in parts if part[0]))
    return lines
