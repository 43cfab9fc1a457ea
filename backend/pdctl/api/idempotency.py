"""Idempotency-Key: a write that is sent again is answered again, and done once.

Law: a key is claimed durably before its write begins. A claim whose pdctl ended before it could
answer is never guessed at: the client is told to look. Answers are kept for a day, but not those
of server errors.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any, cast

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pdctl.api.errors import from_error, problem
from pdctl.control.plane import ControlPlane
from pdctl.domain.access import SESSION_PATH
from pdctl.domain.errors import PdctlError
from pdctl.ports import Answer

KEPT_S = 24 * 3600.0
METHODS = frozenset({"POST", "PUT"})
HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_CONDITIONS = ("content-type", "if-match")
_KEPT_HEADERS = frozenset({"allow", "content-type", "etag", "location", "retry-after"})
PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": "Send a write again with the same key and it is done once: within a day the "
    "same answer comes back (with Idempotency-Replayed: true). 422 when the key came with another "
    "write, 409 while the first one is under way.",
}


class Idempotency:
    """ASGI middleware; runs inside the guard, so that a key belongs to its caller."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._working: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what has no key; else answer from memory, or do it and remember."""
        key = Headers(scope=scope).get(HEADER) if _is_write(scope) else None
        if key is None:
            await self.app(scope, receive, send)
            return
        if not _KEY.fullmatch(key):
            answer = problem(
                400, "bad_idempotency_key", f"{HEADER} must be 1 to 255 visible ASCII characters.",
                "A random UUID is a good key.",
            )  # fmt: skip
            await answer(scope, receive, send)
            return
        try:
            body = await _body(receive)
        except HTTPException as error:
            answer = problem(error.status_code, "too_large", str(error.detail))
            await answer(scope, receive, send)
            return
        if body is not None:
            held = f"{scope.get('pdctl.actor', '')}:{key}"
            answer = await self._answer(scope, held, body, receive)
            await answer(scope, receive, send)

    async def _answer(self, scope: Scope, key: str, body: bytes, receive: Receive) -> Response:
        plane = cast("ControlPlane", scope["app"].state.plane)
        now = plane.clock.now()
        claim = Answer(key, _fingerprint(scope, body), now)
        try:
            held = await plane.store.take_key(claim, expired=now - KEPT_S)
        except PdctlError as error:
            return from_error(error)
        if held is not None:
            return self._again(held, claim)
        self._working.add(key)
        try:
            return await self._carry_out(plane, claim, scope, _replay(body, receive))
        finally:
            self._working.discard(key)

    async def _carry_out(
        self, plane: ControlPlane, claim: Answer, scope: Scope, receive: Receive
    ) -> Response:
        parts: list[Message] = []

        async def catch(message: Message) -> None:
            parts.append(message)

        try:
            await self.app(scope, receive, catch)
        except Exception:
            await plane.store.free_key(claim.key)
            raise
        answer = _gathered(claim, parts)
        if answer.status >= 500:
            await plane.store.free_key(claim.key)
        else:
            await plane.store.keep_answer(answer)
        return Response(answer.body, answer.status, dict(answer.headers))

    def _again(self, held: Answer, claim: Answer) -> Response:
        if held.fingerprint != claim.fingerprint:
            return problem(
                422, "idempotency_key_reused", "This key came with another write before.",
                "Use a new key for each write; send the same write with the same key only.",
            )  # fmt: skip
        if held.status:
            return Response(held.body, held.status, {**dict(held.headers), REPLAYED: "true"})
        if claim.key in self._working:
            return problem(
                409, "write_under_way", "The first write with this key is still under way.",
                "Send it again in a moment.", headers={"Retry-After": "1"},
            )  # fmt: skip
        return problem(
            409, "outcome_unknown", "pdctl ended while it carried this write out.",
            "Look at /api/v1/audit and /api/v1/fleet before you send it with a new key.",
        )  # fmt: skip


def describe(document: dict[str, Any]) -> dict[str, Any]:
    """The API's description with the header at every write that takes it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method.upper() in METHODS and _takes_key(path):
                parameters = operation.setdefault("parameters", [])
                if PARAMETER not in parameters:
                    parameters.append(PARAMETER)
    return document


def _is_write(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] in METHODS and _takes_key(scope["path"])


def _takes_key(path: str) -> bool:
    """Signing in takes none: its answer is a secret, and nobody's business to keep."""
    return path.startswith("/api/") and path != SESSION_PATH


def _fingerprint(scope: Scope, body: bytes) -> str:
    headers = Headers(scope=scope)
    conditions = [headers.get(name, "") for name in _CONDITIONS]
    parts = [scope["method"], scope["path"], scope["query_string"].decode("latin-1"), *conditions]
    return hashlib.sha256("\n".join(parts).encode() + b"\n" + body).hexdigest()


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None when the client left."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """`receive` that begins with a body that was read already."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def take() -> Message:
        return first.pop() if first else await receive()

    return take


def _gathered(claim: Answer, parts: list[Message]) -> Answer:
    start = next(part for part in parts if part["type"] == "http.response.start")
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in start["headers"]
        if name.decode("latin-1") in _KEPT_HEADERS
    )
    body = b"".join(part.get("body", b"") for part in parts)
    return replace(claim, status=start["status"], headers=headers, body=body.decode())
