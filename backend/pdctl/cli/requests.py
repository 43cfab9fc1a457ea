"""`pdctl requests`: what happened to each request, and the waterfall of one."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb
from pdctl.cli.waterfall import OUTCOMES, tokens_out, tpot, waterfall

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import RequestPage, RequestView

PATHS = ("pd", "chunked", "aggregated", "none")
SHORTEST = 6
"""Characters that may stand for a whole id."""
NEWEST = 1000
"""Requests among which a shortened id is looked for."""
STYLE = {4: OUTCOMES}
HEAD = (
    "RECEIVED", "ID", "ENDPOINT", "PATH", "OUTCOME", "TTFT", "TPOT", "TOTAL", "PROMPT", "OUT",
    "INSTANCES",
)  # fmt: skip
EXAMPLES = """
  pdctl requests --limit 20
  pdctl requests --slowest --path pd
  pdctl requests --follow
  pdctl requests --key alice
  pdctl requests --missed any --pair "prefill-0>decode-1"
  pdctl requests --outcome timeout --export > timeouts.jsonl
  pdctl requests 8a117c6f          the waterfall of one request, by the start of its id
"""
RequestId = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="Show this request's waterfall; 6 characters will do."),
]
Before = Annotated[str | None, typer.Option(help="Only requests older than this request id.")]
Slowest = Annotated[bool, typer.Option("--slowest", help="Slowest first.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Then show requests as they finish.")]
Export = Annotated[bool, typer.Option("--export", help="All that match, as JSON lines.")]
Key = Annotated[str | None, typer.Option(help="Only those of this API key (its name).")]
Pair = Annotated[str | None, typer.Option(metavar="P>D", help="Handed over on this pair.")]
Missed = Annotated[str | None, typer.Option(metavar="SLO|any", help="That missed an objective.")]
Filter = Annotated[str | None, typer.Option(help="Only requests with this value.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "requests", examples=EXAMPLES)
    def requests(
        terminal: Terminal,
        *,
        id_: RequestId = None,
        limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
        before: Before = None,
        path: Filter = None,
        outcome: Filter = None,
        instance: Filter = None,
        key: Key = None,
        model: Filter = None,
        pair: Pair = None,
        missed: Missed = None,
        slowest: Slowest = False,
        follow: Follow = False,
        export: Export = False,
    ) -> ExitCode | None:
        """List finished requests, or show one.

        Paths: pd, chunked, aggregated, none. Outcomes: ok, client_gone, rejected, overloaded,
        no_instance, upstream_error, timeout, truncated.
        """
        if id_ is not None:
            return _show(terminal, ask(terminal, lambda client: find(client, id_)))
        _refuse(path, outcome, slowest=slowest, follow=follow, export=export)
        wanted = {
            "path": path, "outcome": outcome, "instance": instance, "key": key, "model": model,
            "pair": pair, "slo_missed": missed,
        }  # fmt: skip
        if export:
            whole = {**wanted, "before": before, "slowest": slowest or None}
            return ask(terminal, lambda client: _export(terminal, client, whole))
        shown = partial(_page, terminal, wanted, limit, before, slowest=slowest, follow=follow)
        return ask(terminal, shown)


def _refuse(
    path: str | None, outcome: str | None, *, slowest: bool, follow: bool, export: bool
) -> None:
    if follow and (slowest or export):
        other = "--export" if export else "--slowest"
        raise Stop(ExitCode.USAGE, f"Give {other} or --follow, not both.")
    known(path, PATHS, "path")
    known(outcome, tuple(OUTCOMES), "outcome")


async def _export(terminal: Terminal, client: AdminClient, wanted: dict[str, Any]) -> None:
    async with aclosing(client.export_requests(**wanted)) as lines:  # whoever reads them may stop
        async for line in lines:
            terminal.data(line)


def known(given: str | None, words: tuple[str, ...], what: str) -> None:
    """Refuse a word that is none of `words`, with the nearest that is."""
    if given is None or given in words:
        return
    from pdctl.fleetfile.mistakes import nearest

    close = nearest(given, words)
    hint = f'Did you mean "{close}"? ' if close else ""
    raise Stop(ExitCode.USAGE, f"There is no {what} {given!r}. {hint}Known: {', '.join(words)}.")


async def find(client: AdminClient, id_: str) -> RequestView:
    """The request with that id, or the only one among the newest whose id begins so."""
    from pdctl.client.errors import NotFound

    try:
        return await client.request(id_)
    except NotFound:
        if len(id_) < SHORTEST:
            raise
        page = await client.requests(limit=NEWEST)
        found = [one.id for one in page.items if one.id.startswith(id_)]
        if not found:
            raise
    if len(found) > 1:
        few = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise Stop(ExitCode.USAGE, f"{len(found)} requests begin with {id_}: {few}. Give more.")
    return await client.request(found[0])


async def _page(
    terminal: Terminal,
    wanted: dict[str, str | None],
    limit: int,
    before: str | None,
    client: AdminClient,
    *,
    slowest: bool,
    follow: bool,
) -> None:
    shown = await client.requests(limit, before, slowest=slowest, **wanted)
    if not shown.items:
        await _explain_nothing(client, before, wanted["instance"])
    _list(terminal, shown, as_lines=follow, filtered=any((before, *wanted.values())))
    if follow:
        await _follow(terminal, client, wanted)


async def _explain_nothing(client: AdminClient, before: str | None, instance: str | None) -> None:
    """Nothing found: was it asked for something that never was?"""
    from pdctl.client.errors import NotFound

    if before is not None:
        try:
            await client.request(before)
        except NotFound as error:
            raise Stop(ExitCode.USAGE, f"--before: {error}") from error
    if instance is not None:
        known(instance, tuple(one.id for one in (await client.fleet()).instances), "instance")


def _list(terminal: Terminal, page: RequestPage, *, as_lines: bool, filtered: bool) -> None:
    if terminal.json and as_lines:
        for one in reversed(page.items):
            terminal.document(one, line=True)
    elif terminal.json:
        terminal.document(page)
    else:
        # Followed, the newest comes last, as in a log.
        items = list(reversed(page.items)) if as_lines else page.items
        terminal.data(
            "\n".join(terminal.table(HEAD, [_row(terminal, one) for one in items], STYLE))
        )
        if not page.items:
            terminal.say("No requests like that." if filtered else "No requests yet.")
        elif page.next and not as_lines:
            terminal.say(f"Older ones: pdctl requests --before {page.next}")
        if page.simulated:
            terminal.say(SIMULATED)


def _row(terminal: Terminal, one: RequestView) -> tuple[str, ...]:
    where = f"{one.prefill} > {one.decode}" if one.prefill else one.decode
    return (
        figures.clock(one.received_at), one.id, one.endpoint.removeprefix("/v1/"), one.path,
        one.outcome, figures.ms(one.ttft_ms), tpot(terminal, one), figures.ms(one.e2e_ms),
        figures.count(one.prompt_tokens), tokens_out(terminal, one), where,
    )  # fmt: skip


async def _follow(terminal: Terminal, client: AdminClient, wanted: dict[str, str | None]) -> None:
    from pdctl.client.errors import NotFound
    from pdctl.client.stream import Disconnected, Reset, watch
    from pdctl.contract.resources import EventView

    async for event in watch(client, None, ["request"]):
        if isinstance(event, Disconnected):
            terminal.say(f"{event.error} (trying again)")
        elif isinstance(event, Reset):
            terminal.say("Some requests were missed.")
        elif isinstance(event, EventView):
            try:
                one = await client.request(event.subject)
            except NotFound:
                continue  # a summary of many, or already forgotten
            if _fits(one, wanted):
                _follow_line(terminal, one)


def _fits(one: RequestView, wanted: dict[str, str | None]) -> bool:
    has: dict[str, set[str]] = {
        "path": {one.path}, "outcome": {one.outcome}, "key": {one.key}, "model": {one.model},
        "pair": {f"{one.prefill}>{one.decode}"},
        "slo_missed": {*one.slo_missed, *(["any"] if one.slo_missed else [])},
        "instance": {leg.instance for leg in one.legs},
    }  # fmt: skip
    return all(value is None or value in has[name] for name, value in wanted.items())


def _follow_line(terminal: Terminal, one: RequestView) -> None:
    if terminal.json:
        terminal.document(one, line=True)
    else:
        terminal.data(terminal.table(HEAD, [_row(terminal, one)], STYLE)[1])


def _show(terminal: Terminal, one: RequestView) -> ExitCode:
    if terminal.json:
        terminal.document(one)
    else:
        terminal.data("\n".join(waterfall(terminal, one)))
    return ExitCode.OK
