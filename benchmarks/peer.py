"""The peer in the router benchmark: the smallest honest aiohttp proxy that hands off.

It does both legs and relays the stream, and nothing else: no limits, no records, no retries, no
scanning, no errors. What pdctl costs beyond it is what pdctl does beyond it.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import orjson
from aiohttp import web

ASK: dict[str, Any] = {"do_remote_decode": True, "do_remote_prefill": False}


class Peer:
    """One prefill and one decode engine behind one URL."""

    def __init__(self, prefill: str, decode: str) -> None:
        self._prefill, self._decode = prefill, decode
        self._session: aiohttp.ClientSession | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Both legs of one completion."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        body = orjson.loads(await request.content.read())
        first = {**body, "max_tokens": 1, "stream": False, "kv_transfer_params": ASK}
        async with self._session.post(self._prefill, data=orjson.dumps(first), headers=JSON) as got:
            params = orjson.loads(await got.read())["kv_transfer_params"]
        second = orjson.dumps({**body, "kv_transfer_params": params})
        async with self._session.post(self._decode, data=second, headers=JSON) as got:
            response = web.StreamResponse(headers={"Content-Type": got.headers["Content-Type"]})
            await response.prepare(request)
            async for piece in got.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


JSON = {"Content-Type": "application/json"}
