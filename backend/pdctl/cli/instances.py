"""Verbs about one instance: its log, its command, and clearing its failures."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import CommandView

Instance = Annotated[str, typer.Argument(metavar="INSTANCE", help='For example "prefill-0".')]
LOGS = """
  pdctl logs decode-0 --tail 50
  pdctl logs decode-0 -f
  pdctl logs decode-0 --previous   the start before this one, after a crash
  pdctl logs router-0              a router worker's
"""
COMMAND = """
  pdctl command prefill-0
  pdctl command prefill-0 --file fleet.toml   before anything is launched
  pdctl command prefill-0 --json | jq -r '.argv[]'
"""


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _logs(app)
    _command(app)
    _acts(app)


def _logs(app: typer.Typer) -> None:
    @verb(app, "logs", examples=LOGS)
    def logs(
        terminal: Terminal,
        instance: Instance,
        follow: Annotated[
            bool, typer.Option("--follow", "-f", help="Go on with what is written.")
        ] = False,
        previous: Annotated[
            bool, typer.Option("--previous", "-p", help="The log of the start before this one.")
        ] = False,
        tail: Annotated[int, typer.Option(min=0, max=100_000, help="Last lines to show.")] = 200,
    ) -> ExitCode | None:
        """Print an instance's log."""

        async def read(client: AdminClient) -> None:
            if not follow:
                text = await client.logs(instance, tail, previous)
                if terminal.json:
                    terminal.document({"instance": instance, "lines": text.splitlines()})
                else:
                    terminal.raw(text)
                return
            async for chunk in client.follow_logs(instance, previous, tail):
                _chunk(terminal, instance, chunk)

        ask(terminal, read)
        return None


def _chunk(terminal: Terminal, instance: str, chunk: str) -> None:
    if not terminal.json:
        terminal.raw(chunk)
        return
    for line in chunk.splitlines():
        terminal.document({"instance": instance, "line": line}, line=True)


def _command(app: typer.Typer) -> None:
    @verb(app, "command", examples=COMMAND)
    def command(
        terminal: Terminal,
        instance: Instance,
        file: Annotated[
            Path | None,
            typer.Option("--file", help="Ask this fleet file instead of a running pdctl."),
        ] = None,
    ) -> ExitCode | None:
        """Print how an instance is launched.

        The exact command and environment, secrets redacted.
        """
        view = (
            planned(file, instance)
            if file is not None
            else ask(terminal, lambda client: client.command(instance))
        )
        if terminal.json:
            terminal.document(view)
            return None
        if view.in_process:
            terminal.say(
                "in-process (simulated): no such process runs. As a process it would be started so:"
            )
        pairs = [f"{name}={shlex.quote(value)}" for name, value in sorted(view.env.items())]
        terminal.data(" \\\n  ".join([*pairs, shlex.join(view.argv)]))
        return None


def planned(file: Path, instance: str) -> CommandView:
    """How an instance of a fleet file would be launched on an empty machine."""
    from pdctl.adapters.vllm.command import build_command, redact
    from pdctl.cli.files import load_fleet
    from pdctl.contract.resources import CommandView
    from pdctl.domain.instance import Refused
    from pdctl.domain.placement import Holding, place, side_channels

    fleet = load_fleet(file)
    held: list[Holding] = []
    known: list[str] = []
    for pool in fleet.pools:
        for _ in range(pool.size):
            slot = place(fleet, pool, held)
            if isinstance(slot, Refused):
                raise Stop(ExitCode.FAILED, f"{pool.name} cannot be placed: {slot.why}.")
            name = f"{pool.name}-{slot.index}"
            if name == instance:
                argv, env = redact(*build_command(fleet, pool, name, slot, "offline"))
                inside = fleet.engine.launcher == "simulated"
                return CommandView(instance=name, argv=list(argv), env=dict(env), in_process=inside)
            known.append(name)
            held.append(Holding(name, pool.name, slot, side_channels(fleet, pool)))
    raise Stop(ExitCode.USAGE, f"{file} has no instance {instance!r}. It has: {', '.join(known)}.")


def _acts(app: typer.Typer) -> None:
    @verb(app, "clear", examples="  pdctl clear decode-1")
    def clear(terminal: Terminal, instance: Instance) -> ExitCode | None:
        """Start an instance that was given up.

        Its failures are forgotten; a pinned first failure goes when it works again.
        """
        view = ask(terminal, lambda client: client.clear(instance))
        if terminal.json:
            terminal.document(view)
        else:
            terminal.data(f"{view.id} is started again; its failures are forgotten.")
            terminal.say("Watch it with: pdctl status --watch")
        return None
