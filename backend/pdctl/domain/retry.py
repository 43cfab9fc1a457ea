"""How long to wait before the next attempt, and when to stop trying: pure and deterministic."""

from __future__ import annotations

import hashlib

MAX_FAILURES = 6
"""Consecutive failures after which an instance is given up until an operator clears it."""
STABLE_S = 600.0
"""Seconds of READY after which a failure streak is forgotten."""
MAX_RACES = 5
"""Lost port races in a row that are retried at once; from then on each counts as a failure."""
JITTER = 0.1
"""Largest share by which a pause is stretched, so that instances do not retry in step."""


def backoff_s(failures: int, key: str, *, base_s: float = 1.0, cap_s: float = 300.0) -> float:
    """Pause in seconds after the `failures`-th failure: doubles to the cap, jittered by `key`."""
    pause: float = min(cap_s, base_s * 2 ** min(max(failures, 1) - 1, 30))
    digest = hashlib.sha256(f"{key}/{failures}".encode()).digest()
    return min(cap_s, pause * (1 + JITTER * digest[0] / 255))
