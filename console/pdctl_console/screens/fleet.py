"""Fleet: pools and instances, desired beside observed, pairs, latency and the last events."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from pdctl.contract.resources import FleetView, InstanceView, PairView, PoolView
from pdctl.domain.lifecycle import Phase
from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import ViewState
from pdctl_console.screens.base import MainScreen
from pdctl_console.screens.instance import InstanceScreen
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets import pair_panel
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.event_log import EventLog
from pdctl_console.widgets.latency_panel import LatencyPanel
from pdctl_console.widgets.pair_panel import PairPanel
from pdctl_console.widgets.row_table import Column, Row, RowTable

COLUMNS = (
    Column("Instance", longest=24),
    Column("State"),
    Column("Since", right=True),
    Column("Load", right=True),
    Column("Run", right=True, from_width=110),
    Column("Wait", right=True, from_width=110),
    Column("KV use", right=True),
    Column("Tok/s", right=True),
    Column("KV in", right=True),
    Column("What", longest=200),
)
"""Load is the router's count; Run, Wait, KV use and Tok/s are the engine's own."""
NO_INSTANCES = "No instances: the fleet has none yet."


class FleetScreen(MainScreen):
    """The first screen."""

    NAME = "fleet"
    LOOK = Look()
    AUTO_FOCUS = "#instances"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "logs", "Log"),
        Binding("d", "ask('drain')", "Drain"),
        Binding("D", "ask('undrain')", "Undrain", show=False),
        Binding("r", "ask('restart')", "Restart"),
        Binding("v", "reassign", "Move"),
        Binding("x", "ask('stop')", "Stop"),
        Binding("plus,equals_sign", "resize(1)", "Size", key_display="+ -"),
        Binding("minus", "resize(-1)", "One less", show=False),
        Binding("c", "clear", "Clear failure", show=False),
        Binding("y", "command", "Command", show=False),
        Binding("f", "faults", "Faults only", show=False),
        Binding("w", "window", "Latency window", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._faults = False
        self._pairs: tuple[PairView, ...] = ()
        self._pairs_told: Line = ()
        self._shown: tuple[object, ...] = ()

    def body(self) -> ComposeResult:
        """Pools above, instances in the middle, latency and events below."""
        yield Block(id="pools")
        yield RowTable(COLUMNS, id="instances")
        yield Block(id="notes")
        yield LatencyPanel(id="latency")
        with Horizontal(id="below"):
            yield EventLog(id="events")
            yield PairPanel(id="pairs")

    def draw(self, state: ViewState) -> None:
        """Draw all panels."""
        self.query_one(LatencyPanel).show(state, self.console.window_name)
        self.query_one(EventLog).show(state.events, utc=self.console.utc)
        fleet = state.fleet
        if fleet is None:
            told_ = told("Nothing is known of the fleet yet.", "muted")
            self.query_one("#instances", RowTable).sync([], told_)
            return
        if state.pairs is not self._pairs or not self._pairs_told:
            self._pairs, self._pairs_told = state.pairs, pair_panel.summary(state.pairs)
        self.query_one("#pools", Block).put(_summary(fleet, self._pairs_told))
        now = state.as_of(self.console.now())
        shown = (fleet, state.pairs, now.replace(microsecond=0), self._faults)
        before = self._shown
        same = before[:2] and all(a is b for a, b in zip(shown[:2], before[:2], strict=True))
        if same and shown[2:] == before[2:]:
            return
        self._shown = shown
        self._instances(fleet, now)
        self.query_one(PairPanel).show(state.pairs, now)
        notes = self.query_one("#notes", Block)
        notes.put(*((("! ", "warn"), *plain(note)) for note in fleet.notes))
        notes.display = bool(fleet.notes)

    def _instances(self, fleet: FleetView, now: datetime) -> None:
        every = fleet.instances
        if self._faults:
            every = [one for one in every if one.phase is not Phase.READY]
        empty = "Every instance is ready; f shows them all." if fleet.instances else NO_INSTANCES
        rows = [row(one, now) for one in every]
        self.query_one("#instances", RowTable).sync(rows, told(empty, "muted"))

    def on_row_table_chosen(self, message: RowTable.Chosen) -> None:
        """Enter or a click on an instance opens its details; on a pair, those of its decode."""
        message.stop()
        if message.table.id == "instances":
            self.app.push_screen(InstanceScreen(message.key))

    def _selected(self) -> str | None:
        return self.query_one("#instances", RowTable).selected_key

    def action_logs(self) -> None:
        """The log of the instance under the cursor."""
        if key := self._selected():
            self.console.open_logs(key)

    def action_command(self) -> None:
        """The command of the instance under the cursor."""
        if key := self._selected():
            self.console.open_command(key)

    def action_ask(self, verb: str) -> None:
        """A verb for the instance under the cursor, by way of a plan."""
        if key := self._selected():
            self.console.on_one(verb, key)

    def action_reassign(self) -> None:
        """Move the instance under the cursor to another pool."""
        if key := self._selected():
            self.console.reassign(key)

    def action_resize(self, by: int) -> None:
        """The pool of the instance under the cursor larger or smaller."""
        self.console.resize(self._selected(), by)

    def action_clear(self) -> None:
        """Let a given-up instance try again."""
        if key := self._selected():
            self.console.clear_failure(key)

    def action_faults(self) -> None:
        """Only instances that are not ready, or all."""
        self._faults = not self._faults
        self.draw(self.console.state)

    def action_window(self) -> None:
        """The next latency window."""
        self.console.next_window()


def _summary(fleet: FleetView, pairs: Line) -> Line:
    parts: list[Part] = []
    for pool in fleet.pools:
        parts += [*_pool(pool, fleet.instances), ("  ", "")]
    return (*parts, *pairs)


def _pool(pool: PoolView, instances: list[InstanceView]) -> list[Part]:
    phases = Counter(one.phase for one in instances if one.pool == pool.name)
    enough = pool.ready >= pool.desired
    name = clean(pool.name)
    named = name if pool.role.value in name else f"{name} ({pool.role.value})"
    sign, role = ("●", "ok") if enough else ("◑", "warn")
    parts: list[Part] = [
        (f"{named} ", "strong"),
        (f"{sign} {pool.ready}/{pool.desired} ready ", role),
    ]
    for phase in (Phase.FAILED, Phase.BACKOFF, Phase.UNKNOWN):
        if number := phases[phase]:
            glyph, look = fmt.PHASES[phase]
            parts.append((f"{glyph} {number} {phase.value} ", look))
    return parts


def row(one: InstanceView, now: datetime) -> Row:
    """An instance as a row."""
    stats = one.stats
    kv: list[Part] = [(fmt.percent(stats.kv_usage) if stats else fmt.UNKNOWN, "")]
    if stats is not None and stats.stale:
        kv.insert(0, ("old ", "warn"))
    return one.id, (
        plain(one.id),
        (fmt.phase(one.phase),),
        plain(fmt.age(one.since, now)),
        plain(str(one.inflight)),
        plain(fmt.count(stats.running if stats else None)),
        plain(fmt.count(stats.waiting if stats else None)),
        tuple(kv),
        plain(fmt.rate(stats.generation_tokens_per_s if stats else None)),
        plain(fmt.count(stats.prompt_tokens_remote if stats else None)),
        _what(one, now),
    )


def _what(one: InstanceView, now: datetime) -> Line:
    parts: list[Part] = []
    if one.progress is not None and one.phase is not Phase.READY:
        share = one.progress.fraction
        parts.append((clean(one.progress.stage), ""))
        if share is not None:
            parts.append((f" {fmt.bar(share, 10)} {fmt.percent(share)}", "busy"))
    elif one.message:
        parts.append((clean(one.message), "bad" if one.phase is Phase.FAILED else ""))
    notes: list[Part] = []
    if one.phase is Phase.BACKOFF and one.retry_in_s is not None:
        notes.append((f"again in {fmt.duration(one.retry_in_s)}", "warn"))
    if one.phase is Phase.DRAINING and one.drain_left_s is not None:
        notes.append((f"{fmt.duration(one.drain_left_s)} left to drain", "warn"))
    if one.circuit is not None:
        notes.append((clean(one.circuit.words), "warn"))
    if one.outdated:
        notes.append(("launched with older flags", "warn"))
    for note in notes:
        parts += [(" · ", "muted"), note] if parts else [note]
    if parts:
        return tuple(parts)
    place = f", core {one.core}" if one.core else f", device {one.device}" if one.device else ""
    return told(f"port {one.http_port}{place}", "muted")
