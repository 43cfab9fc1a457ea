"""How a call of the admin API travels: over the network or in process (an ASGI transport).

Answers are the wire models of `contract`; failures are the classes of `client.errors`.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

import httpx2
from pydantic import TypeAdapter

from pdctl.client.errors import (
    ClientError,
    Failed,
    Unreachable,
    from_response,
    unanswered,
    unreachable,
)
from pdctl.contract.problems import Problem
from pdctl.contract.wire import Wire

T = TypeVar("T")
W = TypeVar("W", bound=Wire)
Query = Mapping[str, Any]
PING_S = 15.0
"""The server sends a comment this often on an idle event stream."""
TIMEOUT = httpx2.Timeout(30.0, connect=5.0)
STREAM_TIMEOUT = httpx2.Timeout(30.0, connect=5.0, read=3 * PING_S)
FOLLOW_TIMEOUT = httpx2.Timeout(30.0, connect=5.0, read=None)
KEY = "Idempotency-Key"
PEER = "X-Pdctl-Peer"
RETRIES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Pauses before a write is sent again: a pdctl that is started again is back by then."""
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class Transport:
    """The connections to one `pdctl serve`, and the calls that every section is made of."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        source: str = "rest",
        actor: str = "",
    ) -> None:
        """`actor` is who it says to be where nobody has to prove it: `claim.user_at_host()`."""
        headers = {"X-Pdctl-Source": source} | ({"X-Pdctl-Actor": actor} if actor else {})
        self._auth = _bearer(token)
        self.base_url = base_url.rstrip("/")
        self._http = httpx2.AsyncClient(
            base_url=self.base_url, headers=headers, transport=transport, timeout=TIMEOUT
        )

    @property
    def authorised(self) -> bool:
        """A token is shown with every call."""
        return "Authorization" in self._auth

    def acting_as(self, token: str | None, *, peer: str = "") -> Self:
        """The same connections on behalf of another caller, such as one browser session.

        `peer`: its address, which a server believes of calls within its own process only.
        """
        other = copy.copy(self)
        other._auth = _bearer(token) | ({PEER: peer} if peer else {})  # noqa: SLF001 - a copy of ourselves
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _get(self, path: str, model: type[W], query: Query | None = None) -> W:
        return parse(model, await self._call("GET", path, query))

    async def _list(self, path: str, model: type[W]) -> list[W]:
        lists: type[list[W]] = list[model]  # type: ignore[valid-type]
        return parse(lists, await self._call("GET", path))

    async def _call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        json: Any = None,
        *,
        once: bool = True,
        revision: int | None = None,
    ) -> bytes:
        """Ask, or write: a write whose answer is lost is sent again, and done once all the same.

        Conflict when `revision`, which the caller has seen, is no longer that of the desired fleet.
        """
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        if method != "GET" and once:
            headers[KEY] = secrets.token_hex(16)
            answer = await self._persist(method, path, json, headers)
        else:
            answer = await self._send(method, path, query, json, headers)
        if answer.status_code >= 400:
            raise from_response(answer)
        return answer.content

    async def _persist(
        self, method: str, path: str, json: Any, headers: dict[str, str]
    ) -> httpx2.Response:
        """Send until it is answered, with one key; what never left is not tried again."""
        sent = False
        for pause in (*RETRIES_S, None):
            try:
                answer = await self._send(method, path, None, json, headers)
                if pause is None or not _under_way(answer):
                    return answer
                sent = True
            except Unreachable as error:
                sent = sent or not isinstance(error.__cause__, _NEVER_SENT)
                if not sent:
                    raise
                if pause is None:
                    raise unanswered(self.base_url) from error
            await asyncio.sleep(pause)
        raise AssertionError  # the last round returns or raises

    async def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        json: Any,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        try:
            return await self._http.request(
                method,
                path,
                params=clean(query),
                json=json,
                headers={**self._auth, **(headers or {})},
            )
        except httpx2.TransportError as error:
            raise unreachable(self.base_url, error) from error

    @asynccontextmanager
    async def _stream(
        self, path: str, query: Query, headers: dict[str, str], timeout: httpx2.Timeout
    ) -> AsyncIterator[httpx2.Response]:
        request = self._http.build_request(
            "GET", path, params=clean(query), headers=headers | self._auth, timeout=timeout
        )
        try:
            response = await self._http.send(request, stream=True)
        except httpx2.TransportError as error:
            raise unreachable(self.base_url, error) from error
        try:
            if response.status_code >= 400:
                await response.aread()
                raise from_response(response)
            yield response
        finally:
            await response.aclose()


def _under_way(answer: httpx2.Response) -> bool:
    """Our own write, sent before, is still being carried out."""
    if answer.status_code != 409:
        return False
    return from_response(answer).problem.code == "write_under_way"


def parse(shape: type[T], content: bytes) -> T:
    """An answer's body as what it should be; Failed `not_understood` when it is not."""
    try:
        return cast("T", _adapter(cast("Any", shape)).validate_json(content))
    except ValueError as error:
        raise _not_understood(error) from error


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def _not_understood(error: ValueError) -> ClientError:
    return Failed(
        Problem(
            title="The answer was not understood",
            status=502,
            detail="The server answered something that this client cannot read.",
            code="not_understood",
            hint="Compare `pdctl --version` with the server's version.",
            errors=[{"message": str(error)}],
        )
    )


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def clean(query: Query | None) -> dict[str, Any]:
    """A query without what was not asked for (None)."""
    return {name: value for name, value in (query or {}).items() if value is not None}


def part(text: str) -> str:
    """`text` as one segment of a path."""
    return quote(text, safe="")
