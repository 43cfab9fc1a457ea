"""The command `pdctl`: every verb in one place, and nothing heavy until one is used."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Annotated

import typer

from pdctl.cli import (
    bundle,
    changes,
    compare,
    demo,
    doctor,
    events,
    files,
    golden,
    goodput,
    history,
    init,
    instance,
    instances,
    keys,
    latency,
    login,
    mode,
    orphans,
    people,
    plan,
    replacing,
    requests,
    router,
    serving,
    signals,
    status,
    truth,
)  # fmt: skip
from pdctl.cli.terminal import MEANING, ExitCode, Terminal
from pdctl.cli.verb import verb

CODES = "\n".join(f"  {int(code):>3}  {meaning}" for code, meaning in MEANING.items())
EPILOG = f"""\b
Exit codes:
{CODES}

\b
First steps:
  pdctl demo                          a prefill/decode fleet on this machine
  pdctl init                          a fleet file for this machine
  pdctl validate fleet.toml           what is wrong with a fleet file
  pdctl serve --file fleet.toml       run it
  pdctl status --watch                look at it

\b
Environment: PDCTL_URL, PDCTL_TOKEN_FILE, PDCTL_STATE_DIR, PDCTL_ADMIN_PORT,
PDCTL_ROUTER_PORT (demo), PDCTL_DATABASE_URL, NO_COLOR, PDCTL_DEBUG=1 (traces).
"""

app = typer.Typer(
    name="pdctl",
    help="Operator console for vLLM prefill/decode disaggregation.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"pdctl {metadata.version('pdctl')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    del version


for module in (
    demo, init, serving, replacing, status, mode, router, plan, changes, history, requests, latency,
    goodput, truth, compare, golden, instance, instances, events, files, doctor, orphans, signals,
    keys, people, login, bundle,
):  # fmt: skip
    module.register(app)


@verb(app, "version", examples="  pdctl version --json", remote=False)
def version(terminal: Terminal) -> ExitCode | None:
    """Print pdctl's version."""
    number = metadata.version("pdctl")
    python = ".".join(str(part) for part in sys.version_info[:3])
    if terminal.json:
        terminal.document({"version": number, "python": python})
    else:
        terminal.data(f"pdctl {number}")
        terminal.say(f"Python {python} at {sys.executable}")
    return None


def main() -> None:
    """Run the command line; exits with one of the documented codes."""
    app(prog_name="pdctl")
