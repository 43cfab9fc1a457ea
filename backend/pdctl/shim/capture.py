"""The instance's output: rotated by size, its last lines and first error remembered.

Law: a slow disk never slows the engine. The reader takes bytes from the pipe as they come; a
thread writes them; what the disk cannot follow is dropped and said so, in the log itself.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque

from pdctl.shim import records

BACKLOG = 8 * 1024 * 1024
"""Bytes that may wait for the disk."""
LINE = 4096
"""Bytes of a line that are remembered; the log file has all of it."""
_ERROR = re.compile(
    r"^(?:\([^)]*pid=\d+\) )?(?:ERROR \S+ \S+ \[[^\]]*\] )?"
    r"((?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Exit): .*"
    r"|[\w./-]+: error: .*|Segmentation fault.*|Killed.*)$"
)
"""A Python exception as its last line shows it, argparse's complaint, or a shell's obituary."""
_HEADLINE = re.compile(r"\d+ validation errors? for [\w.]+$")
"""pydantic's: what is wrong, and with which field, stands in one or two lines below."""
_LOOKS = re.compile(
    r'"(?:GET|HEAD) /(?:health|metrics|ping|load|version|v1/models)(?:\?\S*)? HTTP/[\d.]+" 200'
)
"""Whoever watches an engine asks every few seconds: no news, and it would push out what is."""


class Memory:
    """Last lines and the first that looks like an error, from a stream cut anywhere."""

    def __init__(self, keep: int = 40) -> None:
        self.lines: deque[str] = deque(maxlen=keep)
        self.first_error = ""
        self._below = 0
        self._partial = b""

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        *whole, rest = data.replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            self._line((self._partial + line)[:LINE])
            self._partial = b""
        self._partial = (self._partial + rest)[:LINE]

    def close(self) -> None:
        """Count an unfinished line as a line."""
        self._line(self._partial)
        self._partial = b""

    def _line(self, raw: bytes) -> None:
        line = raw.decode(errors="replace").rstrip()
        if not line or _LOOKS.search(line):
            return
        self.lines.append(line)
        if self._below:
            self.first_error += f": {line.partition(' [type=')[0].partition('. ')[0].strip()}"
            self._below = 0 if line.startswith(" ") else self._below - 1
        elif not self.first_error and (match := _ERROR.match(line)):
            self.first_error = match.group(1)
            self._below = 2 if _HEADLINE.search(self.first_error) else 0


class RotatingLog:
    """Numbered parts; a full one is closed at the next line end. The first part is always kept.

    The start of a log says how the engine was configured, the end how it died: the middle goes.
    """

    def __init__(self, folder: str, limit: int, parts: int) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - no pathlib in the shim
        self._folder, self._limit, self._parts = folder, limit, max(2, parts)
        self._number = self._size = 0
        self._fd = -1
        self._open()

    def write(self, data: bytes) -> None:
        """Append, rotating where a line ends (inside a line only when it is a limit long)."""
        while data:
            if self._fd < 0:
                self._open()
            take = self._share(data)
            written = os.write(self._fd, data[:take])
            self._size += written
            if written == take and self._size >= self._limit and self._full(data[:take]):
                self.close()
                self._number += 1
            data = data[written:]

    def close(self) -> None:
        """Close the part being written."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _share(self, data: bytes) -> int:
        room = self._limit - self._size
        if len(data) < room:
            return len(data)
        cut = data.find(b"\n", max(room - 1, 0))
        return min(cut + 1 or len(data), max(room + self._limit, 1))

    def _full(self, written: bytes) -> bool:
        return written.endswith(b"\n") or self._size >= 2 * self._limit

    def _open(self) -> None:
        name = f"{self._number:03d}.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(f"{self._folder}/{name}", flags, 0o600)
        self._size = 0
        link = f"{self._folder}/{records.CURRENT}"
        old = self._number - self._parts + 1
        try:
            os.symlink(name, f"{link}.new")  # noqa: PTH211 - as above
            os.replace(f"{link}.new", link)  # noqa: PTH105 - as above
            if old > 0:
                os.unlink(f"{self._folder}/{old:03d}.log")  # noqa: PTH108 - as above
        except OSError:
            pass  # the log itself matters more than its link and its oldest part


class Writer(threading.Thread):
    """Writes to the log from a bounded backlog, so that a slow disk stops nobody."""

    def __init__(self, log: RotatingLog) -> None:
        super().__init__(name="log", daemon=True)
        self._log = log
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._more = threading.Condition()
        self._closed = False
        self.dropped = 0
        """Bytes that never reached the disk."""

    def put(self, data: bytes) -> None:
        """Hand over bytes; never blocks on the disk."""
        with self._more:
            if self._bytes + len(data) > BACKLOG:
                self.dropped += len(data)
                return
            self._waiting.append(data)
            self._bytes += len(data)
            self._more.notify()

    def finish(self, timeout_s: float) -> None:
        """Write what waits and close, for at most `timeout_s`."""
        with self._more:
            self._closed = True
            self._more.notify()
        self.join(timeout_s)

    def run(self) -> None:
        """The thread: until finished and empty."""
        told = 0
        while (batch := self._take()) is not None:
            if self.dropped > told:
                batch += f"\n[pdctl] {self.dropped - told} bytes of log were dropped\n".encode()
                told = self.dropped
            try:
                self._log.write(batch)
            except OSError:  # disk full or gone: drop, count, go on
                with self._more:
                    self.dropped += len(batch)
        self._log.close()

    def _take(self) -> bytes | None:
        with self._more:
            while not self._waiting:
                if self._closed:
                    return None
                self._more.wait()
            batch = b"".join(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return batch
