"""Engines that no instance owns, made up; a finder that sees them and ends them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from pdctl.control.lookout import Lookout
from pdctl.control.operations import Operations
from pdctl.control.orphans import Orphans
from pdctl.domain.orphans import Family, Found, Ours, Process, Shim, classify
from pdctl.ports import Ended

if TYPE_CHECKING:
    from pdctl.control.reconciler import Reconciler
    from pdctl.ports import Probe
    from tests.fakes.world import World


def family(pid: int, port: int = 18005, *extra: str, shim: Shim | None = None) -> Family:
    """A simulated engine in working order."""
    words = (
        "python", "-m", "pdctl.simulated", "--port", str(port), "--side-channel-port",
        str(port + 100), "--role", "decode", "--api-key", "sk-a-secret-of-theirs", *extra,
    )  # fmt: skip
    leader = Process(
        pid, pid * 10, 1, pid, words, since=1_799_999_000.0, user="ada",
        ports=(port, port + 100), memory=2**30,
    )  # fmt: skip
    return Family(leader, (leader,), shim, "bash")


def leftover(pid: int) -> Family:
    """An EngineCore whose API server is gone."""
    core = Process(pid, pid * 10, 1, pid - 1, ("VLLM::EngineCore",), user="ada", memory=3 * 2**30)
    return Family(core, (core,), None, "init")


@dataclass(slots=True)
class FakeFinder:
    """Implements `ports.EngineFinder`."""

    families: list[Family] = field(default_factory=list)
    survivors: tuple[int, ...] = ()
    broken: bool = False
    ended: list[str] = field(default_factory=list)

    async def find(self, ours: Ours) -> tuple[Found, ...]:
        if self.broken:
            raise OSError("/proc is not there")
        return tuple(classify(one, ours) for one in self.families)

    async def end(self, found: Found, grace_s: float) -> Ended:
        if self.survivors:
            return Ended(1, self.survivors)
        self.families = [one for one in self.families if one.key != found.key]
        self.ended.append(found.key)
        return Ended(len(found.family.members), (), ("psm_1",))


class _NoReconciler:
    """Nothing is reconciled in a made-up world, so nothing can be adopted there."""

    def expecting(self, nonce: str) -> AbstractContextManager[None]:
        return nullcontext()


def verbs(world: World, finder: FakeFinder) -> Orphans:
    """The verbs over a made-up world, whose launcher can take over no process."""
    operations = Operations(world.state, world.feed, world.clock, world.store, lambda: None)
    return Orphans(
        Lookout(finder, world.state, world.clock, "/state/run"), operations,
        reconciler=cast("Reconciler", _NoReconciler()), probe=cast("Probe", None),
        launcher=object(),
    )  # fmt: skip
