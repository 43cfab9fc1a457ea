"""One instance: what it is, what it says, and what can be done to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2

from pdctl.client.errors import unreachable
from pdctl.client.transport import FOLLOW_TIMEOUT, Transport, parse, part
from pdctl.contract.resources import CommandView, InstanceView


class InstanceSection(Transport):
    """Instances, their commands and logs, and the verbs on one."""

    async def instances(self) -> list[InstanceView]:
        """Every instance."""
        return await self._list("/api/v1/instances", InstanceView)

    async def instance(self, id_: str) -> InstanceView:
        """One instance."""
        return await self._get(f"/api/v1/instances/{part(id_)}", InstanceView)

    async def restart(self, id_: str) -> InstanceView:
        """Drain and restart one instance; answers at once with what it is doing now."""
        return await self._act(id_, "restart")

    async def clear(self, id_: str) -> InstanceView:
        """Forget the failures of an instance that was given up, and start it again."""
        return await self._act(id_, "clear")

    async def command(self, id_: str) -> CommandView:
        """The exact command of an instance, secrets redacted."""
        return await self._get(f"/api/v1/instances/{part(id_)}/command", CommandView)

    async def logs(self, id_: str, tail: int = 200, previous: bool = False) -> str:
        """The last `tail` lines of an instance's log (of its previous start when asked)."""
        query = {"tail": tail, "previous": str(previous).lower()}
        return (await self._call("GET", f"/api/v1/instances/{part(id_)}/logs", query)).decode(
            "utf-8", "replace"
        )

    async def follow_logs(
        self, id_: str, previous: bool = False, tail: int = 200
    ) -> AsyncGenerator[str, None]:
        """The last `tail` lines, then what is written from now on, in chunks, until it closes."""
        query = {"tail": tail, "follow": "true", "previous": str(previous).lower()}
        path = f"/api/v1/instances/{part(id_)}/logs"
        async with self._stream(path, query, {}, FOLLOW_TIMEOUT) as response:
            try:
                async for chunk in response.aiter_text():
                    yield chunk
            except httpx2.TransportError as error:
                raise unreachable(self.base_url, error) from error

    async def _act(self, id_: str, verb: str) -> InstanceView:
        path = f"/api/v1/instances/{part(id_)}/{verb}"
        return parse(InstanceView, await self._call("POST", path))
