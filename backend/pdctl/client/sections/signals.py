"""What is wrong with the fleet."""

from __future__ import annotations

from pdctl.client.transport import Transport, parse, part
from pdctl.contract.signals import (
    AckBody,
    SignalHistoryPage,
    SignalPage,
    SignalView,
    SilenceBody,
    SilenceView,
)


class SignalSection(Transport):
    """See signals, take them up, keep them quiet."""

    async def signals(self) -> SignalPage:
        """What fires and what is pending, and what is watched."""
        return await self._get("/api/v1/signals", SignalPage)

    async def signal_history(
        self, *, limit: int = 50, before: str | None = None
    ) -> SignalHistoryPage:
        """Signals that fired, newest first."""
        query = {"limit": str(limit), **({"before": before} if before else {})}
        return await self._get("/api/v1/signals/history", SignalHistoryPage, query)

    async def ack_signal(self, id_: str, note: str = "") -> SignalView:
        """Say that somebody has taken it up."""
        body = AckBody(note=note).model_dump(mode="json")
        path = f"/api/v1/signals/{part(id_)}/ack"
        return parse(SignalView, await self._call("POST", path, json=body))

    async def silence(self, wanted: SilenceBody) -> SilenceView:
        """Keep what matches quiet for a while."""
        body = wanted.model_dump(mode="json")
        return parse(SilenceView, await self._call("POST", "/api/v1/silences", json=body))

    async def unsilence(self, id_: str) -> SilenceView:
        """End a silence now."""
        path = f"/api/v1/silences/{part(id_)}"
        return parse(SilenceView, await self._call("DELETE", path, once=False))
