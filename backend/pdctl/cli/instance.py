"""`pdctl instance ID`: one instance, with all that its engine and its machine tell of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.status import PHASES
from pdctl.cli.terminal import SIMULATED, ExitCode, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from datetime import datetime

    from pdctl.client.admin import AdminClient
    from pdctl.contract.engine import GpuView, StatsView, UsageView
    from pdctl.contract.resources import FleetView, InstanceView

EXAMPLES = """
  pdctl instance decode-0
  pdctl instance decode-0 --json | jq .stats
"""
Id = Annotated[str, typer.Argument(metavar="INSTANCE", help='For example "prefill-0".')]


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "instance", examples=EXAMPLES)
    def instance(terminal: Terminal, id_: Id) -> ExitCode | None:
        """Show one instance: its state, its engine's metrics, its processes and devices."""

        async def both(client: AdminClient) -> tuple[InstanceView, FleetView]:
            return await client.instance(id_), await client.fleet()

        one, fleet = ask(terminal, both)
        if terminal.json:
            terminal.document(one)
        else:
            _show(terminal, one, fleet.at)
        return None


def _show(terminal: Terminal, one: InstanceView, now: datetime) -> None:
    rows = [
        ("State", f"{one.phase} for {figures.age(one.since, now)}, {one.reason}"),
        ("Message", one.message),
        ("Pool", f"{one.pool}, role {one.role}"),
        ("Place", _place(one)),
        ("Process", f"start {one.generation}, pid {one.pid or figures.UNKNOWN}"),
        ("Load", f"{one.inflight} open legs"),
        *_stats(one.stats, now),
        *_usage(one.usage, now),
    ]
    width = max(len(name) for name, _ in rows)
    phase = terminal.paint(one.phase, PHASES.get(one.phase, ""))
    terminal.data(f"{terminal.paint(one.id, 'bold')}  {phase}")
    terminal.data("\n".join(f"{name:<{width}}  {text}" for name, text in rows if text))
    if one.simulated:
        terminal.say(SIMULATED)


def _place(one: InstanceView) -> str:
    seat = f", device {one.device}" if one.device else f", core {one.core}" if one.core else ""
    return f"port {one.http_port}, side channel {one.side_channel_port}{seat}"


def _aged(at: datetime, now: datetime, *, stale: bool) -> str:
    age = figures.age(at, now)
    return f"STALE: {age} old" if stale else f"{age} ago"


def _stats(stats: StatsView | None, now: datetime) -> Iterator[tuple[str, str]]:
    if stats is None:
        yield "Metrics", "not read yet"
        return
    count = figures.count
    yield "Metrics", _aged(stats.at, now, stale=stats.stale)
    ranks = f" ({stats.ranks} ranks together)" if stats.ranks > 1 else ""
    yield (
        "Requests",
        (
            f"{count(stats.running)} running, {count(stats.waiting)} waiting"
            f" ({count(stats.waiting_deferred)} of them for KV){ranks}"
        ),
    )
    yield "KV", f"{figures.percent(stats.kv_usage)} in use, {count(stats.preemptions)} preemptions"
    yield (
        "Tokens",
        (
            f"{count(stats.generation_tokens_per_s)} generated and "
            f"{count(stats.prompt_tokens_per_s)} read a second; of prompts since its start "
            f"{count(stats.prompt_tokens_local)} computed here, "
            f"{count(stats.prompt_tokens_cached)} cached, "
            f"{count(stats.prompt_tokens_remote)} handed over"
        ),
    )
    yield from _pulls(stats)


def _pulls(stats: StatsView) -> Iterator[tuple[str, str]]:
    """Where the KV of prompts was found, and how it came."""
    count, own = figures.count, _found(stats.prefix_hits, stats.prefix_queries)
    yield "Caches", f"own {own}, connector {_found(stats.external_hits, stats.external_queries)}"
    if stats.fetch_queued is not None:
        yield (
            "KV pulls",
            (
                f"{count(stats.fetch_queued)} to begin, {count(stats.fetch_running)} under way, "
                f"{count(stats.fetch_done)} to be taken up"
            ),
        )
    each = None
    if stats.nixl_seconds is not None and stats.nixl_transfers:
        each = stats.nixl_seconds / stats.nixl_transfers * 1000
    yield (
        "NIXL",
        (
            f"{count(stats.nixl_transfers)} transfers ({figures.ms(each)} each), "
            f"{figures.size(stats.nixl_bytes)}; {count(stats.nixl_failures)} failed, "
            f"{count(stats.nixl_expired)} leases expired, {count(stats.nixl_late)} late"
        ),
    )


def _found(hits: float | None, queries: float | None) -> str:
    if hits is None or not queries:
        return figures.UNKNOWN
    return f"{figures.percent(hits / queries)} of {figures.count(queries)} tokens"


def _usage(usage: UsageView | None, now: datetime) -> Iterator[tuple[str, str]]:
    if usage is None:
        return
    cores = figures.UNKNOWN if usage.cores is None else f"{usage.cores:.2f}"
    size = usage.resident if usage.proportional is None else usage.proportional
    yield (
        "Machine",
        (
            f"{usage.processes} processes, {cores} cores, {figures.size(size)} of memory, "
            f"{_aged(usage.at, now, stale=usage.stale)}"
        ),
    )
    for gpu in usage.gpus:
        yield f"GPU {gpu.device}", _gpu(gpu)


def _gpu(gpu: GpuView) -> str:
    size = figures.size
    return (
        f"{figures.percent(gpu.busy)} busy, {size(gpu.memory_used)} of {size(gpu.memory_total)} "
        f"({size(gpu.ours)} its own), {figures.count(gpu.watts)} W, {figures.count(gpu.celsius)} °C"
    )
