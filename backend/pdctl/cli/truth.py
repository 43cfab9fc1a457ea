"""`pdctl truth`: whether KV that was handed over really moved, and the leases that are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pdctl.cli import figures
from pdctl.cli.latency import SinceStart, WindowS, span
from pdctl.cli.terminal import SIMULATED, ExitCode, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.contract.truth import TruthPage, TruthView

HEAD = ("OF", "MOVED", "CACHED", "RECOMPUTED", "UNKNOWN", "STRANDED", "EXPIRED", "FAILED", "LATE")
EXAMPLES = """
  pdctl truth
  pdctl truth --window 3600 --json
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "truth", examples=EXAMPLES)
    def truth(
        terminal: Terminal, window: WindowS = None, since_start: SinceStart = False
    ) -> ExitCode | None:
        """Show whether KV that was handed over really moved from prefill to decode.

        A decode engine that cannot pull computes the prompt itself and answers all the same: a
        silent recompute, which makes P/D slower than no P/D. Each handed-over request is judged
        by its decode engine's own counters: moved (decode pulled), cached (decode had it),
        recomputed, or unknown (the counters do not tell it from others).

        stranded: the request ended between prefill and decode, its KV stayed until its lease
        ended. NIXL counts expired leases, failed pulls, and late ones: those ended after the
        lease, and may have read KV of other requests.
        """
        seconds = span(window, since_start=since_start)
        page = ask(terminal, lambda client: client.truth(seconds))
        if terminal.json:
            terminal.document(page)
        else:
            _show(terminal, page)
        return None


def _show(terminal: Terminal, page: TruthPage) -> None:
    terminal.data(
        "\n".join(terminal.table(HEAD, [_row(one) for one in (page.fleet, *page.groups)]))
    )
    if page.leases or page.stranded:
        terminal.data("")
        terminal.data(
            "\n".join(terminal.table(("KV PINNED ON", "BY", "AGE", "LEASE", "WHY"), _pinned(page)))
        )
    terminal.say(verdict(page))
    if page.pending:
        terminal.say(f"{page.pending} more are judged with the next scrape.")
    terminal.say("since the server started" if page.window_s is None else f"last {page.window_s} s")
    if page.simulated:
        terminal.say(SIMULATED)


def verdict(page: TruthPage) -> str:
    """The one sentence that an operator came for."""
    one = page.fleet
    if one.recomputed:
        return (
            f"{one.recomputed} handed-over requests were computed twice, silently "
            f"({one.recomputed_tokens} prompt tokens): decode did not pull their KV. "
            "`pdctl pairs` and the decode engine's log say more."
        )
    if one.share is not None:
        return f"KV moved for all {one.moved + one.cached} handed-over requests that can be judged."
    return "No handed-over request could be judged in this window."


def _row(one: TruthView) -> tuple[str, ...]:
    numbers = (
        one.moved, one.cached, one.recomputed, one.unknown, one.stranded, one.expired, one.failed,
        one.late,
    )  # fmt: skip
    return (one.by, *(str(number) for number in numbers))


def _pinned(page: TruthPage) -> list[tuple[str, ...]]:
    waiting: list[tuple[str, ...]] = [
        (
            one.prefill, f"{one.requests} requests", f"{one.oldest_s:.1f} s",
            f"{one.lease_s:.0f} s", "decode is to pull it",
        )
        for one in page.leases
    ]  # fmt: skip
    return waiting + [
        (
            one.prefill,
            one.request,
            f"{one.age_s:.1f} s",
            f"{one.lease_s:.0f} s",
            f"{one.why}; {figures.count(one.tokens)} tokens",
        )
        for one in page.stranded
    ]
