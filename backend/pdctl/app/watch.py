"""The signals of one control plane, joined from its parts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from pdctl.adapters import webhook
from pdctl.control.lookout import Lookout
from pdctl.control.plane import ControlPlane
from pdctl.control.signals.courier import Courier
from pdctl.control.signals.desk import Ground, SignalDesk
from pdctl.control.signals.memory import SignalStore
from pdctl.control.signals.tally import Tally
from pdctl.control.truth import TruthBook
from pdctl.domain.signals.rules import RECENT_S
from pdctl.domain.truth import Kv


def desk_of(plane: ControlPlane, store: SignalStore, lookout: Lookout, folder: Path) -> SignalDesk:
    """What watches `plane`; `folder` is on the disk that must not fill up."""
    return SignalDesk(
        state=plane.state, feed=plane.feed, clock=plane.clock, store=store,
        tally=Tally(plane.clock), load=plane.load,
        handoffs=partial(handoffs, plane.truth),
        ground=Ground(partial(disk_used, folder), _in_words(lookout)),
        scrape_interval_s=plane.scrape_interval_s, operations=plane.operations,
        courier=lambda delivered: Courier(
            webhook.post, plane.clock, spec=lambda: plane.state.fleet.desired.signals.webhook,
            delivered=delivered, fleet=plane.state.fleet.desired.name,
            rng=Random(),  # noqa: S311 - it spreads retries
        ),
    )  # fmt: skip


def _in_words(lookout: Lookout) -> Callable[[], str]:
    return lambda: "; ".join(lookout.notes)


def handoffs(truth: TruthBook) -> dict[str, dict[str, float]]:
    """By pair: what became of KV that was handed over lately; nothing while none went wrong."""
    if not truth.view("all", RECENT_S).by.get(Kv.RECOMPUTED):
        return {}
    pairs = (by.removeprefix("pair:") for by in truth.groups() if by.startswith("pair:"))
    return {pair: truth.view(f"pair:{pair}", RECENT_S).by for pair in pairs}


def disk_used(folder: Path) -> float | None:
    """The share (0..1) of its disk that is not free for us; None when it cannot be told."""
    try:
        disk = shutil.disk_usage(folder)
    except OSError:
        return None
    return 1 - disk.free / disk.total if disk.total else None
