"""`pdctl bundle` and `pdctl open`: the last hours in one file, to look at anywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient

BUNDLE = """
  pdctl bundle                       the last two hours
  pdctl bundle --last 12h night.zip
"""
OPEN = """
  pdctl open night.zip               then a browser, or: pdctl tui --url http://127.0.0.1:8090
"""
_UNITS = {"m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,6})([mhd])")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _bundle(app)
    _open(app)


def _bundle(app: typer.Typer) -> None:
    @verb(app, "bundle", examples=BUNDLE)
    def bundle(
        terminal: Terminal,
        file: Annotated[
            Path | None, typer.Argument(metavar="[FILE]", help="Where to; named by fleet and time.")
        ] = None,
        last: Annotated[str, typer.Option("--last", help="How far back: 30m, 2h, 3d.")] = "2h",
    ) -> ExitCode | None:
        """Write the last hours into one file.

        Facts, requests, latency, signals, changes; secrets are masked, and prompts and answers
        were never recorded. pdctl open shows it on any machine.
        """
        seconds = span(last)
        if file is not None and file.exists():
            raise Stop(ExitCode.CONFLICT, f"{file} is there already. Name another.")

        async def fetch(client: AdminClient) -> tuple[Path, int]:
            return await client.bundle(file, last_s=seconds, told=lambda n: _told(terminal, n))

        path, size = ask(terminal, fetch)
        if terminal.json:
            terminal.document({"file": str(path), "bytes": size})
        else:
            terminal.data(f"{path}: {figures.size(size)}")
            terminal.say(f"pdctl open {path} shows it, on any machine.")
        return None


def _open(app: typer.Typer) -> None:
    @verb(app, "open", examples=OPEN, remote=False, documents=False)
    def open_(
        terminal: Terminal,
        file: Annotated[Path, typer.Argument(metavar="FILE", help="What pdctl bundle wrote.")],
        port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 8090,
    ) -> ExitCode | None:
        """Show a bundle in the browser and the terminal, on loopback, until Ctrl-C.

        It is the console as it was, read-only; time stands still at the moment of the bundle.
        """
        from pdctl.app.opened import show

        show(file, "127.0.0.1", port, terminal.data)
        return None


def span(text: str) -> int:
    """Seconds of "30m", "2h", "3d"."""
    found = _SPAN.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 60 <= seconds <= 31 * 86_400:
        raise Stop(ExitCode.USAGE, f"--last cannot be {text!r}. For example 30m, 2h or 3d.")
    return seconds


def _told(terminal: Terminal, taken: int) -> None:
    if terminal.err.isatty():
        terminal.err.write(f"\r{figures.size(taken)} ")
        terminal.err.flush()
