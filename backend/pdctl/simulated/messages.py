"""`/v1/messages`: a message is a chat completion in other words, as it is inside vLLM."""

from __future__ import annotations

from typing import Any

import orjson

from pdctl.simulated.calls import Call, Prompt
from pdctl.simulated.chat import Chat
from pdctl.simulated.fields import missing
from pdctl.simulated.generation import Delta, Generation
from pdctl.simulated.problems import Rejected
from pdctl.simulated.shapes import created_cache_tokens


class Messages:
    """The messages dialect."""

    path = "/v1/messages"
    id_prefix = "chatcmpl-"
    takes_request_id = True
    takes_rank = True
    default_max_tokens: int | None = None
    limits: tuple[str, ...] = ("max_tokens",)

    def prompts(self, body: dict[str, Any]) -> list[Prompt]:
        """The one prompt that system and messages render to."""
        for name in ("model", "max_tokens"):
            if body.get(name) is None:
                missing(name)
        if body["max_tokens"] <= 0:
            _invalid("max_tokens", "max_tokens must be positive")
        _check_thinking(body)
        system = body.get("system")
        first = [] if system is None else [{"role": "system", "content": system}]
        messages = body.get("messages")
        if isinstance(messages, list):
            messages = [*first, *messages]
        body["stop"] = body.get("stop_sequences")
        return Chat().prompts({**body, "messages": messages})

    def whole(self, call: Call) -> dict[str, Any]:
        """The answer of a call that has ended."""
        one = call.generations[0]
        params = one.returned_params
        return {
            "id": call.id,
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": one.text}],
            "model": call.config.model_name,
            **_without_nulls(_stopped(one.finish_reason, one.stop_reason)),
            "usage": _usage(call, len(one.tokens)),
            **({} if params is None else {"kv_transfer_params": params}),
        }

    def opening(self, call: Call, generation: Generation) -> bytes:
        """The message without its content; vLLM sends it when the first token is there."""
        message: dict[str, Any] = {
            "id": call.id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": call.config.model_name,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(call, 0),
        }
        return _event("message_start", message=message)

    def chunk(self, call: Call, generation: Generation, delta: Delta) -> bytes:
        """What `generation` has new, where that is text."""
        if not delta.text:
            return b""
        start = b""
        if not call.events:
            block = {"type": "text", "text": ""}
            start = _event("content_block_start", content_block=block, index=0)
        call.events += 1
        new = {"type": "text_delta", "text": delta.text}
        return start + _event("content_block_delta", delta=new, index=0)

    def closing(self, call: Call) -> bytes:
        """Why it stopped, what it took, and the end."""
        one = call.generations[0]
        stop = _event("content_block_stop", index=0) if call.events else b""
        reason = _stopped(one.finish_reason or "stop", one.stop_reason)
        usage = _usage(call, len(one.tokens))
        return stop + _event("message_delta", delta=reason, usage=usage) + _event("message_stop")

    def failure(self, call: Call, body: dict[str, Any]) -> bytes:
        """The end of a stream that failed."""
        error = {"type": "internal_error", "message": body["error"]["message"]}
        return _event("error", error=error)


def error_body(body: dict[str, Any]) -> dict[str, Any]:
    """An OpenAI envelope in this dialect."""
    error = {name: body["error"][name] for name in ("type", "message")}
    return {"type": "error", "error": error}


def _check_thinking(body: dict[str, Any]) -> None:
    """Not asked of a prefill leg, whose max_tokens is 1."""
    thinking = body.get("thinking") or {}
    if (body.get("kv_transfer_params") or {}).get("do_remote_decode"):
        return
    if thinking.get("type") == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        _invalid("thinking", "thinking.budget_tokens must be less than max_tokens")


def _invalid(name: str, sentence: str) -> None:
    raise Rejected("value_error", f"body.{name}", f"Value error, {sentence}", name)


def _stopped(finish: str | None, stop: str | int | None) -> dict[str, Any]:
    """vLLM has no word for an abort: its reason is null."""
    if finish == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if finish != "stop":
        return {"stop_reason": None, "stop_sequence": None}
    if isinstance(stop, str):
        return {"stop_reason": "stop_sequence", "stop_sequence": stop}
    return {"stop_reason": "end_turn", "stop_sequence": None}


def _usage(call: Call, made: int) -> dict[str, Any]:
    """Tokens of the prompt are told apart by what the cache had of them and what it was given."""
    one = call.generations[0]
    if not call.config.enable_prompt_tokens_details:
        return {"input_tokens": len(one.prompt), "output_tokens": made}
    read, new = one.cached_tokens, created_cache_tokens(call)
    return {
        "input_tokens": max(0, len(one.prompt) - read - new),
        "output_tokens": made,
        "cache_creation_input_tokens": new,
        "cache_read_input_tokens": read,
    }


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\n".encode() + b"data: " + orjson.dumps({"type": name, **data}) + b"\n\n"
