"""Who asks, and signing in."""

from __future__ import annotations

from pdctl.client.errors import from_response
from pdctl.client.transport import PEER, Transport, parse
from pdctl.contract.keys import KeyPage
from pdctl.contract.session import SessionView, SignIn, WhoView

PATH = "/api/v1/session"


class AccessSection(Transport):
    """Sessions of users, and names of the front door's clients."""

    async def sign_in(self, user: str, password: str, *, peer: str = "") -> SessionView:
        """Begin a session; show its token from then on. `peer`: the browser that it is for."""
        body = SignIn(user=user, password=password).model_dump()
        headers = {PEER: peer} if peer else {}
        answer = await self._send("POST", PATH, None, body, headers)
        if answer.status_code >= 400:
            raise from_response(answer)
        return parse(SessionView, answer.content)

    async def who_am_i(self) -> WhoView:
        """The name and the role in which this client asks."""
        return await self._get(PATH, WhoView)

    async def keys(self) -> KeyPage:
        """Whose API keys the front door takes; names and limits, never a key."""
        return await self._get("/api/v1/keys", KeyPage)

    async def sign_out(self) -> None:
        """End the session whose token this client shows."""
        await self._call("DELETE", PATH, once=False)
