"""Read an instance's log: its end, or as it grows, over the parts that rotation leaves.

Law: what is read here is fit to be shown: UTF-8 with replacements, one line at a time, secrets
masked. A path may be a part, the link to the newest part, or the folder that holds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from pdctl.domain import redaction
from pdctl.shim import records

CHUNK = 256 * 1024
MOST = 8 * 1024 * 1024
"""Bytes that a tail looks back over at most."""
LONGEST = 64 * 1024
"""Characters of a line that are shown; binary output has lines of any length."""


def parts(path: Path) -> list[Path]:
    """All parts of the log that `path` belongs to, oldest first (the middle may be gone)."""
    folder = path if path.is_dir() else path.parent
    return sorted(part for part in folder.glob("*.log") if part.stem.isdigit())


@dataclass(slots=True)
class Cursor:
    """A place in a log that may go on in a next part."""

    folder: Path
    number: int = 0
    offset: int = 0
    partial: bytes = b""

    def read(self, limit: int = CHUNK) -> list[str]:
        """The whole lines after this place, at most some `limit` bytes of them; [] when none."""
        data = self._bytes(limit)
        *whole, self.partial = (self.partial + data).split(b"\n")
        if len(self.partial) > LONGEST:
            whole.append(self.partial)
            self.partial = b""
        return [shown(line) for line in whole]

    def _bytes(self, limit: int) -> bytes:
        data = self._from(self.number, limit)
        if data or not (later := [p for p in parts(self.folder) if int(p.stem) > self.number]):
            return data
        # The part was closed before its successor appeared: one more look loses nothing.
        if data := self._from(self.number, limit):
            return data
        self.number, self.offset = int(later[0].stem), 0
        return self._from(self.number, limit)

    def _from(self, number: int, limit: int) -> bytes:
        try:
            with (self.folder / f"{number:03d}.log").open("rb") as file:
                file.seek(self.offset)
                data = file.read(limit)
        except OSError:
            return b""
        self.offset += len(data)
        return data


def shown(raw: bytes) -> str:
    """A line as people see it: a progress bar's last state, secrets masked."""
    line = raw.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode(errors="replace")
    return redaction.text(line[:LONGEST])


def read_tail(path: Path, lines: int) -> list[str]:
    """The last `lines` lines of the log."""
    return _tail(path, lines)[0] if lines > 0 else []


async def follow(path: Path, lines: int = 0, *, pause_s: float = 0.25) -> AsyncIterator[str]:
    """The last `lines` lines, then every new one, for ever; survives rotation."""
    past, cursor = await asyncio.to_thread(_tail, path, lines)
    for line in past:
        yield line
    while True:
        new = await asyncio.to_thread(cursor.read)
        for line in new:
            yield line
        if not new:
            await asyncio.sleep(pause_s)


def _tail(path: Path, lines: int) -> tuple[list[str], Cursor]:
    """The last lines, and a cursor at exactly the place where they end."""
    found = parts(path)
    cursor = Cursor(path if path.is_dir() else path.parent)
    data = b""
    for part in reversed(found):
        size = part.stat().st_size
        if part == found[-1]:
            cursor.number, cursor.offset = int(part.stem), size
        data = _before(data, part, size, lines)
        if data.count(b"\n") > lines or len(data) > MOST:
            break
    *whole, cursor.partial = data.split(b"\n")
    return [shown(line) for line in whole[-lines:]] if lines > 0 else [], cursor


def _before(data: bytes, part: Path, end: int, lines: int) -> bytes:
    """`data` with so much of the end of `part` put before it that it holds `lines` whole lines."""
    with part.open("rb") as file:
        while end > 0 and data.count(b"\n") <= lines and len(data) <= MOST:
            start = max(0, end - CHUNK)
            file.seek(start)
            data = file.read(end - start) + data
            end = start
    return data


def newest(folder: Path) -> Path:
    """The link to the part being written, of the start kept in `folder`."""
    return folder / records.LOG_DIR / records.CURRENT
