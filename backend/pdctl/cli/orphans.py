"""`pdctl orphans`: engines on this machine that no instance owns; see, end or adopt them.

An operator whose `pdctl serve` is dead wants it most: listing and ending work without one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ListFirst, ask, verb

if TYPE_CHECKING:
    from pdctl.contract.orphans import OrphanPage, OrphanView

LIST = """
  pdctl orphans
  pdctl orphans --owned            instances of the fleet as well
  pdctl orphans --state-dir ./state   when no pdctl serve answers
  pdctl orphans --json | jq -r '.items[] | select(.kind == "orphaned") | .key'
"""
KILL = """
  pdctl orphans kill 4711-90210
  pdctl orphans kill --all --yes   every orphaned engine; never a foreign one
"""
ADOPT = "  pdctl orphans adopt 4711-90210 --pool decode"
STYLES = {"adopted": "green", "foreign": "cyan", "orphaned": "yellow", "gone": "dim"}
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
Key = Annotated[str, typer.Argument(metavar="KEY", help="As `pdctl orphans` shows it.")]
StateDir = Annotated[
    Path | None,
    typer.Option(help="Whose instances are ours, where no pdctl serve answers."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    group = typer.Typer(
        cls=ListFirst, rich_markup_mode=None,
        help="Engines on this machine that no instance owns: list, kill, adopt.",
    )  # fmt: skip
    _list(group)
    _kill(group)
    _adopt(group)
    app.add_typer(group, name="orphans")


def _list(group: typer.Typer) -> None:
    @verb(group, "list", examples=LIST)
    def list_(
        terminal: Terminal,
        *,
        owned: Annotated[
            bool, typer.Option("--owned", help="Instances of this fleet as well.")
        ] = False,
        state_dir: StateDir = None,
    ) -> ExitCode | None:
        """List engine processes that no instance of this fleet owns.

        Classes: foreign (somebody else's: another pdctl's, or started by hand), orphaned (what it
        served or who watched it is gone), adopted (an instance; with --owned).
        """
        page, _ = _look(terminal, state_dir, owned=owned)
        if terminal.json:
            terminal.document(page)
        elif page.items:
            terminal.data("\n".join(_rows(terminal, page)))
        else:
            terminal.say("No engine runs on this machine that no instance owns.")
        return None


def _kill(group: typer.Typer) -> None:
    @verb(group, "kill", examples=KILL)
    def kill(
        terminal: Terminal,
        keys: Annotated[
            list[str] | None, typer.Argument(metavar="KEY...", help="As `pdctl orphans` shows it.")
        ] = None,
        *,
        every: Annotated[bool, typer.Option("--all", help="Every orphaned engine.")] = False,
        force: Annotated[
            bool, typer.Option("--force", help="Also what another pdctl supervises.")
        ] = False,
        yes: Yes = False,
        state_dir: StateDir = None,
    ) -> ExitCode | None:
        """End an engine: SIGTERM, up to 10 s later the whole family, then its shared memory."""
        if bool(keys) is every:
            raise Stop(ExitCode.USAGE, "Name the engines to end, or say --all for the orphaned.")
        page, served = _look(terminal, state_dir, owned=True)
        if every:
            keys = [one.key for one in page.items if one.kind == "orphaned"]
        if not keys:
            terminal.say("No orphaned engine runs on this machine.")
            return None
        if not yes:
            _confirm(terminal, page, keys)
        return _end(terminal, keys, force=force, where=None if served else _folder(state_dir))


def _adopt(group: typer.Typer) -> None:
    @verb(group, "adopt", examples=ADOPT)
    def adopt(
        terminal: Terminal,
        key: Key,
        *,
        pool: Annotated[str, typer.Option("--pool", help="The pool that it shall belong to.")],
        yes: Yes = False,
    ) -> ExitCode | None:
        """Make an engine that runs without a supervisor an instance of a pool.

        The pool grows by one. The engine keeps running as it is, and takes work once its pairs
        have been tried. Its port, model, connector and role must be the fleet's.
        """
        if not yes:
            _may_ask("adopt it")
            typer.confirm(f"Adopt {key} into {pool}, which grows by one?", abort=True, err=True)
        done = ask(terminal, lambda client: client.adopt_orphan(key, pool))
        if done.warning:
            terminal.say(done.warning)
        if terminal.json:
            terminal.document(done)
        else:
            terminal.data(f"{key} is {done.instance} now (revision {done.revision}).")
            terminal.say("Watch it with: pdctl status --watch")
        return None


def _look(terminal: Terminal, state_dir: Path | None, *, owned: bool) -> tuple[OrphanPage, bool]:
    """What runs, and whether a pdctl serve said so; else this machine is looked at from here."""
    from pdctl.client.errors import Unreachable

    try:
        return ask(terminal, lambda client: client.orphans(owned=owned)), True
    except Unreachable as error:
        if state_dir is None and urlsplit(terminal.url).hostname not in LOCAL:
            raise
        folder = _folder(state_dir)
        terminal.say(
            f"{error.problem.detail} This machine is looked at without it; ours is what {folder} "
            "has records of."
        )
    from pdctl.adapters.clock import SystemClock
    from pdctl.adapters.supervision.orphans import look, ours_of
    from pdctl.api.orphans import orphan_page

    found = look(ours_of(folder / "run"))
    return orphan_page(found, SystemClock().now(), owned=owned), False


def _end(
    terminal: Terminal, keys: Sequence[str], *, force: bool, where: Path | None
) -> ExitCode | None:
    """End each, and say what came of it; the code is that of the first that could not be."""
    from pdctl.cli.terminal import explain

    results, code = [], ExitCode.OK
    for key in keys:
        terminal.say(f"{key}: SIGTERM sent, up to 15 s ...")
        try:
            view = (
                _end_there(terminal, key, force=force)
                if where is None
                else _end_here(key, where, force=force)
            )
            said = {"key": key, "kind": view.kind.value, "message": view.why}
        except Exception as error:
            failed, sentence = explain(error)
            code = code or failed
            said = {"key": key, "kind": "", "message": sentence}
        results.append(said)
        if not terminal.json:
            (terminal.data if said["kind"] else terminal.fail)(f"{key}: {said['message']}")
    if terminal.json:
        terminal.document({"items": results})
    return code


def _end_there(terminal: Terminal, key: str, *, force: bool) -> OrphanView:
    """End one by the pdctl serve that answers: it keeps an operations log."""
    return ask(terminal, lambda client: client.kill_orphan(key, force=force))


def _end_here(key: str, folder: Path, *, force: bool) -> OrphanView:
    """End one without a pdctl serve; nobody keeps an operations log then."""
    from pdctl.adapters.supervision.orphans import end, look, ours_of
    from pdctl.api.orphans import orphan_view
    from pdctl.control.orphans import GRACE_S, refuse_key, refuse_kill, summed_up

    seen = look(ours_of(folder / "run"))
    found = next((one for one in seen if one.key == key), None) or refuse_key(key, seen)
    refuse_kill(found, force=force, served=False)
    return orphan_view(summed_up(found, end(found, GRACE_S)))


def _folder(state_dir: Path | None) -> Path:
    from pdctl.settings import Settings

    return state_dir or Settings().state_dir


def _rows(terminal: Terminal, page: OrphanPage) -> list[str]:
    head = ("KEY", "CLASS", "WHAT", "SINCE", "PORTS", "MEMORY", "WHY")
    rows = [
        (
            one.key, one.kind.value, f"{one.what} {one.model}".strip(),
            figures.age(one.since, page.at) if one.since else figures.UNKNOWN,
            _ports(one), _memory(one),
            one.why if one.permitted else f"{one.why} Of user {one.user}: not ours to end.",
        )
        for one in page.items
    ]  # fmt: skip
    return terminal.table(head, rows, {1: STYLES})


def _ports(one: OrphanView) -> str:
    """The lowest: an engine of many parts has a score of ephemeral ones beside its own."""
    shown = ",".join(map(str, one.ports[:3])) or figures.UNKNOWN
    return shown if len(one.ports) <= 3 else f"{shown} +{len(one.ports) - 3}"


def _memory(one: OrphanView) -> str:
    gpu = f" + {figures.size(one.gpu_memory_bytes)} GPU" if one.gpu_memory_bytes else ""
    return figures.size(one.memory_bytes) + gpu


def _confirm(terminal: Terminal, page: OrphanPage, keys: Sequence[str]) -> None:
    """Typed, not clicked away: what is ended here is not started again by anybody."""
    _may_ask("end it")
    chosen = page.model_copy(update={"items": [one for one in page.items if one.key in keys]})
    terminal.say("\n".join(_rows(terminal, chosen)))
    word = keys[0] if len(keys) == 1 else f"kill {len(keys)}"
    if typer.prompt(f"Type {word!r} to end {len(keys)}", err=True) != word:
        raise Stop(ExitCode.FAILED, "Nothing was ended.")


def _may_ask(what: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Stop(
            ExitCode.USAGE, f"There is no terminal to ask on: add --yes to {what} without asking."
        )
