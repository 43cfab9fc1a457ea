"""`pdctl keys`: who may use the front door; a key is printed once and kept by nobody but its owner.

They work on the file that `router.keys_file` names; routers read it again within a second.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import verb

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from pdctl.domain.keys import ApiKey

ADD = """
  pdctl keys add alice
  pdctl keys add batch --requests-per-minute 600 --concurrent 16
  pdctl keys add alice --json | jq -r .key
"""
LIST = "  pdctl keys list --keys-file /etc/pdctl/keys.toml"
REMOVE = "  pdctl keys remove alice"
HEAD = ("NAME", "REQUESTS/MIN", "CONCURRENT", "MODELS", "SHA-256")
PREFIX = "pdctl-"
"""So that a leaked key is known for what it is."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")]
File = Annotated[
    Path,
    typer.Option("--keys-file", help="The file that the fleet file's router.keys_file names."),
]
PerMinute = Annotated[
    int | None, typer.Option(min=1, max=1_000_000, help="Requests in any minute, at most.")
]
Concurrent = Annotated[
    int | None, typer.Option(min=1, max=1_000_000, help="Requests open at a time, at most.")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="Only this model; may be given again.")
]
DEFAULT = Path("keys.toml")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    group = typer.Typer(
        rich_markup_mode=None, no_args_is_help=True,
        help="API keys of the front door: add, list, remove.",
    )  # fmt: skip
    _add(group)
    _list(group)
    _remove(group)
    app.add_typer(group, name="keys")


def _add(group: typer.Typer) -> None:
    @verb(group, "add", examples=ADD, remote=False)
    def add(
        terminal: Terminal,
        name: Name,
        *,
        keys_file: File = DEFAULT,
        requests_per_minute: PerMinute = None,
        concurrent: Concurrent = None,
        model: Models = None,
    ) -> ExitCode | None:
        """Make a key and print it, this once. Without limits it has none."""
        from pdctl.domain.keys import NAME, digest

        document, keys = _read(keys_file)
        if not NAME.fullmatch(name):
            words = "Use letters, digits, dots, dashes and underscores, at most 64."
            raise Stop(ExitCode.USAGE, f"A key cannot be called {name!r}. {words}")
        if name in keys:
            words = f"There is a key {name} already. `pdctl keys remove {name}` ends it."
            raise Stop(ExitCode.USAGE, words)
        key = PREFIX + secrets.token_urlsafe(32)
        given = {
            "sha256": digest(key), "requests_per_minute": requests_per_minute,
            "concurrent": concurrent, "models": model or None,
        }  # fmt: skip
        document[name] = {entry: value for entry, value in given.items() if value is not None}
        _write(keys_file, document)
        if terminal.json:
            terminal.document({"name": name, "key": key, "keys_file": str(keys_file)})
        else:
            terminal.data(key)
            terminal.say(f"The key of {name}; it is not kept and cannot be shown again.")
            terminal.say(f"Routers that serve with {keys_file.absolute()} know it in a second.")
        return None


def _list(group: typer.Typer) -> None:
    @verb(group, "list", examples=LIST, remote=False)
    def list_(terminal: Terminal, *, keys_file: File = DEFAULT) -> ExitCode | None:
        """Whose keys there are, and their limits. Limits are divided among router workers."""
        _, keys = _read(keys_file)
        if terminal.json:
            terminal.document({"items": [_as_json(one) for one in keys.values()]})
            return None
        terminal.data("\n".join(terminal.table(HEAD, [_row(one) for one in keys.values()])))
        if not keys:
            terminal.say(f"No keys in {keys_file}: with this file nobody is let in.")
        return None


def _remove(group: typer.Typer) -> None:
    @verb(group, "remove", examples=REMOVE, remote=False)
    def remove(terminal: Terminal, name: Name, *, keys_file: File = DEFAULT) -> ExitCode | None:
        """End a key. Requests under way may end; the next one is refused."""
        document, keys = _read(keys_file)
        if name not in keys:
            known = ", ".join(keys) or "none"
            raise Stop(ExitCode.USAGE, f"There is no key {name}. Known: {known}.")
        del document[name]
        _write(keys_file, document)
        if terminal.json:
            terminal.document({"removed": name, "keys_file": str(keys_file)})
        else:
            terminal.say(f"The key of {name} has ended.")
        return None


def _read(file: Path) -> tuple[TOMLDocument, dict[str, ApiKey]]:
    """The document, and the keys in it by name; Stop when it makes no sense."""
    import tomlkit

    from pdctl.domain.keys import KeysError, parse

    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(ExitCode.USAGE, f"{file} cannot be read: {error}.") from error
    try:
        found = parse(text)
    except KeysError as error:
        raise Stop(ExitCode.USAGE, f"{file} is no keys file: {error}.") from error
    return tomlkit.parse(text), {one.name: one for one in found.values()}


def _write(file: Path, document: TOMLDocument) -> None:
    """Whole or not at all: a router may read at any moment."""
    from pdctl.adapters.access import write_private

    try:
        write_private(file, document.as_string())
    except OSError as error:
        raise Stop(ExitCode.FAILED, f"{file} cannot be written: {error.strerror}.") from error


def _row(one: ApiKey) -> tuple[str, ...]:
    limits = (one.requests_per_minute, one.concurrent)
    shown = ("-" if limit is None else str(limit) for limit in limits)
    return (one.name, *shown, ", ".join(one.models) or "all", one.sha256[:12])


def _as_json(one: ApiKey) -> dict[str, object]:
    return {
        "name": one.name, "sha256": one.sha256, "requests_per_minute": one.requests_per_minute,
        "concurrent": one.concurrent, "models": list(one.models),
    }  # fmt: skip
