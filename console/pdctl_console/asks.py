"""What an operator asks of the fleet, as a change to plan and as a line for a shell. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pdctl.contract.plans import ChangeBody
from pdctl.contract.resources import FleetView
from pdctl.domain.topology import Mode

_JSON = "-H 'content-type: application/json'"
ON_ONE = {
    "restart": "Restart {0}?",
    "drain": "Keep {0} out of rotation?",
    "undrain": "Let {0} work again?",
    "stop": "Stop {0} for good?",
}
"""Changes of one instance, by the field of `ChangeBody` that asks for them."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One change that somebody thinks of. It becomes a plan before it becomes anything else."""

    title: str
    cli: str
    """The same on the command line."""
    change: ChangeBody | None = None
    to_revision: int | None = None
    """The revision to go back to, where that is the change."""

    def curl(self, url: str) -> str:
        """The same over HTTP: it makes the plan, which is then applied by its id."""
        if self.to_revision is not None:
            return f"curl -X POST {url}/api/v1/revisions/{self.to_revision}/plan"
        change = (self.change or ChangeBody()).model_dump(mode="json", exclude_defaults=True)
        return f"curl {url}/api/v1/plans {_JSON} -d '{json.dumps({'change': change})}'"


def mode(fleet: FleetView) -> Ask:
    """The other routing mode."""
    wanted = Mode.PD if fleet.mode is Mode.CHUNKED else Mode.CHUNKED
    title = f"Switch from {fleet.mode.value} to {wanted.value}?"
    return Ask(title, f"pdctl mode {wanted.value}", ChangeBody(mode=wanted))


def resize(sizes: Mapping[str, int]) -> Ask:
    """Other sizes; only pools that change are given."""
    words = " ".join(f"{pool}={size}" for pool, size in sizes.items())
    return Ask("Resize pools?", f"pdctl resize {words}".rstrip(), ChangeBody(sizes=dict(sizes)))


def on_one(verb: str, instance: str) -> Ask:
    """A verb of `ON_ONE`."""
    change = ChangeBody.model_validate({verb: [instance]})
    return Ask(ON_ONE[verb].format(instance), f"pdctl {verb} {instance}", change)


def move(instance: str, pool: str) -> Ask:
    """An instance into another pool."""
    words = f"pdctl move {instance} --role {pool}"
    return Ask(f"Move {instance} to {pool}?", words, ChangeBody(move={instance: pool}))


def router(name: str, value: str) -> Ask:
    """A setting of the router."""
    words = f"pdctl router set {name}={value}"
    return Ask(f"Switch {name} to {value}?", words, ChangeBody(router={name: value}))


def undo(to: int) -> Ask:
    """Back to an earlier revision of the desired fleet."""
    return Ask(f"Go back to revision {to}?", f"pdctl undo --to {to}", to_revision=to)
