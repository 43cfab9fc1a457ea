"""The token ids of a prompt, asked of an engine: only it renders chat templates as it will.

A wrong or missing answer costs a cache hit and nothing else, so it is waited for a moment only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pdctl.domain.table import Target
from pdctl.gateway import bodies
from pdctl.gateway.asking import ask
from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.upstream import LegError, Upstream
from pdctl.routing.facts import RequestFacts

WITHIN_S = 0.5
"""Seconds that a request waits for its token ids."""
MOST_GUESSED = 131_072
"""Tokens (guessed by its length) up to which a prompt is counted beforehand: it is work for the
engine's API server, which will do it once more for the request itself."""
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
_TAKEN = {
    COMPLETIONS: ("model", "prompt", "add_special_tokens"),
    CHAT: (
        "model", "messages", "tools", "add_generation_prompt", "continue_final_message",
        "add_special_tokens", "chat_template", "chat_template_kwargs",
    ),
}  # fmt: skip
"""What of a request decides its tokens, and is understood by vLLM's /tokenize as it is."""


async def told(
    facts: RequestFacts, body: Mapping[str, Any], *, desk: Dispatcher, upstream: Upstream
) -> RequestFacts:
    """The facts with the prompt's token ids as chains, or with the reason why there are none."""
    prompt, salt = body.get("prompt"), body.get("cache_salt") or ""
    if facts.endpoint == COMPLETIONS and _is_ids(prompt):
        return desk.memory.holdings.read(facts, list(prompt or ()), salt)
    if why := _untold(facts, body):
        return replace(facts, no_tokens=why)
    target = _somebody(desk)
    if target is None:
        return replace(facts, no_tokens="nobody was there to count its tokens")
    taken = _TAKEN[facts.endpoint]
    asked = bodies.write({name: body[name] for name in taken if name in body})
    try:
        answer = await ask(upstream, target, "/tokenize", asked, within_s=WITHIN_S)
    except LegError as error:
        return replace(facts, no_tokens=f"its tokens are not known: {error.failed.why}")
    ids = answer.get("tokens")
    if not isinstance(ids, list) or not _is_ids(ids):
        return replace(facts, no_tokens="its tokens are not known: /tokenize named none")
    return desk.memory.holdings.read(facts, ids, salt)


def _untold(facts: RequestFacts, body: Mapping[str, Any]) -> str:
    """Why /tokenize cannot tell, in words."""
    if facts.endpoint not in _TAKEN:
        return f"/tokenize does not take what {facts.endpoint} takes"
    if facts.endpoint == COMPLETIONS and not isinstance(body.get("prompt"), str):
        return "its prompt is neither one text nor one list of ids"
    if facts.guessed > MOST_GUESSED:
        return "its prompt is too long to be counted beforehand"
    messages = body.get("messages") or ()
    if any(_has_media(one.get("content")) for one in messages if isinstance(one, dict)):
        return "its messages hold more than text"
    return ""


def _has_media(content: object) -> bool:
    if not isinstance(content, list):
        return False
    return any(isinstance(part, dict) and part.get("type") != "text" for part in content)


def _is_ids(prompt: object) -> bool:
    return isinstance(prompt, Sequence) and bool(prompt) and type(prompt[0]) is int


def _somebody(desk: Dispatcher) -> Target | None:
    """The instance with the fewest open legs: any of them has the tokenizer."""
    board, loads = desk.board, desk.ledger.loads
    everyone = board.everyone if board else ()
    return min(everyone, key=lambda one: loads[one.id].legs if one.id in loads else 0, default=None)
