"""The admin side: API and web console on one socket, and a client of both without a wire."""

from __future__ import annotations

import secrets
import socket

import httpx2

from pdctl.adapters.access import open_access
from pdctl.adapters.adminserver import AdminServer, Wire, listen
from pdctl.api import create_api
from pdctl.api.context import INSIDE
from pdctl.app.life import Face
from pdctl.client.admin import AdminClient
from pdctl.control.plane import ControlPlane
from pdctl.settings import Settings
from pdctl.web import create_web


def listen_for(settings: Settings) -> socket.socket:
    """The admin port, ours from now on."""
    return listen(
        settings.admin_host, settings.admin_port,
        what="The admin API", setting="--admin-port or PDCTL_ADMIN_PORT",
    )  # fmt: skip


def face_of(plane: ControlPlane, sock: socket.socket, settings: Settings) -> Face:
    """The admin API with the web console mounted into it, over one socket."""
    access = open_access(settings.access_path, settings.state_dir, plane.clock)
    # Where everybody signs in, so must this process: by a token that nobody else has.
    token = settings.secret or (secrets.token_urlsafe(32) if access else None)
    api = create_api(plane, token=token, access=access)
    host, port = sock.getsockname()[:2]
    scheme = "https" if settings.tls_cert else "http"
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    inside = httpx2.ASGITransport(app=api, client=(INSIDE, 0))
    # The browser's own token goes with each request of its session; the console has none.
    browser = AdminClient(url, transport=inside, source="web")
    api.mount("/", create_web(browser, root_path=settings.root_path))
    client = AdminClient(url, token, transport=inside, source="cli")
    cert, key = (str(one) if one else None for one in (settings.tls_cert, settings.tls_key))
    return Face(url, client, api, AdminServer(api, sock, Wire(cert, key, settings.trusted_proxies)))
