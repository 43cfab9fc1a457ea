"""Verbs carried out: each change goes through a plan, and nothing is done that was not shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textual import work
from textual.app import App
from textual.events import Key

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.contract.resources import FleetView, InstanceView
from pdctl.contract.router import MEANINGS
from pdctl.domain.live import POLICIES
from pdctl_console import asks, verbs
from pdctl_console.asks import Ask
from pdctl_console.model import ViewState
from pdctl_console.screens.dialogs import Confirm, Enter, Pick, Text
from pdctl_console.screens.plan import PlanScreen
from pdctl_console.styled import plain, told
from pdctl_console.widgets.row_table import Column

CHANGING = {
    "mode", "undo", "resize", "ask", "reassign", "clear", "cancel", "apply", "ack", "silence",
    "switch",
}  # fmt: skip
"""Actions that a read-only console does not have."""
READ_ONLY = "This console is read-only and cannot do that: {0}. Start it without --read-only."


class OperatingApp(App[int]):
    """The part of the console that can change something."""

    client: AdminClient
    read_only: bool

    @property
    def state(self) -> ViewState:
        """What is known now."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A read-only console has no verbs, neither in its footer nor in its help."""
        return not (self.read_only and action in CHANGING)

    @work(exclusive=True, group="open")
    async def open_command(self, instance: str) -> None:
        """Show how an instance is launched."""
        try:
            command = await self.client.command(instance)
        except ClientError as error:
            self.refused(error)
        else:
            await self.push_screen(Text(f"{instance}: command", verbs.command(command)))

    def on_key(self, event: Key) -> None:
        """A verb that a read-only console does not have is refused in words, not in silence."""
        if not self.read_only:
            return
        for node in (self.focused, self.screen, self):
            for binding in node._bindings.key_to_bindings.get(event.key, ()) if node else ():  # noqa: SLF001 - no public lookup
                if binding.action.partition("(")[0] in CHANGING:
                    self.notify(READ_ONLY.format(binding.description), severity="warning")
                    return

    def action_mode(self) -> None:
        """Switch between chunked and PD, by way of a plan."""
        if (fleet := self._known()) is not None:
            self.plan(asks.mode(fleet))

    @work(exclusive=True, group="open")
    async def action_undo(self) -> None:
        """Go back to the revision before the one in force, by way of a plan."""
        try:
            items = (await self.client.revisions(limit=2)).items
        except ClientError as error:
            self.refused(error)
            return
        if len(items) < 2:
            self.notify("There is nothing to undo: this is the first revision.")
        else:
            self.plan(asks.undo(items[1].revision))

    @work(exclusive=True, group="open")
    async def action_router(self) -> None:
        """How the router chooses, and one setting of it switched, by way of a plan."""
        try:
            view = await self.client.router()
        except ClientError as error:
            self.refused(error)
            return
        now = {name: str(getattr(view, name)) or "none" for name in MEANINGS}
        columns = (Column("Setting"), Column("Value"), Column("What it is", longest=80))
        rows = [
            (name, (plain(name), plain(now[name]), told(said, "muted")))
            for name, said in MEANINGS.items()
        ]
        name = await self.push_screen_wait(Pick("Router: switch which setting?", columns, rows))
        if name is None or not self.check_action("switch", ()):
            return
        if name in POLICIES:
            choices = [(one, (plain(one),)) for one in view.policies]
            title = f"{name}, {now[name]} now"
            value = await self.push_screen_wait(Pick(title, (Column("Policy"),), choices))
        else:
            value = await self.push_screen_wait(Enter(name, now[name], MEANINGS[name]))
        if value:
            self.plan(asks.router(name, value))

    def plan(self, ask: Ask) -> None:
        """Show what a change would do; it is applied from there."""
        self.push_screen(PlanScreen(ask))

    def on_one(self, verb: str, instance: str) -> None:
        """A verb of `asks.ON_ONE` for one instance, by way of a plan."""
        if self._instance(instance) is not None and self.check_action("ask", ()):
            self.plan(asks.on_one(verb, instance))

    def resize(self, instance: str | None, by: int) -> None:
        """The pool of an instance larger or smaller, by way of a plan; without one, the first."""
        fleet = self._known()
        if fleet is None or not self.check_action("resize", ()):
            return
        sizes = {pool.name: pool.desired for pool in fleet.pools}
        one = self._instance(instance) if instance else None
        pool = one.pool if one is not None and one.pool in sizes else next(iter(sizes), None)
        if pool is None:
            self.notify("This fleet has no pools.", severity="warning")
            return
        sizes[pool] = max(0, sizes[pool] + by)
        self.push_screen(PlanScreen(sizes=sizes, pool=pool))

    @work(exclusive=True, group="open")
    async def reassign(self, instance: str) -> None:
        """An instance into another pool, by way of a plan; asks which, where there are several."""
        fleet, one = self._known(), self._instance(instance)
        if fleet is None or one is None or not self.check_action("reassign", ()):
            return
        others = [pool for pool in fleet.pools if pool.name != one.pool]
        if not others:
            self.notify("This fleet has one pool: there is nowhere to move it.")
            return
        to: str | None = others[0].name
        if len(others) > 1:
            columns = (Column("Pool"), Column("Role"), Column("Size", right=True))
            rows = [
                (pool.name, (plain(pool.name), plain(pool.role.value), plain(str(pool.desired))))
                for pool in others
            ]
            to = await self.push_screen_wait(Pick(f"Move {one.id} to which pool?", columns, rows))
        if to is not None:
            self.plan(asks.move(one.id, to))

    def open_operation(self, id_: str) -> None:
        """An operation: how far it is, its plan, and the way to take it back."""
        found = next((one for one in self.state.operations if one.id == id_), None)
        if found is not None:
            self.push_screen(PlanScreen(operation=found))

    @work(exclusive=True, group="verb")
    async def clear_failure(self, instance: str) -> None:
        """Let an instance that was given up try again, after asking."""
        if (one := self._instance(instance)) is not None and self.check_action("clear", ()):
            body = verbs.clear(one, self.client.base_url)
            said = f"{one.id} is started again."
            dialog = Confirm("Clear its failures?", body, "Clear")
            await self._ask(dialog, lambda: self.client.clear(one.id), said)

    def _known(self) -> FleetView | None:
        if self.state.fleet is None:
            self.notify("Not connected yet.", severity="warning")
        return self.state.fleet

    def _instance(self, id_: str) -> InstanceView | None:
        fleet = self.state.fleet
        return next((one for one in fleet.instances if one.id == id_), None) if fleet else None

    async def _ask(self, dialog: Confirm, call: Callable[[], Awaitable[Any]], said: str) -> None:
        """Ask, act, say how it went; a refusal is shown whole, for it says what to do."""
        if not await self.push_screen_wait(dialog):
            return
        try:
            await call()
        except ClientError as error:
            self.refused(error)
        else:
            self.notify(said, markup=False)

    def refused(self, error: ClientError) -> None:
        """A refusal, whole."""
        self.push_screen(Text("That did not work", verbs.refusal(error)))
