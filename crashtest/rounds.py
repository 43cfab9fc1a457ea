"""One round: an operation begins, processes die, the fleet heals; then everything is judged."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from crashtest import invariants, operations, victims
from crashtest.fleets import Shape
from crashtest.invariants import Fate, Hour, Kill
from crashtest.operations import Intent
from crashtest.scene import Kind
from crashtest.traffic import Answer, Traffic
from crashtest.world import World
from pdctl.client.errors import ClientError, NotFound, Unreachable
from pdctl.contract.plans import OperationView
from pdctl.contract.resources import FleetView, RequestView
from pdctl.domain.lifecycle import Phase
from pdctl.tasks import settle, spawn

PATIENCE = 3
"""Failures in a row after which an instance is cleared: the pause before the next would be long."""
TIDY_S = 20.0
"""How long after the fleet is whole leftovers may take to go."""
_LOOK_S = 0.25


@dataclass(slots=True)
class Round:
    """What happened in one round."""

    number: int
    intent: Intent
    kills: list[Kill] = field(default_factory=list)
    operation: OperationView | None = None
    shape: str = ""
    """What is desired after it."""
    settled_s: float = 0.0
    """From the last kill until the fleet was whole and served."""
    cleared: int = 0
    fates: dict[Fate, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    hopeless: bool = False
    """The fleet never became whole: there is nothing to go on with."""

    def complain(self, *said: str) -> None:
        """Each of them once."""
        self.complaints += [one for one in said if one not in self.complaints]


@dataclass
class Stage:
    """A fleet, its clients and the texts that they must be given; plays rounds."""

    world: World
    traffic: Traffic
    reference: list[str]
    shape: Shape
    routers: int
    draw: random.Random
    patience_s: float
    """How long a fleet may take to be whole again."""
    tell: Callable[[str], None] = lambda _: None
    _past: list[Kill] = field(default_factory=list)
    """Of the round before: a request may be open across both."""

    async def play(self, number: int) -> Round:
        """A whole round."""
        fleet = await self.world.client.fleet()
        this = Round(number, operations.choose(self.draw, fleet, self.shape))
        watching = spawn(self._watch(this), name="nobody has two")
        try:
            await self._disturb(this)
            last = time.monotonic()
            whole = await self._heal(this)
            now = time.monotonic()
            this.settled_s = now - last
            this.kills = [replace(one, healed=now) for one in this.kills]
            if whole:
                await self._tidy(this)
        finally:
            await settle(watching)
        await self._judge(this)
        self._past = this.kills
        return this

    async def _disturb(self, this: Round) -> None:
        """Begin the operation, kill, and bring the control plane back."""
        client, draw = self.world.client, self.draw
        ordering = spawn(operations.order(client, this.intent, self.tell), name="operator")
        await asyncio.sleep(draw.uniform(0, 1.5))
        this.kills = await victims.kill_some(draw, self.world)
        if any(one.kind is Kind.CONTROL for one in this.kills):
            await asyncio.sleep(draw.uniform(0, 1.5))
            self.world.start()
        await ordering

    async def _watch(self, this: Round) -> None:
        while True:
            this.complain(*invariants.doubled(await self.world.look()))
            await asyncio.sleep(_LOOK_S)

    async def _heal(self, this: Round) -> bool:
        """Wait until the fleet is whole, the operation over, and requests are served."""
        begun, said = time.monotonic(), ["pdctl serve does not answer"]
        while time.monotonic() - begun < self.patience_s:
            if (code := self.world.ended()) is not None:
                this.complain(f"pdctl serve ended by itself with code {code}")
                self.world.start()
            try:
                fleet = await self.world.client.fleet()
                this.operation = await operations.outcome(self.world.client, this.intent)
                said = invariants.unsettled(fleet, self.routers)
                said += invariants.unnoticed(this.kills, await self.world.look(), fleet)
                if not said and this.operation and this.operation.state == "running":
                    said = [f"{this.operation.id} is still running: {this.operation.message}"]
                if not said:
                    this.shape = invariants.shape_of(fleet)
                    return await self._serves(this)
                this.cleared += await self._clear(fleet)
            except ClientError as error:
                said = [str(error)]
            await asyncio.sleep(_LOOK_S)
        this.complain(*(f"after {self.patience_s:.0f} s: {one}" for one in said))
        this.hopeless = True
        return False

    async def _clear(self, fleet: FleetView) -> int:
        """What an operator does about an instance that fails again and again."""
        tired = [
            one.id
            for one in fleet.instances
            if one.phase is Phase.FAILED
            or (one.phase is Phase.BACKOFF and one.failures >= PATIENCE)
        ]
        for id_ in tired:
            await self.world.client.clear(id_)
        return len(tired)

    async def _serves(self, this: Round) -> bool:
        """Whether every client is served again."""
        since, deadline = time.monotonic(), time.monotonic() + self.patience_s
        while time.monotonic() < deadline:
            fresh = [one for one in self.traffic.answers if one.began >= since and one.whole]
            if len(fresh) >= self.traffic.clients:
                return True
            await asyncio.sleep(_LOOK_S)
        this.complain(f"the fleet looks whole, but serves nobody for {self.patience_s:.0f} s")
        this.hopeless = True
        return False

    async def _tidy(self, this: Round) -> None:
        """Nothing is left of what was killed."""
        deadline, said = time.monotonic() + TIDY_S, [""]
        while said and time.monotonic() < deadline:
            fleet, scene = await self.world.client.fleet(), await self.world.look()
            said = [
                *invariants.leftover(scene, fleet, self.routers),
                *invariants.strange_ports(fleet, self.world.taken()),
                *invariants.trespassing(scene, self.world.listeners(scene)),
                *(f"shared memory {name} is left" for name in self.world.watcher.leaked()),
            ]
            await asyncio.sleep(_LOOK_S if said else 0)
        intent = this.intent
        said += invariants.concluded(
            this.operation, intent.id, this.shape, intent.before, intent.after
        )
        this.complain(*said)

    async def _judge(self, this: Round) -> None:
        """Every answer of this round."""
        hour = Hour([*self._past, *this.kills], self.routers)
        for answer in self.traffic.take():
            how = invariants.fate(answer)
            this.fates[how] = this.fates.get(how, 0) + 1
            this.complain(*invariants.truthful(answer, self.reference[answer.prompt]))
            if how is not Fate.WHOLE:
                record = await self._record(answer)
                this.complain(*invariants.excused(answer, record, hour))

    async def _record(self, answer: Answer) -> RequestView | None:
        """What pdctl kept of a request; None when its router took that along."""
        try:
            return await self.world.client.request(answer.id)
        except (NotFound, Unreachable):
            return None
