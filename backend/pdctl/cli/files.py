"""`pdctl validate`, and how every verb reads a fleet file and shows its mistakes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.terminal import ExitCode, Stop, Terminal, port_number
from pdctl.cli.verb import verb

if TYPE_CHECKING:
    from pdctl.domain.topology import FleetSpec
    from pdctl.fleetfile import Mistake

EXAMPLES = """
  pdctl validate fleet.toml
  pdctl validate fleet.toml --strict     warnings count as mistakes
  pdctl validate - < fleet.toml
  pdctl validate fleet.toml --json | jq '.mistakes[] | {line, message, hint}'
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "validate", examples=EXAMPLES, remote=False)
    def validate(
        terminal: Terminal,
        file: Annotated[Path, typer.Argument(metavar="FILE", help='A fleet file; "-" is stdin.')],
        strict: Annotated[bool, typer.Option("--strict", help="Warnings count as well.")] = False,
    ) -> ExitCode | None:
        """Check a fleet file.

        Names every mistake with its line and what to write instead. Exit code 2 when it has
        any: it can then not be served.
        """
        text, spec, mistakes = examine(file)
        counted = [one for one in mistakes if strict or one.severity == "error"]
        if terminal.json:
            terminal.document(
                {
                    "file": str(file),
                    "valid": not counted,
                    "mistakes": [_as_json(one) for one in mistakes],
                    "fleet": _summary(spec) if spec else None,
                }
            )
            return ExitCode.USAGE if counted else None
        for line in shown(terminal, str(file), text, mistakes):
            terminal.data(line)
        if counted or spec is None:
            terminal.say(_total(mistakes))
            return ExitCode.USAGE
        terminal.data(
            f"{file} is valid: {spec.name}, {spec.shape}, mode {spec.mode}, "
            f"{spec.served_name} on {spec.engine.kind} engines."
        )
        return None


def examine(file: Path) -> tuple[str, FleetSpec | None, tuple[Mistake, ...]]:
    """The text of a fleet file, the fleet in it, and its mistakes."""
    from pdctl.fleetfile import check, inspect
    from pdctl.fleetfile.source import read

    if port := os.environ.get("PDCTL_ADMIN_PORT"):
        port_number("PDCTL_ADMIN_PORT", port)  # the file's ports are compared with it
    offer_managed_engine()
    if str(file) == "-":
        raw = sys.stdin.buffer.read().decode("utf-8", "replace")
        return (raw, *check(raw, Path.cwd() / "stdin.toml"))
    text, unreadable = read(file)
    if unreadable:
        return (text, *inspect(file))
    return (text, *check(text, file))


def load_fleet(file: Path, terminal: Terminal | None = None) -> FleetSpec:
    """The fleet in a file; its warnings are said, its mistakes end the verb with code 2."""
    terminal = terminal or Terminal()
    text, spec, mistakes = examine(file)
    for line in shown(terminal, str(file), text, mistakes):
        if spec is None:
            terminal.fail(line)
        else:
            terminal.say(line)
    if spec is None:
        raise Stop(ExitCode.USAGE, _total(mistakes))
    return spec


def offer_managed_engine() -> None:
    """Let a fleet file say $PDCTL_ENGINE and $PDCTL_MODEL for what `make engine` built."""
    if "PDCTL_ENGINE" in os.environ and "PDCTL_MODEL" in os.environ:
        return
    from pdctl.engine_env import EngineError, find_engine

    try:
        found = find_engine()
    except EngineError:
        return  # a wrong PDCTL_ENGINE_PYTHON is doctor's to tell
    if found is not None:
        os.environ.setdefault("PDCTL_ENGINE", str(found.python))
        os.environ.setdefault("PDCTL_MODEL", str(found.model))


def shown(terminal: Terminal, name: str, text: str, mistakes: tuple[Mistake, ...]) -> list[str]:
    """Each mistake as compilers show them: place, message, the line itself, the hint."""
    rows = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    result = []
    for one in mistakes:
        style = "red" if one.severity == "error" else "yellow"
        severity = terminal.paint(one.severity, style)
        result.append(f"{name}:{one.line}:{one.column}: {severity}: {one.message}")
        row = rows[one.line - 1] if one.line <= len(rows) else ""
        if row.strip():
            start = max(0, one.column - 60)
            result.append(f"    {row[start : start + 100]}".replace("\t", " "))
            result.append(" " * (3 + one.column - start) + terminal.paint("^", style))
        if one.hint:
            result.append(f"    {terminal.paint(one.hint, 'cyan')}")
    return result


def _total(mistakes: tuple[Mistake, ...]) -> str:
    errors = sum(one.severity == "error" for one in mistakes)
    warnings = len(mistakes) - errors
    words = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in ((errors, "mistake"), (warnings, "warning"))
        if number
    ]
    return f"{' and '.join(words)}."


def _as_json(one: Mistake) -> dict[str, Any]:
    return {
        "line": one.line, "column": one.column, "key": one.key, "severity": one.severity,
        "message": one.message, "hint": one.hint,
    }  # fmt: skip


def _summary(spec: FleetSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "model": spec.model,
        "served_name": spec.served_name,
        "mode": spec.mode.value,
        "shape": spec.shape,
        "engine": spec.engine.kind,
        "pools": [
            {"name": pool.name, "role": pool.role.value, "size": pool.size} for pool in spec.pools
        ],
    }
