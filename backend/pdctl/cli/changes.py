"""The short forms (`resize`, `drain`, `restart`, `move`, `stop`): each goes through a plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.carry import DryRun, How, Timeout, Wait, Yes, carry_out
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import verb

if TYPE_CHECKING:
    from pdctl.contract.plans import ChangeBody

RESIZE = """
  pdctl resize decode=3 --dry-run
  pdctl resize prefill=2 decode=2 --yes --wait --timeout 5m
"""
DRAIN = """
  pdctl drain decode-1             no new work; it stays, and its streams finish
  pdctl undrain decode-1           back to work
"""
RESTART = """
  pdctl restart decode-1 --yes
  pdctl restart decode --yes --wait   all of the pool, one at a time
"""
MOVE = "  pdctl move decode-1 --role prefill --yes --wait"
STOP = "  pdctl stop decode-1 --yes      it goes for good: its pool shrinks by one"
One = Annotated[str, typer.Argument(metavar="INSTANCE", help='For example "decode-1".')]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _resize(app)
    _drain(app)
    _restart(app)
    _move(app)


def body(terminal: Terminal, words: Sequence[str], file: Path | None = None) -> ChangeBody:
    """The change that words and a fleet file ask for, checked as far as it can be here."""
    from pdctl.contract.plans import ChangeBody
    from pdctl.domain.change import parse

    asked = parse(words)
    text, where = None, None
    if file is not None:
        text, where = _read(terminal, file), str(file.absolute())
    elif not words:
        raise Stop(ExitCode.USAGE, "Say what to change: POOL=SIZE, mode=pd|chunked, or --file.")
    return ChangeBody(
        mode=asked.mode, sizes=dict(asked.sizes), router=dict(asked.router), file=text,
        file_path=where,
    )  # fmt: skip


def _read(terminal: Terminal, file: Path) -> str:
    from pdctl.cli.files import examine, shown

    text, spec, mistakes = examine(file)
    if spec is None:
        for line in shown(terminal, str(file), text, mistakes):
            terminal.fail(line)
        raise Stop(ExitCode.USAGE, "Nothing was planned: the fleet file has mistakes.")
    return text


def _about(**change: Any) -> ChangeBody:
    from pdctl.contract.plans import ChangeBody

    return ChangeBody(**change)


def _resize(app: typer.Typer) -> None:
    @verb(app, "resize", examples=RESIZE)
    def resize(
        terminal: Terminal,
        sizes: Annotated[list[str], typer.Argument(metavar="POOL=SIZE...", help="New sizes.")],
        *,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = "10m",
    ) -> ExitCode | None:
        """Make pools larger or smaller while they serve.

        What is new is started, warmed and probed before it takes work; what leaves is drained
        before it is stopped. No stream is dropped.
        """
        asked = body(terminal, sizes)
        return carry_out(terminal, lambda: asked, How(dry_run, yes, wait, timeout))


def _drain(app: typer.Typer) -> None:
    @verb(app, "drain", examples=DRAIN)
    def drain(
        terminal: Terminal,
        instance: One,
        *,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = "10m",
    ) -> ExitCode | None:
        """Keep an instance out of rotation until it is undrained.

        It gets no new work, its streams finish, its process stays. Refused for the last one of
        its role.
        """
        how = How(dry_run, yes, wait, timeout)
        return carry_out(terminal, lambda: _about(drain=[instance]), how)

    @verb(app, "undrain", examples=DRAIN)
    def undrain(
        terminal: Terminal,
        instance: One,
        *,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = "10m",
    ) -> ExitCode | None:
        """Let a drained instance work again."""
        how = How(dry_run, yes, wait, timeout)
        return carry_out(terminal, lambda: _about(undrain=[instance]), how)


def _restart(app: typer.Typer) -> None:
    @verb(app, "restart", examples=RESTART)
    def restart(
        terminal: Terminal,
        name: Annotated[
            str, typer.Argument(metavar="INSTANCE|POOL", help='For example "decode-1" or "decode".')
        ],
        *,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = "10m",
    ) -> ExitCode | None:
        """Start an instance anew, or a whole pool one at a time.

        Of a pool, the new one comes first where there is room for it (`surge` of the pool), under
        an id of its own; else each is drained first. One of several keeps its id and is drained
        first. The plan says when there is no room.
        """
        how = How(dry_run, yes, wait, timeout)
        return carry_out(terminal, lambda: _about(restart=[name]), how)


def _move(app: typer.Typer) -> None:
    @verb(app, "move", examples=MOVE)
    def move(
        terminal: Terminal,
        instance: One,
        role: Annotated[
            str, typer.Option("--role", metavar="ROLE|POOL", help="Where it shall belong.")
        ],
        *,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = "10m",
    ) -> ExitCode | None:
        """Move an instance to the other role.

        Its pool shrinks by it and the other grows by one, which loads the model anew.
        """
        how = How(dry_run, yes, wait, timeout)
        return carry_out(terminal, lambda: _about(move={instance: role}), how)

    @verb(app, "stop", examples=STOP)
    def stop(
        terminal: Terminal,
        instance: One,
        *,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = "10m",
    ) -> ExitCode | None:
        """Take an instance away for good.

        It is drained and stopped, and its pool becomes smaller by one. Refused for the last one
        of its role.
        """
        how = How(dry_run, yes, wait, timeout)
        return carry_out(terminal, lambda: _about(stop=[instance]), how)
