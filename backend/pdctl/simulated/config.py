"""What one simulated engine is: its name, its connector, its capacity and its speed.

Every time is in simulated seconds; `SimConfig.speed` is how many of them pass in one real second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pdctl.simulated.publisher import read_config

Role = Literal["prefill", "decode", "both"]
KV_ROLES: dict[Role, str] = {
    "prefill": "kv_producer",
    "decode": "kv_consumer",
    "both": "kv_both",
}
"""Our roles in the words of vLLM's `kv_role`. A role decides which metrics exist, no more."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The coefficients of the timing model; `pdctl.simulated.timing` holds the formulas.

    The defaults are of the order of a small dense model on one data-centre GPU.
    """

    prefill_tokens_per_s: float = 20_000.0
    """Prompt tokens computed per second; 0 means that prefill takes no time."""
    step_base_s: float = 0.008
    """Seconds every step takes, whatever is in it (weights read once, launches, sampling)."""
    step_per_seq_s: float = 0.000_05
    """Seconds a step takes more for each sequence that decodes in it."""
    step_per_kv_token_s: float = 0.000_000_02
    """Seconds a step takes more for each token of context that its decodes attend to."""
    handshake_s: float = 0.05
    """Seconds of the first exchange between two engines."""
    transfer_latency_s: float = 0.001
    """Seconds a pull takes before the first byte arrives."""
    transfer_bytes_per_s: float = 20e9
    """Bytes of KV per second; 0 means that bytes take no time."""
    jitter: float = 0.0
    """Largest relative change of a step's duration, drawn by the engine's seed; 0 is none."""

    @classmethod
    def instant(cls) -> Timing:
        """A model in which nothing takes time: the upstream for measuring a router."""
        return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class SimConfig:
    """One engine. Names follow vLLM's flags where vLLM has the flag."""

    model_name: str = "tiny"
    role: Role = "both"
    engine_id: str = ""
    """The connector's engine id; a new UUID when empty, as in vLLM."""
    seed: int = 0
    timing: Timing = field(default_factory=Timing)
    speed: float = 1.0
    """Simulated seconds per real second; tests run at 20 to 100."""

    data_parallel_size: int = 1
    """Engine cores behind the one HTTP server, each with all of what follows for itself."""
    api_server_count: int = 1
    """Taken as vLLM takes it; one server answers all the same."""
    max_model_len: int = 8192
    max_num_batched_tokens: int = 2048
    """Token budget of a step, shared by prefill chunks and decodes."""
    max_num_seqs: int = 256
    max_num_queued_reqs: int | None = None
    """Requests that may wait before the engine answers 503; None is no limit."""
    block_size: int = 128
    """Tokens per KV block; 128 is what vLLM uses on CPU."""
    num_blocks: int = 4096
    kv_bytes_per_token: int = 131_072
    """Bytes of KV per token (layers x KV heads x head size x 2 x dtype size)."""
    enable_prefix_caching: bool = True
    mean_output_tokens: int = 256
    """A text that nothing else ends stops between half and one and a half of this; 0 is never."""

    kv_connector: bool = True
    side_channel_host: str = "127.0.0.1"
    kv_lease_duration: float = 30.0
    """Seconds a prefill engine keeps blocks nobody has pulled (kv_connector_extra_config)."""
    kv_load_failure_policy: Literal["fail", "recompute"] = "fail"
    late_read: Literal["corrupt", "intact"] = "corrupt"
    """What a decode engine reads from blocks that were freed: other requests' KV, or luck."""

    enable_prompt_tokens_details: bool = True
    enable_per_request_metrics: bool = False
    enable_server_load_tracking: bool = True
    enable_request_id_headers: bool = True
    """Whether answers carry the request's X-Request-Id, or a new one."""

    kv_events_config: str = ""
    """vLLM's JSON object (`publisher.KvEventsConfig`); nothing is published without it."""

    def __post_init__(self) -> None:
        if read_config(self.kv_events_config).enable_kv_cache_events and (
            self.data_parallel_size > 1
        ):
            raise ValueError("kv_events_config is simulated for one data-parallel rank only")
        if self.data_parallel_size < 1:
            raise ValueError(
                f"data_parallel_size must be at least 1, got {self.data_parallel_size}"
            )
        if self.num_blocks * self.block_size < self.max_model_len:
            raise ValueError(
                f"{self.num_blocks} blocks of {self.block_size} tokens cannot hold one request of "
                f"max_model_len {self.max_model_len}"
            )

    @property
    def system_fingerprint(self) -> str:
        """The fingerprint in every answer; it says simulated."""
        return f"vllm-{VERSION}"

    @property
    def is_consumer(self) -> bool:
        """Whether the KV fetch gauges exist, as for vLLM's `is_kv_consumer`."""
        return self.kv_connector and self.role != "prefill"


VERSION = "0.32.0+simulated"
"""The version every endpoint reports: the dialect spoken, and that it is spoken by a simulation."""
