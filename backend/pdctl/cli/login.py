"""`pdctl login` and `pdctl logout`: who this user is for one pdctl, kept until it ends."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import kept
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.session import WhoView

LOGIN = """
  pdctl login alice                           asks for alice's password
  pdctl login --url https://pdctl.example:8080 < token.txt
  pass web/alice | pdctl login alice
"""
LOGOUT = "  pdctl logout"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _login(app)
    _logout(app)


def _login(app: typer.Typer) -> None:
    @verb(app, "login", examples=LOGIN)
    def login(
        terminal: Terminal,
        user: Annotated[
            str, typer.Argument(metavar="[USER]", help="With a password; a token without it.")
        ] = "",
    ) -> ExitCode | None:
        """Sign in, and keep the session or token for this address.

        Of a user, the password is asked for, or read from stdin; a session of 12 hours begins.
        Without a user a token is, as `pdctl tokens add` made it. It is kept in
        ~/.config/pdctl/tokens.json, which nobody else may read, and used by every verb and by
        `pdctl tui` with this --url, unless --token-file or PDCTL_TOKEN gives another.
        """
        said = secret(f"Password of {user}: " if user else "Token: ")
        token, who = ask(terminal, lambda client: _begin(client, user, said))
        kept.keep(terminal.url, token)
        if terminal.json:
            terminal.document({"url": terminal.url, "name": who.name, "role": who.role})
        else:
            terminal.say(f"You are {who.name} ({who.role}) for {terminal.url}.")
        return None


def _logout(app: typer.Typer) -> None:
    @verb(app, "logout", examples=LOGOUT)
    def logout(terminal: Terminal) -> ExitCode | None:
        """End the session that `pdctl login` began, and forget it.

        A token stays valid for whoever else has it: `pdctl tokens remove` ends it.
        """
        from pdctl.client.errors import ClientError

        if kept.token_of(terminal.url) is None:
            raise Stop(ExitCode.FAILED, f"You have not signed in at {terminal.url}.")
        try:
            ask(terminal, lambda client: client.sign_out())
        except ClientError as error:
            terminal.say(f"{error} It is forgotten here all the same.")
        kept.forget(terminal.url)
        if terminal.json:
            terminal.document({"url": terminal.url})
        else:
            terminal.say(f"Signed out at {terminal.url}.")
        return None


async def _begin(client: AdminClient, user: str, said: str) -> tuple[str, WhoView]:
    """What to show from now on, once the server has taken it."""
    plain = client.acting_as(None)
    token = (await plain.sign_in(user, said)).token if user else said
    return token, await client.acting_as(token).who_am_i()


def secret(prompt: str, ask_for: Callable[[str], str] = getpass.getpass) -> str:
    """A password or a token, from a person or from a pipe; never from an argument."""
    given = ask_for(prompt) if sys.stdin.isatty() else sys.stdin.readline()
    if not (given := given.strip("\n")):
        raise Stop(ExitCode.USAGE, "Nothing was given: type it, or pipe it in.")
    return given
