"""`pdctl serve` and `pdctl tui`: the backend itself, and the terminal face."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.replacing import take_over
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import verb

if TYPE_CHECKING:
    from pdctl.settings import Settings

SERVE = """
  pdctl serve --file fleet.toml
  pdctl serve --file fleet.toml --state-dir ./state --admin-port 8090
  pdctl serve --file fleet.toml --replace     a newer pdctl in place of the one that runs
  PDCTL_TOKEN_FILE=token pdctl serve --file fleet.toml --admin-host 0.0.0.0
"""
TUI = """
  pdctl tui
  pdctl tui --url http://gpu-box:8080 --token-file token
"""


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _serve(app)
    _tui(app)


def _serve(app: typer.Typer) -> None:
    @verb(app, "serve", examples=SERVE, remote=False, documents=False)
    def serve(
        terminal: Terminal,
        *,
        file: Annotated[Path, typer.Option("--file", "-f", help="The fleet file.")],
        admin_host: Annotated[
            str | None, typer.Option(help="Address of the admin API and web console.")
        ] = None,
        admin_port: Annotated[
            int | None, typer.Option(help="Port of the admin API and web console.")
        ] = None,
        state_dir: Annotated[
            Path | None, typer.Option(help="Database, logs, and what adoption needs.")
        ] = None,
        database_url: Annotated[
            str | None, typer.Option(help="SQLAlchemy URL; SQLite in the state folder if absent.")
        ] = None,
        log_level: Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING, ERROR.")] = None,
        log_format: Annotated[str | None, typer.Option(help="console or json.")] = None,
        replace: Annotated[
            bool,
            typer.Option("--replace", help="Take the place of the one that runs; nothing stops."),
        ] = False,
    ) -> ExitCode | None:
        """Run a fleet until Ctrl-C.

        It starts the instances (or adopts those that run), the router, the admin API and the
        web console. Ctrl-C drains and stops all of it.
        """
        settings = read_settings(
            admin_host=admin_host, admin_port=admin_port, state_dir=state_dir,
            database_url=database_url, log_level=log_level, log_format=log_format,
        )  # fmt: skip
        return _run(terminal, settings, file, replace=replace)


def _run(terminal: Terminal, settings: Settings, file: Path, *, replace: bool) -> ExitCode:
    # The fleet file's check compares its ports with the admin API's.
    os.environ["PDCTL_ADMIN_PORT"] = str(settings.admin_port)
    from pdctl.cli.files import load_fleet

    fleet = load_fleet(file, terminal)
    from pdctl import app as application
    from pdctl import logs

    level = "WARNING" if terminal.quiet and settings.log_level == "INFO" else settings.log_level
    logs.configure(level, settings.log_format)
    # Last, once all is imported and found right: from now on there are two until the old one goes.
    lock = take_over(terminal, settings) if replace else None
    failed = application.serve(settings, fleet, say=terminal.say, lock=lock)
    return ExitCode.FAILED if failed else ExitCode.OK


def read_settings(**given: Any) -> Settings:
    """Settings from options, then PDCTL_* variables; every mistake in one sentence each."""
    from pydantic import ValidationError

    from pdctl.settings import Settings

    given = {name: value for name, value in given.items() if value is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise Stop(ExitCode.USAGE, "\n".join(_sentences(error, given))) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(
            ExitCode.USAGE, f"The token file of PDCTL_TOKEN_FILE cannot be read: {error}."
        ) from error
    if not 1 <= settings.admin_port <= 65535:
        raise Stop(
            ExitCode.USAGE, f"The admin port must be from 1 to 65535, not {settings.admin_port}."
        )
    settings.state_dir = settings.state_dir.expanduser().absolute()
    return settings


def _sentences(error: Any, given: dict[str, Any]) -> list[str]:
    result = []
    for one in error.errors(include_url=False):
        field = str(one["loc"][0]) if one["loc"] else ""
        said = str(one["msg"]).removeprefix("Value error, ").rstrip(".")
        where = f"--{field.replace('_', '-')}" if field in given else f"PDCTL_{field.upper()}"
        result.append(f"{where}: {said}." if field else f"{said}.")
    return result


def _tui(app: typer.Typer) -> None:
    @verb(app, "tui", examples=TUI, documents=False)
    def tui(
        terminal: Terminal,
        read_only: Annotated[
            bool, typer.Option("--read-only", help="Look, and change nothing.")
        ] = False,
        utc: Annotated[bool, typer.Option("--utc", help="Times in UTC.")] = False,
    ) -> ExitCode | None:
        """Show the console in this terminal."""
        if not terminal.tty:
            raise Stop(
                ExitCode.USAGE,
                "pdctl tui needs a terminal. In scripts: pdctl status, or pdctl status --json.",
            )
        import pdctl_console

        code = pdctl_console.run(terminal.url, terminal.token, read_only=read_only, utc=utc)
        return ExitCode.FAILED if code else None
