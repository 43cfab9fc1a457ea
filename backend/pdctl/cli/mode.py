"""`pdctl mode`: how new requests are routed, asked or changed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import ModeView

MODES = ("pd", "chunked")
EXAMPLES = """
  pdctl mode
  pdctl mode chunked
  pdctl mode pd --wait --timeout 60   until requests on the old path have ended
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "mode", examples=EXAMPLES)
    def mode(
        terminal: Terminal,
        wanted: Annotated[
            str | None, typer.Argument(metavar="[pd|chunked]", help="The mode to switch to.")
        ] = None,
        wait: Annotated[
            bool, typer.Option("--wait", help="Wait until requests on the old path ended.")
        ] = False,
        timeout: Annotated[
            float, typer.Option(min=0, help="Seconds that --wait may take.")
        ] = 300.0,
    ) -> ExitCode | None:
        """Show the routing mode, or switch it.

        New requests take the new mode at once; requests under way finish as they began.
        Nothing is dropped and nothing is restarted.
        """
        if wanted is None:
            _show(terminal, ask(terminal, lambda client: client.mode()))
            return None
        if wanted not in MODES:
            from pdctl.fleetfile.mistakes import nearest

            close = nearest(wanted, MODES)
            hint = f' Did you mean "{close}"?' if close else ""
            raise Stop(
                ExitCode.USAGE, f"There is no mode {wanted!r}. Modes: {', '.join(MODES)}.{hint}"
            )
        view = ask(terminal, lambda client: _switch(terminal, client, wanted, wait, timeout))
        _show(terminal, view)
        return None


async def _switch(
    terminal: Terminal, client: AdminClient, wanted: str, wait: bool, timeout: float
) -> ModeView:
    view = await client.set_mode(wanted)
    end = time.monotonic() + timeout
    while wait and (left := _left(view, wanted)):
        if view.mode != wanted:
            raise Stop(ExitCode.CONFLICT, f"Someone else has switched to {view.mode} meanwhile.")
        if time.monotonic() >= end:
            raise Stop(
                ExitCode.TIMEOUT,
                f"The mode is {wanted}, and {_requests(left)} still on the old path "
                f"after {timeout:g} s. Nothing is cut off; wait longer with --timeout.",
            )
        terminal.say(f"{_requests(left)} still on the old path")
        await asyncio.sleep(min(1.0, max(0.05, end - time.monotonic())))
        view = await client.mode()
    return view


def _requests(number: int) -> str:
    return "1 request is" if number == 1 else f"{number} requests are"


def _left(view: ModeView, wanted: str) -> int:
    """Open requests on the path that new requests no longer take."""
    return view.inflight.get("chunked" if wanted == "pd" else "pd", 0)


def _show(terminal: Terminal, view: ModeView) -> None:
    if terminal.json:
        terminal.document(view)
        return
    terminal.data(str(view.mode))
    open_ = ", ".join(f"{count} {path}" for path, count in view.inflight.items() if count)
    terminal.say(f"Under way: {open_ or 'nothing'}.")
    if view.simulated:
        terminal.say(SIMULATED)
