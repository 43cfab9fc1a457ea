"""The scheduler: one task per engine that plans a step, lets its time pass, and hands out tokens.

Law: a step serves running sequences first, then admits waiting ones, within one token budget shared
by prefill chunks and decodes (vLLM's chunked prefill). With nothing to do the task sleeps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pdctl.simulated.blocks import BlockPool, block_hashes
from pdctl.simulated.clock import SimClock
from pdctl.simulated.config import SimConfig
from pdctl.simulated.draws import Draws
from pdctl.simulated.faults import Faults
from pdctl.simulated.generation import Generation
from pdctl.simulated.metrics import EngineMetrics
from pdctl.simulated.timing import StepLoad, step_seconds
from pdctl.simulated.transfer import Pulled, Puller, is_usable
from pdctl.tasks import settle, spawn

STEPS_KEPT = 4096
HandOver = Callable[[Generation], dict[str, Any] | None]
"""Takes a finished prefill leg's blocks under a lease and returns its kv_transfer_params."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did; times in simulated seconds."""

    started_at: float
    seconds: float
    load: StepLoad


class Scheduler:
    """Waiting, pulling and running sequences of one engine."""

    def __init__(
        self,
        config: SimConfig,
        clock: SimClock,
        faults: Faults,
        pool: BlockPool,
        draws: Draws,
    ) -> None:
        self.steps: deque[Step] = deque(maxlen=STEPS_KEPT)
        """The latest steps, oldest first."""
        self.num_steps = 0
        self.draining = False
        self.metrics: EngineMetrics
        self.puller: Puller
        self.hand_over: HandOver
        self._config = config
        self._clock = clock
        self._faults = faults
        self._pool = pool
        self._draws = draws
        self._waiting: deque[Generation] = deque()
        self._pulling: set[Generation] = set()
        self._pulls: set[asyncio.Task[None]] = set()
        self._pulled: deque[Generation] = deque()
        self._running: list[Generation] = []
        self._wake = asyncio.Event()
        self._idle = True
        self._instant = 0.0
        """The end of the current step; behind the clock while late wake-ups are made up for."""
        faults.watchers.append(self._wake.set)

    # What the gauges read.

    def num_running(self) -> int:
        """Sequences in the running batch."""
        return len(self._running)

    def num_waiting(self) -> int:
        """Sequences that are not running yet, whatever they wait for."""
        return len(self._waiting) + len(self._pulling) + len(self._pulled)

    def num_deferred(self) -> int:
        """Waiting sequences that wait for a KV transfer."""
        return len(self._pulling)

    def fetches(self, stage: str) -> int:
        """Sequences per stage of an asynchronous KV load."""
        if stage == "waiting_to_start":
            return sum(one.wants_pull for one in self._waiting)
        return len(self._pulling) if stage == "in_progress" else len(self._pulled)

    def kv_usage(self) -> float:
        """Share of KV blocks in use, leased ones included."""
        return self._pool.usage

    @property
    def has_work(self) -> bool:
        """Whether any sequence is unfinished."""
        return bool(self._running or self.num_waiting())

    # What the HTTP side calls.

    def submit(self, generation: Generation) -> None:
        """Queue `generation`; while draining it ends at once, as vLLM's do."""
        now = self._clock.now()
        generation.arrived_at = now if self._idle else min(now, self._instant)
        if self.draining or self._faults.strike(self._faults.abort_finish):
            self.metrics.finished(generation, "abort", generation.arrived_at)
            generation.finish("abort")
            return
        if generation.wants_pull:
            if self._config.kv_connector and is_usable(generation.kv_params or {}):
                self.puller.admit(generation)
            else:
                generation.kv_params = None
        self._waiting.append(generation)
        self._wake.set()

    def abort(self, generation: Generation) -> None:
        """The client is gone: free what the sequence holds, and its peer's blocks too."""
        if generation.finish_reason is not None:
            return
        if generation in self._waiting and generation.wants_pull:
            self._release_remote(generation)
        if generation in self._pulling:
            self.metrics.finished(generation, "abort", self._clock.now())
            generation.finish("abort")
            return
        self._finish(generation, "abort", self._clock.now())

    def poke(self) -> None:
        """Look again: something that was waited for may be there."""
        self._wake.set()

    async def close(self) -> None:
        """Give up the pulls under way; the engine is going away."""
        await settle(*self._pulls)

    # The loop.

    async def run(self) -> None:
        """Step for ever; cancelled when the engine stops."""
        while True:
            self._instant = max(self._instant, self._clock.now() - self._clock.speed)
            batch = [] if self._faults.hang else self._plan(self._instant)
            if batch:
                self._instant += self._begin(batch)
                await self._clock.reach(self._instant)
                self._complete(batch, self._instant)
                continue
            self._wake.clear()
            self._idle = True
            await self._wake.wait()
            self._idle = False
            self._instant = max(self._instant, self._clock.now())

    def _begin(self, batch: list[tuple[Generation, int]]) -> float:
        """Record the step that computes `batch`; its simulated seconds."""
        load = self._load(batch)
        seconds = step_seconds(self._config.timing, load) * self._faults.slow
        if self._config.timing.jitter:
            seconds *= 1.0 + self._config.timing.jitter * self._draws.signed_unit()
        self.steps.append(Step(self._instant, seconds, load))
        self.num_steps += 1
        self.metrics.iteration_tokens.observe(load.prefill_tokens + load.decodes)
        return seconds

    def _plan(self, instant: float) -> list[tuple[Generation, int]]:
        """The sequences of the next step, each with how many tokens are computed for it."""
        budget = self._config.max_num_batched_tokens
        batch: list[tuple[Generation, int]] = []
        before = len(self._running)
        index = 0
        while budget and index < len(self._running):
            generation = self._running[index]
            tokens = min(generation.length - generation.computed, budget)
            if self._make_room(generation, generation.computed + tokens):
                batch.append((generation, tokens))
                budget -= tokens
                index += 1
        if len(self._running) == before or not batch:
            self._admit(batch, budget, instant)
        return batch

    def _make_room(self, generation: Generation, tokens: int) -> bool:
        """Give `generation` blocks for `tokens`, preempting the latest running if need be."""
        while not self._grow(generation, tokens):
            victim = self._running.pop()
            self._pool.release(victim.blocks)
            victim.blocks, victim.computed = [], 0
            victim.preemptions += 1
            self.metrics.preemptions.add()
            self._waiting.appendleft(victim)
            if victim is generation:
                return False
        return True

    def _grow(self, generation: Generation, tokens: int) -> bool:
        missing = -(-tokens // self._config.block_size) - len(generation.blocks)
        if missing <= 0:
            return True
        blocks = self._pool.take(missing)
        if blocks is None:
            return False
        generation.blocks += blocks
        return True

    def _admit(self, batch: list[tuple[Generation, int]], budget: int, instant: float) -> None:
        """Start waiting sequences while budget, places and blocks last; start their pulls."""
        while self._pulled or self._waiting:
            if budget == 0 or len(self._running) >= self._config.max_num_seqs:
                return
            queue = self._pulled or self._waiting
            generation = queue[0]
            self._find_cached(generation)
            if generation.wants_pull and len(generation.prompt) == 1:
                self._release_remote(generation)
                generation.kv_params = {**(generation.kv_params or {}), "do_remote_prefill": False}
            if generation.wants_pull:
                if not self._grow(generation, len(generation.prompt)):
                    return
                queue.popleft()
                self._start_pull(generation)
                continue
            tokens = min(generation.length - generation.computed, budget)
            if not self._grow(generation, generation.computed + tokens):
                return
            queue.popleft()
            self._running.append(generation)
            if generation.scheduled_at is None:
                generation.scheduled_at = max(instant, generation.arrived_at)
                self.metrics.queried(generation)
            batch.append((generation, tokens))
            budget -= tokens

    def _find_cached(self, generation: Generation) -> None:
        """Take over the blocks that hold the beginning of the prompt already."""
        if generation.blocks or not (self._config.enable_prefix_caching and generation.use_cache):
            return
        hashes = block_hashes(generation.prompt, self._config.block_size)
        generation.blocks = self._pool.reuse(hashes)
        generation.computed = len(generation.blocks) * self._config.block_size
        if not generation.counted:
            generation.local_hits = generation.computed

    def _load(self, batch: list[tuple[Generation, int]]) -> StepLoad:
        prefill = decodes = context = 0
        for generation, tokens in batch:
            if generation.tokens and tokens == 1:
                decodes += 1
                context += generation.computed
            else:
                prefill += tokens
        return StepLoad(prefill, decodes, context)

    def _complete(self, batch: list[tuple[Generation, int]], instant: float) -> None:
        """The step is over: advance every sequence that is still there."""
        for generation, tokens in batch:
            if generation.finish_reason is not None:
                continue
            generation.computed += tokens
            if generation.computed == generation.length:
                self._sample(generation, instant)

    def _sample(self, generation: Generation, instant: float) -> None:
        before = generation.last_token_at
        reason = generation.sample(instant)
        self.metrics.generation_tokens.add()
        if not generation.counted:
            generation.counted = True
            self._remember(generation)
            self.metrics.prefilled(generation)
        else:
            self.metrics.token_gap.observe(instant - before)
        failing = self._faults.error_after_tokens
        if failing and len(generation.tokens) >= failing and self._faults.strike(failing):
            reason = "error"
        if reason is None:
            generation.bell.ring()
        else:
            self._finish(generation, reason, instant)

    def _remember(self, generation: Generation) -> None:
        if not self._config.enable_prefix_caching:
            return
        size = self._config.block_size
        hashes = block_hashes(generation.prompt, size)
        new = self._pool.remember(generation.blocks, hashes)
        if self._pool.listener is None:
            return
        for place in new:
            tokens = generation.prompt[place * size : (place + 1) * size]
            parent = hashes[place - 1] if place else None
            self._pool.listener.stored([hashes[place]], parent, tokens, size)

    def _finish(self, generation: Generation, reason: str, instant: float) -> None:
        """Take the sequence out, and free its blocks or keep them for the decode leg."""
        for place in (self._running, self._waiting, self._pulled):
            if generation in place:
                place.remove(generation)
        kept = generation.is_prefill_leg and reason in ("length", "stop")
        if kept and self._config.kv_connector:
            generation.returned_params = self.hand_over(generation)
        else:
            self._pool.release(generation.blocks)
        generation.blocks = []
        self.metrics.finished(generation, reason, instant)
        generation.finish(reason)
        self._wake.set()

    # Pulls.

    def _start_pull(self, generation: Generation) -> None:
        self._pulling.add(generation)
        task = spawn(self._pull(generation), name=f"pull {generation.request_id}")
        self._pulls.add(task)
        task.add_done_callback(self._pulls.discard)

    async def _pull(self, generation: Generation) -> None:
        missing = len(generation.prompt) - generation.computed
        outcome = await self.puller.pull(generation, missing)
        self._pulling.discard(generation)
        if generation.finish_reason is not None:
            self._pool.release(generation.blocks)
            generation.blocks = []
        elif outcome is Pulled.FAILED and self._config.kv_load_failure_policy == "fail":
            self._finish(generation, "error", self._clock.now())
        else:
            self._loaded(generation, outcome, missing)
        self._wake.set()

    def _loaded(self, generation: Generation, outcome: Pulled, missing: int) -> None:
        """Continue after the pull: one token is left to compute, or the whole prompt is."""
        params = generation.kv_params or {}
        if outcome is not Pulled.FAILED:
            generation.external_hits = missing
            generation.computed = len(generation.prompt) - 1
            generation.remote_cached = params.get("remote_prefill_cached_tokens")
        if outcome is Pulled.WRONG:
            generation.source.corrupt()
        generation.kv_params = {**params, "do_remote_prefill": False}
        self._pulled.append(generation)

    def _release_remote(self, generation: Generation) -> None:
        params = generation.kv_params or {}
        spawn(self.puller.release(params), name=f"release {generation.request_id}")
