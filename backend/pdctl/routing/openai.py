"""What we know of OpenAI bodies: the error envelope, and mistakes that we must find ourselves.

The envelope is vLLM's (entrypoints/serve/engine/protocol.py), so that clients cannot tell router
from engine. Only fields that the prefill leg rewrites, or that route, are checked here: an engine
judges all others, and its words reach the client unchanged. No answer ever names an instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MESSAGES = "/v1/messages"
TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    411: "LengthRequiredError",
    413: "RequestEntityTooLargeError",
    415: "UnsupportedMediaTypeError",
    429: "RateLimitError",
    500: "InternalServerError",
    501: "NotImplementedError",
    502: "BadGatewayError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a request, in one sentence, and which field."""

    message: str
    param: str | None = None
    status: int = 400


def envelope(status: int, message: str, param: str | None = None) -> dict[str, Any]:
    """The error body of every endpoint under /v1."""
    kind = TYPES.get(status, "InternalServerError" if status >= 500 else "BadRequestError")
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def error_body(
    status: int, message: str, param: str | None = None, endpoint: str = ""
) -> dict[str, Any]:
    """The error body of `endpoint`; /v1/messages has an envelope of its own, without a code."""
    body = envelope(status, message, param)
    if endpoint.startswith(MESSAGES):
        error = {"type": body["error"]["type"], "message": message}
        return {"type": "error", "error": error}
    return body


def stream_error(status: int, message: str, endpoint: str) -> tuple[str, dict[str, Any]]:
    """(event name, data) of the SSE event that ends a broken stream; no name means `message`."""
    body = error_body(status, message, endpoint=endpoint)
    if endpoint == MESSAGES:
        return "error", body
    if endpoint == "/v1/responses":
        return "error", {
            "type": "error", "code": str(status), "message": message, "param": None, **body,
        }  # fmt: skip
    return "", body


def model_list(served_name: str, created: int) -> dict[str, Any]:
    """The answer of GET /v1/models; what only an engine knows is null."""
    return {"object": "list", "data": [model_card(served_name, created)]}


def model_card(served_name: str, created: int) -> dict[str, Any]:
    """One model of the list."""
    return {
        "id": served_name, "object": "model", "created": created, "owned_by": "vllm",
        "root": served_name, "parent": None, "max_model_len": None, "permission": [],
    }  # fmt: skip


def unknown_model(name: str) -> Mistake:
    """vLLM's own words for a model that is not served."""
    return Mistake(f"The model `{name}` does not exist.", "model", 404)


def mistake_in(body: Any, endpoint: str) -> Mistake | None:
    """The first mistake of a parsed body, or None."""
    if not isinstance(body, dict):
        return Mistake(f"The request body must be a JSON object, not {_kind(body)}.")
    return (
        _wrong_type(body)
        or transfer_params_in(body)
        or _wrong_prompt(body, endpoint)
        or _wrong_stream_options(body)
        or _wrong_minimum(body)
        or (_wrong_budget(body) if endpoint == MESSAGES else None)
    )


_KINDS: dict[type, str] = {
    bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array",
    dict: "an object", type(None): "null",
}  # fmt: skip


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _is_whole(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


_TYPED: dict[str, tuple[type, str]] = {
    "model": (str, "a string"),
    "stream": (bool, "a boolean"),
    "stream_options": (dict, "an object"),
    "kv_transfer_params": (dict, "an object"),
    "ec_transfer_params": (dict, "an object"),
}
_OURS = ("kv_transfer_params", "ec_transfer_params")
_DEEPEST_PARAMS = 3
"""Levels below the body in which transfer params are looked for; vLLM looks two down."""
CHECKED = 10_000
"""Messages or prompt items that are looked at; the engine judges the rest."""
_WHOLE = ("max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "n")


def _wrong_type(body: Mapping[str, Any]) -> Mistake | None:
    for name, (kind, words) in _TYPED.items():
        value = body.get(name)
        if value is not None and not isinstance(value, kind):
            return Mistake(f"`{name}` must be {words}, not {_kind(value)}.", name)
    for name in _WHOLE:
        value = body.get(name)
        if value is not None and not _is_whole(value):
            return Mistake(f"`{name}` must be an integer, not {_kind(value)}.", name)
    return None


def transfer_params_in(body: Any) -> Mistake | None:
    """Transfer params name the host that an engine connects to, and pin KV blocks on it.

    vLLM takes them from the body, and from `vllm_xargs` and `sampling_params.extra_args` in it
    (v1/request.py: whatever stands in SamplingParams.extra_args).
    """
    found = _transfer_param(body, 0)
    if not found:
        return None
    return Mistake(f"`{found}` is set by the router; a client cannot give it.", found)


def _transfer_param(value: Any, depth: int) -> str:
    """Where the first one stands, with dots, or ""."""
    if not isinstance(value, dict) or depth > _DEEPEST_PARAMS:
        return ""
    for name in _OURS:
        if value.get(name) or (depth and value.get(name) is not None):
            return name
    for name, inner in value.items():
        if type(inner) is dict and (found := _transfer_param(inner, depth + 1)):
            return f"{name}.{found}"
    return ""


def _wrong_prompt(body: Mapping[str, Any], endpoint: str) -> Mistake | None:
    if endpoint in ("/v1/chat/completions", MESSAGES):
        return _wrong_messages(body.get("messages"))
    name = {"/v1/completions": "prompt", "/v1/responses": "input"}.get(endpoint, "")
    value = body.get(name)
    if not name or isinstance(value, str) or (name == "input" and isinstance(value, list)):
        return None
    if value is None:
        if any(body.get(other) is not None for other in ("prompt_embeds", "prompt")):
            return None
        return Mistake(f"`{name}` is required.", name)
    if not isinstance(value, list):
        return Mistake(f"`{name}` must be a string or an array, not {_kind(value)}.", name)
    if not value:
        return Mistake(f"`{name}` must not be empty.", name)
    if len({int if _is_whole(one) else type(one) for one in value[:CHECKED]}) > 1:
        return Mistake(f"`{name}` mixes kinds: give strings, token ids or lists of ids.", name)
    if not _is_whole(value[0]) and not isinstance(value[0], str | list):
        return Mistake(f"`{name}` must hold strings or token ids, not {_kind(value[0])}.", name)
    return None


def _wrong_messages(messages: Any) -> Mistake | None:
    if messages is None:
        return Mistake("`messages` is required.", "messages")
    if not isinstance(messages, list):
        return Mistake(f"`messages` must be an array, not {_kind(messages)}.", "messages")
    if not messages:
        return Mistake("`messages` must not be empty.", "messages")
    for index, message in enumerate(messages[:CHECKED]):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            return Mistake(f"`{where}` must be an object, not {_kind(message)}.", where)
        if not isinstance(message.get("role"), str):
            return Mistake(f"`{where}.role` is required and must be a string.", f"{where}.role")
    return None


def _wrong_stream_options(body: Mapping[str, Any]) -> Mistake | None:
    """The prefill leg drops stream_options, so its engine could not complain."""
    if body.get("stream_options") and not body.get("stream"):
        return Mistake("Stream options can only be defined when `stream=True`.", "stream_options")
    return None


def _wrong_budget(body: Mapping[str, Any]) -> Mistake | None:
    """The prefill leg has a max_tokens of its own, whatever the client's is or lacks."""
    most, thinking = body.get("max_tokens"), body.get("thinking")
    if most is None:
        return Mistake("`max_tokens` is required.", "max_tokens")
    if most <= 0:
        return Mistake(f"`max_tokens` must be positive, got {most}.", "max_tokens")
    enabled = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    budget = thinking.get("budget_tokens") if enabled and thinking else None
    if _is_whole(budget) and budget >= most:
        words = f"`thinking.budget_tokens` ({budget}) must be less than `max_tokens` ({most})."
        return Mistake(words, "thinking.budget_tokens")
    return None


def _wrong_minimum(body: Mapping[str, Any]) -> Mistake | None:
    """The prefill leg drops min_tokens, so a wrong one would be found only after the prefill."""
    least = body.get("min_tokens")
    most = body.get("max_completion_tokens")
    most = body.get("max_tokens") if most is None else most
    if least is None:
        return None
    if least < 0:
        return Mistake(f"`min_tokens` must not be negative, got {least}.", "min_tokens")
    if most is not None and least > most:
        return Mistake(
            f"`min_tokens` ({least}) must not be greater than `max_tokens` ({most}).", "min_tokens"
        )
    return None
