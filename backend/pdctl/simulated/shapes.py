"""Parts that several endpoints' answers share: usage, timing, log-probabilities, SSE frames."""

from __future__ import annotations

from typing import Any

import orjson

from pdctl.simulated.calls import Call
from pdctl.simulated.generation import Generation
from pdctl.simulated.text import logprob, rivals
from pdctl.simulated.vocabulary import decode

DONE = b"data: [DONE]\n\n"


def frame(chunk: dict[str, Any]) -> bytes:
    """One unnamed SSE event."""
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def without_nulls(value: Any) -> Any:
    """`value` without the keys whose value is null, at any depth: vLLM's last chunk of a stream."""
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(one) for key, one in value.items() if one is not None}


def created_cache_tokens(call: Call) -> int:
    """Prompt tokens whose full blocks this call put into the prefix cache."""
    last, size = call.generations[-1], call.config.block_size
    return max(0, len(last.prompt) // size * size - last.cached_tokens)


def usage(call: Call, *, created: int | None = None) -> dict[str, Any]:
    """Token counts of the whole call; only chat says how many were `created` in the cache."""
    prompt = sum(len(one.tokens) for one in call.prompts)
    completion = sum(len(one.tokens) for one in call.generations)
    details = None
    if call.config.enable_prompt_tokens_details:
        details = {
            "cached_tokens": call.generations[-1].cached_tokens,
            "created_cache_tokens": created,
            "multimodal_tokens": None,
        }
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": details,
        "completion_tokens_details": None,
    }


def running_usage(call: Call, generation: Generation, tokens: int) -> dict[str, Any]:
    """Token counts so far, in each chunk of `continuous_usage_stats`."""
    prompt = len(call.prompt_of(generation).tokens)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + tokens,
        "completion_tokens": tokens,
    }


def timing(call: Call) -> dict[str, Any] | None:
    """The `metrics` object of --enable-per-request-metrics, in simulated milliseconds."""
    if not call.config.enable_per_request_metrics or len(call.generations) != 1:
        return None
    one = call.generations[0]
    scheduled, count = one.scheduled_at, len(one.tokens)
    shown: dict[str, Any] = dict.fromkeys(
        (
            "time_to_first_token_ms",
            "generation_time_ms",
            "queue_time_ms",
            "mean_itl_ms",
            "tokens_per_second",
            "speculative_decoding",
        )
    )
    if scheduled is None or not count:
        return shown
    decode_ms = (one.last_token_at - one.first_token_at) * 1000
    total_ms = (one.last_token_at - scheduled) * 1000
    shown["time_to_first_token_ms"] = (one.first_token_at - scheduled) * 1000
    shown["generation_time_ms"] = decode_ms
    shown["queue_time_ms"] = max(0.0, scheduled - one.arrived_at) * 1000
    shown["mean_itl_ms"] = decode_ms / (count - 1) if count > 1 else None
    shown["tokens_per_second"] = count / total_ms * 1000 if total_ms > 0 else None
    return shown


def named_logprob(token: int, value: float) -> dict[str, Any]:
    """One token with its log-probability, as chat shows it."""
    text = decode((token,))
    return {"token": text, "logprob": value, "bytes": list(text.encode())}


def chat_logprobs(first: int, tokens: list[int], top: int) -> list[dict[str, Any]]:
    """Chat's log-probabilities of `tokens`, the first of which is at index `first`."""
    return [
        {
            **named_logprob(token, logprob(position, token)),
            "top_logprobs": [named_logprob(*rival) for rival in rivals(position, token, top)[:top]],
        }
        for position, token in enumerate(tokens, first)
    ]


def prompt_logprobs(prompt: list[int], count: int) -> list[dict[str, Any] | None]:
    """Log-probabilities of a prompt; the first token has none."""
    shown: list[dict[str, Any] | None] = [None]
    for position, token in enumerate(prompt[1:], 1):
        shown.append(
            {
                str(other): {"logprob": value, "rank": rank, "decoded_token": decode((other,))}
                for rank, (other, value) in enumerate(rivals(position, token, max(count, 1)), 1)
            }
        )
    return shown
