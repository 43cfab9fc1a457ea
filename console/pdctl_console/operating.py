"""Verbs carried out: each change goes through a plan, and nothing is done that was not shown."""

from __future__ import annotations

from collections.abc import Sequence

from textual import work
from textual.actions import parse
from textual.app import App
from textual.events import Key

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.contract import asks
from pdctl.contract.asks import Ask
from pdctl.contract.plans import OperationView
from pdctl.contract.resources import FleetView, InstanceView
from pdctl.contract.router import MEANINGS
from pdctl.domain.access import Role
from pdctl.domain.live import POLICIES
from pdctl.domain.topology import Mode
from pdctl.domain.verbs import VERBS, Verb
from pdctl_console import verbs
from pdctl_console.command import Go
from pdctl_console.model import ViewState
from pdctl_console.screens.dialogs import Confirm, Enter, Pick, Text
from pdctl_console.screens.plan import PlanScreen
from pdctl_console.screens.prompt import Prompt
from pdctl_console.styled import Line, clean, plain, told
from pdctl_console.widgets.row_table import Column

ACTIONS = {
    "mode": "set_mode", "undo": "undo", "resize": "resize", "reassign": "move", "clear": "clear",
    "cancel": "cancel", "apply": "apply", "ack": "ack_signal", "silence": "silence",
    "switch": "set_router",
}  # fmt: skip
"""Actions that change something, and the verb that each is; `ask` names its own."""
READ_ONLY = "This console is read-only and cannot do that: {0}. Start it without --read-only."
TOO_LITTLE = "{0} takes the role {1}, and {2} is {3}. Somebody with that role can do it."


class OperatingApp(App[int]):
    """The part of the console that can change something."""

    client: AdminClient
    read_only: bool

    def __init__(self) -> None:
        super().__init__()
        self._said: list[str] = []

    @property
    def state(self) -> ViewState:
        """What is known now."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What may not be done is no verb here, neither in the footer nor in the help."""
        verb = verb_of(action, parameters)
        return verb is None or not self.hindrance(verb)

    def hindrance(self, verb: Verb, said: str = "") -> str:
        """Why this may not be done here, in a sentence; empty when it may."""
        said = said or verb.label.capitalize()
        if self.read_only:
            return READ_ONLY.format(said)
        who = self.state.who
        if who is None or who.role not in set(Role) or Role(who.role).covers(verb.role):
            return ""
        return TOO_LITTLE.format(said, verb.role.value, who.name, who.role)

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
        """A verb that this console does not have is refused in words, not in silence."""
        for node in (self.focused, self.screen, self):
            for binding in node._bindings.key_to_bindings.get(event.key, ()) if node else ():  # noqa: SLF001 - no public lookup
                name, given = parse(binding.action)[1:]
                verb = verb_of(name, given)
                if verb is not None and (why := self.hindrance(verb, binding.description)):
                    self.notify(why, severity="warning", markup=False)
                    return

    @work(exclusive=True, group="open")
    async def action_command_line(self) -> None:
        """Ask for a verb or a screen in words."""
        meant = await self.push_screen_wait(Prompt(self.state, self._said))
        if isinstance(meant, Go):
            self.go_to(meant)
        elif meant is not None and (why := self.hindrance(meant.verb)):
            self.notify(why, severity="warning", markup=False)
        elif meant is not None and meant.planned:
            self.plan(meant)
        elif meant is not None:
            await self.confirm(meant, "Do it")

    def go_to(self, to: Go) -> None:
        """To what a command line names."""
        raise NotImplementedError

    def action_mode(self) -> None:
        """Switch between chunked and PD, by way of a plan."""
        if (fleet := self._known()) is not None:
            self.plan(asks.mode(Mode.PD if fleet.mode is Mode.CHUNKED else Mode.CHUNKED))

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
            self.plan(asks.router({name: value}))

    def plan(self, ask: Ask) -> None:
        """Show what a change would do; it is applied from there."""
        self.push_screen(PlanScreen(ask))

    def on_one(self, verb: str, instance: str) -> None:
        """A verb of `asks.ON_ONE` for one instance, by way of a plan."""
        if self._instance(instance) is not None and self.check_action("ask", (verb,)):
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

    @work(exclusive=True, group="open")
    async def open_operation(self, id_: str) -> None:
        """An operation: how far it is, its plan, and the way to take it back."""
        try:
            found = await self.client.operation(id_)
        except ClientError as error:
            self.refused(error)
        else:
            await self.push_screen(PlanScreen(operation=found))

    @work(exclusive=True, group="verb")
    async def clear_failure(self, instance: str) -> None:
        """Let an instance that was given up try again, after asking."""
        if (one := self._instance(instance)) is not None and self.check_action("clear", ()):
            said = f" is {one.phase.value} after {one.failures} failures"
            about: list[Line] = [((clean(one.id), "strong"), (said, ""))]
            await self.confirm(asks.clear(one.id), "Clear", about)

    async def sure_to_cancel(self, one: OperationView) -> bool:
        """Ask whether to take an operation back; what it has done so far stands there."""
        about: list[Line] = [((clean(one.id), "strong"), (f", {one.progress} done", ""))]
        about += [plain(said) for said in one.change]
        ask = asks.cancel(one.id)
        body = verbs.asked(ask, self.client, about)
        return await self.push_screen_wait(Confirm(ask.title, body, "Take it back", "Go on"))

    async def confirm(self, ask: Ask, button: str, about: Sequence[Line] = ()) -> None:
        """Ask whether to do what needs no plan, and do it."""
        body = verbs.asked(ask, self.client, about)
        if await self.push_screen_wait(Confirm(ask.title, body, button)):
            await self.carry_out(ask)

    async def carry_out(self, ask: Ask) -> None:
        """Do what needs no plan, and say how it went."""
        try:
            await verbs.perform(self.client, ask)
        except ClientError as error:
            self.refused(error)
        else:
            self.notify(verbs.DONE[ask.verb.name].format(*ask.about), markup=False)

    def _known(self) -> FleetView | None:
        if self.state.fleet is None:
            self.notify("Not connected yet.", severity="warning")
        return self.state.fleet

    def _instance(self, id_: str) -> InstanceView | None:
        fleet = self.state.fleet
        return next((one for one in fleet.instances if one.id == id_), None) if fleet else None

    def refused(self, error: ClientError) -> None:
        """A refusal, whole."""
        self.push_screen(Text("That did not work", verbs.refusal(error)))


def verb_of(action: str, parameters: tuple[object, ...]) -> Verb | None:
    """The verb that an action is; None when it changes nothing."""
    name = str(parameters[0]) if action == "ask" and parameters else ACTIONS.get(action, "")
    return VERBS.get(name)
