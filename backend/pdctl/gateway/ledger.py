"""What the router has open on each instance: legs, estimated tokens, and KV still to be pulled.

A leg fills a place of the instance's limit; a hold (prefill is done, decode has not pulled yet)
fills none, but an instance with holds is not idle: a drain must wait for it.
"""

from __future__ import annotations

from pdctl.domain.handoff import Path
from pdctl.domain.table import RoutingTable
from pdctl.routing.policy import Candidate
from pdctl.routing.router import Route


class Ledger:
    """The counts; `loads` is what policies look at."""

    def __init__(self) -> None:
        self.loads: dict[str, Candidate] = {}
        self.paths: dict[str, int] = {}
        """Open requests by path."""
        self._holds: dict[str, dict[Reservation, float]] = {}
        """By instance: who holds KV there, and since when (monotonic), the oldest first."""
        self._turn = 0

    def reserve(self, route: Route, tokens: int, cached: int = 0) -> Reservation:
        """Open one leg on every instance of the route; who computes has `cached` tokens of it."""
        for id_ in route.instances:
            self._turn += 1
            known = self.loads.get(id_) or Candidate(id_)
            ahead = known.ahead + (tokens - cached if id_ == route.computer.id else 0)
            self.loads[id_] = Candidate(
                id_, known.legs + 1, known.tokens + tokens, self._turn, ahead
            )
        return Reservation(self, route, tokens, tokens - cached)

    def take_path(self, path: str, change: int) -> None:
        """One request more or less on a path."""
        self.paths[path] = self.paths.get(path, 0) + change
        if not self.paths[path]:
            del self.paths[path]

    def end_leg(self, id_: str, tokens: int) -> None:
        """One leg less."""
        was = self.loads[id_]
        self.loads[id_] = Candidate(
            was.id, was.legs - 1, was.tokens - tokens, was.last_chosen, was.ahead
        )

    def computed(self, id_: str, tokens: int) -> None:
        """So many prompt tokens fewer to compute."""
        was = self.loads[id_]
        self.loads[id_] = Candidate(
            was.id, was.legs, was.tokens, was.last_chosen, was.ahead - tokens
        )

    def hold(self, id_: str, who: Reservation, at: float) -> None:
        """One hold more."""
        self._holds.setdefault(id_, {})[who] = at

    def unhold(self, id_: str, who: Reservation) -> None:
        """One hold less."""
        del self._holds[id_][who]
        if not self._holds[id_]:
            del self._holds[id_]

    def held(self) -> dict[str, tuple[int, float]]:
        """Instances with holds: how many, and since when the oldest."""
        return {id_: (len(one), next(iter(one.values()))) for id_, one in self._holds.items()}

    def open_on(self, id_: str) -> int:
        """Legs and holds of one instance."""
        known = self.loads.get(id_)
        return (known.legs if known else 0) + len(self._holds.get(id_, ()))

    def inflight(self) -> dict[str, int]:
        """Legs and holds of every instance that has any."""
        ids = [id_ for id_, one in self.loads.items() if one.legs or id_ in self._holds]
        return {id_: self.open_on(id_) for id_ in ids}

    def renew(self, table: RoutingTable) -> None:
        """Forget idle instances that the table no longer names."""
        named = {str(one.id) for one in table.targets}
        self.loads = {
            id_: one for id_, one in self.loads.items() if id_ in named or self.open_on(id_)
        }


class Reservation:
    """What one request has open; each instance is given back exactly once, or KeyError."""

    __slots__ = ("_ahead", "_held", "_ledger", "_open", "_path", "_tokens", "computes", "route")

    def __init__(self, ledger: Ledger, route: Route, tokens: int, computes: int) -> None:
        self.route, self.computes = route, computes
        self._ledger, self._tokens, self._path = ledger, tokens, route.path
        self._ahead = computes
        ledger.take_path(self._path, 1)
        self._open: set[str] = set(route.instances)
        self._held: set[str] = set()

    def hold(self, id_: str, at: float = 0.0) -> None:
        """The leg on `id_` is over; its KV is still needed."""
        self._open.remove(id_)
        self._held.add(id_)
        self.computed(id_)
        self._ledger.end_leg(id_, self._tokens)
        self._ledger.hold(id_, self, at)

    def release(self, id_: str) -> bool:
        """Give back `id_`; True when nothing at all is open on it any more."""
        if id_ in self._held:
            self._held.remove(id_)
            self._ledger.unhold(id_, self)
        else:
            self._open.remove(id_)
            self.computed(id_)
            self._ledger.end_leg(id_, self._tokens)
        if not self._open and not self._held:
            self._ledger.take_path(self._path, -1)
        return self._ledger.open_on(id_) == 0

    def computed(self, id_: str) -> None:
        """The prompt is computed, if `id_` was to do that."""
        if self._ahead and id_ == self.route.computer.id:
            self._ledger.computed(id_, self._ahead)
            self._ahead = 0

    def goes_by(self, path: Path) -> None:
        """The request takes another path, with what it has open."""
        if path is not self._path:
            self._ledger.take_path(self._path, -1)
            self._ledger.take_path(path, 1)
            self._path = path

    @property
    def left(self) -> tuple[str, ...]:
        """What was not given back yet."""
        return (*self._open, *self._held)
