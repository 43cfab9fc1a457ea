"""`pdctl users` and `pdctl tokens`: who may use the admin API, and in which role.

They work on the access file on this machine, with or without a server; one that runs reads it again
within a second. A password is asked for and never shown; a token is shown once.
"""

from __future__ import annotations

import getpass
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import verb

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from pdctl.domain.access import Book

USERS = {
    "add": "  pdctl users add alice --role admin\n  pass web/bob | pdctl users add bob --stdin",
    "list": "  pdctl users list --json | jq '.items[] | {name, role}'",
    "role": "  pdctl users role bob operator",
    "passwd": "  pdctl users passwd alice      ends alice's sessions",
    "remove": "  pdctl users remove bob        ends bob's sessions",
}
TOKENS = {
    "add": "  pdctl tokens add ci --role operator --days 90\n"
    "  pdctl tokens add grafana --json | jq -r .token",
    "list": "  pdctl tokens list",
    "remove": "  pdctl tokens remove ci",
}
SHORTEST = 10
"""Characters of a password, at least (NIST SP 800-63B asks for 8)."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose.")]
RoleIs = Annotated[str, typer.Option("--role", help="viewer, operator or admin.")]
Stdin = Annotated[bool, typer.Option("--stdin", help="Read the password from stdin.")]
Days = Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it expires.")]
File = Annotated[
    Path | None,
    typer.Option("--access-file", help="PDCTL_ACCESS_FILE, or access.toml in the state folder."),
]


def register(app: typer.Typer) -> None:
    """Add both groups."""
    users = typer.Typer(
        rich_markup_mode=None, no_args_is_help=True,
        help="Who signs in to the admin API: add, list, role, passwd, remove.",
    )  # fmt: skip
    tokens = typer.Typer(
        rich_markup_mode=None, no_args_is_help=True,
        help="Tokens of programs for the admin API: add, list, remove.",
    )  # fmt: skip
    _add_user(users)
    _change_user(users)
    _add_token(tokens)
    for group, part, words in ((users, "users", USERS), (tokens, "tokens", TOKENS)):
        _list(group, part, words["list"])
        _remove(group, part, words["remove"])
    app.add_typer(users, name="users")
    app.add_typer(tokens, name="tokens")


def _add_user(group: typer.Typer) -> None:
    @verb(group, "add", examples=USERS["add"], remote=False)
    def add(
        terminal: Terminal, name: Name, *, role: RoleIs = "viewer", stdin: Stdin = False,
        access_file: File = None,
    ) -> ExitCode | None:  # fmt: skip
        """Let somebody sign in, with a password and a role."""
        file = _where(access_file)
        first = not file.exists()
        document, _ = _read(file)
        _fresh(document, "users", name)
        row = {"role": _role(role), "password": _hashed(_password(name, from_stdin=stdin))}
        _put(file, document, "users", name, row)
        _done(terminal, file, f"{name} may sign in as {role}.", {"name": name, "role": role})
        if first:
            terminal.say("From its next start, pdctl serve asks everybody to sign in.")
        return None


def _change_user(group: typer.Typer) -> None:
    @verb(group, "role", examples=USERS["role"], remote=False)
    def role(
        terminal: Terminal,
        name: Name,
        to: Annotated[str, typer.Argument(metavar="ROLE", help="viewer, operator or admin.")],
        *,
        access_file: File = None,
    ) -> ExitCode | None:
        """Give somebody another role; it counts within a second."""
        file = _where(access_file)
        _edit(file, name, {"role": _role(to)})
        _done(terminal, file, f"{name} is {to} now.", {"name": name, "role": to})
        return None

    @verb(group, "passwd", examples=USERS["passwd"], remote=False)
    def passwd(
        terminal: Terminal, name: Name, *, stdin: Stdin = False, access_file: File = None
    ) -> ExitCode | None:
        """Set another password. Sessions that began with the old one end."""
        file = _where(access_file)
        _known(_read(file)[0], "users", name)
        _edit(file, name, {"password": _hashed(_password(name, from_stdin=stdin))})
        _done(terminal, file, f"{name} has another password.", {"name": name})
        return None


def _add_token(group: typer.Typer) -> None:
    @verb(group, "add", examples=TOKENS["add"], remote=False)
    def add(
        terminal: Terminal, name: Name, *, role: RoleIs = "viewer", days: Days = None,
        access_file: File = None,
    ) -> ExitCode | None:  # fmt: skip
        """Make a token and print it, this once. Without --days it never expires."""
        from datetime import UTC, datetime, timedelta

        from pdctl.domain.access import TOKEN_PREFIX, digest

        file = _where(access_file)
        document, _ = _read(file)
        _fresh(document, "tokens", name)
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        row: dict[str, Any] = {"role": _role(role), "sha256": digest(token)}
        if days:
            row["expires"] = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)  # noqa: TID251
        _put(file, document, "tokens", name, row)
        if terminal.json:
            terminal.document({"name": name, "role": role, "token": token})
        else:
            terminal.data(token)
            terminal.say(f"The token of {name} ({role}); it is not kept and not shown again.")
        return None


def _list(group: typer.Typer, part: str, examples: str) -> None:
    @verb(group, "list", examples=examples, remote=False)
    def list_(terminal: Terminal, *, access_file: File = None) -> ExitCode | None:
        """Show names and roles."""
        _, book = _read(_where(access_file))
        rows = _rows(book, part)
        if terminal.json:
            terminal.document({"items": rows})
            return None
        head = tuple(rows[0]) if rows else ("name", "role")
        cells = [tuple(row.values()) for row in rows]
        terminal.data("\n".join(terminal.table([one.upper() for one in head], cells)))
        return None


def _remove(group: typer.Typer, part: str, examples: str) -> None:
    @verb(group, "remove", examples=examples, remote=False)
    def remove(terminal: Terminal, name: Name, *, access_file: File = None) -> ExitCode | None:
        """Take somebody out; the next request is refused."""
        file = _where(access_file)
        document, _ = _read(file)
        _known(document, part, name)
        del document[part][name]
        _write(file, document)
        _done(terminal, file, f"{name} is not let in any more.", {"removed": name})
        return None


def _rows(book: Book, part: str) -> list[dict[str, str]]:
    from datetime import UTC, datetime

    if part == "users":
        return [{"name": one.name, "role": one.role.value} for one in book.users.values()]
    return [
        {
            "name": one.name, "role": one.role.value, "sha256": one.sha256[:12],
            "expires": "never" if one.expires is None
            else datetime.fromtimestamp(one.expires, UTC).isoformat(),
        }
        for one in book.tokens.values()
    ]  # fmt: skip


def _where(given: Path | None) -> Path:
    from pdctl.cli.serving import read_settings

    settings = read_settings()
    return given or settings.access_file or settings.state_dir / "access.toml"


def _read(file: Path) -> tuple[TOMLDocument, Book]:
    import tomlkit

    from pdctl.domain.access import AccessError, parse

    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        book = parse(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(ExitCode.USAGE, f"{file} cannot be read: {error}.") from error
    except AccessError as error:
        raise Stop(ExitCode.USAGE, f"{file} is no access file: {error}.") from error
    return tomlkit.parse(text), book


def _put(file: Path, document: TOMLDocument, part: str, name: str, row: dict[str, Any]) -> None:
    import tomlkit

    if part not in document:
        document[part] = tomlkit.table(is_super_table=True)
    table = tomlkit.table()
    table.update(row)
    document[part][name] = table
    _write(file, document)


def _edit(file: Path, name: str, row: dict[str, str]) -> None:
    document, _ = _read(file)
    _known(document, "users", name)
    document["users"][name].update(row)
    _write(file, document)


def _write(file: Path, document: TOMLDocument) -> None:
    from pdctl.adapters.access import write_private

    try:
        write_private(file, document.as_string())
    except OSError as error:
        raise Stop(ExitCode.FAILED, f"{file} cannot be written: {error.strerror}.") from error


def _fresh(document: TOMLDocument, part: str, name: str) -> None:
    from pdctl.domain.access import NAME

    if not NAME.fullmatch(name):
        words = "Use letters, digits, dots, dashes, underscores and @, at most 64."
        raise Stop(ExitCode.USAGE, f"{name!r} cannot be a name. {words}")
    if name in document.get(part, {}):
        raise Stop(ExitCode.USAGE, f"{name} is there already. `pdctl {part} remove {name}`.")


def _known(document: TOMLDocument, part: str, name: str) -> None:
    there = document.get(part, {})
    if name not in there:
        known = ", ".join(there) or "none"
        raise Stop(ExitCode.USAGE, f"There is no {name} in {part}. Known: {known}.")


def _role(text: str) -> str:
    from pdctl.domain.access import Role

    if text not in set(Role):
        raise Stop(ExitCode.USAGE, f"There is no role {text!r}; known: {', '.join(Role)}.")
    return text


def _password(name: str, *, from_stdin: bool, ask: Callable[[str], str] = getpass.getpass) -> str:
    """A new password, from a person twice or from a pipe once."""
    if from_stdin or not sys.stdin.isatty():
        given = sys.stdin.readline().rstrip("\n")
    else:
        given = ask(f"Password of {name}: ")
        if given and ask("Again: ") != given:
            raise Stop(ExitCode.USAGE, "The two are not the same; nothing was changed.")
    if len(given) < SHORTEST:
        raise Stop(ExitCode.USAGE, f"A password has {SHORTEST} characters at least.")
    return given


def _hashed(password: str) -> str:
    from pdctl.adapters.access import hashed

    return hashed(password)


def _done(terminal: Terminal, file: Path, words: str, document: dict[str, str]) -> None:
    if terminal.json:
        terminal.document({**document, "access_file": str(file)})
    else:
        terminal.say(words)
