"""Every error of the admin API as one problem document (RFC 9457), never a traceback."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pdctl.contract.problems import PROBLEM_TYPE, TYPE_BASE, Problem
from pdctl.domain.errors import InternalError, PdctlError, StaleError

log = logging.getLogger(__name__)
_CODES = {
    400: ("bad_request", "Is the body plain JSON?"),
    404: ("not_found", "Every path is listed in /openapi.json."),
    405: ("method_not_allowed", "The Allow header names the methods of this path."),
    406: ("not_acceptable", "Ask for application/json."),
    413: ("too_large", "No operation takes that much."),
    415: ("unsupported_media_type", "Send application/json."),
}


def problem(
    status: int,
    code: str,
    detail: str,
    hint: str = "",
    *,
    errors: Sequence[dict[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document as an answer."""
    body = Problem(
        type=TYPE_BASE + code,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        hint=hint,
        errors=list(errors),
    )
    content = body.model_dump_json(exclude_none=True)
    return Response(content, status, dict(headers or {}), media_type=PROBLEM_TYPE)


def install(app: FastAPI) -> None:
    """Map every kind of exception to its problem document."""
    app.exception_handler(PdctlError)(_ours)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(RequestValidationError)(_invalid)


def from_error(error: PdctlError) -> Response:
    """One of our own errors as a problem document; a lost race names both revisions."""
    facts: list[dict[str, Any]] = []
    headers = {}
    if isinstance(error, StaleError):
        facts = [{"expected": sorted(error.expected), "current": error.current}]
        headers["ETag"] = f'"{error.current}"'
    return problem(
        error.status, error.code, error.message, error.hint, errors=facts, headers=headers
    )


class Fallback:
    """Outermost: an unexpected exception is logged here and answered without its traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; turn what nobody caught into a 500 problem, if nothing was sent yet."""
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watch)
        except Exception:
            if scope["type"] != "http" or started:
                raise
            log.exception("unexpected error in %s %s", scope["method"], scope["path"])
            answer = problem(
                500,
                "internal",
                "pdctl failed to answer this request.",
                "The server's log has the traceback.",
            )
            await answer(scope, receive, send)


async def _ours(_: Request, error: PdctlError) -> Response:
    if isinstance(error, InternalError):
        log.error("internal error %s: %s", error.code, error.message)
    return from_error(error)


async def _http(request: Request, error: HTTPException) -> Response:
    code, hint = _CODES.get(error.status_code, (f"http_{error.status_code}", ""))
    said = {
        404: f"There is nothing at {request.url.path}.",
        405: f"{request.method} is not a method of {request.url.path}.",
    }.get(error.status_code, str(error.detail))
    return problem(error.status_code, code, said, hint, headers=error.headers)


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    errors = [
        {
            "where": str(one["loc"][0]),
            "field": ".".join(str(part) for part in one["loc"][1:]),
            "message": one["msg"],
        }
        for one in error.errors()
    ]
    first = errors[0] if errors else {"where": "request", "field": "", "message": "is invalid"}
    named = f"{first['where']} {first['field']}".strip()
    return problem(
        422,
        "invalid_request",
        f"{named}: {first['message']}.",
        "/openapi.json describes what this path takes.",
        errors=errors,
    )
