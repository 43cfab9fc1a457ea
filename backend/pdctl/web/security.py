"""What keeps a page ours: response headers, same-origin posts with a token, and the session cookie.

The session cookie holds the admin token itself, HttpOnly and SameSite=Strict, for this origin only.
"""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_COOKIE = "pdctl_token"  # noqa: S105 - the name of a cookie
WHO_COOKIE = "pdctl_who"
"""Name and role of who signed in: for the page to show, of no weight."""
CSRF_COOKIE = "pdctl_csrf"
CSRF_FIELD = "csrf"
FORM_LIMIT = 16 * 1024
"""Largest form body in bytes; our forms hold a token and a word."""
CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class SecureHeaders:
    """ASGI middleware: the headers above on every answer; pages are never cached."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dress(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, dress if scope["type"] == "http" else send)


def csrf_token(request: Request) -> str:
    """The token of this browser: the one it has, else a new one (`remember` sends it)."""
    return request.cookies.get(CSRF_COOKIE) or secrets.token_urlsafe(24)


def remember(request: Request, response: Response, csrf: str) -> None:
    """Give the browser its form token when it has none yet."""
    if request.cookies.get(CSRF_COOKIE) != csrf:
        set_cookie(request, response, CSRF_COOKIE, csrf)


def set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    """A cookie that scripts cannot read and that other sites cannot make the browser send."""
    response.set_cookie(
        name, value, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )


def same_origin(request: Request) -> bool:
    """True when the browser says that our own page sent this.

    Sec-Fetch-Site decides when the browser sends it (a proxy cannot confuse it); else Origin does.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def genuine(request: Request, sent: str) -> bool:
    """True when a form came from our page in this browser: origin and token both agree."""
    kept = request.cookies.get(CSRF_COOKIE, "")
    return same_origin(request) and bool(kept) and hmac.compare_digest(kept, sent)


def local_path(text: str) -> str:
    """`text` when it is a path on this site, else "/": where to go after signing in."""
    plain = text.isprintable() and "\\" not in text
    return text if plain and text.startswith("/") and not text.startswith("//") else "/"
