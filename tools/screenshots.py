"""Pictures of the faces, made from a running product: what the README and the docs show.

make screenshots                 the few of docs/images
make screenshots OUT=/tmp/look   every screen and page, at every size, to be judged by eye

Without --url a simulated fleet is served and given traffic; its pictures say that it is simulated.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import socket
import sys
import tempfile
from asyncio import TaskGroup
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.contract.plans import ChangeBody
from pdctl.tasks import settle, spawn
from pdctl_console.app import ConsoleApp
from pdctl_console.widgets.status_bar import TABS

DOCS = Path("docs/images")
SIZES = ((80, 24), (200, 50))
WIDTHS = (390, 1280, 1920)
PATIENCE_S = 180.0
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
FLEET = """[fleet]
name = "example"
model = "simulated/tiny"
served_name = "tiny"

[engine]
kind = "simulated"

[pools.prefill]
size = 2
devices = ["0", "1"]

[pools.decode]
size = 3
devices = ["2", "3", "4", "5"]

[router]
port = {router}

[ports]
http = "{first}-{http}"
side_channel = "{side}-{last}"

[slo.interactive]
ttft = "500ms"
tpot = "50ms"
"""
PAGES = {
    "fleet": "/", "requests": "/requests", "pairs": "/pairs", "operations": "/operations",
    "history": "/history", "audit": "/audit", "events": "/events", "logs": "/logs",
    "latency": "/latency", "signals": "/signals",
    "instance": "/instances/decode-0", "change": "/change?pool=decode&size=2",
    "router": "/router", "reference": "/reference",
}  # fmt: skip


def free_band(size: int) -> int:
    """The first of `size` TCP ports of loopback in a row that nobody listens on."""
    for first in range(41000, 60000, size):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + size):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise SystemExit("No free ports for a simulated fleet.")


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """A simulated fleet under some traffic, changed once; the URL of its admin API."""
    first = free_band(40)
    with tempfile.TemporaryDirectory(prefix="pdctl-pictures-") as folder:
        argv = ["-m", "pdctl", "serve", "--file", _fleet(Path(folder), first)]
        argv += ["--state-dir", f"{folder}/state", "--admin-port", str(first)]
        said = Path(folder, "serve.log")
        process = await _serve(argv, said)
        traffic = spawn(_traffic(f"http://127.0.0.1:{first + 1}"), name="traffic")
        try:
            url = f"http://127.0.0.1:{first}"
            async with AdminClient(url, source="cli") as client:
                await _until_ready(client, process, said)
                await asyncio.sleep(5.0)
                for change in ({"sizes": {"decode": 4}}, {"drain": ["decode-3"]}):
                    plan = await client.plan(ChangeBody.model_validate(change))
                    await client.apply(plan.id)
                    await asyncio.sleep(4.0)
            yield url
        finally:
            await settle(traffic)
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def _serve(argv: list[str], said: Path) -> Awaitable[Process]:
    log = os.open(said, os.O_WRONLY | os.O_CREAT)
    return asyncio.create_subprocess_exec(sys.executable, *argv, stdout=log, stderr=log)


def _fleet(folder: Path, first: int) -> str:
    file = folder / "fleet.toml"
    bands = {"http": first + 19, "side": first + 20, "last": first + 39}
    text = FLEET.format(router=first + 1, first=first + 2, **bands)
    file.write_text(text, encoding="utf-8")
    return str(file)


async def _until_ready(client: AdminClient, process: Process, said: Path) -> None:
    """Wait for the fleet; end with what it said when it does not come up."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while process.returncode is None:
                with contextlib.suppress(ClientError):
                    if (await client.ready()).ready:
                        return
                await asyncio.sleep(0.2)
    raise SystemExit(f"The simulated fleet did not come up. It said:\n{_last(said)}")


def _last(said: Path) -> str:
    return said.read_text(encoding="utf-8", errors="replace")[-2000:]


async def _traffic(url: str) -> None:
    """Streams of different lengths; some that P/D cannot serve, and one that is refused."""
    async with httpx2.AsyncClient(base_url=url, timeout=60.0) as client, TaskGroup() as group:

        async def one(number: int) -> None:
            said = "Tell me of the sea. " * (3 + number % 90)
            body: dict[str, Any] = {
                "model": "tiny", "stream": number % 4 != 0, "max_tokens": 8 + number % 40,
                "messages": [{"role": "user", "content": said}],
            }  # fmt: skip
            body |= {"n": 2} if number % 9 == 5 else {}
            body |= {"max_tokens": -1} if number % 31 == 30 else {}
            with contextlib.suppress(httpx2.HTTPError):
                await client.post("/v1/chat/completions", json=body)

        for number in count():
            group.create_task(one(number), name=f"request-{number}")
            await asyncio.sleep(0.15)


async def interesting(url: str, token: str | None) -> str | None:
    """A request that tells most: the newest that was handed over and streamed, else the newest."""
    async with AdminClient(url, token) as client:
        rows = (await client.requests(limit=100)).items
    good = [one for one in rows if one.path.value == "pd" and one.outcome.value == "ok"]
    streamed = [one for one in good if one.stream]
    return next((one.id for one in (*streamed, *good, *rows)), None)


async def tui(
    url: str, out: Path, token: str | None, size: tuple[int, int], *, few: bool, dark: bool = True
) -> None:
    """The console's screens as SVG."""
    app = ConsoleApp(url, token, utc=True)
    tail = "" if few else f"-{size[0]}x{size[1]}" + ("" if dark else "-light")
    request = await interesting(url, token)

    def save(name: str) -> None:
        app.screen.refresh()
        file = out / f"tui-{name}{tail}.svg"
        file.write_text(app.export_screenshot(title=f"pdctl tui: {name}"), encoding="utf-8")
        sys.stdout.write(f"{file}\n")

    async with app.run_test(size=size) as pilot:
        if not dark:
            app.theme = "textual-light"
        async with asyncio.timeout(PATIENCE_S):
            while not app.state.connected or app.state.latency_old or app.state.pairs_old:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await pilot.pause(3.0)  # two scrapes make a rate
        for digit, (mode, _, _) in enumerate(TABS, 1):
            if few and mode != "fleet":
                continue
            await pilot.press(str(digit))
            await pilot.pause(1.5)
            save(mode)
        if request is not None:
            app.open_request(request)
            await pilot.pause(1.5)
            save("request")
            await pilot.press("escape")
        if few:
            return
        await pilot.press("1", "enter")
        await pilot.pause(1.5)
        save("instance")
        for keys, name in (("plus", "plan"), ("question_mark", "help"), ("o", "router")):
            await pilot.press("escape", "1", keys)
            await pilot.pause(2.0)
            save(name)


async def web(url: str, out: Path, token: str | None, *, few: bool) -> None:
    """The web pages as PNG, and the SVG of `out` beside them, where all are looked at."""
    from playwright.async_api import async_playwright

    chromium = os.environ.get("PDCTL_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("No Chromium here: install it, or set PDCTL_CHROMIUM.")
    request = await interesting(url, token)
    pages = PAGES | ({"request": f"/requests/{request}"} if request else {})
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS)

        async def shoot(name: str, path: str, width: int, scheme: Any, tail: str) -> None:
            height = 800 if few else 1900 if width < 1000 else 1000
            context = await browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme,
                extra_http_headers={"Authorization": f"Bearer {token}"} if token else {},
            )  # fmt: skip
            page = await context.new_page()
            await page.goto(path if path.startswith("file:") else f"{url.rstrip('/')}{path}")
            await page.wait_for_timeout(1500)
            file = out / f"{name}{tail}.png"
            await page.screenshot(path=str(file))
            sys.stdout.write(f"{file}\n")
            await context.close()

        if few:
            await shoot("web-fleet", "/", 1280, "dark", "-dark")
            await shoot("web-request", pages.get("request", "/requests"), 1280, "light", "")
            await shoot("web-latency", "/latency", 1280, "dark", "-dark")
        else:
            for name, path in pages.items():
                for width in WIDTHS:
                    await shoot(f"web-{name}", path, width, "light", f"-{width}")
                await shoot(f"web-{name}", path, 1280, "dark", "-1280-dark")
            for file in _drawn(out):
                width = 1900 if "200x50" in file.name else 1000
                await shoot(file.stem, f"file://{file.resolve()}", width, "dark", "")
        await browser.close()


def _drawn(out: Path) -> list[Path]:
    return sorted(out.glob("tui-*.svg"))


async def pictures(asked: argparse.Namespace) -> None:
    """All that was asked for."""
    token = asked.token_file.read_text(encoding="utf-8").strip() if asked.token_file else None
    few, out = asked.out == DOCS, asked.out
    out.mkdir(parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        url = asked.url or await stack.enter_async_context(served())
        if asked.face != "web":
            for size in ((132, 32),) if few else SIZES:
                await tui(url, out, token, size, few=few)
            if not few:
                await tui(url, out, token, (132, 32), few=False, dark=False)
        if asked.face != "tui":
            await web(url, out, token, few=few)


def main() -> None:
    """Parse, take the pictures, name them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("face", nargs="?", choices=("tui", "web"))
    parser.add_argument("--url", help="A server that runs already.")
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--token-file", type=Path)
    asyncio.run(pictures(parser.parse_args()))


if __name__ == "__main__":
    main()
