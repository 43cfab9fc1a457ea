"""`pdctl demo`: a prefill/decode fleet on this machine and one request through it.

It is `pdctl serve` with a fleet file written by itself and a companion that watches and asks.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.terminal import ExitCode, Stop, Terminal, port_number
from pdctl.cli.verb import verb

if TYPE_CHECKING:
    from pdctl.adapters.statelock import StateLock
    from pdctl.domain.topology import FleetSpec
    from pdctl.settings import Settings

ENGINES = ("real", "simulated")
TRIES = 100
EXAMPLES = """
  pdctl demo                        real vLLM on CPU; builds its environment first
  pdctl demo --engine simulated     no vLLM, up in seconds
  pdctl demo --no-request           only start it
  PDCTL_ADMIN_PORT=9090 PDCTL_ROUTER_PORT=9000 pdctl demo
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "demo", examples=EXAMPLES, remote=False, documents=False)
    def demo(
        terminal: Terminal,
        *,
        engine: Annotated[str, typer.Option(help="real (vLLM on CPU) or simulated.")] = "real",
        request: Annotated[
            bool, typer.Option("--request/--no-request", help="Send one request when ready.")
        ] = True,
        once: Annotated[
            bool, typer.Option("--once", help="Stop after the request instead of staying up.")
        ] = False,
        state_dir: Annotated[
            Path | None, typer.Option(help="Where the demo keeps its fleet file, logs, database.")
        ] = None,
    ) -> ExitCode | None:
        """Try a prefill/decode fleet on this machine.

        It starts one prefill and one decode instance, hands one request from one to the other,
        shows what happened, and stays up until Ctrl-C, which stops everything.
        """
        if engine not in ENGINES:
            raise Stop(ExitCode.USAGE, f"There is no engine {engine!r}. Engines: real, simulated.")
        folder = _folder(engine, state_dir)
        from pdctl.adapters.statelock import StateLock

        lock = StateLock(folder)  # before anything of a demo that runs is touched
        try:
            settings, fleet = prepare(terminal, engine, folder)
            return _run(terminal, settings, fleet, lock, request=request, once=once)
        finally:
            lock.release()


def _folder(engine: str, state_dir: Path | None) -> Path:
    """Where this demo keeps its things: given, or beside those of the other engine."""
    from pdctl.settings import Settings

    if state_dir is not None:
        return state_dir.expanduser().absolute()
    base: Path = Settings.model_fields["state_dir"].default
    base = Path(os.environ.get("PDCTL_STATE_DIR") or base)
    return base.expanduser().absolute() / f"demo-{engine}"


def prepare(terminal: Terminal, engine: str, folder: Path) -> tuple[Settings, FleetSpec]:
    """Ports that are free, an engine environment that is whole, and the fleet file over both."""
    from pdctl.adapters.routers.roster import recorded
    from pdctl.cli import demo_fleet
    from pdctl.cli.files import load_fleet
    from pdctl.cli.serving import read_settings

    admin = free_port(terminal, "PDCTL_ADMIN_PORT", 8080, "admin API", ())
    ours = {one.port for one in recorded(folder / "run" / "router")}  # of a demo that was killed
    router = free_port(terminal, "PDCTL_ROUTER_PORT", 8000, "router", (admin,), ours=ours)
    os.environ["PDCTL_ADMIN_PORT"] = str(admin)
    settings = read_settings(state_dir=folder)
    if engine == "simulated":
        text = demo_fleet.simulated(router)
    else:
        from pdctl.engine_env import SilentProgress, StderrProgress, ensure_engine

        found = ensure_engine(SilentProgress() if terminal.quiet else StderrProgress())
        terminal.say(f"engine: vLLM {found.version} at {found.python}")
        text = demo_fleet.real(router, found.python, found.model)
    path = settings.state_dir / "fleet.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    terminal.say(f"fleet file: {path}")
    return settings, load_fleet(path, terminal)


def free_port(
    terminal: Terminal, variable: str, default: int, what: str, besides: tuple[int, ...],
    *, ours: Collection[int] = (),
) -> int:  # fmt: skip
    """The port a variable asks for, or the default, or the next free one after it (said aloud)."""
    from pdctl.cli.checkup.network import taken

    asked = os.environ.get(variable, "")
    first = port_number(variable, asked) if asked else default
    if asked and first in besides:
        raise Stop(
            ExitCode.USAGE,
            f"{variable} is {first}, which is the admin API's port (PDCTL_ADMIN_PORT) as well. "
            f"Set {variable} to another.",
        )
    why = None if first in ours else taken("127.0.0.1", first)
    if why is None and first not in besides:
        return first
    if asked:
        raise Stop(
            ExitCode.CONFLICT,
            f"The {what}'s port {first} ({variable}) is {why}. "
            f"Stop that process, or set {variable} to another port.",
        )
    for port in range(first + 1, min(first + TRIES, 65536)):
        if port not in besides and taken("127.0.0.1", port) is None:
            terminal.say(
                f"The {what}'s port {first} is {why or 'taken by this demo'}: it takes {port} "
                f"({variable} chooses another)."
            )
            return port
    raise Stop(
        ExitCode.CONFLICT, f"No port from {first} to {first + TRIES} is free. Set {variable}."
    )


def _run(
    terminal: Terminal,
    settings: Settings,
    fleet: FleetSpec,
    lock: StateLock,
    *,
    request: bool,
    once: bool,
) -> ExitCode | None:
    from pdctl import app as application
    from pdctl import logs
    from pdctl.cli.demo_run import Companion

    own_log = settings.state_dir / "pdctl.log"
    companion = Companion(terminal, fleet, request=request, once=once)
    with own_log.open("a", encoding="utf-8") as stream:
        # To a file: the terminal belongs to the progress.
        logs.configure(settings.log_level, settings.log_format, stream)
        terminal.say(f"pdctl's own log: {own_log}")
        failed = application.serve(
            settings, fleet, companion=companion, say=terminal.say, tell=companion.tell,
            lock=lock, resume=False,
        )  # fmt: skip
    if companion.failure:
        terminal.fail(companion.failure)
    return ExitCode.FAILED if failed or companion.failure else None
