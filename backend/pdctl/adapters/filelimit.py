"""How many files this process may open: as many as the system allows, not as few as shells set."""

from __future__ import annotations

import resource

ENOUGH = 524_288
"""What systemd gives services as the hard limit; some programs that we start walk up to it."""


def raise_file_limit() -> int:
    """Raise the soft limit to the hard one; returns what holds now, -1 for no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
