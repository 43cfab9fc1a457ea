"""vLLM's error answers: the OpenAI envelope, with vLLM's types and sentences.

`Rejected` is a body that vLLM's schema refuses before anything looks at it; `Refused` is one that
was understood, so that the blocks its kv_transfer_params hold elsewhere are released.
"""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """An answer with an error body."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        return {
            "error": {
                "message": str(self),
                "type": self.kind,
                "param": self.param,
                "code": self.status,
            }
        }


class Rejected(ApiError):  # noqa: N818 - an answer, not a failure of ours
    """The body does not fit the schema."""

    def __init__(self, kind: str, location: str, sentence: str, param: str | None = None) -> None:
        """`kind` and `location` are pydantic's error type and path."""
        message = (
            f"1 validation error:\n  {{'type': '{kind}', 'loc': '{location}', 'msg': '{sentence}'}}"
        )
        super().__init__(400, message, "Bad Request", param or location)


class Refused(ApiError):  # noqa: N818
    """The body fits the schema and cannot be served."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(400, message, "BadRequestError", param)


def unknown_model(name: str, served: str) -> ApiError:
    """404: another model is served here."""
    message = f"The model `{name}` does not exist. Valid aliases: {served}."
    return ApiError(404, message, "NotFoundError", "model")


def queue_full() -> ApiError:
    """503: vLLM's answer when its queue limit is reached."""
    message = (
        "The engine is currently busy and cannot accept new requests. "
        "Please try again later or on a different instance."
    )
    return ApiError(503, message, "Service Unavailable")


def generation_failed() -> ApiError:
    """500: the request ended with finish_reason "error"."""
    return ApiError(500, "Internal server error", "InternalServerError")
