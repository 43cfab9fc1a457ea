"""One instance in full, live: what is wanted, what is seen, how it failed first and last."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer

from pdctl.contract.engine import StatsView, UsageView
from pdctl.contract.resources import ExitView, InstanceView
from pdctl_console import format as fmt
from pdctl_console.model import ViewState
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets.block import Block

if TYPE_CHECKING:
    from pdctl_console.app import ConsoleApp


class InstanceScreen(ModalScreen[None]):
    """A dialog that keeps itself true while it is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", "Close"),
        Binding("l", "logs", "Log"),
        Binding("y", "command", "Command"),
        Binding("r", "ask('restart')", "Restart"),
        Binding("d", "ask('drain')", "Drain"),
        Binding("D", "ask('undrain')", "Undrain"),
        Binding("v", "reassign", "Move"),
        Binding("x", "ask('stop')", "Stop"),
        Binding("c", "clear", "Clear"),
    ]

    def __init__(self, instance: str) -> None:
        super().__init__()
        self._instance = instance

    @property
    def console(self) -> ConsoleApp:
        """The app, with its own type."""
        return cast("ConsoleApp", self.app)

    def compose(self) -> ComposeResult:
        """The facts in a frame."""
        with Vertical(id="dialog", classes="wide") as box:
            box.border_title = Content(clean(self._instance))
            box.border_subtitle = "Esc closes"
            with VerticalScroll(id="words"):
                yield Block(id="facts")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Draw at once."""
        self.show(self.console.state)

    def show(self, state: ViewState) -> None:
        """Draw `state`."""
        if not (self.is_attached and self.query("#facts")):
            return  # it is being taken down
        every = state.fleet.instances if state.fleet else []
        one = next((one for one in every if one.id == self._instance), None)
        block = self.query_one("#facts", Block)
        if one is None:
            block.put(told("It is no longer part of the fleet.", "warn"))
        else:
            now, utc = state.as_of(self.console.now()), self.console.utc
            block.put(*facts(one, now, utc=utc))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What the app does not allow, no dialog does."""
        return self.console.check_action(action, parameters)

    def action_close(self) -> None:
        """Back to the fleet."""
        self.dismiss()

    def action_logs(self) -> None:
        """Its log."""
        self.dismiss()
        self.console.open_logs(self._instance)

    def action_command(self) -> None:
        """Its command."""
        self.console.open_command(self._instance)

    def action_ask(self, verb: str) -> None:
        """A verb for it, by way of a plan."""
        self.console.on_one(verb, self._instance)

    def action_reassign(self) -> None:
        """Move it to another pool."""
        self.console.reassign(self._instance)

    def action_clear(self) -> None:
        """Let it try again."""
        self.console.clear_failure(self._instance)


def facts(one: InstanceView, now: datetime, *, utc: bool) -> list[Line]:
    """Everything that is known, in words."""
    state: list[Part] = [fmt.phase(one.phase), (f" for {fmt.age(one.since, now)}", "")]
    state.append((f" since {fmt.clock(one.since, utc=utc)}, {one.reason.value}", "muted"))
    lines = [_fact("State", *state)]
    if one.message:
        lines.append(_fact("Message", (clean(one.message), "")))
    if one.circuit is not None:
        lines.append(_fact("Circuit", (clean(one.circuit.words), "warn")))
    if one.progress is not None:
        share = one.progress.fraction
        drawn = f" {fmt.bar(share, 20)} {fmt.percent(share)}" if share is not None else ""
        lines.append(_fact("Progress", (clean(one.progress.stage), ""), (drawn, "busy")))
    if one.retry_in_s is not None:
        lines.append(_fact("Next try", (f"in {fmt.duration(one.retry_in_s)}", "warn")))
    if one.drain_left_s is not None:
        lines.append(_fact("Drain", (f"{fmt.duration(one.drain_left_s)} left", "warn")))
    lines.append(_fact("Pool", (f"{clean(one.pool)}, role {one.role.value}", "")))
    engine = "simulated engine" if one.simulated else "vLLM"
    flags = " with older flags" if one.outdated else ""
    lines.append(_fact("Engine", (engine, "mark" if one.simulated else ""), (flags, "warn")))
    place = "".join(
        f", {name} {value}" for name, value in (("device", one.device), ("core", one.core)) if value
    )
    lines.append(
        _fact("Place", (f"port {one.http_port}, side channel {one.side_channel_port}{place}", ""))
    )
    started = f"start {one.generation}, process {_or(one.pid)}, shim {_or(one.shim_pid)}"
    lines.append(_fact("Process", (started, "")))
    lines.append(_fact("Load", (f"{one.inflight} requests of the router under way", "")))
    lines += _stats(one.stats, now)
    lines += _usage(one.usage, now)
    lines.append(_fact("Failures", (f"{one.failures} since it was last ready", "")))
    if one.first_failure is not None and one.first_failure != one.exit:
        lines += _exit("First failure", one.first_failure, utc=utc)
    if one.exit is not None:
        same = one.first_failure is not None
        lines += _exit("Failure" if same else "Last exit", one.exit, utc=utc)
    return lines


def _fact(name: str, *parts: Part) -> Line:
    return ((f"{name:<15}", "muted"), *(part for part in parts if part[0]))


def _or(value: int | None) -> str:
    return fmt.UNKNOWN if value is None else str(value)


def _aged(at: datetime, now: datetime, *, stale: bool) -> Part:
    old = fmt.age(at, now)
    return (f", stale: {old} old", "warn") if stale else (f", {old} ago", "muted")


def _stats(stats: StatsView | None, now: datetime) -> list[Line]:
    if stats is None:
        return [_fact("Metrics", ("not scraped yet", "muted"))]
    deferred = f" ({fmt.count(stats.waiting_deferred)} for KV)" if stats.waiting_deferred else ""
    head = (
        f"{fmt.count(stats.running)} running, {fmt.count(stats.waiting)} waiting{deferred}, "
        f"KV use {fmt.percent(stats.kv_usage)}, {fmt.rate(stats.generation_tokens_per_s)} generated"
    )
    prompt = (
        f"{fmt.count(stats.prompt_tokens_local)} computed here, "
        f"{fmt.count(stats.prompt_tokens_cached)} cached, "
        f"{fmt.count(stats.prompt_tokens_remote)} handed over"
    )
    own = _found(stats.prefix_hits, stats.prefix_queries)
    outer = _found(stats.external_hits, stats.external_queries)
    ranks = f", {stats.ranks} ranks together" if stats.ranks > 1 else ""
    return [
        _fact("Metrics", (f"{head}{ranks}", ""), _aged(stats.at, now, stale=stats.stale)),
        _fact("Prompt tokens", (prompt, "")),
        _fact("Caches", (f"own {own}, connector {outer}", "")),
        *_transfers(stats),
        _fact("Preemptions", (fmt.count(stats.preemptions), "warn" if stats.preemptions else "")),
    ]


def _found(hits: float | None, queries: float | None) -> str:
    if hits is None or not queries:
        return fmt.UNKNOWN
    return f"{fmt.percent(hits / queries)} of {fmt.count(queries)} tokens"


def _transfers(stats: StatsView) -> list[Line]:
    lines: list[Line] = []
    if stats.fetch_queued is not None:
        pulls = (
            f"{fmt.count(stats.fetch_queued)} to begin, {fmt.count(stats.fetch_running)} under "
            f"way, {fmt.count(stats.fetch_done)} to be taken up"
        )
        lines.append(_fact("KV pulls", (pulls, "")))
    if stats.nixl_transfers is None:
        return [*lines, _fact("NIXL", (fmt.UNKNOWN, ""))]
    took = ""
    if stats.nixl_seconds is not None and stats.nixl_transfers:
        took = f" ({fmt.ms(stats.nixl_seconds / stats.nixl_transfers * 1000)} each)"
    nixl = (
        f"{fmt.count(stats.nixl_transfers)} transfers{took}, {fmt.size(stats.nixl_bytes)}, "
        f"{fmt.count(stats.nixl_failures)} failed, {fmt.count(stats.nixl_expired)} leases expired, "
        f"{fmt.count(stats.nixl_late)} late"
    )
    bad = stats.nixl_failures or stats.nixl_expired or stats.nixl_late
    return [*lines, _fact("NIXL", (nixl, "bad" if bad else ""))]


def _usage(usage: UsageView | None, now: datetime) -> list[Line]:
    if usage is None:
        return []
    share = fmt.UNKNOWN if usage.cores is None else f"{usage.cores:.2f}"
    size = fmt.size(usage.resident if usage.proportional is None else usage.proportional)
    what = f"{usage.processes} processes, {share} cores, {size} of memory"
    lines = [_fact("Machine", (what, ""), _aged(usage.at, now, stale=usage.stale))]
    for gpu in usage.gpus:
        watts = fmt.UNKNOWN if gpu.watts is None else f"{gpu.watts:.0f}"
        celsius = fmt.UNKNOWN if gpu.celsius is None else f"{gpu.celsius:.0f}"
        told = (
            f"{fmt.percent(gpu.busy)} busy, {fmt.size(gpu.memory_used)} of "
            f"{fmt.size(gpu.memory_total)} ({fmt.size(gpu.ours)} its own), {watts} W, {celsius} °C"
        )
        lines.append(_fact(f"GPU {clean(gpu.device)}"[:14], (told, "")))
    return lines


def _exit(title: str, exit_: ExitView, *, utc: bool) -> list[Line]:
    how = f"signal {exit_.signal}" if exit_.signal is not None else f"code {_or(exit_.code)}"
    lines: list[Line] = [(), _fact(title, (f"{how} at {fmt.stamp(exit_.at, utc=utc)}", "bad"))]
    if exit_.first_error:
        lines.append(_fact("First error", (clean(exit_.first_error), "bad")))
    if exit_.last_lines:
        lines.append(told("Its last lines:", "muted"))
        lines += [plain(f"  {line}") for line in exit_.last_lines]
    return lines
