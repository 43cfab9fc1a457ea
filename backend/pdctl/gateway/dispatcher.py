"""Finds a route and reserves it in one step; when all is full, requests wait in a fair line.

Deciding and reserving happen without an await between them, so no two requests get the same place
and no lock is needed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pdctl import plugins
from pdctl.domain.handoff import Load
from pdctl.domain.table import RoutingTable, Target
from pdctl.gateway.breaker import Breakers
from pdctl.gateway.ledger import Ledger, Reservation
from pdctl.gateway.line import Answer, Line, Place
from pdctl.gateway.memory import Memory
from pdctl.gateway.outbox import Outbox
from pdctl.routing.admission import admit, patience_s, too_long
from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Policy
from pdctl.routing.router import Avoid, Board, Loads, Refusal, Route, board_of, decide

LOOK_S, LOOKS = 0.02, 32
"""How often those are looked at that are held back, and how many: each look asks the policies."""
_CROWDED = Refusal(429, "Too many requests are waiting already.", wait=True)


class Dispatcher:
    """The board, what is open on it, and who waits."""

    def __init__(self, monotonic: Callable[[], float], rng: random.Random | None = None) -> None:
        self.board: Board | None = None
        self.ledger = Ledger()
        self.memory = Memory(monotonic)
        self.outbox = Outbox(self.load)
        self._monotonic = monotonic
        self._breakers = Breakers(monotonic)
        self._line = Line()
        self._look_at = float("-inf")
        """When those that are held back are looked at again."""
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._accepting: frozenset[str] = frozenset()
        self._pulled: set[tuple[str, int, str, int]] = set()

    def load(self) -> Load:
        """What is open now."""
        seq = self.board.table.seq if self.board else 0
        paths, circuits = dict(self.ledger.paths), self._breakers.circuits()
        held, followed = self.ledger.held(), self.memory.holdings.told()
        return Load(seq, self.ledger.inflight(), len(self._line), paths, circuits, held, followed)

    def push(self, table: RoutingTable) -> None:
        """Decide by this table from now on, also for those who wait."""
        limits = table.limits
        self.board = board_of(
            table,
            prefill_policy=_policy(limits.prefill_policy),
            decode_policy=_policy(limits.decode_policy),
        )
        self._accepting = frozenset(str(one.id) for one in table.targets if one.accepts)
        self._breakers.renew(table)
        starts = {(one.id, one.generation) for one in table.targets}
        self._pulled = {pair for pair in self._pulled if starts >= {pair[:2], pair[2:]}}
        self.ledger.renew(table)
        self.memory.renew(table)
        self._serve_line()
        self.outbox.load_changed(now=True)

    async def find(self, facts: RequestFacts, avoid: Avoid, client: str = "") -> Answer:
        """A reserved route, or why there is none; clients that wait take turns."""
        if self.board is None:
            return Refusal(503, "No instance is ready to serve requests.", retry_after_s=5)
        answer: Answer | None = None
        if all(place.picky for place in self._line):
            answer = self._try(facts, avoid)
            if not (isinstance(answer, Refusal) and answer.wait):
                return answer
        limits = self.board.table.limits
        if len(self._line) >= limits.queue_limit and not self._make_room(client):
            return _CROWDED
        held = isinstance(answer, Refusal) and answer.held
        return await self._wait(Place(client, facts, avoid, _future(), self._monotonic(), held))

    def hold(self, reservation: Reservation, id_: str) -> None:
        """The leg on `id_` is over; KV on it is still to be pulled."""
        reservation.hold(id_, self._monotonic())
        self._serve_line()
        self.outbox.load_changed()

    def release(self, reservation: Reservation, id_: str) -> None:
        """Nothing of the request is on `id_` any more."""
        idle = reservation.release(id_)
        self._breakers.left(id_, reservation)
        self._serve_line()
        self.outbox.load_changed(now=idle and id_ not in self._accepting)

    def release_all(self, reservation: Reservation) -> None:
        """Nothing of the request is anywhere any more."""
        for id_ in reservation.left:
            self.release(reservation, id_)

    def failed(self, target: Target, why: str, *, at_once: bool) -> None:
        """Leave `target` alone for a moment if it fails too often, or `at_once`."""
        pause = self._breakers.failed(target, why, at_once=at_once)
        if pause is not None:
            self.outbox.load_changed()
            asyncio.get_running_loop().call_later(pause + 0.01, self._try_again)

    def _try_again(self) -> None:
        self._serve_line()
        self.outbox.load_changed()

    def first_pull(self, route: Route) -> bool:
        """Whether this is the first handoff between these two starts that the router has seen."""
        assert route.prefill is not None  # noqa: S101 - asked of handoffs
        prefill, decode = route.prefill, route.decode
        pair = (prefill.id, prefill.generation, decode.id, decode.generation)
        if pair in self._pulled:
            return False
        self._pulled.add(pair)
        return True

    def answered(self, target: Target) -> None:
        """`target` is well."""
        if self._breakers.worked(target):
            self._try_again()

    def _try(self, facts: RequestFacts, avoid: Avoid, waited_s: float = 0.0) -> Answer:
        assert self.board is not None  # noqa: S101 - asked only once a table was pushed
        is_first = not avoid.instances and not avoid.pairs
        suspects = self._breakers.closed_to()
        if suspects:
            avoid = Avoid(avoid.instances | suspects, avoid.pairs)
        loads: Loads = self.ledger.loads
        if self.board.wants_history:
            loads = self.memory.informed(
                loads, self.board.everyone, facts, by_events=self.board.wants_events
            )
        route = decide(facts, self.board, loads, self._rng, avoid)
        if is_first and isinstance(route, Route):
            route = admit(facts, self.board, loads, route, waited_s)
        if isinstance(route, Refusal):
            wait = route.wait or self._breakers.being_tried()
            return replace(route, wait=wait)
        self.outbox.load_changed()
        cached = 0
        if self.board.wants_history:
            cached = loads[route.computer.id].cached
            self.memory.sent(route, facts)
        reservation = self.ledger.reserve(route, facts.prompt_tokens, cached)
        self._breakers.entered(route.instances, reservation)
        return reservation

    def _make_room(self, client: str) -> bool:
        place = self._line.displaced_by(client)
        if place is None:
            return False
        self._line.leave(place)
        if not place.answer.done():
            place.answer.set_result(_CROWDED)
        return True

    async def _wait(self, place: Place) -> Answer:
        assert self.board is not None  # noqa: S101 - asked only once a table was pushed
        table = self.board.table
        timeout_s = table.limits.queue_timeout_s
        if not place.retries:
            timeout_s = patience_s(place.facts, table)
        self._line.join(place)
        self.outbox.load_changed()
        try:
            async with asyncio.timeout(timeout_s):
                return await place.answer
        except TimeoutError:
            if place.answer.done() and not place.answer.cancelled():
                return place.answer.result()
            return too_long(place.facts, table, timeout_s)
        except asyncio.CancelledError:
            self._give_back(place)
            raise
        finally:
            if self._line.leave(place):
                self._serve_line()
            self.outbox.load_changed()

    def _give_back(self, place: Place) -> None:
        """A place was found in the very moment in which its request went away."""
        if place.answer.done() and not place.answer.cancelled():
            answer = place.answer.result()
            if isinstance(answer, Reservation):
                self.release_all(answer)

    def _serve_line(self) -> None:
        """Serve the line in turn, until one must wait who would take any place."""
        now, looks = self._monotonic(), 0
        if now >= self._look_at:
            looks = LOOKS
        while self._serve_next(now, looks):
            pass
        if looks and any(place.held for place in self._line):
            self._look_at = now + LOOK_S
            asyncio.get_running_loop().call_later(LOOK_S + 0.001, self._serve_line)

    def _serve_next(self, now: float, looks: int) -> bool:
        for place in self._line:
            if place.held and not place.answer.done():
                if not looks:
                    continue
                looks -= 1
            if place.answer.done():
                self._line.leave(place)
                return True
            answer = self._try(place.facts, place.avoid, now - place.since)
            if not (isinstance(answer, Refusal) and answer.wait):
                self._line.served(place)
                place.answer.set_result(answer)
                return True
            place.held = answer.held
            if not place.picky:
                return False
        return False


def _future() -> asyncio.Future[Answer]:
    return asyncio.get_running_loop().create_future()


@cache
def _policy(name: str) -> Policy:
    policy: Policy = plugins.load(plugins.POLICIES, name)
    return policy
