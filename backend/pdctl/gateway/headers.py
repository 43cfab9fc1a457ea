"""Which headers travel: everything but hop-by-hop ones (RFC 9110, 7.6.1) and what we must set.

traceparent, tracestate, X-Session-ID, X-Vllm-Priority and all unknown headers reach both legs; so
does Authorization, except where it may hold a key of ours.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from multidict import CIMultiDict
from yarl import URL

_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
_REQUEST = _HOP | {"host", "content-length", "expect", "x-request-id"}
_ANSWER = _HOP | {"content-length", "date", "server", "x-request-id"}
_ID = re.compile(r"[A-Za-z0-9._:@/+=~-]{1,128}")
_PLACES = ("Location", "Content-Location")
_RANK = "X-data-parallel-rank"
SERVER = "pdctl"


def request_id(headers: Mapping[str, str]) -> str:
    """The client's X-Request-Id when it is short and plain, else a new one."""
    given = headers.get("X-Request-Id", "")
    return given if _ID.fullmatch(given) else secrets.token_hex(16)


def to_engine(
    headers: Mapping[str, str], id_: str, *, plain: bool, secret: frozenset[str] = frozenset()
) -> CIMultiDict[str]:
    """Headers of a leg. `plain` keeps the engine from compressing what we must read; what is
    `secret` (lower-case names) stays here."""
    drop = _REQUEST | _named(headers) | secret
    if plain:
        drop = drop | {"accept-encoding"}
    kept = CIMultiDict([pair for pair in headers.items() if pair[0].lower() not in drop])
    kept["X-Request-Id"] = id_
    return kept


def to_prefill(headers: CIMultiDict[str], ranks: int) -> CIMultiDict[str]:
    """Headers of the prefill leg. A client's rank is of who answers it: a prefill instance with
    fewer `ranks` (0: unknown) would refuse it, and chooses for itself; any rank can pull from any.
    """
    named = headers.get(_RANK, "")
    if not ranks or not named.isdecimal() or int(named) < ranks:
        return headers
    return CIMultiDict([pair for pair in headers.items() if pair[0].lower() != _RANK.lower()])


def to_client(headers: Mapping[str, str], id_: str) -> CIMultiDict[str]:
    """Headers of the answer."""
    drop = _ANSWER | _named(headers)
    kept = CIMultiDict([pair for pair in headers.items() if pair[0].lower() not in drop])
    kept["X-Request-Id"] = id_
    kept["Server"] = SERVER
    for name in _PLACES:
        if "//" in kept.get(name, ""):
            kept[name] = _without_host(kept[name])
    return kept


def _without_host(place: str) -> str:
    """A redirect of an engine's names the engine; the client must come back to us."""
    try:
        url = URL(place)
    except ValueError:
        return "/"
    return str(url.relative()) if url.absolute else place


def _named(headers: Mapping[str, str]) -> frozenset[str]:
    """Headers that the Connection header declares to be hop-by-hop."""
    value = headers.get("Connection", "")
    if not value or value.lower() in ("keep-alive", "close"):
        return frozenset()
    return frozenset(name.strip().lower() for name in value.split(","))
