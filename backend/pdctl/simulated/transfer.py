"""The decode side of a handoff: pull the prompt's KV from the engine that computed it.

In vLLM's order: handshake with a new peer, read while heartbeats keep the lease, notify so that the
peer frees its blocks. Params lead to one good read; what a second or a late one reads is not the
prompt's KV any more, and nobody is told.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any

from pdctl.simulated.clock import SimClock
from pdctl.simulated.config import SimConfig
from pdctl.simulated.faults import Faults
from pdctl.simulated.generation import Generation
from pdctl.simulated.heartbeat import Heart
from pdctl.simulated.metrics import EngineMetrics
from pdctl.simulated.side_channel import Peer, PeerError, peer
from pdctl.simulated.timing import transfer_seconds

log = logging.getLogger(__name__)
REQUIRED_KEYS = (
    "remote_engine_id",
    "remote_request_id",
    "remote_host",
    "remote_port",
    "remote_block_ids",
    "tp_size",
)
"""Without one of these vLLM computes the prompt itself and says so only in its log."""


class Pulled(StrEnum):
    """How a pull ended."""

    RIGHT = "right"
    WRONG = "wrong"
    """KV arrived that is not the prompt's."""
    FAILED = "failed"


def is_usable(params: dict[str, Any]) -> bool:
    """Whether `params` name everything a pull needs; logs as vLLM does when they do not."""
    missing = [key for key in REQUIRED_KEYS if params.get(key) is None]
    if missing:
        log.warning(
            "Got invalid KVTransferParams: %s missing. This request will not utilize KVTransfer "
            "(simulated)",
            ", ".join(missing),
        )
    return not missing


class Puller:
    """Pulls for one engine."""

    def __init__(
        self, config: SimConfig, clock: SimClock, faults: Faults, metrics: EngineMetrics
    ) -> None:
        self._config = config
        self._clock = clock
        self._faults = faults
        self._metrics = metrics
        self._heart = Heart(clock, config.kv_lease_duration / 6)
        self._known: set[tuple[str, int, str]] = set()

    def admit(self, generation: Generation) -> None:
        """Keep the lease of a request that waits here, from admission to the end of its pull."""
        params = generation.kv_params or {}
        address = (str(params["remote_host"]), int(params["remote_port"]))
        self._heart.keep(address, str(params["remote_request_id"]))

    def close(self) -> None:
        """Stop the heartbeats."""
        self._heart.stop()

    async def pull(self, generation: Generation, num_tokens: int) -> Pulled:
        """Pull `num_tokens` of KV for `generation`, whose params are usable."""
        params = generation.kv_params or {}
        remote_id = str(params["remote_request_id"])
        try:
            other = peer(str(params["remote_host"]), int(params["remote_port"]))
            is_first = await self._handshake(other, params)
            if is_first and self._faults.first_pull_stall:
                return await self._stalled(other, remote_id, num_tokens)
            return await self._transfer(other, remote_id, generation.digest, num_tokens)
        except (PeerError, KeyError, ValueError) as error:
            self._metrics.nixl_failed_transfers.add()
            log.error("KV transfer of %s failed: %s (simulated)", generation.request_id, error)
            return Pulled.FAILED
        finally:
            self._heart.drop(remote_id)

    async def release(self, params: dict[str, Any]) -> None:
        """Tell the peer to free blocks that this engine will not pull."""
        if not is_usable(params):
            return
        self._heart.drop(str(params["remote_request_id"]))
        try:
            other = peer(str(params["remote_host"]), int(params["remote_port"]))
            await other.done(str(params["remote_request_id"]))
        except (PeerError, ValueError) as error:
            self._metrics.nixl_failed_notifications.add()
            log.warning("KV notification failed: %s (simulated)", error)

    async def _handshake(self, other: Peer, params: dict[str, Any]) -> bool:
        """Meet the peer if it is new; whether it was."""
        expected = str(params["remote_engine_id"])
        key = (str(params["remote_host"]), int(params["remote_port"]), expected)
        if key in self._known:
            return False
        await self._clock.sleep(self._config.timing.handshake_s)
        actual = await other.hello()
        if actual != expected:
            raise PeerError(f"engine ID mismatch: expected {expected}, got {actual}")
        self._known.add(key)
        return True

    async def _transfer(
        self, other: Peer, remote_id: str, digest: bytes, num_tokens: int
    ) -> Pulled:
        holds = await other.read(remote_id)
        num_bytes = num_tokens * self._config.kv_bytes_per_token
        seconds = transfer_seconds(self._config.timing, num_bytes)
        await self._clock.sleep(seconds)
        was_held = await other.done(remote_id)
        self._record(num_tokens, num_bytes, seconds)
        if holds is None or not was_held:
            return Pulled.WRONG if self._config.late_read == "corrupt" else Pulled.RIGHT
        return Pulled.RIGHT if holds == digest else Pulled.WRONG

    async def _stalled(self, other: Peer, remote_id: str, num_tokens: int) -> Pulled:
        """The stall seen on first pulls: no heartbeats, an expired lease, and then right KV."""
        self._heart.drop(remote_id)
        await self._clock.sleep(self._config.kv_lease_duration + 1.0)
        await other.done(remote_id)
        num_bytes = num_tokens * self._config.kv_bytes_per_token
        self._record(num_tokens, num_bytes, self._config.kv_lease_duration + 1.0)
        return Pulled.RIGHT

    def _record(self, num_tokens: int, num_bytes: int, seconds: float) -> None:
        metrics = self._metrics
        metrics.nixl_transfer_time.observe(seconds)
        metrics.nixl_post_time.observe(self._config.timing.transfer_latency_s)
        metrics.nixl_bytes.observe(num_bytes)
        metrics.nixl_descriptors.observe(-(-num_tokens // self._config.block_size))
