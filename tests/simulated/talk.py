"""How the tests talk to simulated engines: a client that knows the two legs of a handoff."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from prometheus_client.parser import text_string_to_metric_families

from pdctl.simulated import SimulatedEngine

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
PREFILL_LEG = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    body: Any

    @property
    def text(self) -> str:
        """The text of a completion."""
        return str(self.body["choices"][0]["text"])


class Client:
    """Sends requests to any engine."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def post(self, url: str, path: str, body: Any, **headers: str) -> Reply:
        """One request, answered whole."""
        async with self.session.post(url + path, json=body, headers=headers) as response:
            raw = await response.read()
            return Reply(response.status, orjson.loads(raw) if raw else None)

    async def stream(self, url: str, path: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
        """The events of a streamed answer: name (or "") and data ("[DONE]" as text)."""
        sent = {**body, "stream": True}
        async with self.session.post(url + path, json=sent) as response:
            assert response.status == 200, await response.text()
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            return events(await response.text())

    async def raw_stream(
        self, url: str, path: str, body: dict[str, Any]
    ) -> tuple[bytes, aiohttp.ClientError | None]:
        """What a stream sent before it ended, and the error it ended in."""
        got = b""
        async with self.session.post(url + path, json={**body, "stream": True}) as response:
            try:
                async for piece in response.content.iter_any():
                    got += piece
            except aiohttp.ClientError as error:
                return got, error
        return got, None

    async def prefill(self, url: str, prompt: Any, **more: Any) -> dict[str, Any]:
        """The params of a prefill leg."""
        body = {"prompt": prompt, "max_tokens": 1, "kv_transfer_params": PREFILL_LEG, **more}
        reply = await self.post(url, COMPLETIONS, body)
        assert reply.status == 200, reply.body
        params: dict[str, Any] = reply.body["kv_transfer_params"]
        return params

    async def decode(self, url: str, prompt: Any, params: dict[str, Any], **more: Any) -> Reply:
        """A decode leg."""
        body = {"prompt": prompt, "kv_transfer_params": params, **more}
        return await self.post(url, COMPLETIONS, body)

    async def metrics(self, url: str) -> dict[str, float]:
        """Every sample of /metrics by `name{label=value,...}` without model and engine."""
        async with self.session.get(url + "/metrics") as response:
            return samples(await response.text())


def events(text: str) -> list[tuple[str, Any]]:
    """The events of an SSE body."""
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n"):
        if not block:
            continue
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        data = lines["data"]
        found.append((lines.get("event", ""), data if data == "[DONE]" else orjson.loads(data)))
    return found


def samples(page: str) -> dict[str, float]:
    """A page of metrics, as prometheus_client's parser reads it."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k not in {"model_name", "engine"}}
            shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            found[f"{sample.name}{{{shown}}}" if shown else sample.name] = sample.value
    return found


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for `holds`; fail after a generous deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


def is_quiet(engine: SimulatedEngine) -> bool:
    """Whether nothing is under way and every block is free."""
    return not engine.has_work and engine.pool.num_free == engine.pool.capacity
