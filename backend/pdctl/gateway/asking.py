"""Small questions of the router's own to an engine, over the connections that legs use."""

from __future__ import annotations

from typing import Any

import orjson
from multidict import CIMultiDict

from pdctl.domain.table import Target
from pdctl.gateway.upstream import Call, LegError, Parcel, Reader, Upstream
from pdctl.routing.signals import Failed, Failure


async def ask(
    upstream: Upstream, target: Target, path: str, body: bytes | None = None, *, within_s: float
) -> dict[str, Any]:
    """The JSON object that it answers with; LegError for anything else.

    `within_s` bounds the connection, the answer's head and each of its gaps.
    """
    headers = CIMultiDict({"Accept": "application/json"})
    if body is not None:
        headers["Content-Type"] = "application/json"
    method, parcel = ("GET", None) if body is None else ("POST", Parcel(body))
    reply = await upstream.send(Call(target, method, path, headers, parcel, within_s, within_s))
    reader = Reader(reply, within_s)
    try:
        content = await reader.rest()
        answer = orjson.loads(content) if reply.status == 200 else None
    except orjson.JSONDecodeError:
        answer = None
    finally:
        reader.close(reusable=reader.ended)
    if not isinstance(answer, dict):
        words = f"{path} answered {reply.status} without what was asked for"
        raise LegError(Failed(Failure.STATUS, words, reply.status))
    return answer
