"""`pdctl status --at`: what the fleet was at a past moment, as text that says so in every part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdctl.cli import figures
from pdctl.cli.terminal import Terminal

if TYPE_CHECKING:
    from pdctl.contract.past import PastView

EVENTS = 12
REQUESTS = 8
"""Shown of each; `--json` has all."""


def lines(terminal: Terminal, past: PastView) -> list[str]:
    """The fleet then, and what happened around it."""
    when = f"PAST: {past.at:%Y-%m-%d %H:%M:%S} UTC, {figures.age(past.at, past.now)} ago"
    simulated = terminal.paint("  SIMULATED", "yellow") if past.simulated else ""
    mode, shape = past.mode or figures.UNKNOWN, past.shape or figures.UNKNOWN
    result = [
        terminal.paint(when, "yellow"),
        f"{terminal.paint(past.name, 'bold')}  mode {mode}  {shape}  "
        f"revision {past.revision or figures.UNKNOWN}{simulated}",
        "",
    ]
    pools = [(one.name, one.role, f"{one.ready}/{one.desired}") for one in past.pools]
    if pools:
        result += [*terminal.table(("POOL", "ROLE", "READY"), pools), ""]
    rows = [
        (
            one.id, one.phase or "unknown",
            figures.age(one.since, past.at) if one.since else figures.UNKNOWN, one.message,
        )
        for one in past.instances
    ]  # fmt: skip
    head = ("INSTANCE", "PHASE", "FOR", "DETAIL")
    result += terminal.table(head, rows) if rows else ["No instance is known from then."]
    pairs = [(f"{one.prefill} > {one.decode}", one.state, one.message) for one in past.pairs]
    if pairs:
        result += ["", *terminal.table(("PAIR", "STATE", ""), pairs)]
    return result + _around(terminal, past) + [f"note: {note}" for note in past.notes]


def _around(terminal: Terminal, past: PastView) -> list[str]:
    span = f"{past.since:%H:%M:%S} to {past.until:%H:%M:%S} UTC"
    result = []
    known = [one for one in past.latency if one.count]
    if known:
        rows = [
            (one.metric, str(one.count), figures.ms(one.p50_ms), figures.ms(one.p99_ms))
            for one in known
        ]
        result += ["", f"latency, whole minutes around {span}"]
        result += terminal.table(("METRIC", "COUNT", "P50", "P99"), rows)
    if past.events:
        near = sorted(past.events, key=lambda one: abs(one.at - past.at))[:EVENTS]
        rows = [
            (f"{one.at:%H:%M:%S}", one.kind, one.subject, _said(one.data))
            for one in sorted(near, key=lambda one: one.seq)
        ]
        result += ["", f"events nearest to it, of {len(past.events)} from {span}"]
        result += terminal.table(("AT", "KIND", "OF", ""), rows)
    if past.requests:
        served = [
            (one.id, one.path.value, one.outcome.value, figures.ms(one.ttft_ms),
             figures.ms(one.e2e_ms))
            for one in past.requests[:REQUESTS]
        ]  # fmt: skip
        result += ["", f"newest of {len(past.requests)} requests from {span}"]
        result += terminal.table(("REQUEST", "PATH", "OUTCOME", "TTFT", "E2E"), served)
    return result


def _said(data: dict[str, object]) -> str:
    words = (data.get("phase") or data.get("state") or data.get("verb"), data.get("message"))
    return ": ".join(str(word) for word in words if word)[:80]
