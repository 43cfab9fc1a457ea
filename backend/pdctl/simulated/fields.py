"""What a request body may hold: the fields that change an answer, with their types and bounds.

Unknown fields are ignored, as vLLM does. What vLLM accepts and the simulation has no use for
(penalties, grammars, tools) is accepted and has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdctl.simulated.problems import Rejected

INTEGERS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "min_tokens",
    "n",
    "seed",
    "top_logprobs",
    "prompt_logprobs",
    "priority",
)
NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
FLAGS = ("stream", "echo", "ignore_eos", "return_token_ids", "include_stop_str_in_output")
OBJECTS = ("stream_options", "kv_transfer_params")


def check_types(body: Mapping[str, Any]) -> None:
    """Refuse the first field whose value has the wrong type."""
    for name in INTEGERS:
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            _wrong("int_type", name, "Input should be a valid integer")
    for name in NUMBERS:
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            _wrong("float_type", name, "Input should be a valid number")
    for name in FLAGS:
        if not isinstance(body.get(name), bool | None):
            _wrong("bool_type", name, "Input should be a valid boolean")
    for name in OBJECTS:
        if not isinstance(body.get(name), dict | None):
            _wrong("dict_type", name, "Input should be a valid dictionary")
    _check_strings(body)


def _check_strings(body: Mapping[str, Any]) -> None:
    if not isinstance(body.get("model"), str | None):
        _wrong("string_type", "model", "Input should be a valid string")
    stop = body.get("stop")
    if not (isinstance(stop, str | None) or _is_list_of(stop, str)):
        _wrong("string_type", "stop", "Input should be a valid string")
    if not (body.get("stop_token_ids") is None or _is_list_of(body["stop_token_ids"], int)):
        _wrong("int_type", "stop_token_ids", "Input should be a valid integer")


def check_streaming(body: Mapping[str, Any]) -> None:
    """The rules that tie fields to `stream`."""
    if body.get("stream_options") and not body.get("stream"):
        invalid("Stream options can only be defined when `stream=True`.", "stream_options")
    prompt_logprobs = body.get("prompt_logprobs")
    if prompt_logprobs is None:
        return
    if body.get("stream") and (prompt_logprobs > 0 or prompt_logprobs == -1):
        invalid("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs")
    if prompt_logprobs < -1:
        invalid("`prompt_logprobs` must be a positive value or -1.", "prompt_logprobs")


def invalid(sentence: str, param: str) -> None:
    """Refuse as a validator of vLLM's request model does."""
    raise Rejected("value_error", "body", f"Value error, {sentence}", param)


def missing(name: str) -> None:
    """Refuse a body without a required field."""
    raise Rejected("missing", f"body.{name}", "Field required")


def _wrong(kind: str, name: str, sentence: str) -> None:
    raise Rejected(kind, f"body.{name}", sentence)


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)
