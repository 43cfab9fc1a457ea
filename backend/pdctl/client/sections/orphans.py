"""Engines that no instance owns."""

from __future__ import annotations

from pdctl.client.transport import Transport, parse, part
from pdctl.contract.orphans import AdoptBody, AdoptedView, KillBody, OrphanPage, OrphanView


class OrphanSection(Transport):
    """See them, end them, adopt them."""

    async def orphans(self, *, owned: bool = False) -> OrphanPage:
        """Engines of that machine; with `owned`, instances of the fleet as well."""
        return await self._get("/api/v1/orphans", OrphanPage, {"owned": str(owned).lower()})

    async def kill_orphan(self, key: str, *, force: bool = False) -> OrphanView:
        """End one; answers when it is gone. Conflict when it is not there, or not to be ended."""
        body = KillBody(force=force).model_dump(mode="json")
        path = f"/api/v1/orphans/{part(key)}/kill"
        return parse(OrphanView, await self._call("POST", path, json=body))

    async def adopt_orphan(self, key: str, pool: str) -> AdoptedView:
        """Make one the next instance of a pool; Conflict when it cannot be."""
        body = AdoptBody(pool=pool).model_dump(mode="json")
        path = f"/api/v1/orphans/{part(key)}/adopt"
        return parse(AdoptedView, await self._call("POST", path, json=body))
