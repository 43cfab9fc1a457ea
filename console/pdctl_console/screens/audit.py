"""Audit: the operations log. Who did what, from where, before and after, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.contract.history import AuditEntryView
from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import AUDIT_KEPT as PAGE
from pdctl_console.model import ViewState
from pdctl_console.screens.dialogs import Text
from pdctl_console.screens.listing import ListScreen
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets.row_table import Column, Row, RowTable

OUTCOMES: dict[str, fmt.Look] = {
    "done": ("●", "ok"), "refused": ("▲", "warn"), "failed": ("✗", "bad"),
    "cancelled": ("■", "warn"),
}  # fmt: skip


class AuditScreen(ListScreen):
    """The newest entries; Enter shows one whole."""

    NAME = "audit"
    LOOK = Look(gauges=False, latency=False, audit=True)
    COLUMNS = (
        Column("Time"), Column("Verb"), Column("Outcome"), Column("About", longest=24),
        Column("By", longest=24), Column("Change", longest=160), Column("Message", longest=200),
    )  # fmt: skip
    KEY = "seq"
    EMPTY = "Nobody has changed anything yet."

    def items(self, state: ViewState) -> Sequence[AuditEntryView]:
        """Newest first."""
        return state.audit

    async def before(self, oldest: AuditEntryView) -> Sequence[AuditEntryView]:
        """Earlier ones."""
        page = await self.console.client.audit(limit=PAGE, before=oldest.seq)
        return page.items[::-1]

    def row(self, item: AuditEntryView, state: ViewState) -> Row:
        """An entry in its columns."""
        return str(item.seq), (
            plain(fmt.clock(item.at, utc=self.console.utc)),
            plain(item.verb.replace("_", " ")),
            (outcome(item),),
            plain(", ".join(item.about) or item.subject),
            told(f"{item.actor} ({item.source})", "muted"),
            plain(change(item)),
            told(item.message, "warn"),
        )

    def faulty(self, item: AuditEntryView) -> bool:
        """It was not done."""
        return item.outcome != "done"

    def notes(self, state: ViewState) -> list[Part]:
        """What is missing."""
        return [(f"  {clean(state.audit_note)}", "warn")] if state.audit_note else []

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """An entry, whole."""
        event.stop()
        known = self.every(self.console.state)
        found = next((one for one in known if str(one.seq) == event.key), None)
        if found is not None:
            verb = found.verb.replace("_", " ")
            self.app.push_screen(Text(f"Entry {found.seq}: {verb}", whole(found, self.console.utc)))


def outcome(one: AuditEntryView) -> Part:
    """What came of it, as a badge."""
    return fmt.badge(one.outcome, OUTCOMES.get(one.outcome, ("?", "warn")))


def change(one: AuditEntryView) -> str:
    """What it changed, in words."""
    said = str(one.details.get("change", ""))
    return said if said or not one.before else f"{one.before} → {one.after}"


def whole(one: AuditEntryView, utc: bool) -> list[Line]:
    """Everything that the entry says."""
    facts = {
        "by": f"{one.actor} ({one.source})", "about": ", ".join(one.about) or one.subject,
        "before": one.before, "after": one.after, "message": one.message, "plan": one.plan,
        "operation": one.operation,
        **{name.replace("_", " "): str(value) for name, value in one.details.items()},
    }  # fmt: skip
    rows = [
        ((f"{clean(name):<14}", "muted"), (clean(said), "")) for name, said in facts.items() if said
    ]
    head: Line = ((fmt.stamp(one.at, utc=utc), "strong"), ("  ", ""), outcome(one))
    return [head, (), *rows]
