"""What tests need to look at pages: a mounted site, a cookie-keeping browser, a page reader."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx2
from fastapi import FastAPI

from pdctl.api import create_api
from pdctl.api.context import INSIDE, AccessBook
from pdctl.client.admin import AdminClient
from pdctl.web import create_web
from tests.fakes.world import World

HERE = "http://127.0.0.1"
VOID = {"meta", "link", "input", "br", "img"}


def mounted(
    world: World, *, token: str | None = None, root_path: str = "", access: AccessBook | None = None
) -> FastAPI:
    """The API with the web face mounted into it, as the server does it."""
    app = create_api(world.plane, token=token, access=access)
    inside = httpx2.ASGITransport(app, client=(INSIDE, 0))
    client = AdminClient(HERE, token, transport=inside, source="web")
    app.mount("/", create_web(client, root_path=root_path))
    return app


class Page(HTMLParser):
    """A page as tests ask about it: text, tags with attributes, form fields."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> does not close what was opened last"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """Everything that is read, blanks folded."""
        return re.sub(r"\s+", " ", " ".join(self.words))

    @property
    def title(self) -> str:
        found = re.search(r"<title>(.*?)</title>", self.html, re.DOTALL)
        assert found, "the page has no title"
        return found[1]

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of every such tag."""
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def links(self) -> list[str]:
        """Where the page leads, on this site."""
        found = [attrs.get("href", "") for attrs in self.all("a") + self.all("link")]
        return sorted({href.partition("#")[0] for href in found} - {""})

    @property
    def fields(self) -> dict[str, str]:
        """Hidden fields of the forms."""
        return {
            attrs["name"]: attrs.get("value", "")
            for attrs in self.all("input")
            if attrs.get("type") == "hidden"
        }


@dataclass
class Browser:
    """A browser without scripts: it keeps cookies, reads pages and posts their forms."""

    http: httpx2.AsyncClient
    world: World
    headers: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, status: int = 200) -> Page:
        answer = await self.http.get(path, headers=self.headers)
        assert answer.status_code == status, answer.text
        return Page(answer.text)

    async def post(self, path: str, data: dict[str, str], **headers: str) -> httpx2.Response:
        sent = {"Origin": HERE} | self.headers | headers
        return await self.http.post(path, data=data, headers=sent)

    async def text(self, path: str) -> str:
        answer = await self.http.get(path, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.text
