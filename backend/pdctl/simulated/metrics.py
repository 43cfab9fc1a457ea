"""The metric families of one engine: vLLM 0.32's names, labels, help texts' sense and buckets.

Times are simulated seconds, so a histogram reads the same at any `speed`. Families that a real
engine would not have in this configuration (LoRA, speculative decoding) are absent here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pdctl.simulated import buckets
from pdctl.simulated.clock import epoch_seconds
from pdctl.simulated.config import SimConfig
from pdctl.simulated.exposition import Counter, Histogram, Registry
from pdctl.simulated.generation import Generation

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
PROMPT_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
CACHE_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
ADMISSION_REASONS = ("max_num_queued_reqs", "max_num_queued_tokens")
FETCH_STAGES = ("waiting_to_start", "in_progress", "completed_waiting")

_UNSET = (
    "cache_hit_alignment_tokens hash_block_size kv_cache_layout kv_offloading_size "
    "mamba_block_size mamba_page_size_padded num_cpu_blocks num_gpu_blocks_override "
    "prefix_match_unit skip_page_size_padded sliding_window"
)
_OFF = (
    "enable_mamba_shared_prefix_checkpoint is_attention_free kv_sharing_fast_prefill "
    "use_kda_recoverssm use_replayssm user_specified_block_size"
)
CACHE_CONFIG = {
    **dict.fromkeys(_UNSET.split(), "None"),
    **dict.fromkeys(_OFF.split(), "False"),
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "gpu_memory_utilization": "0.92",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_offloading_backend": "native",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_ssm_cache_dtype": "auto",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "replayssm_buffer_len": "16",
    "swa_bounded_replay": "True",
}
"""The labels of cache_config_info that no setting of ours changes."""


class Load(Protocol):
    """What the gauges read when the page is rendered."""

    def num_running(self) -> int: ...
    def num_waiting(self) -> int: ...
    def num_deferred(self) -> int: ...
    def fetches(self, stage: str) -> int: ...
    def kv_usage(self) -> float: ...


class EngineMetrics:
    """Every family of one engine, and the few methods that record into them."""

    def __init__(self, config: SimConfig, load: Load, rank: int = 0) -> None:
        self.registry = Registry(epoch_seconds())
        self._config = config
        self._labels = {"model_name": config.model_name, "engine": str(rank)}
        self._gauges(load)
        self._cache()
        self._work()
        self._sizes()
        self._latency()
        self._info()
        if config.kv_connector:
            self._nixl()

    def render(self) -> str:
        """The /metrics page."""
        return self.registry.render()

    def prefilled(self, generation: Generation) -> None:
        """Count a prompt whose prefill is complete, by where its KV came from."""
        total, local = len(generation.prompt), generation.local_hits
        external = generation.external_hits
        self.prompt_tokens.add(total)
        self.prompt_sources["local_compute"].add(total - local - external)
        self.prompt_sources["local_cache_hit"].add(local)
        self.prompt_sources["external_kv_transfer"].add(external)
        self.prompt_tokens_cached.add(local + external)
        self.time_to_first_token.observe(generation.first_token_at - generation.arrived_at)

    def queried(self, generation: Generation) -> None:
        """Count the prefix cache look-ups of an admitted request."""
        queried, local = len(generation.prompt), generation.local_hits
        self.prefix_queries.add(queried)
        self.prefix_hits.add(local)
        self.cache_tiers["device"].add(local)
        if self._config.kv_connector:
            self.external_queries.add(queried - local)
            self.external_hits.add(generation.external_hits)
            self.cache_tiers["p2p"].add(generation.external_hits)

    def finished(self, generation: Generation, reason: str, at: float) -> None:
        """Record a request that ended at `at` for `reason`."""
        self.request_success[reason].add()
        done = len(generation.tokens)
        self.request_prompt_tokens.observe(len(generation.prompt))
        self.request_generation_tokens.observe(done)
        self.request_max_generation_tokens.observe(done)
        self.request_params_n.observe(generation.params_n)
        self.request_params_max_tokens.observe(generation.max_tokens)
        self.request_preemptions.observe(generation.preemptions)
        self.e2e.observe(at - generation.arrived_at)
        if generation.scheduled_at is None:
            return
        self.queue_time.observe(max(0.0, generation.scheduled_at - generation.arrived_at))
        self.inference_time.observe(at - generation.scheduled_at)
        if done:
            self.prefill_time.observe(generation.first_token_at - generation.scheduled_at)
            decode = generation.last_token_at - generation.first_token_at
            self.decode_time.observe(decode)
            self.time_per_output_token.observe(decode / (done - 1) if done > 1 else 0.0)
            cached = generation.local_hits + generation.external_hits
            self.prefill_computed.observe(len(generation.prompt) - cached)

    def _counter(self, name: str, doc: str) -> Counter:
        return self.registry.counters(f"vllm:{name}", doc, [self._labels])[0]

    def _split(self, name: str, doc: str, label: str, values: Iterable[str]) -> dict[str, Counter]:
        names = list(values)
        sets = [{**self._labels, label: value} for value in names]
        return dict(zip(names, self.registry.counters(f"vllm:{name}", doc, sets), strict=True))

    def _histogram(self, name: str, doc: str, bounds: tuple[float, ...]) -> Histogram:
        return self.registry.histogram(f"vllm:{name}", doc, self._labels, bounds)

    def _gauge(self, name: str, doc: str, read: Callable[[], float]) -> None:
        self.registry.gauges(f"vllm:{name}", doc, [(self._labels, read)])

    def _gauges(self, load: Load) -> None:
        """Scheduler and cache state, read when the page is rendered."""
        labels = self._labels
        self._gauge("num_requests_running", "Number of running requests.", load.num_running)
        self._gauge("num_requests_waiting", "Number of waiting requests.", load.num_waiting)
        self.registry.gauges(
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            [
                (
                    {**labels, "reason": "capacity"},
                    lambda: load.num_waiting() - load.num_deferred(),
                ),
                ({**labels, "reason": "deferred"}, load.num_deferred),
            ],
        )
        if self._config.is_consumer:
            self.registry.gauges(
                "vllm:num_requests_kv_fetch_by_stage",
                "Number of waiting requests by async KV load stage.",
                [
                    ({**labels, "stage": stage}, lambda stage=stage: load.fetches(stage))  # type: ignore[misc]
                    for stage in FETCH_STAGES
                ],
            )
        self.registry.gauges(
            "vllm:engine_sleep_state",
            "Engine sleep state.",
            [
                ({**labels, "sleep_state": state}, lambda awake=state == "awake": float(awake))  # type: ignore[misc]
                for state in ("awake", "weights_offloaded", "discard_all")
            ],
        )
        self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent.", load.kv_usage)

    def _cache(self) -> None:
        self.prefix_queries = self._counter("prefix_cache_queries", "Tokens looked up.")
        self.prefix_hits = self._counter("prefix_cache_hits", "Tokens found.")
        if self._config.kv_connector:
            self.external_queries = self._counter(
                "external_prefix_cache_queries", "Tokens asked of the KV connector."
            )
            self.external_hits = self._counter(
                "external_prefix_cache_hits", "Tokens loaded by the KV connector."
            )
        self.mm_queries = self._counter("mm_cache_queries", "Multi-modal items looked up.")
        self.mm_hits = self._counter("mm_cache_hits", "Multi-modal items found.")

    def _work(self) -> None:
        """What was done, in tokens and requests."""
        self.preemptions = self._counter("num_preemptions", "Preemptions.")
        self.prompt_tokens = self._counter("prompt_tokens", "Prefill tokens processed.")
        self.prompt_sources = self._split(
            "prompt_tokens_by_source", "Prompt tokens by source.", "source", PROMPT_SOURCES
        )
        self.prompt_tokens_cached = self._counter("prompt_tokens_cached", "Cached prompt tokens.")
        self.cache_tiers = self._split(
            "prompt_tokens_cached_by_source", "Cached tokens by tier.", "source", CACHE_TIERS
        )
        self.generation_tokens = self._counter("generation_tokens", "Tokens generated.")
        for name in ("flops", "read_bytes", "write_bytes"):
            self._counter(f"estimated_{name}_per_gpu", "Always zero: nothing is computed.")
        self.request_success = self._split(
            "request_success", "Requests by how they ended.", "finished_reason", FINISH_REASONS
        )
        admissions = [
            {"model_name": self._config.model_name, "reason": reason}
            for reason in ADMISSION_REASONS
        ]
        self.admission_rejections = self.registry.counters(
            "vllm:admission_rejections", "Requests rejected by a queue limit.", admissions
        )[0]

    def _sizes(self) -> None:
        """How large requests and steps were."""
        tokens = buckets.request_tokens(self._config.max_model_len)
        self.request_prompt_tokens = self._histogram(
            "request_prompt_tokens", "Prompt tokens of a request.", tokens
        )
        self.request_generation_tokens = self._histogram(
            "request_generation_tokens", "Tokens generated for a request.", tokens
        )
        self.iteration_tokens = self._histogram(
            "iteration_tokens_total", "Tokens per engine step.", buckets.STEP_TOKENS
        )
        self.request_max_generation_tokens = self._histogram(
            "request_max_num_generation_tokens", "Most tokens generated among n.", tokens
        )
        self.request_params_n = self._histogram(
            "request_params_n", "The n parameter.", buckets.PARAM_N
        )
        self.request_params_max_tokens = self._histogram(
            "request_params_max_tokens", "The max_tokens parameter.", tokens
        )
        self.request_preemptions = self._histogram(
            "request_num_preemptions", "Preemptions of a request.", buckets.PREEMPTIONS
        )
        self.prefill_computed = self._histogram(
            "request_prefill_kv_computed_tokens", "Prompt tokens not cached.", tokens
        )

    def _latency(self) -> None:
        latency = buckets.LATENCY
        self.time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Time to first token.", buckets.FIRST_TOKEN
        )
        self.token_gap = self._histogram(
            "inter_token_latency_seconds", "Time between tokens.", buckets.TOKEN_GAP
        )
        self.time_per_output_token = self._histogram(
            "request_time_per_output_token_seconds", "Mean time per token.", buckets.TOKEN_GAP
        )
        self.e2e = self._histogram(
            "e2e_request_latency_seconds", "Time of a whole request.", latency
        )
        self.queue_time = self._histogram("request_queue_time_seconds", "Time in WAITING.", latency)
        self.inference_time = self._histogram(
            "request_inference_time_seconds", "Time in RUNNING.", latency
        )
        self.prefill_time = self._histogram(
            "request_prefill_time_seconds", "Time in PREFILL.", latency
        )
        self.decode_time = self._histogram(
            "request_decode_time_seconds", "Time in DECODE.", latency
        )

    def _info(self) -> None:
        config = self._config
        tokens = config.num_blocks * config.block_size
        labels = {
            **CACHE_CONFIG,
            "block_size": str(config.block_size),
            "effective_attention_block_size": str(config.block_size),
            "enable_prefix_caching": str(config.enable_prefix_caching),
            "engine": self._labels["engine"],
            "kv_cache_max_concurrency": str(tokens / config.max_model_len),
            "kv_cache_memory_bytes": str(tokens * config.kv_bytes_per_token),
            "kv_cache_size_tokens": str(tokens),
            "num_gpu_blocks": str(config.num_blocks),
        }
        self.registry.gauges("vllm:cache_config_info", "CacheConfig.", [(labels, lambda: 1.0)])

    def _nixl(self) -> None:
        self.nixl_transfer_time = self._histogram(
            "nixl_xfer_time_seconds", "Time of a KV transfer.", buckets.NIXL_TRANSFER
        )
        self.nixl_post_time = self._histogram(
            "nixl_post_time_seconds", "Time to post a KV transfer.", buckets.NIXL_POST
        )
        self.nixl_bytes = self._histogram(
            "nixl_bytes_transferred", "Bytes per KV transfer.", buckets.NIXL_BYTES
        )
        self.nixl_descriptors = self._histogram(
            "nixl_num_descriptors", "Descriptors per KV transfer.", buckets.NIXL_DESCRIPTORS
        )
        self.nixl_failed_transfers = self._counter(
            "nixl_num_failed_transfers", "Failed KV transfers, handshakes included."
        )
        self.nixl_failed_notifications = self._counter(
            "nixl_num_failed_notifications", "Failed KV notifications."
        )
        self.nixl_expired = self._counter(
            "nixl_num_kv_expired_reqs", "Requests whose KV expired on the prefill side."
        )
        self.nixl_late_notifications = self._counter(
            "nixl_num_notifications_after_expiry", "Notifications for KV no longer held."
        )
