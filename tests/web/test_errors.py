"""When something is missing or broken, the page says what, and what to do next."""

from __future__ import annotations

import hashlib
import re

import httpx2
import pytest

from pdctl.client.admin import AdminClient
from pdctl.web import create_web
from pdctl.web.assets import STATIC
from tests.web.conftest import Opener
from tests.web.site import HERE, Browser, Page


def down(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused", request=request)


def broken(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, text="{}", request=request)


def crashing(request: httpx2.Request) -> httpx2.Response:
    raise RuntimeError("the innards")


def looking_at(handler: object) -> httpx2.AsyncClient:
    client = AdminClient(HERE, transport=httpx2.MockTransport(handler))  # type: ignore[arg-type]
    app = create_web(client)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=HERE)


@pytest.mark.parametrize("path", ["/", "/requests", "/logs", "/instances/x", "/mode?to=pd"])
async def test_pages_without_an_api(path: str) -> None:
    async with looking_at(down) as http:
        answer = await http.get(path)
    assert answer.status_code == 503
    page = Page(answer.text)
    assert not page.open
    assert "pdctl does not answer" in page.text
    assert "Is `pdctl serve` running" in page.text
    assert any("data-retry" in attrs for attrs in page.all("section"))
    assert "default-src 'self'" in answer.headers["content-security-policy"]


async def test_fragments_without_an_api_are_one_line() -> None:
    async with looking_at(down) as http:
        answer = await http.get("/ui/fleet")
    assert answer.status_code == 503
    assert "<" not in answer.text


async def test_an_answer_that_is_not_understood() -> None:
    async with looking_at(broken) as http:
        answer = await http.get("/")
    assert answer.status_code == 502
    assert "not understood" in answer.text


async def test_a_fault_of_ours_keeps_its_innards() -> None:
    async with looking_at(crashing) as http:
        page, part = await http.get("/"), await http.get("/ui/fleet")
    assert (page.status_code, part.status_code) == (500, 500)
    assert "The fault is in pdctl" in page.text
    assert "innards" not in page.text + part.text


async def test_what_does_not_exist(browser: Browser) -> None:
    for path in ("/requests/nobody", "/instances/nobody", "/nowhere", "/instances/nobody/clear"):
        page = await browser.get(path, 404)
        assert "There is no" in page.text, path
        assert "/requests" in page.links
    hinted = await browser.get("/instances/nobody", 404)
    assert "prefill-0" in hinted.text
    answer = await browser.http.get("/api/v1/nowhere")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await browser.http.post("/logs")).status_code == 405


async def test_a_store_that_fails_is_said_on_the_page(opened: Opener) -> None:
    browser: Browser = await opened("failing")
    page = await browser.get("/requests?limit=200")
    assert "only requests held in memory are shown" in page.text


def test_vendored_files_are_what_their_table_says() -> None:
    vendor = STATIC / "vendor"
    table = (vendor / "VENDOR.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", table, re.MULTILINE))
    files = {path.name for path in vendor.iterdir() if path.suffix in (".js", ".css")}
    assert set(rows) == files
    for name, digest in rows.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name
    assert {path.name for path in vendor.glob("*.LICENSE")} == {"htmx.LICENSE", "uplot.LICENSE"}


async def test_static_files_are_kept_by_version(browser: Browser) -> None:
    page = await browser.get("/")
    for script in page.all("script"):
        answer = await browser.http.get(script["src"])
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert (await browser.http.get("/static/../pages.py")).status_code == 404
