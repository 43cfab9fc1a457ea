"""RFC 9457 problem documents: the one error shape of the admin API."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

PROBLEM_TYPE = "application/problem+json"
TYPE_BASE = "urn:pdctl:problem:"
"""Stable identifiers (RFC 9457 allows any URI); `code` is appended."""


class Problem(BaseModel):
    """What went wrong, for a person (`title`, `detail`, `hint`) and for a program (`code`)."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": TYPE_BASE + "no_such_instance",
                    "title": "Not Found",
                    "status": 404,
                    "detail": "There is no instance 'decode-9'.",
                    "code": "no_such_instance",
                    "hint": "Instances: prefill-0, decode-0.",
                }
            ]
        },
    )

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    instance: str | None = None
    code: str = ""
    hint: str = ""
    errors: list[dict[str, Any]] = Field(default_factory=list)
