"""Errors by whose fault they are: the operator's, an engine's, or ours.

Expected absence (no capacity, no free device) is a value, not an exception.
"""

from __future__ import annotations


class PdctlError(Exception):
    """An error that a person will read: what happened, and what to do next."""

    status = 500

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class OperatorError(PdctlError):
    """You asked for something impossible or wrongly spelt (HTTP 4xx)."""

    status = 400


class NotFoundError(OperatorError):
    """What you named does not exist (HTTP 404)."""

    status = 404


class ConflictError(OperatorError):
    """The world moved, or someone else holds it (HTTP 409)."""

    status = 409


class StaleError(ConflictError):
    """You changed what you had read, and somebody else was faster (HTTP 412)."""

    status = 412

    def __init__(self, expected: frozenset[int], current: int) -> None:
        named = ", ".join(str(one) for one in sorted(expected)) or "none"
        super().__init__(
            "revision_stale",
            f"The desired fleet is at revision {current}; this was meant for revision {named}.",
            "Read the fleet again, and repeat the change if you still want it.",
        )
        self.expected, self.current = expected, current


class ForbiddenError(OperatorError):
    """You are known, and may not do this (HTTP 403)."""

    status = 403

    def __init__(self, name: str, role: str, needed: str, what: str) -> None:
        super().__init__(
            "forbidden",
            f"{what} takes the role {needed}; {name} has the role {role}.",
            f"Ask somebody who is {needed}, or for that role.",
        )


class EngineError(PdctlError):
    """vLLM failed (HTTP 502)."""

    status = 502


class InternalError(PdctlError):
    """We failed (HTTP 500)."""
