"""Who sits before a face: what it tells a server that asks nobody for proof."""

from __future__ import annotations

import getpass
import socket


def user_at_host() -> str:
    """The user of this process at this machine; empty when the system does not know one."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return ""
