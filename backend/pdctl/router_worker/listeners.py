"""The front door's socket: opened beside those of other workers, or taken over from one.

A worker gives its listening socket to whoever owns the folder, which starts its successor on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from pathlib import Path

from pdctl.gateway.plane import listen
from pdctl.seam import hand

log = logging.getLogger(__name__)


class Desk:
    """Gives a duplicate of the listening socket to whoever connects (the owner of the folder)."""

    def __init__(self, nonce: str, listener: socket.socket) -> None:
        self._path = Path(hand.name(nonce))
        self._listener = listener.dup()
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path.unlink(missing_ok=True)
        self._door.bind(str(self._path))
        self._door.listen(4)
        self._door.setblocking(False)
        asyncio.get_running_loop().add_reader(self._door.fileno(), self._serve)

    def close(self) -> None:
        """Give it to nobody any more."""
        asyncio.get_running_loop().remove_reader(self._door.fileno())
        self._door.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            taker, _ = self._door.accept()
            with taker:
                socket.send_fds(taker, [b"1"], [self._listener.fileno()])


async def obtain(host: str, port: int, predecessor: str | None) -> socket.socket:
    """The predecessor's listening socket, where an older control plane names one; else our own."""
    if predecessor:
        try:
            return await asyncio.to_thread(hand.take, hand.name(predecessor))
        except OSError as error:
            log.warning("no socket from %s (%s); opening one", predecessor, error)
    return listen(host, port, shared=True)
