"""The front door's socket, handed from one process to another.

Closing it would reset the connections that the kernel has queued on it: whoever replaces a worker
goes on with the very same socket.
"""

from __future__ import annotations

import socket
import sys

HANDOVER_S = 5.0
_FD_BYTES = 4


def name(nonce: str) -> str:
    """The socket file, in the folder of workers, on which a worker gives its listener away."""
    return f"{nonce}.hand"


def take(path: str) -> socket.socket:
    """The listening socket of the worker behind `path`; blocking, OSError when it is not given."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(HANDOVER_S)
        door.connect(path)
        # Not inheritable from the first moment on: clients would be queued on it for as long as any
        # engine lives that was started meanwhile. (`recv_fds` drops the flag in Python 3.11.)
        _, given, _, _ = door.recvmsg(1, socket.CMSG_LEN(_FD_BYTES), socket.MSG_CMSG_CLOEXEC)
        fds = [data for _, kind, data in given if kind == socket.SCM_RIGHTS]
        if not fds:
            raise OSError("nothing was handed over")
        taken = socket.socket(fileno=int.from_bytes(fds[0], sys.byteorder))
        taken.setblocking(False)
        return taken
