"""Serve the real admin API over the simulated world, for people who build faces.

python -m tests.fakes.dev_admin --port 8099 --state normal|empty|failing|huge
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

import httpx2
import uvicorn

from pdctl.adapters.clock import SystemClock
from pdctl.api import create_api
from pdctl.client.admin import AdminClient
from pdctl.web import create_web
from tests.fakes import signals
from tests.fakes.world import World

BUSY_S = 0.05


class _Server(uvicorn.Server):
    """Ends open streams first: uvicorn waits for them."""

    def handle_exit(self, sig: int, frame: object) -> None:
        self.config.app.state.streams.close()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)  # type: ignore[arg-type]


async def serve(world: World, port: int, token: str | None, rate: int = 0) -> None:
    """Until interrupted: one tick a second beside the server, and `rate` more requests in it."""
    world.plane.data_plane_url = f"http://127.0.0.1:{port}"
    app = create_api(world.plane, token=token)
    base, inside = f"http://127.0.0.1:{port}", httpx2.ASGITransport(app=app)
    app.mount("/", create_web(AdminClient(base, transport=inside, source="web")))
    server = _Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))

    async def live() -> None:
        while True:
            await asyncio.sleep(1.0)
            world.tick()
            signals.look(world)

    async def busy() -> None:
        while rate:
            await asyncio.sleep(BUSY_S)
            world.requests_end(round(rate * BUSY_S))

    async with asyncio.TaskGroup() as group:
        others = [
            group.create_task(busy()),
            group.create_task(live()),
            group.create_task(world.intake.run()),
        ]
        await server.serve()
        for task in others:
            task.cancel()


def main() -> None:
    """Parse, build, serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--state", choices=("normal", "empty", "failing", "huge"), default="normal")
    parser.add_argument("--token")
    parser.add_argument("--rate", type=int, default=0, help="further requests a second")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pdctl-dev-") as folder:
        world = World(SystemClock(), asked.state, Path(folder))
        print(f"simulated world ({asked.state}) on http://127.0.0.1:{asked.port}")
        asyncio.run(serve(world, asked.port, asked.token, asked.rate))


if __name__ == "__main__":
    main()
