"""Makes golden checks: when an operator asks, and as often as the fleet file says.

Law: one at a time, over engines that serve and a pair that is proved, so that a difference speaks
of the KV and of nothing else. A difference is a notice; it takes nobody out of rotation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Protocol

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.domain import golden, pairing
from pdctl.domain.errors import ConflictError, EngineError
from pdctl.domain.events import EventKind
from pdctl.domain.golden import Answer, Golden
from pdctl.domain.instance import Endpoint, Instance, Pair
from pdctl.domain.lifecycle import Phase
from pdctl.ports import Clock

log = logging.getLogger(__name__)
KEPT = 50
LOOK_S = 5.0
"""How often it is asked whether a check is due."""


class Asker(Protocol):
    """Asks engines for the same answer by both ways."""

    async def both_ways(
        self, ends: tuple[Endpoint, Endpoint], model: str, prompt: str, tokens: int, limit_s: float
    ) -> tuple[Answer, Answer]:
        """(whole on decode, handed over from prefill). EngineError when an engine fails."""
        ...


class GoldenChecks:
    """The newest checks, and the way to make one."""

    def __init__(self, state: FleetState, feed: Feed, clock: Clock, asker: Asker) -> None:
        self._state, self._feed, self._clock, self._asker = state, feed, clock, asker
        self._done: deque[Golden] = deque(maxlen=KEPT)
        self._one = asyncio.Lock()
        self._due = clock.monotonic()

    @property
    def newest(self) -> tuple[Golden, ...]:
        """Newest first."""
        return tuple(reversed(self._done))

    async def run(self) -> None:
        """Check by the timer of the fleet file, pair after pair."""
        while True:
            await self._clock.sleep(LOOK_S)
            every_s = self._state.fleet.desired.golden.every_s
            if every_s is None or self._clock.monotonic() < self._due:
                continue
            self._due = self._clock.monotonic() + every_s
            try:
                await self.check()
            except ConflictError:
                continue  # no pair serves: that is told elsewhere
            except Exception:
                log.exception("the golden check failed")

    async def ask(self, pair: tuple[str, str] | None, *, actor: str, source: str) -> Golden:
        """A check that an operator wants; ConflictError when no pair (or not this one) serves."""
        told = {"verb": "golden", "actor": actor, "source": source}
        try:
            found = await self.check(pair)
        except ConflictError as error:
            refused = {"outcome": "refused", "message": str(error)}
            self._feed.publish(EventKind.OPERATION, "fleet", {**told, **refused})
            raise
        about = [found.prefill, found.decode]
        outcome = "failed" if found.equal is None else "done"
        after = "" if found.equal is None else "equal" if found.equal else found.why
        told |= {"outcome": outcome, "message": found.why if found.equal is None else ""}
        self._feed.publish(EventKind.OPERATION, "fleet", {**told, "after": after, "about": about})
        return found

    async def check(self, wanted: tuple[str, str] | None = None) -> Golden:
        """Ask both ways on one pair: the one given, or the one that was checked longest ago."""
        async with self._one:
            pair, ends = self._choose(wanted)
            desired, at = self._state.fleet.desired, self._clock.now()
            spec, limit_s = desired.golden, 2.0 * desired.connector.lease_s + 60.0
            try:
                whole, handed_over = await self._asker.both_ways(
                    (ends[0].endpoint, ends[1].endpoint), desired.served_name,
                    spec.prompt or golden.PROMPT, spec.tokens, limit_s,
                )  # fmt: skip
            except EngineError as error:
                found = Golden(at, pair.prefill, pair.decode, None, str(error))
            else:
                found = golden.compared(
                    whole, handed_over, at=at, prefill=pair.prefill, decode=pair.decode
                )
            self._done.append(found)
            if found.equal is False:
                self._complain(found)
            return found

    def _choose(self, wanted: tuple[str, str] | None) -> tuple[Pair, tuple[Instance, Instance]]:
        fleet = self._state.fleet
        ready = {one.id: one for one in fleet.instances if one.phase is Phase.READY}
        usable = [
            pair
            for pair in fleet.pairs
            if pair.state == pairing.OK and pair.prefill in ready and pair.decode in ready
            and wanted in (None, (pair.prefill, pair.decode))
        ]  # fmt: skip
        if not usable:
            which = "No pair" if wanted is None else f"{wanted[0]} > {wanted[1]}"
            raise ConflictError(
                "no_pair", f"{which} can hand over now.", "`pdctl status` says which pairs are ok."
            )
        order = {(one.prefill, one.decode): place for place, one in enumerate(self._done)}
        pair = min(usable, key=lambda one: order.get((one.prefill, one.decode), -1))
        return pair, (ready[pair.prefill], ready[pair.decode])

    def _complain(self, found: Golden) -> None:
        message = (
            f"Golden check: {found.prefill} > {found.decode} answers otherwise than "
            f"{found.decode} alone; {found.why}."
        )
        self._feed.publish(EventKind.NOTICE, "fleet", {"level": "error", "message": message})
