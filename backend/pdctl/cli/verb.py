"""How a function becomes a verb: the common options, one place for failures, deferred imports.

A verb is `name(terminal, its own options) -> ExitCode | None`; the common ones are added here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from pdctl.cli.terminal import (
    ExitCode,
    Terminal,
    debug,
    default_url,
    explain,
    hush,
    open_terminal,
)  # fmt: skip

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient

T = TypeVar("T")
Verb = Callable[..., ExitCode | None]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY

AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON with a schema_version instead of text.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but failures.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours (NO_COLOR does the same).")]
Url = Annotated[
    str, typer.Option("--url", help="Admin address.", envvar="PDCTL_URL", show_default=True)
]
TokenFile = Annotated[
    str | None,
    typer.Option("--token-file", help="File with the admin token.", envvar="PDCTL_TOKEN_FILE"),
]


def verb(
    app: typer.Typer, name: str, *, examples: str, remote: bool = True, documents: bool = True
) -> Callable[[Verb], Verb]:
    """Register a function as `pdctl NAME`; `remote` verbs ask a running pdctl serve."""

    def register(function: Verb) -> Verb:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        shared = _shared(remote=remote, documents=documents)
        names = {one.name for one in shared}

        def run(**given: Any) -> None:
            common = {key: given.pop(key) for key in names}
            raise typer.Exit(_guarded(function, common, given))

        parameters = [one.replace(kind=_KEYWORD) for one in own] + shared
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        run.__doc__ = function.__doc__
        app.command(name, epilog=f"\b\nExamples:\n{examples.strip(chr(10))}")(run)
        return function

    return register


def _shared(*, remote: bool, documents: bool) -> list[inspect.Parameter]:
    """The common options as parameters, in the order in which help shows them."""

    def option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
        return inspect.Parameter(name, _KEYWORD, annotation=annotation, default=default)

    result = [option("as_json", AsJson, False)] if documents else []
    if remote:
        result += [option("url", Url, default_url()), option("token_file", TokenFile, None)]
    return [*result, option("quiet", Quiet, False), option("no_color", NoColor, False)]


def _guarded(function: Verb, common: dict[str, Any], given: dict[str, Any]) -> int:
    """Run a verb; every failure becomes its exit code and a sentence."""
    terminal = Terminal()
    try:
        terminal = open_terminal(
            as_json=common.get("as_json", False),
            quiet=common["quiet"],
            no_color=common["no_color"],
            url=common.get("url", ""),
            token_file=common.get("token_file"),
        )
        return int(function(terminal, **given) or ExitCode.OK)
    except BrokenPipeError:
        hush()
        return ExitCode.OK
    except (Exception, KeyboardInterrupt) as error:
        debug()
        code, sentence = explain(error)
        if sentence:
            terminal.fail(sentence)
        return code


def ask(terminal: Terminal, question: Callable[[AdminClient], Awaitable[T]]) -> T:
    """Run `question` with a client of the admin API that the options name."""
    from pdctl.client.admin import AdminClient
    from pdctl.client.claim import user_at_host

    async def answer() -> T:
        async with AdminClient(
            terminal.url, terminal.token, source="cli", actor=user_at_host()
        ) as client:
            return await question(client)

    return asyncio.run(answer())


class ListFirst(TyperGroup):
    """A group of verbs that alone, or with the options of a list, lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb in where it is left out."""
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(ctx, args)
