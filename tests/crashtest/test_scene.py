"""The tool's own eyes: shared memory that is left, and who holds which port."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from crashtest.scene import Start, Watcher, listening, sockets


def test_shared_memory_of_a_start_that_nobody_maps_is_leaked(tmp_path: Path) -> None:
    nonce = secrets.token_hex(16)
    segment = Path("/dev/shm", f"psm_pd-decode-0-{nonce[:8]}_0")
    watcher = Watcher(tmp_path)
    segment.touch()
    try:
        assert segment.name not in watcher.leaked(), "it is nobody's that we know"
        watcher.starts[nonce] = Start(nonce, "decode-0")
        assert watcher.leaked() == {segment.name}
    finally:
        segment.unlink()
    assert watcher.leaked() == set()


def test_shared_memory_that_was_seen_mapped_is_leaked_whatever_its_name(tmp_path: Path) -> None:
    segment = Path("/dev/shm", f"psm_{secrets.token_hex(8)}")
    watcher = Watcher(tmp_path)
    watcher.segments.add(segment.name)
    segment.touch()
    try:
        assert watcher.leaked() == {segment.name}
    finally:
        segment.unlink()


def test_who_listens_and_who_holds_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (inode,) = (inode for inode, found in listening(port, port).items() if found == port)
        assert inode in sockets(os.getpid())
        assert inode not in sockets(os.getppid())
    assert listening(port, port) == {}
