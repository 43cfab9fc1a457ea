"""`/v1/completions`: its body, its answer and its chunks."""

from __future__ import annotations

from typing import Any

from pdctl.simulated.calls import Call, Prompt
from pdctl.simulated.fields import invalid, missing
from pdctl.simulated.generation import Delta, Generation
from pdctl.simulated.problems import Rejected
from pdctl.simulated.shapes import (
    DONE,
    frame,
    prompt_logprobs,
    running_usage,
    timing,
    usage,
    without_nulls,
)
from pdctl.simulated.text import logprob, rivals
from pdctl.simulated.vocabulary import decode, encode


class Completions:
    """The text completion dialect."""

    path = "/v1/completions"
    id_prefix = "cmpl-"
    takes_request_id = True
    takes_rank = True
    default_max_tokens: int | None = 16
    limits: tuple[str, ...] = ("max_tokens",)

    def prompts(self, body: dict[str, Any]) -> list[Prompt]:
        """The prompts of a body: text, tokens, or lists of either."""
        if "prompt" not in body:
            invalid("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
        given = body["prompt"]
        if given in (None, "", []):
            invalid("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
        logprobs = body.get("logprobs")
        if isinstance(logprobs, bool) or not isinstance(logprobs, int | None):
            raise Rejected("int_type", "body.logprobs", "Input should be a valid integer")
        if logprobs is not None and logprobs < -1:
            invalid("`logprobs` must be a positive value or -1.", "logprobs")
        return [_prompt(one) for one in _several(given)]

    def whole(self, call: Call) -> dict[str, Any]:
        """The answer of a call that has ended."""
        return {
            "id": call.id,
            "object": "text_completion",
            "created": call.created,
            "model": call.config.model_name,
            "choices": [_choice(call, one) for one in call.generations],
            "service_tier": None,
            "system_fingerprint": call.config.system_fingerprint,
            "usage": usage(call),
            "kv_transfer_params": call.generations[0].returned_params,
            "ec_transfer_params": None,
            "metrics": timing(call),
        }

    def opening(self, call: Call, generation: Generation) -> bytes:
        """Nothing comes before the first token."""
        return b""

    def chunk(self, call: Call, generation: Generation, delta: Delta) -> bytes:
        """The event for what `generation` has new."""
        body = call.body
        prompt = call.prompt_of(generation)
        echoes = body.get("echo") and delta.first == 0
        tokens, text = delta.tokens, delta.text
        if echoes:
            only = call.max_tokens == 0
            text = prompt.text + ("" if only else text)
            tokens = prompt.tokens + ([] if only else tokens)
        choice: dict[str, Any] = {
            "index": generation.index,
            "text": text,
            "logprobs": None,
            "finish_reason": delta.finish_reason,
            "stop_reason": delta.stop_reason,
            "prompt_token_ids": None,
            "token_ids": None,
        }
        if body.get("logprobs") is not None:
            before = generation.tokens[: delta.first]
            if body.get("echo") and not echoes:
                before = prompt.tokens + before
            position = 0 if echoes else len(prompt.tokens) + delta.first
            choice["logprobs"] = _logprobs(tokens, position, body["logprobs"], before)
        if body.get("return_token_ids"):
            choice["token_ids"] = delta.tokens
            choice["prompt_token_ids"] = prompt.tokens if delta.first == 0 else None
        chunk = self._chunk(call, [choice])
        if delta.finish_reason is not None and not call.option("include_usage"):
            chunk["system_fingerprint"] = call.config.system_fingerprint
        if call.option("include_usage") and call.option("continuous_usage_stats"):
            seen = delta.first + len(delta.tokens)
            chunk["usage"] = running_usage(call, generation, seen)
        return frame(chunk)

    def closing(self, call: Call) -> bytes:
        """The usage event, when asked for, and the end of the stream."""
        if not call.option("include_usage"):
            return DONE
        chunk = self._chunk(call, [])
        chunk["usage"] = usage(call)
        chunk["system_fingerprint"] = call.config.system_fingerprint
        chunk["metrics"] = timing(call)
        return frame(without_nulls(chunk)) + DONE

    def failure(self, call: Call, body: dict[str, Any]) -> bytes:
        """The end of a stream that failed."""
        return frame(body) + DONE

    def _chunk(self, call: Call, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": call.id,
            "object": "text_completion",
            "created": call.created,
            "model": call.config.model_name,
            "choices": choices,
        }


def _several(given: Any) -> list[Any]:
    """Prompts as a list: a list of integers is one prompt."""
    if not isinstance(given, list) or isinstance(given[0], int):
        return [given]
    return given


def _prompt(given: Any) -> Prompt:
    if isinstance(given, str):
        return Prompt(given, encode(given))
    if isinstance(given, list) and all(type(one) is int for one in given):
        return Prompt(decode(given), list(given))
    if given is None:
        missing("prompt")
    raise Rejected("string_type", "body.prompt", "Input should be a valid string")


def _choice(call: Call, generation: Generation) -> dict[str, Any]:
    body, prompt = call.body, call.prompt_of(generation)
    only_echo = call.max_tokens == 0
    tokens = [] if only_echo else generation.tokens
    text = "" if only_echo else generation.text
    echo = bool(body.get("echo"))
    if echo:
        tokens, text = prompt.tokens + tokens, prompt.text + text
    choice: dict[str, Any] = {
        "index": generation.index,
        "text": text,
        "logprobs": None,
        "finish_reason": generation.finish_reason,
        "stop_reason": generation.stop_reason,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }
    if body.get("logprobs") is not None:
        position = 0 if echo else len(prompt.tokens)
        choice["logprobs"] = _logprobs(tokens, position, body["logprobs"], [])
    if body.get("prompt_logprobs") is not None:
        choice["prompt_logprobs"] = prompt_logprobs(prompt.tokens, body["prompt_logprobs"])
    if body.get("return_token_ids"):
        choice["token_ids"] = generation.tokens
        choice["prompt_token_ids"] = prompt.tokens
    return choice


def _logprobs(tokens: list[int], position: int, top: int, before: list[int]) -> dict[str, Any]:
    """Completions' log-probabilities of `tokens`, the first of which is at `position`.

    `before` are the tokens whose text the offsets count from. Position 0 has no log-probability.
    """
    texts = [decode((token,)) for token in tokens]
    offsets: list[int] = []
    offset = sum(len(decode((token,))) for token in before)
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    values: list[float | None] = []
    tops: list[dict[str, float] | None] = []
    for at, token in enumerate(tokens, position):
        values.append(logprob(at, token) if at else None)
        ranked = {decode((other,)): value for other, value in rivals(at, token, top)}
        tops.append(ranked if at else None)
    return {
        "text_offset": offsets,
        "token_logprobs": values,
        "tokens": texts,
        "top_logprobs": tops,
    }
