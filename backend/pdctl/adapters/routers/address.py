"""The front door's address: kept for workers, and their listening sockets kept from being lost.

A listening socket lives while any process has it. Ours accept nothing: connections that come while
a worker is replaced, dead or hung wait there for its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

import psutil

from pdctl.adapters.routers.roster import Roster
from pdctl.domain.errors import OperatorError
from pdctl.seam import hand

log = logging.getLogger(__name__)
T = TypeVar("T")
RETRY_S = 0.05
TRIES = 200
"""Looks, RETRY_S apart, until a worker that was sent away has left the address."""


class Listeners:
    """A duplicate of the listening socket of each slot."""

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def get(self, slot: int) -> int | None:
        """The descriptor of what a worker of that slot should listen on."""
        held = self._held.get(slot)
        return None if held is None else held.fileno()

    async def keep(self, slot: int, roster: Roster, nonce: str) -> None:
        """Get the worker's, unless there is one of this slot already."""
        if slot not in self._held:
            try:
                self._held[slot] = await asyncio.to_thread(hand.take, roster.hand(nonce))
            except OSError as error:
                log.warning("router worker %d gives no listener away: %s", slot, error)

    def drop(self, slot: int) -> None:
        """Nobody will accept on it: connections are better refused than left waiting."""
        with contextlib.suppress(KeyError):
            self._held.pop(slot).close()

    def close(self) -> None:
        """Drop them all."""
        for slot in list(self._held):
            self.drop(slot)


def hold(host: str, port: int, *, ours: bool) -> socket.socket:
    """Keep the address for workers. OperatorError when another program has it.

    The socket does not listen, so no connection comes to it. `ours`: workers of ours listen there
    already; otherwise whoever does is a stranger, even one that would share the port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if not ours:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        holder = socket.socket(family, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind((host, port))
    except OSError as error:
        raise OperatorError(
            "router_address",
            f"The router cannot listen on {host}:{port}: {error.strerror}.",
            "Is another pdctl running? Set router.host and router.port in the fleet file.",
        ) from error
    return holder


async def dismiss(strays: Sequence[psutil.Process], take: Callable[[], T]) -> T:
    """Send workers without a record away, and `take` the address that they leave.

    They close the front door at once and end with their last request; one that hangs is killed.
    """
    for one in strays:
        with contextlib.suppress(psutil.Error):
            one.terminate()
    for _ in range(TRIES if strays else 0):
        with contextlib.suppress(OperatorError):
            return take()
        await asyncio.sleep(RETRY_S)
    for one in strays:
        with contextlib.suppress(psutil.Error):
            one.kill()
            await asyncio.to_thread(one.wait, RETRY_S * TRIES)
    return take()
