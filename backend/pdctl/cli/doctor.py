"""`pdctl doctor`: is this machine fit to run the fleet, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.terminal import ExitCode, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.cli.checkup import Check
    from pdctl.client.admin import AdminClient
    from pdctl.domain.topology import FleetSpec

MARKS = {"ok": ("ok", "green"), "info": ("info", "cyan"), "warn": ("warn", "yellow"),
         "bad": ("BAD", "red")}  # fmt: skip
EXAMPLES = """
  pdctl doctor
  pdctl doctor --file fleet.toml     its ports, cores, GPUs and engine environment as well
  pdctl doctor --json | jq '.checks[] | select(.ok | not)'
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "doctor", examples=EXAMPLES)
    def doctor(
        terminal: Terminal,
        file: Annotated[
            Path | None, typer.Option("--file", help="Check for this fleet file.")
        ] = None,
    ) -> ExitCode | None:
        """Check this machine and its set-up.

        Each finding comes with its fix. Exit code 3 when something will not work.
        """
        checks = []
        for check in examine(terminal, file):
            checks.append(check)
            if not terminal.json:
                _show(terminal, check)
        bad = sum(check.level == "bad" for check in checks)
        if terminal.json:
            terminal.document({"ok": not bad, "checks": [check.to_json() for check in checks]})
        else:
            terminal.say(
                f"{bad} of {len(checks)} will not work." if bad else "Nothing stands in the way."
            )
        return ExitCode.UNHEALTHY if bad else None


def examine(terminal: Terminal, file: Path | None) -> Iterator[Check]:
    """Every check, as it is made: the engine's own takes a while."""
    from pdctl.cli.checkup import engine, machine, network
    from pdctl.cli.serving import read_settings

    settings = read_settings()
    fleet: FleetSpec | None = None
    if file is not None:
        fleet, problem = _fleet(file)
        yield problem
    yield from machine.checks(fleet, settings.state_dir)
    admin, serving = _admin(terminal)
    yield from network.checks(fleet, settings, serving=serving)
    yield network.database(settings)
    yield admin
    yield from engine.checks(fleet)


def _fleet(file: Path) -> tuple[FleetSpec | None, Check]:
    from pdctl.cli.checkup import BAD, OK, WARN, Check
    from pdctl.cli.files import examine as read

    _, spec, mistakes = read(file)
    if spec is None:
        first = next(one for one in mistakes if one.severity == "error")
        detail = f"{file}:{first.line}: {first.message}"
        return None, Check("fleet file", BAD, detail, f"See all: pdctl validate {file}")
    if mistakes:
        return spec, Check("fleet file", WARN, str(mistakes[0]), f"See: pdctl validate {file}")
    return spec, Check("fleet file", OK, f"{file}: {spec.name}, {spec.shape}")


def _admin(terminal: Terminal) -> tuple[Check, bool]:
    """Whether a pdctl serve answers, and what it says of itself."""
    from pdctl.cli.checkup import BAD, INFO, OK, WARN, Check
    from pdctl.client.errors import ClientError, Denied, Unreachable

    async def look(client: AdminClient) -> Check:
        view = await client.ready()
        if view.ready:
            return Check("pdctl serve", OK, f"answers at {terminal.url} and is ready")
        failed = [f"{one.name}: {one.detail}" for one in view.checks if not one.ok]
        detail = f"answers at {terminal.url}, not ready ({'; '.join(failed)})"
        return Check("pdctl serve", WARN, detail, "pdctl status shows why.")

    try:
        return ask(terminal, look), True
    except Unreachable:
        return Check("pdctl serve", INFO, f"does not run at {terminal.url}"), False
    except Denied as error:
        return Check("pdctl serve", WARN, str(error), "Give --token-file."), True
    except ClientError as error:
        return Check("pdctl serve", BAD, str(error), "Does --url name pdctl's admin port?"), False


def _show(terminal: Terminal, check: Check) -> None:
    mark, style = MARKS[check.level]
    label = terminal.paint(mark.ljust(4), style)
    terminal.data(f"{label}  {check.name.ljust(18)}  {check.detail}")
    if check.fix and check.level != "ok":
        terminal.data(f"{' ' * 26}{terminal.paint(check.fix, 'dim')}")
