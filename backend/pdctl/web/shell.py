"""What every page shares: who is asking, the frame around the content, and how errors look.

A browser acts with its own token: the injected client's is never lent to it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse
from starlette.responses import Response as Answer

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError, Denied, Unreachable
from pdctl.contract import steps
from pdctl.contract.asks import Ask, elsewhere
from pdctl.contract.plans import PlanView
from pdctl.contract.problems import PROBLEM_TYPE, TYPE_BASE, Problem
from pdctl.contract.resources import FleetView
from pdctl.web import change, security
from pdctl.web.assets import environment, url_builder
from pdctl.web.overview import state_of

STALE_FORM = "This form is not from this browser's current page. Go back, reload, and try again."
FLASHES = {
    "pd": "New requests now take the PD path.",
    "chunked": "New requests are now served whole on one instance.",
    "applied": "The plan is being carried out; how far it is appears here and in the events.",
    "cancelled": "The operation was cancelled; the fleet goes back to what was desired before.",
    "taken_up": "It is yours: it is no longer counted until it fires anew.",
    "silenced": "It is quiet now, and shown all the same.",
    "unsilenced": "It is heard again.",
    "clear": "The failures were cleared; it will be started again.",
}
"""What `?done=` may say: codes, so that a link cannot put words into our mouth."""


class Shell:
    """Renders pages and fragments for one web face."""

    def __init__(self, client: AdminClient, root: str) -> None:
        self._client = client
        self.url = url_builder(root)
        self.env = environment(root)

    def client(self, request: Request) -> AdminClient:
        """The admin client that acts for this browser."""
        peer = request.client.host if request.client else ""
        return self._client.acting_as(request.cookies.get(security.TOKEN_COOKIE), peer=peer)

    def page(
        self,
        request: Request,
        template: str,
        *,
        fleet: FleetView | None,
        status: int = 200,
        **more: Any,
    ) -> HTMLResponse:
        """A whole page inside the common frame."""
        csrf = security.csrf_token(request)
        base = str(request.base_url).rstrip("/") + self.url("")
        context = {
            "fleet": fleet,
            "state": state_of(fleet) if fleet else None,
            "now": fleet.at if fleet else datetime.fromtimestamp(0, UTC),
            "csrf": csrf,
            "here": _here(request),
            "base": base,
            "elsewhere": elsewhere(base),
            "signed_in": security.TOKEN_COOKIE in request.cookies,
            "who": request.cookies.get(security.WHO_COOKIE, ""),
            "flash": FLASHES.get(request.query_params.get("done", ""), ""),
            "section": "",
        }
        html = self.env.get_template(template).render(context | more)
        response = HTMLResponse(html, status)
        security.remember(request, response, csrf)
        return response

    def plan_page(
        self,
        request: Request,
        asked: Ask,
        plan: PlanView | None,
        *,
        fleet: FleetView,
        back: str,
        section: str = "fleet",
        act: str = "",
        button: str = "Apply",
    ) -> HTMLResponse:
        """A change as its plan, with the button that makes it so; a fragment for a dialog.

        `act`: the page that does it, where that is not the one that applies the plan.
        """
        piece = request.url.path.startswith("/ui/")
        return self.page(
            request, "fragments/change.html" if piece else "change.html", section=section,
            fleet=fleet, asked=asked, plan=plan, back=back, act=act, button=button,
            steps=change.rows(plan.steps) if plan else [],
            capacity=steps.capacity(plan) if plan else [],
            shapes=steps.shapes(plan) if plan else (),
        )  # fmt: skip

    def only_ours(self, request: Request) -> None:
        """Refuse a page of another site: a plan is made when it is read."""
        if not security.same_origin(request):
            raise HTTPException(403, "This link comes from another site. Ask for the change here.")

    async def posted(self, request: Request) -> dict[str, str]:
        """The posted fields, when the post is genuine; 403 otherwise."""
        if int(request.headers.get("content-length") or security.FORM_LIMIT) > security.FORM_LIMIT:
            raise HTTPException(413, "The form is larger than any of ours.")
        async with request.form(max_files=0, max_fields=20) as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
        if not security.genuine(request, fields.get(security.CSRF_FIELD, "")):
            raise HTTPException(403, STALE_FORM)
        return fields

    def fragment(self, template: str, **context: Any) -> HTMLResponse:
        """A piece of a page, from the same template file that the page includes."""
        return HTMLResponse(self.env.get_template(template).render(context))

    async def on_client_error(self, request: Request, error: Exception) -> Answer:
        """An admin call failed: sign in, or a page that says what happened and what to do."""
        assert isinstance(error, ClientError)  # noqa: S101 - registered for this class alone
        status = 503 if isinstance(error, Unreachable) else error.problem.status or 502
        if _is_fragment(request):
            return PlainTextResponse(str(error), status)
        if isinstance(error, Denied) and status == 401:
            target = self.url("/sign-in", next=_here(request))
            return RedirectResponse(target, 303)
        return await self._failed(request, error.problem, status)

    async def on_http_error(self, request: Request, error: Exception) -> Answer:
        """No such page, or a method that it does not know."""
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class alone
        title = "There is no such page" if error.status_code == 404 else error.detail
        problem = Problem(
            type=TYPE_BASE + "no_such_page", title=title, status=error.status_code,
            detail=error.detail if error.status_code != 404 else "", code="no_such_page",
        )  # fmt: skip
        if request.url.path.startswith("/api/"):
            body = problem.model_dump(mode="json")
            return JSONResponse(body, error.status_code, media_type=PROBLEM_TYPE)
        if _is_fragment(request):
            return PlainTextResponse(problem.title, error.status_code)
        return await self._failed(request, problem, error.status_code)

    async def on_crash(self, request: Request, error: Exception) -> Answer:
        """A fault of ours: say so without its innards (the log has them)."""
        del error
        problem = Problem(
            type=TYPE_BASE + "internal", title="This page failed", status=500, code="internal",
            detail="The fault is in pdctl, not in what you did. Its log has the details.",
        )  # fmt: skip
        if _is_fragment(request):
            return PlainTextResponse(problem.title, 500)
        return self.page(request, "error.html", fleet=None, status=500, problem=problem)

    async def _failed(self, request: Request, problem: Problem, status: int) -> Answer:
        try:
            fleet = await self.client(request).fleet(pairs=False)
        except ClientError:
            fleet = None
        return self.page(request, "error.html", fleet=fleet, status=status, problem=problem)


def _here(request: Request) -> str:
    query = request.url.query
    path: str = request.scope.get("root_path", "") + request.url.path
    return path + (f"?{query}" if query else "")


def _is_fragment(request: Request) -> bool:
    return request.url.path.startswith("/ui/")
