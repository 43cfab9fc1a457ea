"""One request: where its time went, which instances and why, what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer

from pdctl.contract.resources import LegView, RequestView
from pdctl_console import format as fmt
from pdctl_console.model import ViewState
from pdctl_console.styled import Line, Part, clean, told
from pdctl_console.widgets import waterfall
from pdctl_console.widgets.block import Block

if TYPE_CHECKING:
    from pdctl_console.app import ConsoleApp


class RequestScreen(Screen[None]):
    """A page over the table."""

    AUTO_FOCUS = "#page"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace", "back", "Back"),
    ]

    def __init__(self, request: RequestView) -> None:
        super().__init__()
        self._request = request

    def compose(self) -> ComposeResult:
        """Summary, waterfall, legs."""
        with VerticalScroll(id="page"):
            yield Block(id="summary")
            yield Block(lambda width: waterfall.draw(self._request.spans, width), id="waterfall")
            yield Block(lambda _: legs(self._request), id="legs")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Draw at once."""
        self.query_one("#waterfall").border_title = " Where its time went "
        self.query_one("#legs").border_title = " Attempts "
        self.show(cast("ConsoleApp", self.app).state)

    def show(self, state: ViewState) -> None:
        """Only the time zone can change: a finished request does not."""
        utc = cast("ConsoleApp", self.app).utc
        simulated = state.fleet is not None and state.fleet.simulated
        first, *rest = summary(self._request, utc=utc)
        marked = (("SIMULATED", "mark"), ("  ", ""), *first) if simulated else first
        self.query_one("#summary", Block).put(marked, *rest)

    def action_back(self) -> None:
        """Back to the table."""
        self.app.pop_screen()


def summary(one: RequestView, *, utc: bool) -> list[Line]:
    """What it was and how it went."""
    kind = "streamed" if one.stream else "in one piece"
    why = f" ({clean(one.path_reason)})" if one.path_reason else ""
    lines: list[Line] = [
        (
            (f"{clean(one.id)}  ", "strong"),
            fmt.outcome(one.outcome),
            (f"  HTTP {one.status}", ""),
        ),
    ]
    if one.error:
        lines.append(told(one.error, "bad"))
    lines += [
        (
            (f"{fmt.stamp(one.received_at, utc=utc)}  {clean(one.endpoint)}, {kind}, ", ""),
            (f"model {clean(one.model) or fmt.UNKNOWN}", ""),
        ),
        ((f"mode {clean(one.mode)}, path ", ""), (one.path.value, "key"), (why, "muted")),
        _times(one),
        ((_tokens(one), ""),),
    ]
    if one.remote_tokens is not None:
        handed = f"{fmt.count(one.remote_tokens)} tokens, {fmt.size(one.kv_bytes)}"
        age = one.params_age_ms
        asked = "" if age is None else f"; its params were {fmt.ms(age)} old when decode was asked"
        lines.append((("KV handed over ", ""), (handed, "strong"), (asked, "muted")))
    return [tuple(part for part in line if part[0]) for line in lines]


def _times(one: RequestView) -> Line:
    parts: list[Part] = []
    for name, value in (
        ("TTFT", one.ttft_ms), ("TPOT", one.tpot_ms), ("E2E", one.e2e_ms),
        ("queued", one.queued_ms),
    ):  # fmt: skip
        parts += [(f"{name} ", "muted"), (fmt.ms(value), "strong"), ("   ", "")]
    return tuple(parts)


def _tokens(one: RequestView) -> str:
    least = "at least " if one.completion_derived else ""
    end = f", ended by {clean(one.finish_reason)}" if one.finish_reason else ""
    again = f"   {one.retries} retries" if one.retries else ""
    return (
        f"prompt {fmt.count(one.prompt_tokens)} tokens ({fmt.count(one.cached_tokens)} cached)   "
        f"answer {least}{fmt.count(one.completion_tokens)} tokens{end}{again}"
    )


def legs(one: RequestView) -> list[Line]:
    """Each attempt at an instance."""
    if not one.legs:
        return [told("None: it was answered by the router itself.", "muted")]
    return [line for leg in one.legs for line in _leg(leg)]


def _leg(leg: LegView) -> list[Line]:
    status = f"HTTP {leg.status}" if leg.status is not None else "no answer"
    lines: list[Line] = [
        (
            (clean(leg.kind), "strong"),
            (f" on {clean(leg.instance)}: {status}, ", ""),
            (f"sent at {fmt.ms(leg.sent_ms)}, done at {fmt.ms(leg.done_ms)}", ""),
        )
    ]
    if leg.why:
        lines.append(told(f"  chosen for: {leg.why}", "muted"))
    if leg.engine:
        said = ", ".join(f"{_engine(name, value)}" for name, value in leg.engine.items())
        lines.append(told(f"  the engine says: {said}", "muted"))
    if leg.note:
        lines.append(told(f"  {leg.note}", "busy"))
    if leg.error:
        lines.append(told(f"  {leg.error}", "bad"))
    return lines


def _engine(name: str, value: float) -> str:
    """One of the engine's own figures; its name carries the unit."""
    words = clean(name).removesuffix("_ms").replace("_", " ")
    return f"{words} {fmt.ms(value)}" if name.endswith("_ms") else f"{words} {value:.1f}"
