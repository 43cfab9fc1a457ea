"""Run inside an empty environment: migrate a database and render a page from the wheel."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2

from pdctl.adapters.store.repository import SqlStore
from pdctl.client.admin import AdminClient
from pdctl.web import create_web


async def main() -> None:
    store = await SqlStore.open(f"sqlite+aiosqlite:///{Path.cwd() / 'smoke.db'}")
    print("schema at head", await store.check())
    await store.close()
    web = create_web(AdminClient("http://127.0.0.1:9"))
    transport = httpx2.ASGITransport(app=web)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        print((await browser.get("/")).text)


asyncio.run(main())
