"""The server itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from pdctl.client.errors import from_response, unreachable
from pdctl.client.transport import FOLLOW_TIMEOUT, Transport, parse
from pdctl.contract.resources import DetachView, ReadyView


class ServerSection(Transport):
    """Readiness, version and the description of the API."""

    async def ready(self) -> ReadyView:
        """Whether requests can be served and why not; 503 is an answer, not an error."""
        answer = await self._send("GET", "/readyz", {"verbose": "true"}, None)
        if answer.status_code not in (200, 503):
            raise from_response(answer)
        return parse(ReadyView, answer.content)

    async def detach(self) -> DetachView:
        """End the server, and leave engines and router workers to the next one."""
        return parse(DetachView, await self._call("POST", "/api/v1/detach"))

    async def bundle(
        self, file: Path | None, *, last_s: int, told: Callable[[int], None] = lambda _: None
    ) -> tuple[Path, int]:
        """The last hours in `file` (named by the server when None), and its bytes.

        Whole or not at all: a file that ends half-way is removed. `told` hears how many came.
        """
        query, taken = {"last_s": last_s}, 0
        async with self._stream("/api/v1/bundle", query, {}, FOLLOW_TIMEOUT) as answer:
            path = file or Path(_named(answer.headers.get("content-disposition", "")))
            with path.open("xb") as out:
                try:
                    async for chunk in answer.aiter_bytes():
                        out.write(chunk)
                        taken += len(chunk)
                        told(taken)
                except BaseException as error:
                    path.unlink(missing_ok=True)
                    if isinstance(error, httpx2.TransportError):
                        raise unreachable(self.base_url, error) from error
                    raise
        return path, taken

    async def openapi(self) -> dict[str, Any]:
        """The API's own description; `info.version` is the server's version."""
        return parse(dict[str, Any], await self._call("GET", "/openapi.json"))

    async def version(self) -> str:
        """The server's version."""
        return str((await self.openapi())["info"]["version"])


def _named(disposition: str) -> str:
    """The file name that the server gives, without a way out of this folder."""
    found = re.search(r'filename="([\w.-]+)"', disposition)
    return found[1].lstrip(".") if found else "pdctl-bundle.zip"
