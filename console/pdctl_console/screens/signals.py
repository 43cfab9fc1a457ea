"""Signals: what is wrong, what it means, which knob to turn, and who has taken it up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from pdctl.client.errors import ClientError
from pdctl.contract import asks
from pdctl.contract.signals import SignalHistoryPage, SignalView
from pdctl.domain.signals.book import State
from pdctl.domain.signals.rules import Severity
from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import ViewState
from pdctl_console.screens.dialogs import Text
from pdctl_console.screens.instance import InstanceScreen
from pdctl_console.screens.listing import ListScreen
from pdctl_console.styled import Line, Part, clean, plain, told, wrap
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.row_table import Column, Row, RowTable

SEVERITIES: dict[Severity, fmt.Look] = {
    Severity.CRITICAL: ("✗", "bad"), Severity.WARNING: ("!", "warn"),
}  # fmt: skip


class SignalsScreen(ListScreen):
    """The worst first; what the one under the cursor means stands below."""

    NAME = "signals"
    LOOK = Look(gauges=False, latency=False, signals=True)
    COLUMNS = (
        Column("State"), Column("For", right=True), Column("Severity"),
        Column("Signal", longest=48), Column("Concerns", longest=40), Column("Now", right=True),
        Column("From", right=True), Column("Taken up", longest=20), Column("Detail", longest=160),
    )  # fmt: skip
    NOUN = "signals"
    ORDER = "the worst first"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "ack", "Take up"),
        Binding("s", "silence", "Silence"),
        Binding("h", "history", "History"),
        Binding("i", "instance", "Instance"),
        Binding("w", "watched", "What is watched", show=False),
        Binding("f", "faults", "Faults only", show=False),
    ]

    def body(self) -> ComposeResult:
        """The table, and the one under the cursor in words."""
        yield from super().body()
        yield Block(id="meaning")

    def items(self, state: ViewState) -> Sequence[SignalView]:
        """As the server puts them."""
        return state.signals.items if state.signals else ()

    def row(self, item: SignalView, state: ViewState) -> Row:
        """A signal in its columns."""
        since = fmt.age(item.fired_at or item.since, state.as_of(self.console.now()))
        return item.id, (
            (fmt.badge(item.state.value, fmt.SIGNALS[item.state]),),
            plain(since),
            (fmt.badge(item.severity.value, SEVERITIES[item.severity]),),
            plain(item.title),
            plain(item.subject),
            plain(item.value_text) if item.known else told(f"{item.value_text} ?", "warn"),
            told(item.threshold_text, "muted"),
            told(_taken(item), "muted"),
            plain(item.detail),
        )

    def faulty(self, item: SignalView) -> bool:
        """It fires, and nobody has taken it up."""
        return item.loud

    def notes(self, state: ViewState) -> list[Part]:
        """Silences, and a webhook that fails."""
        page = state.signals
        if page is None:
            return []
        quiet = len(page.silences)
        parts: list[Part] = []
        if quiet:
            parts.append((f"  {quiet} silence{'s' if quiet > 1 else ''}", "warn"))
        if page.webhook.failures:
            parts.append((f"  webhook: {clean(page.webhook.error)}", "bad"))
        return parts

    def empty(self, state: ViewState) -> str:
        """What is watched, when nothing is wrong."""
        page = state.signals
        if page is None:
            return ""
        if not page.enabled:
            return "Nothing is watched: [signals] enabled = false in the fleet file."
        return f"Nothing is wrong: {len(page.rules)} rules are watched (w lists them)."

    def draw(self, state: ViewState) -> None:
        """The table, and the words below it."""
        super().draw(state)
        self._tell(state)

    def _tell(self, state: ViewState) -> None:
        one = self._chosen()
        panel = self.query_one("#meaning", Block)
        panel.display = one is not None
        if one is not None:
            panel.sketch(lambda width: [row for line in words(one) for row in wrap(line, width)])

    def _chosen(self) -> SignalView | None:
        known = self.items(self.console.state)
        return next((one for one in known if one.id == self.selected), None)

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Another one in words."""
        event.stop()
        self._tell(self.console.state)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Everything that is known of it."""
        event.stop()
        if (one := self._chosen()) is not None:
            self.app.push_screen(Text(one.id, whole(one, utc=self.console.utc)))

    def action_instance(self) -> None:
        """The instance that it concerns, in full."""
        if (one := self._chosen()) is not None and one.about:
            self.app.push_screen(InstanceScreen(one.about[-1]))

    @work(exclusive=True, group="verb")
    async def action_ack(self) -> None:
        """Take up what is under the cursor, after asking."""
        if (one := self._chosen()) is None:
            return
        if one.state is not State.FIRING:
            self.app.notify("It does not fire: there is nothing to take up yet.")
            return
        if one.ack is not None:
            self.app.notify(f"{one.ack.by} has taken it up already.", markup=False)
            return
        await self.console.confirm(asks.ack(one.id), "Take it up")

    @work(exclusive=True, group="verb")
    async def action_silence(self) -> None:
        """Keep what is under the cursor quiet for an hour, or end its silence; after asking."""
        if (one := self._chosen()) is None:
            return
        if (quiet := one.silence) is not None:
            said = told(f"{quiet.rule} of {quiet.subject}, by {quiet.by} {quiet.note}", "strong")
            await self.console.confirm(asks.unsilence(quiet.id), "End it", [said])
        else:
            await self.console.confirm(asks.silence(one.rule, one.subject), "Silence")
        self.console.action_reload()

    @work(exclusive=True, group="open")
    async def action_history(self) -> None:
        """Signals that fired, newest first."""
        try:
            page = await self.console.client.signal_history(limit=200)
        except ClientError as error:
            self.console.refused(error)
            return
        await self.app.push_screen(Text("Signals that fired", past(page, utc=self.console.utc)))

    def action_watched(self) -> None:
        """Every rule in force."""
        page = self.console.state.signals
        lines: list[Line] = []
        for rule in page.rules if page else ():
            wait = f" for {fmt.duration(rule.for_s)}" if rule.for_s else ""
            head: list[Part] = [(clean(rule.title), "strong")]
            head.append((f"  from {rule.threshold_text}{wait}, {rule.severity.value}", "muted"))
            lines += [tuple(head), told(f"  {rule.name}: {rule.source}", "muted")]
        foot = told(
            "Change one in the fleet file: [signals.NAME] threshold, for, severity", "muted"
        )
        self.app.push_screen(Text("What is watched", [*lines, (), foot]))


def _taken(one: SignalView) -> str:
    if one.ack is not None:
        return one.ack.by
    return "silenced" if one.silence is not None else ""


def words(one: SignalView) -> list[Line]:
    """What it means, why it matters, and the knob."""
    return [
        plain(f"{one.means} {one.matters}"),
        (("Do: ", "key"), (clean(one.knob), "")),
        told(f"From: {one.source}", "muted"),
    ]


def whole(one: SignalView, *, utc: bool) -> list[Line]:
    """Everything that is known of a signal."""
    known = "" if one.known else f"; not known since {fmt.stamp(one.seen_at, utc=utc)}"
    lines: list[Line] = [
        (fmt.badge(one.state.value, fmt.SIGNALS[one.state]), ("  ", ""),
         fmt.badge(one.severity.value, SEVERITIES[one.severity])),
        told(one.title, "strong"),
        plain(f"{one.value_text} (from {one.threshold_text}), at worst {one.worst_text}{known}"),
        plain(one.detail),
        told(f"Wrong since {fmt.stamp(one.since, utc=utc)}", "muted"),
    ]  # fmt: skip
    if one.fired_at:
        lines.append(told(f"Fires since {fmt.stamp(one.fired_at, utc=utc)}", "muted"))
    if one.ack:
        note = f": {one.ack.note}" if one.ack.note else ""
        lines.append(plain(f"Taken up by {one.ack.by}, {fmt.stamp(one.ack.at, utc=utc)}{note}"))
    if one.silence:
        until = fmt.stamp(one.silence.until, utc=utc)
        lines.append(plain(f"Silenced by {one.silence.by} until {until}"))
    return [*(line for line in lines if line), (), *words(one)]


def past(page: SignalHistoryPage, *, utc: bool) -> list[Line]:
    """The history, a line each."""
    if not page.items:
        return [told("No signal has fired.", "muted")]
    lines: list[Line] = []
    for one in page.items:
        fired = one.fired_at or one.since
        lasted = fmt.age(fired, one.resolved_at) if one.resolved_at else "still"
        lines.append(
            (
                (f"{fmt.stamp(fired, utc=utc)}  ", "muted"),
                fmt.badge(one.state.value, fmt.SIGNALS[one.state]),
                (f"  {clean(one.id)}  {lasted}, at worst {one.worst_text}", ""),
            )
        )
    return lines
