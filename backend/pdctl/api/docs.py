"""/docs: the OpenAPI document as plain text for people; no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse

router = APIRouter(tags=["health"])


@router.get("/docs", include_in_schema=False, response_class=PlainTextResponse)
async def docs(request: Request) -> str:
    """Every operation with what it takes; /openapi.json has the schemas."""
    base = str(request.base_url).rstrip("/")
    return "\n".join([*_lines(request.app.openapi()), *_streams(base)]) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield f"{info['title']} {info['version']}"
    yield f"{info['description']}\nSchemas: /openapi.json"
    for tag in document["tags"]:
        yield f"\n{tag['name'].upper()}: {tag['description']}"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation.get("tags", ()):
                    yield from _operation(method, path, operation)


def _streams(base: str) -> Iterator[str]:
    events = f"{base}/api/v1/events"
    yield "\nSTREAMS: kept open, so tell your client not to buffer (curl -N)."
    yield "\n  Events, as they happen. Without this Accept header the answer is one page of JSON."
    yield f"      curl -N -H 'Accept: text/event-stream' {events}"
    yield "  From where you left off: the id of the last event that you have read."
    yield f"      curl -N -H 'Accept: text/event-stream' -H 'Last-Event-ID: <id>' {events}"
    yield "  A `reset` event means that facts were missed: list /api/v1/fleet anew and go on."
    yield "\n  The log of an instance, and what it writes from now on."
    yield f"      curl -N '{base}/api/v1/instances/<id>/logs?follow=true'"
    yield f"\nConsole: {base}/    Schemas: {base}/openapi.json"
    yield 'Where a token is set, add: -H "Authorization: Bearer $PDCTL_TOKEN"'


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"\n  {method.upper():5}{path}    ({operation['operationId']})"
    yield from (f"      {line.strip()}" for line in operation.get("description", "").splitlines())
    for parameter in operation.get("parameters", ()):
        default = parameter.get("schema", {}).get("default")
        said = parameter.get("description", "")
        shown = "" if default is None else f" [{default}]"
        yield f"      {parameter['in']} {parameter['name']}{shown}  {said}".rstrip()
