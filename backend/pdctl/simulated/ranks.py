"""One data-parallel rank of a simulated engine: its steps, its blocks and its end of handoffs.

As in vLLM each rank is an engine core of its own behind one HTTP server: an engine id with the
rank in it, a side channel at the engine's port plus the rank, metrics labelled with the rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pdctl.simulated.blocks import BlockPool
from pdctl.simulated.clock import SimClock
from pdctl.simulated.config import SimConfig
from pdctl.simulated.draws import Draws
from pdctl.simulated.faults import Faults
from pdctl.simulated.generation import Generation
from pdctl.simulated.leases import LeaseBook
from pdctl.simulated.metrics import EngineMetrics
from pdctl.simulated.publisher import Publisher, read_config
from pdctl.simulated.scheduler import Scheduler
from pdctl.simulated.side_channel import SideChannel
from pdctl.simulated.transfer import Puller


class Rank:
    """Rank `number` of the engine that `config` describes."""

    def __init__(self, config: SimConfig, clock: SimClock, faults: Faults, number: int) -> None:
        if config.data_parallel_size > 1:
            config = replace(config, engine_id=f"{config.engine_id}_dp{number}")
        self.config, self.faults, self.number = config, faults, number
        self.pool = BlockPool(config.num_blocks)
        self.publisher = Publisher(read_config(config.kv_events_config), faults)
        self.pool.listener = self.publisher
        self.draws = Draws(config.seed, config.engine_id)
        self.scheduler = Scheduler(config, clock, faults, self.pool, self.draws)
        self.metrics = EngineMetrics(config, self.scheduler, number)
        self.leases = LeaseBook(clock, config.kv_lease_duration, self._free, self)
        self.puller = Puller(config, clock, faults, self.metrics)
        self.scheduler.metrics = self.metrics
        self.scheduler.puller = self.puller
        self.scheduler.hand_over = self._hand_over
        self.side_channel = SideChannel(config.engine_id, self.leases, faults)
        self.side_channel_port = 0

    @property
    def has_work(self) -> bool:
        """Unfinished sequences, or blocks that another engine has not pulled: both hold a drain."""
        return self.scheduler.has_work or len(self.leases) > 0

    @property
    def load(self) -> int:
        """What vLLM's own balancer compares: sequences that run or wait."""
        return self.scheduler.num_running() + self.scheduler.num_waiting()

    async def start(self, port: int) -> None:
        """Listen on the engine's side-channel port plus the rank; 0 lets the system choose."""
        if self.config.kv_connector:
            own = port + self.number if port else 0
            host = self.config.side_channel_host
            self.side_channel_port = await self.side_channel.start(host, own)
        self.publisher.start()

    async def stop(self) -> None:
        """Stop at once; its steps have ended."""
        await self.scheduler.close()
        await self.side_channel.stop()
        await self.publisher.stop()
        self.puller.close()
        self.leases.close()

    # What the lease book counts.

    def lease_expired(self) -> None:
        """Blocks were freed because nobody pulled them."""
        self.metrics.nixl_expired.add()

    def late_notification(self) -> None:
        """Somebody pulled blocks that had been freed."""
        self.metrics.nixl_late_notifications.add()

    def _free(self, blocks: list[int]) -> None:
        self.pool.release(blocks)
        self.scheduler.poke()

    def _hand_over(self, generation: Generation) -> dict[str, Any] | None:
        """Hold a prefill leg's blocks and say where they are."""
        config, blocks = self.config, generation.blocks
        self.leases.open(generation.request_id, blocks, generation.digest)
        if self.faults.strike(self.faults.missing_params):
            return None
        params: dict[str, Any] = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [blocks],
            "remote_engine_id": config.engine_id,
            "remote_request_id": generation.request_id,
            "remote_host": config.side_channel_host,
            "remote_port": self.side_channel_port,
            "tp_size": 1,
            "dcp_size": 1,
            "pp_size": 1,
            "remote_num_tokens": len(generation.prompt),
            "remote_blocks_expiry_time": None,
            "transfer_mode": "pull",
            "remote_prefill_cached_tokens": generation.local_hits,
        }
        if self.faults.strike(self.faults.partial_params):
            del params["remote_engine_id"]
        return params
