"""What operators do while things die: a random change, by a plan, and what became of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from crashtest.fleets import Shape
from crashtest.invariants import shape_of
from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError, Conflict, Failed, Unreachable
from pdctl.contract.plans import ChangeBody, OperationView
from pdctl.contract.resources import FleetView
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Mode

_TRIES = 3
"""A plan is stale when its world moves, and here it moves all the time."""


@dataclass(slots=True)
class Intent:
    """A change that somebody wants, and what came of asking for it."""

    name: str
    change: ChangeBody | None
    before: str
    after: str
    """The desired shape with it."""
    plan: str = ""
    id: str = ""
    """Of the operation, once it is known."""
    note: str = ""
    """Why there is none."""


def choose(draw: random.Random, fleet: FleetView, shape: Shape) -> Intent:
    """One of the changes that this fleet can make, each kind as likely as another."""
    held = [one.id for one in fleet.instances if one.phase is Phase.DRAINING]
    if held:
        return _intent(fleet, "undrain", ChangeBody(undrain=held))
    menu: dict[str, list[ChangeBody | None]] = {"nothing": [None]}
    for name, change in _possible(fleet, shape):
        menu.setdefault(name, []).append(change)
    name = draw.choice(sorted(menu))
    return _intent(fleet, name, draw.choice(menu[name]))


def _possible(fleet: FleetView, shape: Shape) -> Iterator[tuple[str, ChangeBody]]:
    other = Mode.CHUNKED if fleet.mode is Mode.PD else Mode.PD
    yield "mode", ChangeBody(mode=other)
    for one in fleet.instances:
        yield "restart", ChangeBody(restart=[one.id])
    if not shape.spare:
        return
    most = {"prefill": shape.prefill + shape.spare, "decode": shape.decode + shape.spare}
    sizes = {pool.name: pool.desired for pool in fleet.pools}
    full = sum(sizes.values()) >= shape.most
    for pool in fleet.pools:
        name, size = pool.name, pool.desired
        target = "decode" if name == "prefill" else "prefill"
        yield "rolling restart", ChangeBody(restart=[name])
        if size < most[name] and not full:
            yield "grow", ChangeBody(sizes={name: size + 1})
        if size < 2:
            continue
        yield "shrink", ChangeBody(sizes={name: size - 1})
        for id_ in pool.instances:
            yield "drain", ChangeBody(drain=[id_])
            if sizes[target] < most[target]:
                yield "move", ChangeBody(move={id_: target})


def _intent(fleet: FleetView, name: str, change: ChangeBody | None) -> Intent:
    before = shape_of(fleet)
    return Intent(name, change, before, _with(fleet, change) if change else before)


def _with(fleet: FleetView, change: ChangeBody) -> str:
    sizes = {pool.name: pool.desired for pool in fleet.pools} | change.sizes
    for id_, target in change.move.items():
        source = next(pool.name for pool in fleet.pools if id_ in pool.instances)
        sizes[source] -= 1
        sizes[target] += 1
    pools = [
        pool.model_copy(update={"desired": sizes.get(pool.name, pool.desired)})
        for pool in fleet.pools
    ]
    return shape_of(fleet.model_copy(update={"pools": pools, "mode": change.mode or fleet.mode}))


async def order(client: AdminClient, intent: Intent, tell: Callable[[str], None]) -> None:
    """Plan it and apply the plan. The control plane may die at any moment of this."""
    if intent.change is None:
        return
    for _ in range(_TRIES):
        try:
            plan = await client.plan(intent.change)
            if plan.refused:
                intent.note = f"refused: {plan.refused[0].message}"
                intent.after = intent.before
                return
            intent.plan = plan.id
            intent.id = (await client.apply(plan.id)).id
        except Conflict as error:
            intent.note = str(error)
            continue
        except (Unreachable, Failed) as error:
            intent.note = f"unanswered: {error}"
            return
        intent.note = ""
        tell(f"{intent.name} is {intent.id}")
        return
    intent.after = intent.before


async def outcome(client: AdminClient, intent: Intent) -> OperationView | None:
    """The operation as it is told now; found by its plan where the answer to applying was lost."""
    if not intent.id and intent.plan:
        page = await client.operations()
        intent.id = next((one.id for one in page.items if one.plan == intent.plan), "")
    if not intent.id:
        return None
    try:
        return await client.operation(intent.id)
    except Unreachable:
        raise
    except ClientError:
        return None
