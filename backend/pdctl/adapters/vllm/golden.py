"""The same prompt by both ways (`control.golden.Asker`): whole on decode, and handed over to it."""

from __future__ import annotations

import secrets
from typing import Any

from pdctl.adapters.vllm.probe import HttpProbe, LegError
from pdctl.domain.errors import EngineError
from pdctl.domain.golden import Answer
from pdctl.domain.instance import Endpoint


class GoldenProbe:
    """Asks through the connections of a probe."""

    def __init__(self, probe: HttpProbe) -> None:
        self._probe = probe

    async def both_ways(
        self, ends: tuple[Endpoint, Endpoint], model: str, prompt: str, tokens: int, limit_s: float
    ) -> tuple[Answer, Answer]:
        """(whole on decode, handed over from prefill). EngineError when an engine fails."""
        body = {
            "model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "seed": 0,
            "ignore_eos": True, "return_token_ids": True,
        }  # fmt: skip
        try:
            whole = await self._probe.complete(ends[1], _unseen(body), limit_s)
            handed_over = await self._probe.hand_over(ends, _unseen(body), limit_s)
        except LegError as failed:
            raise EngineError("golden_failed", f"{failed.why}.", "Read the engine's log.") from None
        return _answer(whole), _answer(handed_over)


def _unseen(body: dict[str, Any]) -> dict[str, Any]:
    """Under a salt of its own: neither way may find in the cache what the other has left there."""
    return {**body, "cache_salt": secrets.token_hex(16)}


def _answer(reply: dict[str, Any]) -> Answer:
    choice = reply["choices"][0]
    ids = choice.get("token_ids")
    return Answer(str(choice.get("text", "")), tuple(ids) if isinstance(ids, list) else ())
