"""`pdctl status`: the fleet at a glance, once or for as long as one looks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli import figures
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import ask, verb

if TYPE_CHECKING:
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import CheckView, ExitView, FleetView, InstanceView, ReadyView

PHASES = {
    "ready": "green", "failed": "red", "backoff": "red", "unknown": "yellow", "draining": "yellow",
    "stopping": "yellow", "pending": "cyan", "starting": "cyan", "loading": "cyan",
    "warming": "cyan", "probing": "cyan", "stopped": "dim",
}  # fmt: skip
PAIRS = {
    "ok": "green", "failing": "red", "quarantined": "red", "probing": "cyan", "untried": "dim",
    "incompatible": "yellow",
}  # fmt: skip
WORKERS = {
    "listening": "green", "waiting": "cyan", "replace": "cyan", "draining": "yellow",
    "done": "dim", "away": "red", "silent": "red",
}  # fmt: skip
EXAMPLES = """
  pdctl status
  pdctl status --watch
  pdctl status --at '10 min ago'
  pdctl status --json | jq '.instances[] | {id, phase}'
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "status", examples=EXAMPLES)
    def status(
        terminal: Terminal,
        *,
        watch: Annotated[
            bool, typer.Option("--watch", "-w", help="Keep showing it until Ctrl-C.")
        ] = False,
        interval: Annotated[
            float, typer.Option(min=0.2, help="Seconds between two looks with --watch.")
        ] = 1.0,
        at: Annotated[
            str, typer.Option(help="A past moment instead: '10 min ago', ISO 8601, or a mark.")
        ] = "",
        around: Annotated[
            int, typer.Option(min=10, max=86_400, help="With --at: seconds before and after it.")
        ] = 300,
    ) -> ExitCode | None:
        """Show pools, instances and pairs.

        Exit code 3 when the fleet cannot serve. With --at, what stored facts tell of a past moment:
        the fleet as it was, and the events, requests and latency around it.
        """
        if at:
            _then(terminal, at, around, watch=watch)
            return None
        if watch:
            return ask(terminal, lambda client: _watch(terminal, client, interval))
        fleet, ready = ask(terminal, _look)
        if terminal.json:
            terminal.document(fleet)
        else:
            terminal.data("\n".join(lines(terminal, fleet, ready)))
        return ExitCode.OK if ready.ready else ExitCode.UNHEALTHY


def _then(terminal: Terminal, at: str, around: int, *, watch: bool) -> None:
    from pdctl.cli import past

    if watch:
        raise Stop(ExitCode.USAGE, "The past does not move: leave out --watch or --at.")
    found = ask(terminal, lambda client: client.past(at, around))
    if terminal.json:
        terminal.document(found)
    else:
        terminal.data("\n".join(past.lines(terminal, found)))


async def _look(client: AdminClient) -> tuple[FleetView, ReadyView]:
    return await client.fleet(), await client.ready()


async def _watch(terminal: Terminal, client: AdminClient, interval: float) -> ExitCode:
    from pdctl.client.errors import Unreachable

    fleet, ready = await _look(client)  # a first failure is an answer, a later one is news
    seen: object = None
    while True:
        if terminal.tty and not terminal.json:
            terminal.out.write("\x1b[H\x1b[2J")
            terminal.data("\n".join(lines(terminal, fleet, ready)))
        elif (now := _shape(fleet)) != seen:
            seen = now
            if terminal.json:
                terminal.document(fleet, line=True)
            else:
                terminal.data("\n".join([*lines(terminal, fleet, ready), ""]))
        await asyncio.sleep(interval)
        try:
            fleet, ready = await _look(client)
        except Unreachable as error:
            terminal.say(f"{error} (still looking)")


def _shape(fleet: FleetView) -> object:
    """What is worth a new output: phases, not numbers that always move."""
    instances = tuple((one.id, one.phase, one.message) for one in fleet.instances)
    return fleet.mode, fleet.revision, instances, tuple((p.prefill, p.state) for p in fleet.pairs)


def lines(terminal: Terminal, fleet: FleetView, ready: ReadyView) -> list[str]:
    """The fleet as text."""
    mark = terminal.paint("ready", "green") if ready.ready else terminal.paint("not ready", "red")
    simulated = terminal.paint("  SIMULATED", "yellow") if fleet.simulated else ""
    result = [
        f"{terminal.paint(fleet.name, 'bold')}  {mark}  mode {fleet.mode}  "
        f"{fleet.shape}{simulated}",
        f"model {fleet.model} as {fleet.served_name}  connector {fleet.connector}  "
        f"revision {fleet.revision}",
        f"router {fleet.router.url}  {fleet.router.inflight} in flight, "
        f"{fleet.router.queued} queued",
        "",
    ]
    pools = [(p.name, p.role, f"{p.ready}/{p.desired}", p.phase or "none") for p in fleet.pools]
    result += terminal.table(("POOL", "ROLE", "READY", "WORST"), pools, {3: PHASES})
    result += ["", *_instances(terminal, fleet), *_workers(terminal, fleet)]
    if fleet.pairs:
        rows = [
            (f"{p.prefill} > {p.decode}", p.state, figures.ms(p.handoff_ms), p.message)
            for p in fleet.pairs
        ]
        result += ["", *terminal.table(("PAIR", "STATE", "PROBE", ""), rows, {1: PAIRS})]
    if fleet.signals:
        count = "1 signal fires" if fleet.signals == 1 else f"{fleet.signals} signals fire"
        result.append(terminal.paint(f"{count}: see pdctl signals", "red"))
    result += [_lack(check, ready) for check in ready.checks if not check.ok]
    return result + [f"note: {note}" for note in fleet.notes]


def _workers(terminal: Terminal, fleet: FleetView) -> list[str]:
    """The router's own processes, the draining ones last."""
    rows = [
        (
            f"router-{one.slot}", one.state,
            figures.age(one.since, fleet.at) if one.since else figures.UNKNOWN, str(one.inflight),
            str(one.pid), one.version, f"{one.dropped} records lost" if one.dropped else "",
        )
        for one in fleet.router.workers
    ]  # fmt: skip
    head = ("ROUTER", "STATE", "FOR", "OPEN LEGS", "PID", "VERSION", "")
    return ["", *terminal.table(head, rows, {1: WORKERS})] if rows else []


def _lack(check: CheckView, ready: ReadyView) -> str:
    """A check that failed: it keeps the fleet from serving, or only limits it."""
    kind = "limited" if ready.ready else "not ready"
    fix = "" if "pdctl status" in check.fix else check.fix  # that is what is being read
    return f"{kind}: {check.name}: {check.detail.rstrip('.')}. {fix}".rstrip()


def _instances(terminal: Terminal, fleet: FleetView) -> list[str]:
    head = ("INSTANCE", "PHASE", "FOR", "IN FLIGHT", "KV", "TOK/S", "PORT", "ON", "DETAIL")
    rows = [
        (
            one.id,
            one.phase,
            figures.age(one.since, fleet.at),
            str(one.inflight),
            figures.percent(one.stats.kv_usage) if one.stats else figures.UNKNOWN,
            figures.count(one.stats.generation_tokens_per_s) if one.stats else figures.UNKNOWN,
            str(one.http_port),
            _seat(one),
            _detail(one),
        )
        for one in fleet.instances
    ]
    return terminal.table(head, rows, {1: PHASES})


def _seat(one: InstanceView) -> str:
    if one.device:
        return f"gpu {one.device}"
    return f"core {one.core}" if one.core else figures.UNKNOWN


def _detail(one: InstanceView) -> str:
    parts = [one.message]
    if one.progress:
        done = f" {one.progress.fraction * 100:.0f} %" if one.progress.fraction is not None else ""
        parts = [f"{one.progress.stage}{done}"]
    if one.retry_in_s is not None:
        parts.append(f"retry in {figures.span(one.retry_in_s)}")
    if one.circuit:
        parts.append(one.circuit.words)
    if one.outdated:
        parts.append("outdated flags")
    if one.stats and one.stats.stale:
        parts.append("numbers are stale")
    if one.exit and one.phase in ("failed", "backoff") and one.exit.first_error not in one.message:
        parts.append(one.exit.first_error)
    if one.exit and one.generation > 1 and one.phase not in ("failed", "backoff"):
        parts.append(_before(one.generation, one.exit))
    return ", ".join(part for part in parts if part)


def _before(generation: int, exit_: ExitView) -> str:
    """Why this is not the first start, unless the one before was asked to end."""
    if exit_.signal is None and not exit_.code:
        return ""
    how = f"exited with code {exit_.code}"
    if exit_.signal is not None:
        how = f"was killed by signal {exit_.signal}"
    why = f" ({exit_.first_error})" if exit_.first_error else ""
    return f"start {generation}: the one before {how}{why}"
