"""The verbs of `control.operations`, carried out on the made-up world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pdctl.control.operations import refuse_stale
from pdctl.domain.errors import ConflictError, PdctlError
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import FleetSpec, Mode

if TYPE_CHECKING:
    from tests.fakes.memory_store import MemoryStore
    from tests.fakes.world import World


class WorldOperations:
    """The verbs of `control.operations`, carried out on the made-up world."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def store(self) -> MemoryStore:
        return self._world.store

    async def set_mode(
        self, mode: Mode, *, actor: str, source: str, expected: frozenset[int] | None = None
    ) -> FleetSpec:
        world, desired = self._world, self._world.state.fleet.desired
        refuse_stale(expected, desired)
        if mode is not desired.mode:
            desired = replace(desired, mode=mode, revision=desired.revision + 1)
            await world.save(desired, actor, f"mode {mode}")
            world.state.set_desired(desired)
            data = {"mode": mode.value, "revision": desired.revision}
            world.publish(
                EventKind.FLEET_CHANGED, "fleet", {**data, "actor": actor, "source": source}
            )
        self._log("set_mode", "fleet", actor, source)
        return desired

    async def change_fleet(self, after: Callable[[FleetSpec], FleetSpec], **how: Any) -> FleetSpec:
        before = self._world.state.fleet.desired
        refuse_stale(how.get("expected"), before)
        desired = replace(after(before), revision=before.revision + 1)
        run = how["run"](desired) if "run" in how else None
        await self._world.save(desired, how["actor"], how["reason"], run)
        self._world.state.set_desired(desired)
        if run is not None:
            how["then"](run)
        data = {"mode": desired.mode.value, "revision": desired.revision}
        self._world.publish(EventKind.FLEET_CHANGED, "fleet", data)
        self._log(how["verb"], "fleet", how["actor"], how["source"], **how["told"])
        return desired

    async def restart_instance(self, id_: str, *, actor: str, source: str) -> None:
        one = self._world.state.fleet.instance(id_)
        if one is None or one.phase is not Phase.READY:
            phase = "gone" if one is None else one.phase.value
            raise ConflictError(
                "not_ready",
                f"{id_} is {phase} and cannot be restarted now.",
                "Wait until it is ready.",
            )
        self._world.change(id_, Phase.DRAINING, Reason.OPERATOR, "restart asked for")
        self._log("restart", id_, actor, source)

    async def clear_failure(self, id_: str, *, actor: str, source: str) -> None:
        one = self._world.state.fleet.instance(id_)
        if one is None or one.phase is not Phase.FAILED:
            raise ConflictError("not_failed", f"{id_} has not been given up.", "")
        self._world.change(id_, Phase.PENDING, Reason.OPERATOR, "failures cleared")
        self._log("clear", id_, actor, source)

    @contextmanager
    def told(self, verb: str, subject: str, data: dict[str, Any]) -> Iterator[None]:
        try:
            yield
        except PdctlError as error:
            self._log(verb, subject, **{**data, "outcome": "refused", "message": str(error)})
            raise
        self._log(verb, subject, **data)

    async def remember(self) -> None:
        """The world stores each fact at once."""

    def _log(self, verb: str, subject: str, actor: str, source: str, **told: Any) -> None:
        data = {"verb": verb, "actor": actor, "source": source, "outcome": "done", **told}
        self._world.publish(EventKind.OPERATION, subject, data)
