"""The dry run of a change, applied by its id and followed to its end; nothing changes before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button

from pdctl.client.errors import ClientError, Unreachable
from pdctl.contract import asks
from pdctl.contract.asks import Ask
from pdctl.contract.plans import OperationView, PlanView
from pdctl_console import planned, verbs
from pdctl_console.model import RUNNING, ViewState
from pdctl_console.styled import Line, Part, clean, told, wrap
from pdctl_console.widgets.block import Block

if TYPE_CHECKING:
    from pdctl_console.app import ConsoleApp

LARGEST = 1000
"""Of a pool, as the API takes it."""
ROUND_IT = 8
"""Rows of the terminal that are not the plan: frame, sizes, buttons, and a margin."""


class PlanScreen(ModalScreen[None]):
    """Asks for the plan, shows all of it, applies what it shows, and goes on to its operation."""

    AUTO_FOCUS = "#words"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Leave"),
        Binding("n", "leave", "Leave", show=False),
        Binding("y", "apply", "Apply"),  # Enter alone changes nothing, as in every dialog
        Binding("r", "again", "Plan again"),
        Binding("plus,equals_sign", "size(1)", "One more"),
        Binding("minus", "size(-1)", "One less"),
        Binding("left", "pool(-1)", "Another pool", priority=True),
        Binding("right", "pool(1)", "Another pool", show=False, priority=True),
        Binding("c", "cancel", "Cancel the operation"),
        Binding("k", "app.simulate_key('up')", "Up", show=False),
        Binding("j", "app.simulate_key('down')", "Down", show=False),
    ]

    def __init__(
        self,
        ask: Ask | None = None,
        *,
        sizes: dict[str, int] | None = None,
        pool: str = "",
        operation: OperationView | None = None,
    ) -> None:
        """One of: a change, pools to resize (from `sizes`, beginning with `pool`), an operation."""
        super().__init__()
        self._ask, self._pool, self._operation = ask, pool, operation
        self._sizes: dict[str, int] = dict(sizes or {})
        self._before: dict[str, int] = {}
        self._plan: PlanView | None = None
        self._error: ClientError | None = None
        self._busy = ""
        self._looking = False
        self._rests_on: object = None

    @property
    def console(self) -> ConsoleApp:
        """The app, with its own type."""
        return cast("ConsoleApp", self.app)

    @property
    def running(self) -> bool:
        """Its operation has not ended."""
        return self._operation is not None and self._operation.state == RUNNING

    @property
    def fit(self) -> bool:
        """What is shown can be applied."""
        plan = self._plan
        shown = plan is not None and not (self._busy or self._error or self._operation)
        return shown and not (plan.refused or plan.stale)  # type: ignore[union-attr]

    def compose(self) -> ComposeResult:
        """Sizes, the plan, buttons."""
        with Vertical(id="dialog", classes="plan"):
            yield Block(id="asked")
            with VerticalScroll(id="words"):
                yield Block(id="plan")
            with Horizontal(id="buttons"):
                for action, said in (
                    ("size(-1)", "-"), ("size(1)", "+"), ("pool(1)", "Other pool (→)"),
                    ("cancel", "Cancel it (c)"), ("again", "Plan again (r)"),
                    ("leave", "Leave (Esc)"), ("apply", "Apply (y)"),
                ):  # fmt: skip
                    button = Button(said, action=f"screen.{action}", compact=True)
                    button.can_focus = action in ("leave", "apply")
                    button.add_class(action.partition("(")[0])
                    if action == "apply":
                        button.variant = "primary"
                    yield button

    def on_mount(self) -> None:
        """Ask at once."""
        fleet = self.console.state.fleet
        if self._sizes and fleet is not None:
            self._before = {pool.name: pool.desired for pool in fleet.pools}
        if self._operation is None:
            self.action_again()
        else:
            self._follow()
        self._draw()

    def on_resize(self) -> None:
        """The buttons stay in view, however long the plan."""
        self.query_one("#words").styles.max_height = max(3, self.size.height - ROUND_IT)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what makes sense now."""
        sensible = {
            "apply": self.fit,
            "again": self._operation is None and not self._busy,
            "size": bool(self._sizes) and self._operation is None,
            "pool": len(self._sizes) > 1 and self._operation is None,
            "cancel": self.running,
        }
        return sensible.get(action, True) and self.console.check_action(action, parameters)

    def show(self, state: ViewState) -> None:
        """The fleet moved, or time did: look whether the plan still stands, or how far it is."""
        if self.running:
            self._follow()
        elif self._operation is None and not self._busy and self._rests_on != _rests_on(state):
            self._recheck()
        self._draw()

    def _asked(self) -> Ask:
        if self._ask is not None:
            return self._ask
        sizes = {name: at for name, at in self._sizes.items() if at != self._before.get(name)}
        return asks.resize(sizes)

    def action_leave(self) -> None:
        """Away from it; an operation goes on by itself."""
        if self.running and self._operation is not None:
            self.app.notify(f"{self._operation.id} goes on; 6 shows it.", markup=False)
        self.dismiss()

    def action_size(self, by: int) -> None:
        """The chosen pool larger or smaller."""
        now = self._sizes[self._pool]
        self._sizes[self._pool] = min(max(0, now + by), LARGEST)
        if self._sizes[self._pool] != now:
            self.action_again()

    def action_pool(self, by: int) -> None:
        """Choose another pool."""
        names = list(self._sizes)
        self._pool = names[(names.index(self._pool) + by) % len(names)]
        self._draw()

    @work(exclusive=True, group="plan")
    async def action_again(self) -> None:
        """Make the plan, on the fleet as it is now."""
        ask, client = self._asked(), self.console.client
        self._error, self._busy = None, "Planning."
        self._draw()
        await self._try(
            client.plan_undo(ask.to_revision)
            if ask.to_revision is not None
            else client.plan(ask.change)  # type: ignore[arg-type]
        )

    async def _try(self, call: object) -> None:
        """Await a plan or an operation, and show it or why there is none."""
        try:
            found = await call  # type: ignore[misc]
        except ClientError as error:
            self._error = error
        else:
            if isinstance(found, PlanView):
                self._plan, self._rests_on = found, _rests_on(self.console.state)
            else:
                self._operation = found
        self._busy = ""
        self._draw()

    @work(exclusive=True, group="plan")
    async def action_apply(self) -> None:
        """Do what is shown. What is done at once needs no looking at."""
        if not self.fit or self._plan is None:
            return
        self._busy = "Applying."
        self._draw()
        await self._try(self.console.client.apply(self._plan.id))
        if self._operation is not None and self._operation.state == "done":
            self.app.notify(f"Done: {'; '.join(self._operation.change)}.", markup=False)
            self.dismiss()

    @work(exclusive=True, group="cancel")
    async def action_cancel(self) -> None:
        """Take the operation back, after asking."""
        if self._operation is not None and await self.console.sure_to_cancel(self._operation):
            await self._try(self.console.client.cancel(self._operation.id))

    @work(group="look")
    async def _follow(self) -> None:
        """How far the operation is; one question at a time."""
        if self._looking or self._operation is None:
            return
        self._looking = True
        try:
            self._operation = await self.console.client.operation(self._operation.id)
            self._error = None
        except ClientError as error:
            self._error = error
        finally:
            self._looking = False
        self._draw()

    @work(group="look")
    async def _recheck(self) -> None:
        """Whether the plan still stands."""
        plan = self._plan
        if self._looking or plan is None:
            return
        self._looking = True
        seen = _rests_on(self.console.state)
        try:
            found = await self.console.client.plan_of(plan.id)
        except ClientError:
            return
        finally:
            self._looking = False
        if self._plan is plan:
            self._plan, self._rests_on = found, seen
            self._draw()

    def _draw(self) -> None:
        if not all(self.query(name) for name in ("#dialog", "#asked", "#plan", Button)):
            return  # it is being taken down
        title = self._operation.id if self._operation else self._asked().title
        self.query_one("#dialog").border_title = Content(clean(title))
        sizes = self.query_one("#asked", Block)
        sizes.put(self._sizes_line())
        sizes.display = bool(self._sizes) and self._operation is None
        self.query_one("#plan", Block).sketch(self._lines)
        for button in self.query(Button):
            action = next(name for name in button.classes if name in _ACTIONS)
            button.display = action == "leave" or bool(self.check_action(action, ()))
        self.refresh_bindings()

    def _sizes_line(self) -> Line:
        parts: list[Part] = []
        for name, size in self._sizes.items():
            was = self._before.get(name, size)
            said = f"{clean(name)} {was}" + (f" → {size}" if size != was else "")
            parts += [(f" {said} ", "here" if name == self._pool else ""), ("  ", "")]
        return (*parts, ("+ and - change it", "muted"))

    def _lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        if self._busy:
            lines += [told(self._busy, "busy"), ()]
        if self._error is not None:
            lines += [row for one in verbs.refusal(self._error) for row in wrap(one, width, 0)]
            if isinstance(self._error, Unreachable) and self._plan and not self._operation:
                lines.append(told("Should it have arrived after all, 6 shows it.", "warn"))
            lines.append(())
        if self._operation is not None:
            now = self.console.state.as_of(self.console.now())
            return [*lines, *planned.operation_lines(self._operation, now, width)]
        if self._plan is not None:
            lines += planned.plan_lines(self._plan, width)
        return [*lines, *self._elsewhere(width)]

    def _elsewhere(self, width: int) -> list[Line]:
        plan = self._plan.id if self._plan and not self._plan.refused else ""
        lines = verbs.same(self._asked(), self.console.client, plan)
        return [(), *(row for line in lines for row in wrap(line, width))]


_ACTIONS = frozenset({"size", "pool", "cancel", "again", "leave", "apply"})


def _rests_on(state: ViewState) -> object:
    """What of the picture would make a plan stale."""
    fleet = state.fleet
    if fleet is None:
        return None
    return fleet.revision, tuple((one.id, one.generation, one.phase) for one in fleet.instances)
