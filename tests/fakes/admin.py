"""The admin API served for real on a loopback port, in the test's own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from pdctl.adapters.adminserver import AdminServer, listen
from pdctl.tasks import spawn


@asynccontextmanager
async def served(app: FastAPI, port: int = 0) -> AsyncIterator[str]:
    """Serve `app`; its base URL. Leaves like `pdctl serve` does: streams first, then the server."""
    sock = listen("127.0.0.1", port, what="The test", setting="nothing")
    server = AdminServer(app, sock)
    task = spawn(server.run(), name="test-admin")
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        app.state.streams.close()
        server.stop()
        await task
