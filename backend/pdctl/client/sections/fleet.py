"""What the fleet is and by which mode it serves."""

from __future__ import annotations

from collections.abc import Mapping

from pdctl.client.transport import Transport, parse, part
from pdctl.contract.resources import FleetView, ModePut, ModeView, PairView, PoolView
from pdctl.contract.router import RouterView
from pdctl.domain.topology import Mode


class FleetSection(Transport):
    """The fleet, its pools and pairs, and the routing mode."""

    async def fleet(self, *, pairs: bool = True) -> FleetView:
        """The whole fleet at one position of the feed; without its pairs when there are many."""
        query = {"pairs": str(pairs).lower()}
        return await self._get("/api/v1/fleet", FleetView, query)

    async def pools(self) -> list[PoolView]:
        """Every pool."""
        return await self._list("/api/v1/pools", PoolView)

    async def pool(self, name: str) -> PoolView:
        """One pool."""
        return await self._get(f"/api/v1/pools/{part(name)}", PoolView)

    async def pairs(self) -> list[PairView]:
        """Every prefill x decode pair."""
        return await self._list("/api/v1/pairs", PairView)

    async def router(self) -> RouterView:
        """How instances are chosen."""
        return await self._get("/api/v1/router", RouterView)

    async def set_router(
        self, wanted: Mapping[str, str | int], *, revision: int | None = None
    ) -> RouterView:
        """Switch these settings; Conflict when `revision` is not in force."""
        path, body = "/api/v1/router", dict(wanted)
        return parse(RouterView, await self._call("PATCH", path, json=body, revision=revision))

    async def mode(self) -> ModeView:
        """The routing mode in force."""
        return await self._get("/api/v1/mode", ModeView)

    async def set_mode(self, mode: Mode | str, *, revision: int | None = None) -> ModeView:
        """Route new requests by `mode` from now on; Conflict when `revision` is not in force."""
        body = ModePut(mode=Mode(mode)).model_dump(mode="json")
        path = "/api/v1/mode"
        return parse(ModeView, await self._call("PUT", path, json=body, revision=revision))
