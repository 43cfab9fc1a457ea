"""The prefill side of a handoff: blocks that wait to be pulled, and until when.

Law: a lease ends once, by the consumer's notification or by expiry, and its blocks are freed then.
A heartbeat moves the expiry to two thirds of a lease from now, never closer (vLLM 0.32, NIXL).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pdctl.simulated.clock import SimClock

log = logging.getLogger(__name__)


class LeaseMeter(Protocol):
    """What a lease book counts."""

    def lease_expired(self) -> None: ...
    def late_notification(self) -> None: ...


@dataclass(slots=True)
class Lease:
    """The blocks of one finished prefill leg."""

    request_id: str
    blocks: list[int]
    digest: bytes
    """What the KV in the blocks is: the digest of the model and the prompt."""
    expires_at: float
    timer: asyncio.TimerHandle | None = None


class LeaseBook:
    """The leases of one engine."""

    def __init__(
        self,
        clock: SimClock,
        duration: float,
        release: Callable[[list[int]], None],
        meter: LeaseMeter,
    ) -> None:
        """`duration` is in simulated seconds; `release` takes the blocks of an ended lease."""
        self.duration = duration
        self._clock = clock
        self._release = release
        self._meter = meter
        self._held: dict[str, Lease] = {}

    def __len__(self) -> int:
        return len(self._held)

    def open(self, request_id: str, blocks: list[int], digest: bytes) -> None:
        """Hold `blocks` for a consumer."""
        lease = Lease(request_id, blocks, digest, self._clock.now() + self.duration)
        self._held[request_id] = lease
        self._arm(lease)

    def digest(self, request_id: str) -> bytes | None:
        """What the blocks of `request_id` hold; None when they are not held any more."""
        lease = self._held.get(request_id)
        return lease.digest if lease else None

    def heartbeat(self, request_ids: Iterable[str]) -> None:
        """Extend the leases of `request_ids`; those that ended are not revived."""
        extended = self._clock.now() + self.duration * 2 / 3
        for request_id in request_ids:
            lease = self._held.get(request_id)
            if lease is not None:
                lease.expires_at = max(lease.expires_at, extended)

    def done(self, request_id: str) -> bool:
        """A consumer has what it needs: free the blocks. False when the lease had ended before."""
        lease = self._held.pop(request_id, None)
        if lease is None:
            self._meter.late_notification()
            log.error(
                "Potentially invalid KV blocks for unrecognized request %s were retrieved by a "
                "decode worker. They may have expired. (simulated)",
                request_id,
            )
            return False
        self._end(lease)
        return True

    def close(self) -> None:
        """Forget every lease; the engine is going away."""
        for lease in self._held.values():
            if lease.timer is not None:
                lease.timer.cancel()
        self._held.clear()

    def _arm(self, lease: Lease) -> None:
        wait = self._clock.real(lease.expires_at - self._clock.now())
        loop = asyncio.get_running_loop()
        lease.timer = loop.call_later(max(0.0, wait), self._expire, lease)

    def _expire(self, lease: Lease) -> None:
        if self._held.get(lease.request_id) is not lease:
            return
        if lease.expires_at > self._clock.now():
            self._arm(lease)
            return
        del self._held[lease.request_id]
        self._meter.lease_expired()
        log.warning(
            "Releasing expired KV blocks for request %s which were retrieved by 0 decode "
            "worker(s) (simulated)",
            lease.request_id,
        )
        self._end(lease)

    def _end(self, lease: Lease) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
        self._release(lease.blocks)
