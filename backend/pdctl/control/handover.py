"""Letting go: this control plane ends, and what it controls goes on for the next one to adopt.

Law: it is refused where something would end together with this process. An operator's stop is
another verb.
"""

from __future__ import annotations

import asyncio

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.domain.errors import ConflictError
from pdctl.domain.events import EventKind
from pdctl.domain.topology import FleetSpec

IN_PROCESS = "simulated"
"""The launcher whose engines live in our own process."""


class Handover:
    """Asked for once; `asked` is what the running parts wait for."""

    def __init__(self, state: FleetState, feed: Feed) -> None:
        self._state, self._feed = state, feed
        self.asked = asyncio.Event()

    def begin(self, *, actor: str, source: str) -> None:
        """Let go soon. ConflictError where it would cut streams, end engines or is too late."""
        why = None
        if self._state.wishes.close_by is not None:
            why = ConflictError(
                "shutting_down", "The fleet is being shut down.", "Wait until it has ended."
            )
        why = why or hindrance(self._state.fleet.desired)
        outcome, message = ("done", "") if why is None else ("refused", str(why))
        data = {"actor": actor, "source": source, "outcome": outcome, "message": message}
        self._feed.publish(EventKind.OPERATION, "fleet", {"verb": "detach", **data})
        if why is not None:
            raise why
        self.asked.set()


def hindrance(fleet: FleetSpec) -> ConflictError | None:
    """What of `fleet` lives in the control plane's own process, and would end with it."""
    if fleet.engine.launcher == IN_PROCESS:
        return ConflictError(
            "engines_inside",
            'The engines live inside pdctl serve (engine.launcher = "simulated") and would end.',
            'Stop the fleet instead, or choose engine.launcher = "subprocess".',
        )
    if not fleet.router.workers:
        return ConflictError(
            "router_inside",
            "The router lives inside pdctl serve (router.workers = 0): requests would be cut.",
            "Stop the fleet instead; with router.workers = 1 the next pdctl can be put in place.",
        )
    return None
