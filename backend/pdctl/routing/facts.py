"""What a policy and the decider may know of a request: facts read once from its parsed body.

`blocker` names, in one low-cardinality word, why the request cannot be handed from prefill to
decode (vLLM 0.32; NIXL returns one set of params for one sequence), or is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pdctl.connectors import PD_ENDPOINTS

CHARS_PER_TOKEN = 4
"""A rough rule for English text; only used to weigh requests against each other."""

COUNTED = 10_000
"""Items of a prompt that are weighed; the rest counts as much as these on average."""

_WORDY = ("content", "text", "function", "parameters")
"""Fields of messages, content parts and tools whose words become prompt tokens."""
_LIMITS = {
    "/v1/chat/completions": ("max_completion_tokens", "max_tokens"),
    "/v1/completions": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
    "/v1/messages": ("max_tokens",),
}
"""Where a client limits its tokens; the first that is set wins."""
_SESSION = ("prompt_cache_key", "user")
"""Where a client names its session, the narrower first; then `metadata.user_id`."""
SESSION_CHARS = 256
"""What is kept of a session's name."""
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One request as routing sees it."""

    endpoint: str
    model: str = ""
    stream: bool = False
    prompt_tokens: int = 0
    """A rough estimate, for balance only; never reported as a measurement."""
    guessed: int = 0
    """The same by the length of the text alone; 0 for prompts of token ids, which are counted."""
    max_tokens: int | None = None
    """The client's limit on generated tokens; None when it set none."""
    blocker: str = ""
    """Why PD cannot serve it, empty when it can."""
    sequences: int = 1
    """How many answers are generated side by side: n for each prompt."""
    session: str = ""
    """What names the conversation that it belongs to; empty when nothing does."""
    slo: str = ""
    """Name of the objective that its client asked for (X-Pdctl-Slo); empty: the router's."""
    prefix: tuple[int, ...] = ()
    """The prompt as a chain of hashes (`prefix.chain_of`); empty while no policy asks for it."""
    chains: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(tokens of a block, the prompt's token ids as a chain: `blocks.chain_of_ids`), for each size
    of blocks that instances hold."""
    no_tokens: str = ""
    """Why its token ids are not known, in words; only while a policy asks for them."""


def read_facts(body: Body, endpoint: str, session: str = "", slo: str = "") -> RequestFacts:
    """The facts of a request whose fields have been checked (`openai.mistake_in`)."""
    tokens = estimate_tokens(body, endpoint)
    return RequestFacts(
        endpoint=endpoint,
        model=body.get("model") or "",
        stream=bool(body.get("stream")),
        prompt_tokens=tokens,
        guessed=0 if _is_ids(body.get("prompt")) else tokens,
        max_tokens=_limit(body, endpoint),
        blocker=pd_blocker(body, endpoint),
        sequences=_sequences(body, endpoint),
        session=session_of(body, session),
        slo=slo,
    )


def session_of(body: Body, header: str = "") -> str:
    """The session that the header (X-Session-Id) names, else the body; "" for none."""
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    named = (header, *(body.get(name) for name in _SESSION), user)
    found = next((one for one in named if isinstance(one, str) and one), "")
    return found[:SESSION_CHARS]


def pd_blocker(body: Body, endpoint: str) -> str:
    """The first reason in `BLOCKERS` that holds, or "" when the request can be handed over."""
    if endpoint not in PD_ENDPOINTS:
        return "endpoint"
    for reason, field, holds in BLOCKERS:
        if body.get(field) is not None and holds(body, endpoint):
            return reason
    return ""


def estimate_tokens(body: Body, endpoint: str) -> int:
    """Prompt tokens, roughly: ids are counted, text is measured."""
    if endpoint == "/v1/completions":
        return _size(body.get("prompt"))
    if endpoint == "/v1/chat/completions":
        return _size(body.get("messages")) + _size(body.get("tools"))
    if endpoint == "/v1/responses":
        return _size(body.get("input")) + _size(body.get("instructions"))
    if endpoint == "/v1/messages":
        return sum(_size(body.get(name)) for name in ("system", "messages", "tools"))
    return 0


def _size(value: Any, depth: int = 6, most: int = COUNTED) -> int:
    """Tokens of a prompt, a message or a list of them; media and odd nestings count nothing."""
    if not depth:
        return 0
    if isinstance(value, str):
        return 1 + len(value) // CHARS_PER_TOKEN
    if isinstance(value, int):
        return 1
    if isinstance(value, list):
        return _size_of_list(value, depth, most)
    if isinstance(value, dict):
        return sum(_size(value.get(name), depth - 1, most) for name in _WORDY)
    return 0


def _size_of_list(value: list[Any], depth: int, most: int) -> int:
    """Long lists are weighed by their first items, so that no body takes long."""
    if not value or type(value[0]) is int:
        return len(value)
    seen = value[:most]
    inner = max(1, most // len(seen))
    size = sum(_size(one, depth - 1, inner) for one in seen)
    return size if len(seen) == len(value) else size * len(value) // len(seen)


def _limit(body: Body, endpoint: str) -> int | None:
    for name in _LIMITS.get(endpoint, ()):
        if (value := body.get(name)) is not None:
            return int(value)
    return None


def _many_prompts(body: Body, _: str) -> bool:
    """A list of strings or of token lists; one list of ints is a single prompt."""
    prompt = body.get("prompt")
    return isinstance(prompt, list) and not _is_ids(prompt)


def _is_ids(prompt: Any) -> bool:
    return isinstance(prompt, list) and bool(prompt) and type(prompt[0]) is int


def _sequences(body: Body, endpoint: str) -> int:
    prompts = len(body["prompt"]) if _many_prompts(body, endpoint) else 1
    return prompts * int(body.get("n") or 1)


def _echoes_logprobs(body: Body, _: str) -> bool:
    """vLLM asks for prompt logprobs when both are set, and those bypass every cache."""
    wanted = body.get("logprobs") is not None or body.get("top_logprobs") is not None
    return bool(body.get("echo")) and wanted


def _generates_nothing(body: Body, endpoint: str) -> bool:
    limit = _limit(body, endpoint)
    return limit is not None and limit < 1


def _has_server_tools(body: Body, endpoint: str) -> bool:
    """Tools that the engine itself runs make several turns of one request."""
    tools = body.get("tools")
    if endpoint != "/v1/responses" or not isinstance(tools, list):
        return False
    return any(isinstance(tool, dict) and tool.get("type") != "function" for tool in tools)


def _set(_: Body, __: str) -> bool:
    return True


BLOCKERS: tuple[tuple[str, str, Callable[[Body, str], bool]], ...] = (
    ("n", "n", lambda body, _: body["n"] != 1),
    ("best_of", "best_of", lambda body, _: body["best_of"] != 1),
    ("beam_search", "use_beam_search", lambda body, _: bool(body["use_beam_search"])),
    ("list_prompt", "prompt", _many_prompts),
    ("prompt_embeds", "prompt_embeds", _set),
    ("prompt_logprobs", "prompt_logprobs", _set),
    ("echo_logprobs", "echo", _echoes_logprobs),
    ("no_generation", "max_tokens", _generates_nothing),
    ("no_generation", "max_completion_tokens", _generates_nothing),
    ("no_generation", "max_output_tokens", _generates_nothing),
    ("background", "background", lambda body, _: bool(body["background"])),
    ("previous_response", "previous_response_id", _set),
    ("server_tools", "tools", _has_server_tools),
)
"""(reason, the field it is about, test when that is set), in the order in which they are asked.
The reasons are counted and shown."""
