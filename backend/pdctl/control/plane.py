"""Everything the admin API may touch, in one bundle without settings and without behaviour.

Built by the composition root (and by tests over fakes); handed to `api.create_api`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pdctl.control.golden import GoldenChecks
from pdctl.control.goodput import GoodputBook
from pdctl.control.handover import Handover
from pdctl.control.latency import LatencyBook
from pdctl.control.marks import Marks
from pdctl.control.minutes import Minutes
from pdctl.control.plans import PlanBook
from pdctl.control.request_log import RequestLog
from pdctl.control.truth import TruthBook
from pdctl.domain.bundle import Manifest
from pdctl.domain.handoff import Load
from pdctl.domain.keeping import Keeping
from pdctl.ports import Clock, RouterWorker, Store

if TYPE_CHECKING:
    from pdctl.control.feed import Feed
    from pdctl.control.fleet_state import FleetState
    from pdctl.control.intake import Intake
    from pdctl.control.operations import Operations
    from pdctl.control.orphans import Orphans
    from pdctl.control.retention import Retention
    from pdctl.control.signals.desk import SignalDesk
    from pdctl.control.tracing import Tracing
    from pdctl.control.usage import UsageBook

Command = tuple[Sequence[str], dict[str, str]]
"""(argv, env) of an instance, secrets redacted."""


@dataclass(slots=True)
class ControlPlane:
    """The parts of one control plane, as the admin API sees them."""

    state: FleetState
    feed: Feed
    operations: Operations
    requests: RequestLog
    latency: LatencyBook
    store: Store
    clock: Clock
    data_plane_url: str
    command_view: Callable[[str], Command | None]
    """The command of an instance, None when there is no such instance."""
    log_path: Callable[[str, bool], Path | None]
    """(instance id, previous) -> its log file, None when there is none (yet); blocking."""
    read_tail: Callable[[Path, int], list[str]]
    """The last so many lines of a log; blocking."""
    follow: Callable[[Path, int], AsyncIterator[str]]
    """The last so many lines, then every new one, for ever; lines come without their end."""
    load: Callable[[], Load]
    """What the router has open now."""
    scrape_interval_s: float = 2.0
    started_at: float = 0.0
    """Wall time, UTC seconds."""
    open_paths: Callable[[], dict[str, int]] = field(default=dict)
    """Open requests by path, where the router counts them."""
    router_workers: Callable[[], Sequence[RouterWorker]] = field(default=list)
    """The router's processes, where it has any of its own."""
    router_log: Callable[[str], Path | None] = lambda _: None
    """The log of one of them by its name ("router-0"); blocking."""
    orphans: Orphans | None = None
    """Engines that no instance owns; None where the machine's processes are not looked at."""
    tracing: Tracing | None = None
    """Sends spans on; None where nobody collects them."""
    usage: UsageBook | None = None
    """What the instances' processes take of the machine; None where nobody looks."""
    golden: GoldenChecks | None = None
    """Makes golden checks; None where there is no engine to ask."""
    keeping: Keeping = field(default_factory=Keeping)
    """Which requests the store has."""
    retention: Retention | None = None
    """Drops old ones; None where nothing is dropped."""
    intake: Intake | None = None
    """Takes in what the router tells; None where no router is."""
    minutes: Minutes | None = None
    """Latency by minute; None where nothing is kept."""
    marks: Marks | None = None
    """Named moments."""
    goodput: GoodputBook = field(init=False)
    truth: TruthBook = field(init=False)
    signals: SignalDesk | None = None
    """What is wrong; None where nobody watches."""
    bundled: Callable[[Manifest], AbstractAsyncContextManager[Path]] | None = None
    """Writes the bundle that a manifest describes, for as long as the block lasts; None where
    there is nothing to take away."""
    plans: PlanBook = field(init=False)
    handover: Handover = field(init=False)

    def __post_init__(self) -> None:
        self.truth = TruthBook(self.state, self.clock, self.load)
        self.goodput = GoodputBook(self.clock, lambda: self.state.fleet.desired.slos)
        self.handover = Handover(self.state, self.feed)
        self.plans = PlanBook(self.state, self.feed, self.clock, self.operations)

    @property
    def epoch(self) -> str:
        """Names this start: positions in the feed of another start mean nothing here."""
        return f"{int(self.started_at * 1000):x}"
