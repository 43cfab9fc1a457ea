"""The front door's socket changes hands, and goes to nobody else."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from pdctl.seam import hand


def give(door: socket.socket, *fds: int) -> threading.Thread:
    def serve() -> None:
        taker, _ = door.accept()
        with taker:
            socket.send_fds(taker, [b"1"], list(fds))

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # names of sockets are short, however deep the folder lies
    return hand.name("n")


def test_what_is_taken_is_the_very_socket_and_no_child_inherits_it(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as door, socket.create_server(("127.0.0.1", 0)) as listener:
        door.bind(path)
        door.listen(1)
        giving = give(door, listener.fileno())
        with hand.take(path) as taken:
            giving.join()
            assert os.fstat(taken.fileno()).st_ino == os.fstat(listener.fileno()).st_ino
            assert not taken.get_inheritable()


def test_nothing_given_is_an_error(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(1)
        giving = give(door)
        with pytest.raises(OSError, match="nothing was handed over"):
            hand.take(path)
        giving.join()
