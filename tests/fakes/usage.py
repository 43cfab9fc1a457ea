"""What the processes of a simulated world would take, without any processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pdctl.control.usage import UsageBook
from pdctl.domain.usage import GpuUse, Member, Usage

if TYPE_CHECKING:
    from pdctl.control.fleet_state import FleetState
    from pdctl.domain.instance import Instance
    from pdctl.ports import Clock


class FakeMeter:
    """Answers what a test put into `found`, by nonce; raises `failure` when there is one."""

    def __init__(self) -> None:
        self.found: dict[str, Usage] = {}
        self.asked: list[Member] = []
        self.failure: Exception | None = None

    async def measure(self, members: Sequence[Member]) -> dict[str, Usage]:
        self.asked = list(members)
        if self.failure:
            raise self.failure
        return dict(self.found)


class WorldUsage(UsageBook):
    """The same for every instance, looked at when its engine was."""

    def __init__(self, state: FleetState, clock: Clock) -> None:
        super().__init__(state, FakeMeter(), clock)

    def of(self, one: Instance) -> Usage | None:
        if one.pid is None or one.stats is None:
            return None
        gpus = tuple(
            GpuUse(name, 0.62, 120e9, 150e9, 118e9, 410.0, 58.0)
            for name in one.slot.device.split(",")
            if name
        )
        return Usage(one.stats.at, 4, 3600.0, 3.2e9, 2.6e9, gpus)

    def cores(self, one: Instance) -> float | None:
        return 1.04 if one.stats else None
