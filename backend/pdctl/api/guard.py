"""Who may speak to the admin port, and for what.

With a token or an access file, the API's own paths need one of theirs (/livez, the bare status of
/readyz and signing in do not): as Bearer, or in the cookie that the web face's sign-in sets. A
mounted face's pages pass: they ask the API as the caller. Without either we are on loopback only,
where another web page may still try: Host must be a loopback name (DNS rebinding). Unsafe methods
must never come from another site's page, and never from who may only look.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pdctl.api.context import AccessBook
from pdctl.api.errors import from_error, problem
from pdctl.domain.access import SESSION_PATH, Principal, Role
from pdctl.domain.errors import ForbiddenError
from pdctl.domain.verbs import needed

OPEN_PATHS = frozenset({"/livez", "/healthz"})
BRIEF_PATHS = frozenset({"/readyz"})
"""They answer without a token too, but only by their status."""
LOOPBACK = Principal("loopback", Role.ADMIN, "loopback")
BEARER = Principal("token", Role.ADMIN, "token")
"""Whoever has the server's own token."""
READER = Principal("reader", Role.VIEWER, "loopback")
"""Who looks at a bundle: there is nothing that could be changed."""
ANONYMOUS = Principal("anonymous", Role.VIEWER, "anonymous")
OWN_PATHS = frozenset({"/readyz", "/metrics", "/openapi.json", "/docs"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
COOKIE = "pdctl_token"
MAX_BODY = 1024 * 1024


class Guard:
    """ASGI middleware; puts who asks into the scope: "pdctl.principal", and the name as
    "pdctl.actor"."""

    def __init__(
        self, app: ASGIApp, token: str | None, access: AccessBook | None = None,
        *, reading: bool = False,
    ) -> None:  # fmt: skip
        self.app = app
        self.token, self.access = token, access
        self._everybody = READER if reading else LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 403."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        who = self._principal(headers)
        refusal = self._refusal(scope["method"], scope["path"], headers, who)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        scope["pdctl.principal"] = who or ANONYMOUS
        scope["pdctl.actor"] = scope["pdctl.principal"].name
        await self.app(scope, limited(receive), send)

    def _principal(self, headers: Headers) -> Principal | None:
        """Who asks; None when nobody that is known."""
        if self.token is None and self.access is None:
            return self._everybody
        shown = presented(headers)
        if self.token and hmac.compare_digest(shown.encode(), self.token.encode()):
            return BEARER
        return self.access.known(shown) if self.access else None

    def _refusal(
        self, method: str, path: str, headers: Headers, who: Principal | None
    ) -> Response | None:
        if who is self._everybody and not is_loopback_host(headers.get("host", "")):
            return problem(
                403,
                "wrong_host",
                "The Host header does not name this machine's loopback.",
                "Use 127.0.0.1 or localhost, or set a token to serve other names.",
            )
        if who is None and is_own(path) and not _is_open(method, path):
            return unauthorised()
        if method not in SAFE_METHODS and not same_origin(headers):
            return problem(
                403,
                "cross_origin",
                "This request was made by a page of another origin.",
                "Use pdctl's own console, the CLI, or a client that sends no Origin.",
            )
        if who is not None and is_own(path) and not who.role.covers(role := needed(method, path)):
            if who is READER:
                return problem(
                    403, "bundle", "This is a bundle: nothing in it can be changed.",
                    "Use the pdctl that runs the fleet.",
                )  # fmt: skip
            return from_error(ForbiddenError(who.name, who.role, role, f"{method} {path}"))
        return None


def _is_open(method: str, path: str) -> bool:
    """What nobody has to be known for: a bare status, and becoming known."""
    return path in BRIEF_PATHS or (method == "POST" and path == SESSION_PATH)


def unauthorised() -> Response:
    """401: who asks has not shown the token."""
    return problem(
        401,
        "unauthorised",
        "A valid token is needed.",
        "Send Authorization: Bearer <token>; the CLI reads PDCTL_TOKEN or --token-file.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def limited(receive: Receive) -> Receive:
    """`receive` that gives up on a body larger than any request of ours."""
    taken = 0

    async def take() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY:
            raise HTTPException(413, f"The body is larger than {MAX_BODY} bytes.")
        return message

    return take


def is_own(path: str) -> bool:
    """True for the API's own paths; everything else belongs to a mounted face."""
    return path in OWN_PATHS or path == "/api" or path.startswith("/api/")


def presented(headers: Headers) -> str:
    """The token that came with the request, "" when none did."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme:
        return value.strip() if scheme.lower() == "bearer" else ""
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def is_loopback_host(host: str) -> bool:
    """True when a Host header names the loopback, with or without a port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def same_origin(headers: Headers) -> bool:
    """False when a browser says that another site's page made this request."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")
