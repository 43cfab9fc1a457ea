"""Circuit breakers: an instance that keeps failing is left alone for a moment, then tried by one.

The router does not wait for the control plane's health checks. A refused connection opens the
circuit at once, other failures (timeouts, deaths, 5xx) when RUN come in a row; a 4xx is an answer.
After the pause the circuit is half open: one request tries, and its answer closes it or doubles the
pause. A table that names a new start of the instance closes it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pdctl.domain.handoff import Circuit
from pdctl.domain.table import RoutingTable, Target

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
RUN = 5
_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class _State:
    generation: int
    run: int = 0
    """Failures since the last answer."""
    opened: int = 0
    """How often the circuit opened since then."""
    until: float | None = None
    """When the pause ends; None while it is closed."""
    tried_by: object | None = None
    """Who has the one try while it is half open."""
    why: str = ""


class Breakers:
    """The circuits of those instances that failed last."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._states: dict[str, _State] = {}

    def failed(self, target: Target, why: str, *, at_once: bool = False) -> float | None:
        """`target` failed; the seconds until it is tried again when its circuit is open now."""
        now, state = self._monotonic(), self._states.get(target.id)
        if state is None or state.generation != target.generation:
            state = self._states[target.id] = _State(target.generation)
        if state.until is not None and state.until > now:
            return state.until - now  # failures of one moment count once
        state.run += 1
        if not (at_once or state.until is not None or state.run >= RUN):
            return None
        state.opened += 1
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (state.opened - 1))
        state.until, state.tried_by = now + pause, None
        state.why = why if state.run < 2 else f"{state.run} failures in a row, the last: {why}"
        return pause

    def worked(self, target: Target) -> bool:
        """`target` answered; True when that closes its circuit."""
        state = self._states.pop(target.id, None) if self._states else None
        return state is not None and state.until is not None

    def entered(self, ids: Iterable[str], request: object) -> None:
        """`request` goes to these: where a circuit is half open, it is the one that tries."""
        for id_ in ids if self._states else ():
            state = self._states.get(id_)
            if state is not None and state.until is not None and state.tried_by is None:
                state.tried_by = request

    def left(self, id_: str, request: object) -> None:
        """`request` is there no more: if it leaves without an answer, another may try."""
        state = self._states.get(id_)
        if state is not None and state.tried_by is request:
            state.tried_by = None

    def renew(self, table: RoutingTable) -> None:
        """Forget what the table no longer names, or names as a new start."""
        generations: dict[str, int] = {one.id: one.generation for one in table.targets}
        self._states = {
            id_: state
            for id_, state in self._states.items()
            if generations.get(id_) == state.generation
        }

    def closed_to(self) -> frozenset[str]:
        """Ids to leave alone now: open, or half open and being tried."""
        if not self._states:
            return _NOBODY
        now = self._monotonic()
        return frozenset(
            id_
            for id_, one in self._states.items()
            if one.until is not None and (one.until > now or one.tried_by is not None)
        )

    def being_tried(self) -> bool:
        """Some circuit is half open, and soon decided."""
        return any(one.tried_by is not None for one in self._states.values())

    def circuits(self) -> dict[str, Circuit]:
        """Those that are not closed."""
        now = self._monotonic()
        return {
            id_: Circuit("open" if one.until > now else "half_open", one.why)
            for id_, one in self._states.items()
            if one.until is not None
        }
