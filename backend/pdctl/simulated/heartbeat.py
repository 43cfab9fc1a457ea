"""Heartbeats from a decode engine to the prefill engines whose KV it will pull.

One timer per engine that runs only while a request waits, and one message per peer and beat, as in
vLLM's NIXL connector (every sixth of a lease).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from pdctl.simulated.clock import SimClock
from pdctl.simulated.side_channel import PeerError, peer
from pdctl.tasks import spawn

log = logging.getLogger(__name__)
Address = tuple[str, int]


class Heart:
    """Beats for every request that is kept."""

    def __init__(self, clock: SimClock, interval: float) -> None:
        """`interval` is in simulated seconds."""
        self._clock = clock
        self._interval = interval
        self._kept: dict[str, Address] = {}
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, address: Address, request_id: str) -> None:
        """Keep the lease of `request_id` at the peer at `address`."""
        self._kept[request_id] = address
        if self._timer is None:
            self._arm()

    def drop(self, request_id: str) -> None:
        """Beat no longer for `request_id`."""
        self._kept.pop(request_id, None)

    def stop(self) -> None:
        """Beat for nobody."""
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._clock.real(self._interval), self._beat)

    def _beat(self) -> None:
        self._timer = None
        by_peer: dict[Address, list[str]] = defaultdict(list)
        for request_id, address in self._kept.items():
            by_peer[address].append(request_id)
        for address, request_ids in by_peer.items():
            spawn(_send(address, request_ids), name=f"heartbeat to {address[0]}:{address[1]}")
        if self._kept:
            self._arm()


async def _send(address: Address, request_ids: list[str]) -> None:
    try:
        await peer(*address).heartbeat(request_ids)
    except PeerError as error:
        log.warning("heartbeat failed: %s (simulated)", error)
