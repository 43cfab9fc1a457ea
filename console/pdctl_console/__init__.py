"""The terminal face of pdctl.

Law: imports `pdctl.contract` and `pdctl.client` only; whatever it can do, the admin API can do.
"""

from __future__ import annotations


def run(url: str, token: str | None = None, *, read_only: bool = False, utc: bool = False) -> int:
    """Show the console for the control plane at `url`; returns the exit code."""
    from pdctl.client.claim import user_at_host
    from pdctl_console.app import ConsoleApp

    app = ConsoleApp(url, token, read_only=read_only, utc=utc, actor=user_at_host())
    app.run()
    return app.return_code or 0
