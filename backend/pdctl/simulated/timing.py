"""The timing model: how long a step and a transfer take. Pure functions, no clock.

    step     = base + prefill_tokens / prefill_rate + per_seq * decodes + per_kv_token * context
    transfer = latency + bytes / bandwidth

A step computes prefill chunks and decodes together, so a chunk lengthens the token gap of every
stream in the step: the interference that chunked prefill has and P/D disaggregation removes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.simulated.config import Timing


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one step computes."""

    prefill_tokens: int
    decodes: int
    context_tokens: int
    """Tokens of KV that the decodes of the step attend to."""


def step_seconds(timing: Timing, load: StepLoad) -> float:
    """Simulated seconds of one step with `load`."""
    seconds = timing.step_base_s
    if timing.prefill_tokens_per_s > 0:
        seconds += load.prefill_tokens / timing.prefill_tokens_per_s
    seconds += timing.step_per_seq_s * load.decodes
    return seconds + timing.step_per_kv_token_s * load.context_tokens


def transfer_seconds(timing: Timing, num_bytes: int) -> float:
    """Simulated seconds to pull `num_bytes` of KV from another engine."""
    if timing.transfer_bytes_per_s <= 0:
        return timing.transfer_latency_s
    return timing.transfer_latency_s + num_bytes / timing.transfer_bytes_per_s
