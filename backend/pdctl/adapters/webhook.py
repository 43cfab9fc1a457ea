"""Posts signals to an address that the fleet file names or refers to; never shows it."""

from __future__ import annotations

from typing import Any

import httpx2

from pdctl.control.signals.courier import PostError
from pdctl.domain.errors import PdctlError
from pdctl.fleetfile.references import resolve

NAME = "signals.webhook.url"


async def post(address: str, body: dict[str, Any], timeout_s: float) -> int:
    """The status that it answered with; PostError when it did not."""
    try:
        url = resolve([(NAME, address)])[NAME].strip()
    except PdctlError as error:
        raise PostError(str(error)) from error
    try:
        async with httpx2.AsyncClient(timeout=timeout_s, follow_redirects=False) as client:
            answer = await client.post(url, json=body, headers={"user-agent": "pdctl"})
    except httpx2.TimeoutException as error:
        raise PostError(f"no answer within {timeout_s:g} s") from error
    except httpx2.ConnectError as error:
        raise PostError("it cannot be reached") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise PostError(f"it could not be asked ({type(error).__name__})") from error
    return answer.status_code
