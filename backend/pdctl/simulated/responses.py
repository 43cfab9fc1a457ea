"""`/v1/responses`: its body, its answer and its named events with sequence numbers."""

from __future__ import annotations

from typing import Any

import orjson

from pdctl.simulated.calls import Call, Prompt
from pdctl.simulated.chat import render, reused_tokens
from pdctl.simulated.fields import missing
from pdctl.simulated.generation import Delta, Generation
from pdctl.simulated.problems import Rejected
from pdctl.simulated.shapes import created_cache_tokens, timing
from pdctl.simulated.vocabulary import encode


class Responses:
    """The responses dialect."""

    path = "/v1/responses"
    id_prefix = "resp_"
    takes_request_id = False
    takes_rank = False
    default_max_tokens: int | None = None
    limits: tuple[str, ...] = ("max_output_tokens",)

    def prompts(self, body: dict[str, Any]) -> list[Prompt]:
        """The one prompt that instructions and input render to."""
        given = body.get("input")
        if given is None:
            missing("input")
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        if not isinstance(given, list):
            raise Rejected("string_type", "body.input", "Input should be a valid string")
        if isinstance(body.get("instructions"), str):
            given = [{"role": "system", "content": body["instructions"]}, *given]
        text = render(given)
        return [Prompt(text, reused_tokens(body) or encode(text))]

    def whole(self, call: Call) -> dict[str, Any]:
        """The answer of a call that has ended."""
        one = call.generations[0]
        status = {"length": "incomplete", "abort": "incomplete"}.get(
            one.finish_reason or "", "completed"
        )
        response = _response(call, status)
        if status == "incomplete":
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        response["output"] = [_message(call, one)]
        response["usage"] = _usage(call)
        response["kv_transfer_params"] = one.returned_params
        if (metrics := timing(call)) is not None:
            response["metrics"] = metrics
        return response

    def opening(self, call: Call, generation: Generation) -> bytes:
        """Everything before the first delta: created, in progress, the item and its part."""
        created = _response(call, "in_progress")
        item = {**_message(call, generation), "content": [], "status": "in_progress"}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return b"".join(
            (
                _event(0, "response.created", response=created),
                _event(1, "response.in_progress", response=created),
                _event(2, "response.output_item.added", output_index=0, item=item),
                _event(3, "response.content_part.added", **_place(call), part=part),
            )
        )

    def chunk(self, call: Call, generation: Generation, delta: Delta) -> bytes:
        """A text delta; sequence numbers go on from the opening's four."""
        number = _next_number(call)
        return _event(
            number, "response.output_text.delta", **_place(call), delta=delta.text, logprobs=[]
        )

    def closing(self, call: Call) -> bytes:
        """The text, part and item as done, and the whole response."""
        one = call.generations[0]
        item = _message(call, one)
        done = (
            ("response.output_text.done", {**_place(call), "text": one.text, "logprobs": []}),
            ("response.content_part.done", {**_place(call), "part": _part(one)}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": self.whole(call)}),
        )
        return b"".join(_event(_next_number(call), name, **data) for name, data in done)

    def failure(self, call: Call, body: dict[str, Any]) -> bytes:
        """The end of a stream that failed."""
        return b"event: error\ndata: " + orjson.dumps(body) + b"\n\n"


def _event(number: int, name: str, **data: Any) -> bytes:
    payload = orjson.dumps({**data, "sequence_number": number, "type": name})
    return f"event: {name}\n".encode() + b"data: " + payload + b"\n\n"


def _next_number(call: Call) -> int:
    call.events += 1
    return call.events + 3


def _place(call: Call) -> dict[str, Any]:
    return {"item_id": _item_id(call), "output_index": 0, "content_index": 0}


def _item_id(call: Call) -> str:
    return f"msg_{call.id.removeprefix('resp_')}"


def _part(generation: Generation) -> dict[str, Any]:
    return {
        "type": "output_text",
        "text": generation.text,
        "annotations": [],
        "logprobs": None,
    }


def _message(call: Call, generation: Generation) -> dict[str, Any]:
    return {
        "id": _item_id(call),
        "content": [_part(generation)],
        "role": "assistant",
        "status": "completed",
        "type": "message",
        "phase": None,
    }


def _usage(call: Call) -> dict[str, Any]:
    one = call.generations[0]
    taken, made = len(one.prompt), len(one.tokens)
    return {
        "input_tokens": taken,
        "input_tokens_details": {
            "cached_tokens": one.cached_tokens,
            "cache_write_tokens": created_cache_tokens(call),
            "input_tokens_per_turn": [],
            "cached_tokens_per_turn": [],
        },
        "output_tokens": made,
        "output_tokens_details": {
            "reasoning_tokens": 0,
            "tool_output_tokens": 0,
            "output_tokens_per_turn": [],
            "tool_output_tokens_per_turn": [],
        },
        "total_tokens": taken + made,
    }


def _response(call: Call, status: str) -> dict[str, Any]:
    """A response object without its output."""
    body = call.body
    return {
        "id": call.id,
        "created_at": call.created,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata"),
        "model": call.config.model_name,
        "object": "response",
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "temperature": body.get("temperature", 1.0),
        "tool_choice": body.get("tool_choice", "auto" if body.get("tools") else "none"),
        "tools": body.get("tools", []),
        "top_p": body.get("top_p", 1.0),
        "background": False,
        "max_output_tokens": call.generations[0].max_tokens,
        "max_tool_calls": None,
        "previous_response_id": None,
        "prompt": None,
        "reasoning": None,
        "service_tier": "auto",
        "status": status,
        "text": None,
        "top_logprobs": None,
        "truncation": "disabled",
        "usage": None,
        "user": body.get("user"),
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "input_messages": None,
        "output_messages": None,
    }
