"""`pdctl router`: how instances are chosen, asked or switched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.contract.router import KvEventsView, RouterView

EXAMPLES = """
  pdctl router
  pdctl router set prefill_policy=prefix_affinity
  pdctl router set prefill_policy=cost decode_policy=cost pd_min_prompt_tokens=256
  pdctl router set slo=chat admission=refuse
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "router", examples=EXAMPLES)
    def router(
        terminal: Terminal,
        words: Annotated[
            list[str] | None,
            typer.Argument(metavar="[set NAME=VALUE...]", help="What to switch."),
        ] = None,
    ) -> ExitCode | None:
        """Show how the router chooses instances, or switch it.

        New requests are routed so at once; requests that have a route keep it. Nothing restarts,
        and `pdctl undo` takes it back.
        """
        if not words:
            _show(terminal, ask(terminal, lambda client: client.router()))
            return None
        from pdctl.domain.change import parse

        said, *pairs = words
        asked = parse(pairs) if said == "set" and pairs else None
        if asked is None or asked.mode is not None or asked.sizes:
            raise Stop(ExitCode.USAGE, "Write `pdctl router set NAME=VALUE`; see --help.")
        _show(terminal, ask(terminal, lambda client: client.set_router(dict(asked.router))))
        return None


def _followed(one: KvEventsView) -> str:
    """For example "96 blocks, last event 3 s ago, 1 gap (1 filled)"."""
    if one.why_not:
        return one.why_not
    age = one.last_event_age_s
    since = "no event yet" if age is None else f"last event {age:.0f} s ago"
    words = [f"{one.blocks} {'block' if one.blocks == 1 else 'blocks'}", since]
    if one.gaps:
        gaps = "1 gap" if one.gaps == 1 else f"{one.gaps} gaps"
        words.append(f"{gaps} ({one.replays} filled, {one.forgotten} forgotten)")
    return ", ".join(words)


def _show(terminal: Terminal, view: RouterView) -> None:
    if terminal.json:
        terminal.document(view)
        return
    from pdctl.domain.live import LIVE

    width = max(len(name) for name in LIVE)
    for name in LIVE:
        value = getattr(view, name)
        terminal.data(f"{name:<{width}}  {'none' if value == '' else value}")
    for one in view.kv_events:
        terminal.data(f"kv events  {one.instance}  {_followed(one)}")
    terminal.say(f"Policies: {', '.join(view.policies)}.")
    if view.simulated:
        terminal.say(SIMULATED)
