"""Facts of the feed as lines: in pdctl's own log, and wherever somebody watches a start.

Law: a line is derived from a published fact, never the other way round, so that log, feed and
faces cannot disagree. Requests are not written: there are thousands, and the store has them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.domain import pairing
from pdctl.domain.events import Event, EventKind
from pdctl.domain.fleet import Fleet
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Mode

log = logging.getLogger("pdctl.fleet")
Tell = Callable[[float, str], None]
"""Wall time (UTC seconds) and the line."""
_ALARMING = {
    Phase.FAILED.value: logging.ERROR,
    Phase.BACKOFF.value: logging.WARNING,
    Phase.UNKNOWN.value: logging.WARNING,
}
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}


@dataclass(frozen=True, slots=True)
class Line:
    """What one fact says."""

    level: int
    text: str


class Journal:
    """Writes every fact worth a line to the log, and hands it to `tell` when there is one."""

    def __init__(self, feed: Feed, state: FleetState, tell: Tell | None = None) -> None:
        self._state, self._tell = state, tell
        self._whole: bool | None = None
        feed.listen(self._take)

    def _take(self, event: Event) -> None:
        if (line := spell(event)) is not None:
            self._write(line, event.at)
        if event.kind in (EventKind.INSTANCE_CHANGED, EventKind.PAIR_CHANGED):
            # A fact is published in the same breath as its snapshot, and just before it.
            asyncio.get_running_loop().call_soon(self._sum_up, event.at)

    def _sum_up(self, at: float) -> None:
        """One line when the fleet becomes whole, and one when it no longer is."""
        if self._state.wishes.close_by is not None:
            return
        fleet = self._state.fleet
        now = whole(fleet)
        if now and self._whole is not True:
            what = f"{fleet.desired.shape}, mode {fleet.desired.mode}"
            self._write(Line(logging.INFO, f"the fleet is ready: {what}"), at)
        elif self._whole and not now:
            self._write(Line(logging.WARNING, "the fleet is no longer whole"), at)
        self._whole = now

    def _write(self, line: Line, at: float) -> None:
        log.log(line.level, "%s", line.text)
        if self._tell is not None:
            self._tell(at, line.text)


def whole(fleet: Fleet) -> bool:
    """Every pool at its size, and in PD mode a pair that hands over."""
    for pool in fleet.desired.pools:
        members = [one for one in fleet.instances if one.pool == pool.name]
        if sum(one.phase is Phase.READY for one in members) < pool.size:
            return False
    pd = fleet.desired.mode is Mode.PD
    return not pd or any(pair.state == pairing.OK for pair in fleet.pairs)


def spell(event: Event) -> Line | None:
    """The line that a fact is worth; None when it is not worth one."""
    data = event.data
    match event.kind:
        case EventKind.INSTANCE_CHANGED:
            return _instance(event.subject, data)
        case EventKind.PAIR_CHANGED:
            return _pair(event.subject, data)
        case EventKind.STOP_RUNG:
            return Line(logging.INFO, f"{event.subject}: {data.get('message') or data.get('rung')}")
        case EventKind.OPERATION:
            return _operation(event.subject, data)
        case EventKind.NOTICE:
            level = _LEVELS.get(str(data.get("level")), logging.INFO)
            return Line(level, f"{event.subject}: {data.get('message')}")
        case _:
            return None


def _instance(subject: str, data: dict[str, Any]) -> Line:
    phase = data.get("phase")
    message = str(data.get("message") or "").removeprefix(f"{phase}: ")  # it may say both
    text = f"{subject} {phase}" if phase else subject
    text += f": {message}" if message else ""
    return Line(_ALARMING.get(str(phase), logging.INFO), text)


def _pair(subject: str, data: dict[str, Any]) -> Line:
    state, message = str(data.get("state")), data.get("message")
    bad = state in (pairing.FAILING, pairing.QUARANTINED)
    text = f"pair {subject.replace('>', ' > ')} {state}" + (f": {message}" if message else "")
    return Line(logging.WARNING if bad else logging.INFO, text)


def _operation(subject: str, data: dict[str, Any]) -> Line:
    """Who did what to what, from where, and what came of it."""
    before, after = data.get("before"), data.get("after")
    change = f" from {before} to {after}" if before and after else ""
    text = (
        f"{data.get('verb')} {subject}{change}: {data.get('outcome')}, "
        f"asked by {data.get('actor') or 'nobody'} ({data.get('source') or 'unknown'})"
    )
    message = data.get("message")
    done = data.get("outcome") in ("done", "resumed")
    return Line(
        logging.INFO if done else logging.WARNING, text + (f": {message}" if message else "")
    )
