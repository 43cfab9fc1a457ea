"""Ask engines over HTTP how they are, and prove a handoff (ports.Probe).

Law: a sick engine is an answer, not an exception.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import aiohttp
import orjson
from yarl import URL

from pdctl import plugins
from pdctl.adapters.clock import SystemClock
from pdctl.adapters.vllm import metrics
from pdctl.connectors import Connector
from pdctl.domain.instance import Endpoint, EngineStats
from pdctl.ports import Clock, Health, ProbeResult

KEEP_ALIVE_S = 3.0
"""vLLM closes idle connections after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE)."""
LOOK_S, SCRAPE_S, WARM_S = 30.0, 5.0, 120.0
"""Timeouts. Who looks sets a deadline of its own: one that has gone silent is given longer. The
first completion of an engine may compile or capture something."""
LEASE_MARGIN_S = 15.0
"""A stalled first pull ends a second after the lease; then the engine still has to decode."""
COUNTED_S = 3.0
"""How long the decode engine may take to count what it pulled."""
PROMPT_TOKENS = 160
"""More than one KV block of any backend (128 tokens on CPU, 16 on GPU)."""
PULLED_TOKENS = 128
"""What decode must have pulled of them at least; vLLM 0.32 counts all of an unknown prompt."""
_ENDPOINT = "/v1/completions"
_IDS = range(16, 250)
"""Token ids of ordinary text or bytes in every vocabulary."""


RankPair = tuple[int | None, int | None]
"""Prefill's and decode's; None where there is one rank."""


class LegError(Exception):
    """A call that did not come back as it should; `why` is for people."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class HttpProbe:
    """One connection pool for all engines."""

    def __init__(self, clock: Clock | None = None, connector: str = "nixl") -> None:
        self._clock = clock or SystemClock()
        self._connector: Connector = plugins.load(plugins.CONNECTORS, connector)
        self._session: aiohttp.ClientSession | None = None

    async def look(self, endpoint: Endpoint) -> Health:
        """GET /health and /v1/models."""
        try:
            await self._get(endpoint, "/health", LOOK_S)
            models = orjson.loads(await self._get(endpoint, "/v1/models", LOOK_S))
            version = orjson.loads(await self._get(endpoint, "/version", LOOK_S))
            return Health(True, str(models["data"][0]["id"]), str(version.get("version", "")))
        except LegError as failed:
            return Health(False, why=failed.why)
        except (ValueError, LookupError, TypeError, AttributeError):
            return Health(False, why="it answers, but not as vLLM does")

    async def warm(self, endpoint: Endpoint, model: str) -> Health:
        """One tiny plain completion: the first request after a start pays for lazy set-up."""
        body = {"model": model, "prompt": _prompt(8), "max_tokens": 1, "temperature": 0}
        try:
            await self._post(endpoint, body, WARM_S)
        except LegError as failed:
            return Health(False, why=f"the warm-up completion failed: {failed.why}")
        return Health(True, model)

    async def handoff(
        self, prefill: Endpoint, decode: Endpoint, model: str, *, lease_s: float
    ) -> ProbeResult:
        """Tiny completions handed from `prefill` to `decode`, KV movement verified: one for each
        pair of data-parallel ranks, all at once, for each has a first pull of its own."""
        limit_s = lease_s + LEASE_MARGIN_S
        ends = await asyncio.gather(self.scrape(prefill), self.scrape(decode))
        if ends[1] is None:
            return ProbeResult(False, message="decode does not answer /metrics")
        pairs = list(product(_ranks(ends[0]), _ranks(ends[1])))
        work = (self._hand_over((prefill, decode), model, limit_s, pair) for pair in pairs)
        done = await asyncio.gather(*work)
        if failed := [why for _, why in done if why]:
            return ProbeResult(False, message=failed[0])
        took_s = max(seconds for seconds, _ in done)
        return await self._judge(decode, ends[1], took_s, lease_s, PULLED_TOKENS * len(pairs))

    async def _hand_over(
        self, ends: tuple[Endpoint, Endpoint], model: str, limit_s: float, ranks: RankPair
    ) -> tuple[float, str]:
        """One completion from rank to rank: seconds of its decode leg, and why it failed, or ""."""
        body = {"model": model, "prompt": _prompt(PROMPT_TOKENS), "max_tokens": 1, "temperature": 0}
        asked = self._connector.prefill_body(body, _ENDPOINT)
        try:
            params = self._connector.read_params(
                await self._post(ends[0], asked, limit_s, ranks[0])
            )
        except LegError as failed:
            params = failed.why
        if isinstance(params, str):
            return 0.0, f"prefill leg{_of(ranks[0])}: {params}"
        begun = time.monotonic()
        try:
            pull = self._connector.decode_body(body, params)
            await self._post(ends[1], pull, limit_s, ranks[1])
        except LegError as failed:
            return 0.0, f"decode leg{_of(ranks[1])}: {failed.why}"
        return time.monotonic() - begun, ""

    async def complete(
        self, endpoint: Endpoint, body: dict[str, Any], limit_s: float
    ) -> dict[str, Any]:
        """One completion; LegError when it fails."""
        return await self._post(endpoint, body, limit_s)

    async def hand_over(
        self, ends: tuple[Endpoint, Endpoint], body: dict[str, Any], limit_s: float
    ) -> dict[str, Any]:
        """One completion, computed on the first and answered by the second; LegError."""
        asked = self._connector.prefill_body(body, _ENDPOINT)
        params = self._connector.read_params(await self._post(ends[0], asked, limit_s))
        if isinstance(params, str):
            raise LegError(params)
        return await self._post(ends[1], self._connector.decode_body(body, params), limit_s)

    async def scrape(self, endpoint: Endpoint) -> EngineStats | None:
        """GET /metrics; None when it did not answer in time."""
        try:
            text = (await self._get(endpoint, "/metrics", SCRAPE_S)).decode(errors="replace")
            return metrics.parse(text, self._clock.now())
        except (LegError, ValueError):
            return None

    async def close(self) -> None:
        """Close the connection pool."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _judge(
        self, decode: Endpoint, before: EngineStats, took_s: float, lease_s: float, tokens: int
    ) -> ProbeResult:
        """Whether KV moved: decode counts the prompt's tokens by where they came from."""
        deadline = time.monotonic() + COUNTED_S
        while True:
            after = await self.scrape(decode)
            if after and after.prompt_tokens_remote >= before.prompt_tokens_remote + tokens:
                break
            if time.monotonic() > deadline:
                return ProbeResult(
                    False,
                    took_s * 1000,
                    "silent recompute: decode answered, but pulled no KV from prefill",
                )
            await asyncio.sleep(0.05)
        stalled = (
            f"the pull stalled until prefill's lease of {lease_s:g} s ended, then went through"
        )
        return ProbeResult(True, took_s * 1000, stalled if took_s >= lease_s else "")

    async def _get(self, endpoint: Endpoint, path: str, limit_s: float) -> bytes:
        return await self._call(endpoint, path, None, limit_s)

    async def _post(
        self, endpoint: Endpoint, body: dict[str, Any], limit_s: float, rank: int | None = None
    ) -> dict[str, Any]:
        raw = await self._call(endpoint, _ENDPOINT, orjson.dumps(body), limit_s, rank)
        try:
            reply = orjson.loads(raw)
        except ValueError:
            raise LegError("the answer is not JSON") from None
        choices = reply.get("choices") if isinstance(reply, dict) else None
        if not choices:
            raise LegError("the answer has no choices")
        if choices[0].get("finish_reason") in ("abort", "error"):
            raise LegError(f"it ended with finish_reason {choices[0]['finish_reason']!r}")
        answer: dict[str, Any] = reply
        return answer

    async def _call(
        self,
        endpoint: Endpoint,
        path: str,
        data: bytes | None,
        limit_s: float,
        rank: int | None = None,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=min(limit_s, 5.0))
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if rank is not None:
            headers["X-data-parallel-rank"] = str(rank)
        try:
            async with self._pool().request(
                "GET" if data is None else "POST",
                _url(endpoint.url + path),
                data=data,
                headers=headers,
                timeout=timeout,
            ) as response:
                raw = await response.read()
        except TimeoutError:
            raise LegError(f"no answer within {limit_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise LegError(_reason(error)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise LegError(f"the connection broke ({type(error).__name__})") from None
        if response.status != 200:
            raise LegError(f"status {response.status}: {_said(raw)}")
        return raw

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session


def _ranks(told: EngineStats | None) -> Sequence[int | None]:
    """An engine's ranks to be named: none where there is one."""
    return range(told.ranks) if told is not None and told.ranks > 1 else (None,)


def _of(rank: int | None) -> str:
    return "" if rank is None else f" of rank {rank}"


@lru_cache(maxsize=4096)
def _url(text: str) -> URL:
    """Parsed once: the library's own cache is too small for hundreds of engines."""
    return URL(text)


def _prompt(tokens: int) -> list[int]:
    """Token ids that no cache has seen: a cached prefix would hide whether KV moves."""
    return [secrets.choice(_IDS) for _ in range(tokens)]


def _reason(error: aiohttp.ClientConnectorError) -> str:
    refused = isinstance(error.os_error, ConnectionRefusedError)
    return "connection refused" if refused else f"no connection ({error.os_error})"


def _said(raw: bytes) -> str:
    """The message in an error body, short."""
    try:
        data = orjson.loads(raw)
        message = data.get("error", data).get("message", "")
    except (ValueError, AttributeError):
        message = raw.decode(errors="replace")
    return str(message).strip()[:300] or "no message"
