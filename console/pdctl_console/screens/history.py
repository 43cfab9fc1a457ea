"""History: every desired fleet that was accepted, what each changed, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from pdctl.client.errors import ClientError
from pdctl.contract import asks
from pdctl.contract.history import RevisionView
from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import REVISIONS_KEPT as PAGE
from pdctl_console.model import ViewState
from pdctl_console.screens.dialogs import Text
from pdctl_console.screens.listing import ListScreen
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets.row_table import Column, Row, RowTable


class HistoryScreen(ListScreen):
    """Enter shows what a revision changed; `u` plans the way back to it."""

    NAME = "history"
    LOOK = Look(gauges=False, latency=False, revisions=True)
    COLUMNS = (
        Column("Revision"), Column("Since"), Column("Shape", longest=16), Column("Mode"),
        Column("By", longest=20), Column("Changed", longest=160), Column("Why", longest=160),
    )  # fmt: skip
    NOUN = "revisions"
    KEY = "revision"
    EMPTY = "No revision is known yet."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Go back to it"),
        Binding("equals_sign", "compare", "Compare with now"),
        Binding("f", "faults", show=False),
    ]

    def items(self, state: ViewState) -> Sequence[RevisionView]:
        """Newest first."""
        return state.revisions

    async def before(self, oldest: RevisionView) -> Sequence[RevisionView]:
        """Earlier ones."""
        return (await self.console.client.revisions(PAGE, oldest.revision)).items

    def row(self, item: RevisionView, state: ViewState) -> Row:
        """A revision in its columns."""
        number = (f"{item.revision} ● now", "ok") if item.current else (str(item.revision), "")
        return str(item.revision), (
            (number,),
            plain(fmt.moment(item.at, state.as_of(self.console.now()), utc=self.console.utc)),
            plain(item.shape),
            plain(item.mode.value),
            told(item.author, "muted"),
            plain("; ".join(item.changes) or fmt.UNKNOWN),
            told(item.reason, "muted"),
        )

    def notes(self, state: ViewState) -> list[Part]:
        """Why they are not the newest."""
        note = state.revisions_note
        return [(f"  {clean(note)}", "warn")] if note else []

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A revision is no fault."""
        return action != "faults" and super().check_action(action, parameters)

    def _chosen(self, key: str | None) -> RevisionView | None:
        known = self.every(self.console.state)
        return next((one for one in known if str(one.revision) == key), None)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """What it changed against the one before it."""
        event.stop()
        if (one := self._chosen(event.key)) is not None:
            title = f"Revision {one.revision}"
            self.app.push_screen(Text(title, whole(one, utc=self.console.utc)))

    @work(exclusive=True, group="open")
    async def action_compare(self) -> None:
        """What differs between the chosen revision and the one in force."""
        one = self._chosen(self.selected)
        now = next((each for each in self.console.state.revisions if each.current), None)
        if one is None or now is None:
            return
        try:
            found = await self.console.client.diff(one.revision, now.revision)
        except ClientError as error:
            self.console.refused(error)
            return
        lines = [plain(said) for said in found.words]
        same = [told("Both want the same fleet.", "muted")]
        cli = told(f"pdctl diff {one.revision} {now.revision}", "muted")
        title = f"From revision {one.revision} to {now.revision}"
        await self.app.push_screen(Text(title, [*(lines or same), (), cli]))

    def action_undo(self) -> None:
        """Plan the way back to the chosen revision; from the one in force, to the one before."""
        one = self._chosen(self.selected)
        if one is None or one.current:
            self.console.action_undo()
        else:
            self.console.plan(asks.undo(one.revision))


def whole(one: RevisionView, *, utc: bool) -> list[Line]:
    """Everything that is known of a revision."""
    head = f"{one.shape}, mode {one.mode.value}, since {fmt.stamp(one.at, utc=utc)}"
    changed = [plain(f"  {said}") for said in one.changes] or [told("  not known", "muted")]
    why = [told(f"Why: {one.reason}", "")] if one.reason else []
    return [
        told(head, "strong"), told(f"By {one.author}", "muted"), *why, (),
        told("Against the revision before it:", "muted"), *changed, (),
        told(f"pdctl undo --to {one.revision}", "muted"),
    ]  # fmt: skip
