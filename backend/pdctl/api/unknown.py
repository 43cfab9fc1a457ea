"""What the API does not have: answered here, before a mounted face would answer with a page."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

router = APIRouter()
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


@router.api_route("/livez", methods=METHODS, include_in_schema=False)
@router.api_route("/healthz", methods=METHODS, include_in_schema=False)
@router.api_route("/readyz", methods=METHODS, include_in_schema=False)
@router.api_route("/metrics", methods=METHODS, include_in_schema=False)
@router.api_route("/api", methods=METHODS, include_in_schema=False)
@router.api_route("/api/{rest:path}", methods=METHODS, include_in_schema=False)
async def unknown(request: Request) -> None:
    """404, or 405 when the path exists with another method."""
    allowed = methods_of(request.app, request.url.path)
    if allowed:
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})
    raise HTTPException(404)


def methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods that the API's description has for `path`."""
    return sorted(
        method.upper()
        for template, methods in app.openapi()["paths"].items()
        if compile_path(template)[0].match(path)
        for method in methods
    )
