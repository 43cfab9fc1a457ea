"""What can go wrong when asking pdctl, by what the operator should do about it.

Every error carries the server's problem document (or one made here), so a face shows the same
sentence and the same hint as every other face.
"""

from __future__ import annotations

import httpx2

from pdctl.contract.problems import PROBLEM_TYPE, TYPE_BASE, Problem


class ClientError(Exception):
    """Base: `problem` says what happened and what to do next."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem

    def __str__(self) -> str:
        said = self.problem.detail or self.problem.title
        return f"{said} {self.problem.hint}".strip()


class Unreachable(ClientError):  # noqa: N818 - reads as what happened
    """No answer: nothing listens there, or it did not answer in time."""


class Denied(ClientError):  # noqa: N818
    """401 or 403: no token, a wrong one, or a refused origin."""


class NotFound(ClientError):  # noqa: N818
    """404: what was named does not exist."""


class Conflict(ClientError):  # noqa: N818
    """409 or 412: the world moved meanwhile."""


class Failed(ClientError):  # noqa: N818
    """Anything else: a refused request (4xx) or a failing server (5xx)."""


_BY_STATUS: dict[int, type[ClientError]] = {
    401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 412: Conflict,
}  # fmt: skip


def from_response(response: httpx2.Response) -> ClientError:
    """The error that a read response of status >= 400 stands for."""
    problem = _problem(response)
    return _BY_STATUS.get(response.status_code, Failed)(problem)


def unreachable(base_url: str, error: Exception) -> Unreachable:
    """The error for a transport failure."""
    late = isinstance(error, httpx2.TimeoutException)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return Unreachable(
            Problem(
                type=f"{TYPE_BASE}untrusted",
                title="The certificate is not trusted",
                status=0,
                detail=f"{base_url} shows a certificate that this machine does not trust.",
                code="untrusted",
                hint="SSL_CERT_FILE=/path/ca.pem names the authority that signed it.",
            )
        )
    return Unreachable(
        Problem(
            type=f"{TYPE_BASE}unreachable",
            title="pdctl does not answer",
            status=0,
            detail=f"{base_url} {'did not answer in time' if late else 'cannot be reached'}.",
            code="timeout" if late else "unreachable",
            hint="Is `pdctl serve` running, and is this its --url?",
        )
    )


def unanswered(base_url: str) -> Unreachable:
    """The error for a write that was sent, and of which nothing more was heard."""
    return Unreachable(
        Problem(
            type=f"{TYPE_BASE}unanswered",
            title="No answer to a change",
            status=0,
            detail=f"{base_url} was asked for a change and went away before it answered.",
            code="unanswered",
            hint="Whether it was made is shown by `pdctl operations` and `pdctl audit`.",
        )
    )


def _problem(response: httpx2.Response) -> Problem:
    if response.headers.get("content-type", "").startswith(PROBLEM_TYPE):
        try:
            return Problem.model_validate_json(response.content)
        except ValueError:
            pass
    return Problem(
        title=response.reason_phrase or "error",
        status=response.status_code,
        detail=f"The server answered {response.status_code} without a problem document.",
        code="not_pdctl",
        hint="Does the URL point at pdctl's admin port?",
    )
