"""The fleet as a page shows it: its state in one word, pools with their instances, pairs as a grid.

Pure: wire models in, small frozen descriptions out; nothing is asked for and nothing is formatted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pdctl.contract.resources import FleetView, InstanceView, PairView, PoolView
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode, Role

GRID_LIMIT = 400
"""Above so many pairs a grid is unreadable: counts and the pairs that are not fine are shown."""
LARGE_POOL = 16
"""Above so many instances a reader looks for the ones in trouble, not for a place in the list."""
WINDOW = 24
"""Rows and columns of the pair matrix that are shown at once."""
_IDLE = (Phase.STOPPED,)


@dataclass(frozen=True, slots=True)
class State:
    """What the whole fleet is doing, in one word and one sentence."""

    tone: str
    glyph: str
    word: str
    why: str


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool and its instances."""

    pool: PoolView
    instances: tuple[InstanceView, ...]
    phases: tuple[tuple[Phase, int], ...]
    """How many are in each phase, most first."""
    listed: bool = True
    """It is a pool of the desired fleet, so it can be resized."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Prefill x decode pairs as rows and columns, or counts when there are too many."""

    prefills: tuple[str, ...]
    decodes: tuple[str, ...]
    cells: dict[tuple[str, str], PairView]
    counts: tuple[tuple[str, int], ...]
    troubled: tuple[PairView, ...]

    @property
    def small(self) -> bool:
        """True when every pair can have a cell."""
        return len(self.cells) <= GRID_LIMIT


def servable(fleet: FleetView, mode: Mode) -> bool:
    """True when a request could be served in the way of `mode` now, not only whole."""
    ready = [one.role for one in fleet.instances if one.phase is Phase.READY]
    if mode is Mode.CHUNKED or not ready:
        return bool(ready)
    return any(role is not Role.DECODE for role in ready) and any(
        role is not Role.PREFILL for role in ready
    )


def state_of(fleet: FleetView) -> State:
    """The state of the fleet: down, failing, stopping, starting, degraded or ready."""
    wanted = sum(pool.desired for pool in fleet.pools)
    ready = sum(pool.ready for pool in fleet.pools)
    failed = [one.id for one in fleet.instances if one.phase is Phase.FAILED]
    ratio = f"{ready} of {wanted} instances ready"
    if not wanted:
        return State("idle", "○", "Empty", "no instance is wanted")
    if failed:
        word = "Failing" if ready else "Down"
        return State("bad", "✕", word, f"{ratio}; failed: {_listed(failed)}")
    if any(one.reason is Reason.SHUTDOWN for one in fleet.instances):
        return State("warn", "▽", "Stopping", f"{ratio}; pdctl is shutting down")
    if not ready:
        if any(one.phase not in _IDLE for one in fleet.instances):
            return State("busy", "◔", "Starting", ratio)
        return State("bad", "✕", "Down", f"{ratio}; no request can be served")
    if not servable(fleet, fleet.mode):
        why = f"{ratio}; without a ready pair, requests are served whole"
        return State("warn", "▲", "Degraded", why)
    if ready < wanted:
        return State("warn", "▲", "Degraded", ratio)
    return State("ok", "●", "Ready", ratio)


def pool_rows(fleet: FleetView) -> list[PoolRow]:
    """Every pool with its instances; instances of an unlisted pool come last, under its name."""
    by_pool: dict[str, list[InstanceView]] = {pool.name: [] for pool in fleet.pools}
    for one in fleet.instances:
        by_pool.setdefault(one.pool, []).append(one)
    known = {pool.name: pool for pool in fleet.pools}
    return [
        PoolRow(
            pool=known.get(name) or _unlisted(name, instances),
            instances=_arranged(instances),
            phases=tuple(Counter(one.phase for one in instances).most_common()),
            listed=name in known,
        )
        for name, instances in by_pool.items()
    ]


def grid(pairs: Iterable[PairView]) -> Grid:
    """The pairs by row and column."""
    cells = {(pair.prefill, pair.decode): pair for pair in pairs}
    tally = Counter(pair.state for pair in cells.values())
    return Grid(
        prefills=tuple(dict.fromkeys(prefill for prefill, _ in cells)),
        decodes=tuple(dict.fromkeys(decode for _, decode in cells)),
        cells=cells,
        counts=tuple(sorted(tally.items())),
        troubled=tuple(pair for pair in cells.values() if pair.state not in ("ok", "untried")),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the matrix: some rows and columns, and where the next ones begin."""

    prefills: tuple[str, ...]
    decodes: tuple[str, ...]
    row: int
    column: int
    rows: tuple[int, ...]
    """Where each part of the rows begins; one: all are shown."""
    columns: tuple[int, ...]


def window(whole: Grid, row: int, column: int) -> Window:
    """The part of `whole` that holds `row` and `column`; what is not there is the first part."""
    row, column = _start(row, len(whole.prefills)), _start(column, len(whole.decodes))
    return Window(
        prefills=whole.prefills[row : row + WINDOW],
        decodes=whole.decodes[column : column + WINDOW],
        row=row,
        column=column,
        rows=tuple(range(0, len(whole.prefills), WINDOW)),
        columns=tuple(range(0, len(whole.decodes), WINDOW)),
    )


def _start(at: int, length: int) -> int:
    return at // WINDOW * WINDOW if at < length else 0


def _arranged(instances: list[InstanceView]) -> tuple[InstanceView, ...]:
    """In the server's order; in a large pool those that are not ready come first."""
    if len(instances) <= LARGE_POOL:
        return tuple(instances)
    return tuple(sorted(instances, key=lambda one: one.phase is Phase.READY))


def _unlisted(name: str, instances: list[InstanceView]) -> PoolView:
    ready = sum(one.phase is Phase.READY for one in instances)
    return PoolView(name=name, role=instances[0].role, desired=0, ready=ready)


def _listed(names: list[str], limit: int = 3) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
