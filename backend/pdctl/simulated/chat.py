"""`/v1/chat/completions`: its body, its answer and its chunks, and the chat template.

The template is `role: content`, a line per message, then `assistant:`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pdctl.simulated.calls import Call, Prompt
from pdctl.simulated.fields import invalid, missing
from pdctl.simulated.generation import Delta, Generation
from pdctl.simulated.problems import Refused, Rejected
from pdctl.simulated.shapes import (
    DONE,
    chat_logprobs,
    created_cache_tokens,
    frame,
    prompt_logprobs,
    running_usage,
    timing,
    usage,
    without_nulls,
)
from pdctl.simulated.vocabulary import VOCAB_SIZE, encode


class Chat:
    """The chat completion dialect."""

    path = "/v1/chat/completions"
    id_prefix = "chatcmpl-"
    takes_request_id = True
    takes_rank = True
    default_max_tokens: int | None = None
    limits: tuple[str, ...] = ("max_completion_tokens", "max_tokens")

    def prompts(self, body: dict[str, Any]) -> list[Prompt]:
        """The one prompt that the messages render to."""
        messages = body.get("messages")
        if messages is None:
            missing("messages")
        if not isinstance(messages, list):
            raise Rejected("list_type", "body.messages", "Input should be a valid list")
        if body.get("top_logprobs") is not None and not body.get("logprobs"):
            invalid("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
        rendered = Prompt("", [])
        rendered.text = render(messages)
        rendered.tokens = reused_tokens(body) or encode(rendered.text)
        return [rendered]

    def whole(self, call: Call) -> dict[str, Any]:
        """The answer of a call that has ended."""
        body, prompt = call.body, call.prompts[0]
        shown = None
        if body.get("prompt_logprobs") is not None:
            shown = prompt_logprobs(prompt.tokens, body["prompt_logprobs"])
        return {
            "id": call.id,
            "object": "chat.completion",
            "created": call.created,
            "model": call.config.model_name,
            "choices": [_choice(call, one) for one in call.generations],
            "service_tier": None,
            "system_fingerprint": call.config.system_fingerprint,
            "usage": usage(call, created=created_cache_tokens(call)),
            "prompt_logprobs": shown,
            "prompt_token_ids": prompt.tokens if body.get("return_token_ids") else None,
            "prompt_text": None,
            "kv_transfer_params": call.generations[0].returned_params,
            "ec_transfer_params": None,
            "metrics": timing(call),
        }

    def opening(self, call: Call, generation: Generation) -> bytes:
        """The chunk with the role; vLLM sends it when the first token is there."""
        choice: dict[str, Any] = {
            "index": generation.index,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        chunk = self._chunk(call, [choice])
        chunk["prompt_token_ids"] = None
        if call.body.get("return_token_ids"):
            chunk["prompt_token_ids"] = call.prompts[0].tokens
        chunk["prompt_text"] = None
        if _continuous(call):
            chunk["usage"] = running_usage(call, generation, 0)
        return frame(chunk)

    def chunk(self, call: Call, generation: Generation, delta: Delta) -> bytes:
        """The event for what `generation` has new."""
        body = call.body
        choice: dict[str, Any] = {
            "index": generation.index,
            "delta": {"content": delta.text},
            "logprobs": None,
            "finish_reason": delta.finish_reason,
            "token_ids": delta.tokens if body.get("return_token_ids") else None,
        }
        if body.get("logprobs"):
            position = len(call.prompts[0].tokens) + delta.first
            top = body.get("top_logprobs") or 0
            choice["logprobs"] = {"content": chat_logprobs(position, delta.tokens, top)}
        if delta.finish_reason is not None:
            choice["stop_reason"] = delta.stop_reason
        chunk = self._chunk(call, [choice])
        if delta.finish_reason is not None and not call.option("include_usage"):
            chunk["system_fingerprint"] = call.config.system_fingerprint
        if _continuous(call):
            seen = delta.first + len(delta.tokens)
            chunk["usage"] = running_usage(call, generation, seen)
        return frame(chunk)

    def closing(self, call: Call) -> bytes:
        """The usage event, when asked for, and the end of the stream."""
        if not call.option("include_usage"):
            return DONE
        chunk = self._chunk(call, [])
        chunk["usage"] = usage(call, created=created_cache_tokens(call))
        chunk["system_fingerprint"] = call.config.system_fingerprint
        chunk["metrics"] = timing(call)
        return frame(without_nulls(chunk)) + DONE

    def failure(self, call: Call, body: dict[str, Any]) -> bytes:
        """The end of a stream that failed."""
        return frame(body) + DONE

    def _chunk(self, call: Call, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": call.id,
            "object": "chat.completion.chunk",
            "created": call.created,
            "model": call.config.model_name,
            "choices": choices,
        }


def render(messages: Iterable[Any]) -> str:
    """The prompt of a conversation; refuses what is not a message."""
    lines: list[str] = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Rejected("missing", f"body.messages.{number}.role", "Field required")
        lines.append(f"{message['role']}: {_content(message.get('content'), number)}\n")
    return "".join(lines) + "assistant:"


def reused_tokens(body: dict[str, Any]) -> list[int]:
    """The prompt's tokens where the prefill leg already made them; empty when it did not."""
    params = body.get("kv_transfer_params") or {}
    tokens = params.get("prompt_token_ids")
    if tokens is None:
        return []
    if not isinstance(tokens, list) or not all(
        type(one) is int and 0 <= one < VOCAB_SIZE for one in tokens
    ):
        raise Refused("kv_transfer_params.prompt_token_ids must be a list of token ids")
    return list(tokens)


def _content(content: Any, number: int) -> str:
    """The text of a message, whether a string or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise Rejected("string_type", f"body.messages.{number}.content", "Input should be a string")


def _continuous(call: Call) -> bool:
    return call.option("include_usage") and call.option("continuous_usage_stats")


def _choice(call: Call, generation: Generation) -> dict[str, Any]:
    body = call.body
    logprobs = None
    if body.get("logprobs"):
        position = len(call.prompts[0].tokens)
        top = body.get("top_logprobs") or 0
        logprobs = {"content": chat_logprobs(position, generation.tokens, top)}
    return {
        "index": generation.index,
        "message": {
            "role": "assistant",
            "content": generation.text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        },
        "logprobs": logprobs,
        "finish_reason": generation.finish_reason,
        "stop_reason": generation.stop_reason,
        "token_ids": generation.tokens if body.get("return_token_ids") else None,
        "routed_experts": None,
    }
