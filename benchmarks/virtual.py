"""Simulated engines in virtual time: the schedulers of `pdctl.simulated`, without their sockets.

Time jumps to the next timer whenever nothing can run: a run depends on its seed only, not on the
machine, and an hour of traffic takes seconds.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pdctl.domain.kv_events import (
    AllCleared,
    BlockEvent,
    BlocksRemoved,
    BlocksStored,
    EventBatch,
)
from pdctl.routing.blocks import Holding
from pdctl.simulated import SimConfig
from pdctl.simulated.blocks import BlockPool
from pdctl.simulated.clock import SimClock
from pdctl.simulated.draws import Draws
from pdctl.simulated.faults import Faults
from pdctl.simulated.generation import Bell, Generation
from pdctl.simulated.scheduler import Scheduler
from pdctl.simulated.timing import transfer_seconds
from pdctl.simulated.transfer import Pulled
from pdctl.tasks import settle, spawn


class _Timers(selectors.SelectSelector):
    """Waits for nothing: what would have been waited passes at once."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is left that could happen")
        self.passed += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is made of its own timers."""

    def __init__(self) -> None:
        self._timers = _Timers()
        super().__init__(self._timers)

    def time(self) -> float:
        """Virtual seconds."""
        return self._timers.passed


class _Clock(SimClock):
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def reach(self, instant: float) -> None:
        await asyncio.sleep(max(0.0, instant - self.now()))


@dataclass(slots=True, eq=False)
class Sequence(Generation):
    """A generation of which only the times matter."""

    def sample(self, at: float) -> str | None:
        """The next token: any."""
        self.tokens.append(0)
        if len(self.tokens) == 1:
            self.first_token_at = at
        self.last_token_at = at
        return "length" if len(self.tokens) >= self.max_tokens else None


class _Gaps:
    """Stands for all metrics of an engine and keeps one: the gaps between tokens."""

    def __init__(self) -> None:
        self.gaps: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any) -> None: ...

    def add(self, *_: Any) -> None: ...

    @property
    def token_gap(self) -> _Gap:
        return _Gap(self.gaps)


@dataclass(frozen=True, slots=True)
class _Gap:
    gaps: list[float]

    def observe(self, seconds: float) -> None:
        self.gaps.append(seconds)


@dataclass(slots=True)
class _Told:
    """Hands on what becomes of blocks, in the words of the seam."""

    holdings: list[Holding]
    now: Callable[[], float]

    def stored(
        self, hashes: Iterable[bytes], parent: bytes | None, tokens: Iterable[int], size: int
    ) -> None:
        self._tell(BlocksStored(tuple(hashes), parent, tuple(tokens), size))

    def removed(self, hashes: Iterable[bytes]) -> None:
        self._tell(BlocksRemoved(tuple(hashes)))

    def cleared(self) -> None:
        self._tell(AllCleared())

    def _tell(self, event: BlockEvent) -> None:
        for one in self.holdings:
            one.take(EventBatch(one.next_seq, self.now(), (event,)))


class Engine:
    """One engine; also the puller of its scheduler, and the keeper of what others will pull."""

    def __init__(self, id_: str, config: SimConfig, peers: dict[str, Engine]) -> None:
        self.id, self.config = id_, config
        self._clock, self._peers = _Clock(), peers
        self._pool, self._kept = BlockPool(config.num_blocks), dict[str, list[int]]()
        self._told = _Told([], self._clock.now)
        self._metrics = _Gaps()
        self._scheduler = Scheduler(config, self._clock, Faults(), self._pool, Draws(0, id_))
        parts: Any = self._scheduler
        parts.metrics, parts.puller, parts.hand_over = self._metrics, self, self._keep
        self._task = spawn(self._scheduler.run(), name=id_)

    def tell(self, holding: Holding) -> None:
        """Tell `holding` too of every block, as a publisher's messages would, without their way."""
        self._told.holdings.append(holding)
        self._pool.listener = self._told

    @property
    def gaps(self) -> list[float]:
        """Seconds between tokens of one stream, all of them."""
        return self._metrics.gaps

    async def close(self) -> None:
        """Stop it."""
        await settle(self._task)

    def send(
        self, id_: str, prompt: list[int], tokens: int, params: dict[str, Any] | None = None
    ) -> Sequence:
        """Queue a request."""
        source: Any = None
        one = Sequence(id_, prompt, source, Bell(), tokens, kv_params=params)
        self._scheduler.submit(one)
        return one

    def _keep(self, one: Generation) -> dict[str, Any]:
        self._kept[one.request_id] = one.blocks
        return {
            "do_remote_prefill": True, "remote_engine_id": self.id, "remote_host": "",
            "remote_port": 0, "remote_request_id": one.request_id, "remote_block_ids": [],
            "tp_size": 1,
        }  # fmt: skip

    def admit(self, one: Generation) -> None:
        """A pull will come: there is no lease to keep alive here."""

    async def pull(self, one: Generation, tokens: int) -> Pulled:
        """Bring `tokens` of KV here, and let the other side free them."""
        await asyncio.sleep(
            transfer_seconds(self.config.timing, tokens * self.config.kv_bytes_per_token)
        )
        await self.release(one.kv_params or {})
        return Pulled.RIGHT

    async def release(self, params: dict[str, Any]) -> None:
        """The other side may free what was kept."""
        peer = self._peers[params["remote_engine_id"]]
        peer._pool.release(peer._kept.pop(params["remote_request_id"]))  # noqa: SLF001 - one of us
        peer._scheduler.poke()  # noqa: SLF001
