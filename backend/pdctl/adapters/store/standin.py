"""The database in memory, while its disk is full: engines that run must not go without a head.

Law: it begins as a whole copy and goes home as a whole, once there is room; until then whoever
looks is told. What it holds is lost if we end before.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdctl.adapters.store.repository import SqlStore
from pdctl.adapters.store.session import describe, open_engine, sqlite_path
from pdctl.domain.errors import InternalError, PdctlError
from pdctl.tasks import settle, spawn

MEMORY = Path("/dev/shm")  # noqa: S108 - memory itself, not a temporary file
SPARE = 16 * 1024 * 1024
"""Bytes that have to be free, beyond the database twice (itself, and its log while it is written),
before it goes home; and that must be left in memory."""
NO_ROOM = 1024 * 1024
"""With fewer bytes free a disk is full, whatever the database says of it."""
RETRY_S = 5.0
Tell = Callable[[str, str], None]
"""(level, sentence for operators)."""


class StandIn(SqlStore):
    """A store in memory that knows where it belongs."""

    home = ""
    folder: Path
    """Of the copy; removed at the end."""
    _returning: asyncio.Task[None] | None = None

    @classmethod
    async def of(cls, url: str) -> StandIn | None:
        """A copy of the database at `url`; None when there is none, or no memory for it."""
        path = sqlite_path(url)
        if path is None or not path.exists() or not path.stat().st_size:
            return None
        if _size(path) + SPARE > shutil.disk_usage(MEMORY).free:
            return None
        folder = Path(tempfile.mkdtemp(prefix="pdctl-", dir=MEMORY))
        try:
            copy = await asyncio.to_thread(_copied, path, folder)
            store = await cls.open(f"sqlite+aiosqlite:///{copy}")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        store.home, store.folder = url, folder
        return store

    def keep_trying(self, tell: Tell) -> None:
        """Say how it stands, and go home as soon as there is room."""
        where = describe(self.home)
        tell("error", f"No room is left for {where}: history is kept in memory. Free space.")
        self._returning = spawn(self._return(tell), name="store without room")

    async def check(self) -> dict[str, Any]:
        """Facts for /readyz; InternalError while it is not at home."""
        if self._path != sqlite_path(self.home):
            raise InternalError(
                "database_full", f"No room is left for {describe(self.home)}: it is kept in memory."
            )
        return await super().check()

    async def close(self) -> None:
        """Go home if it can; the copy in memory is removed either way."""
        if self._returning is not None:
            await settle(self._returning)
        with contextlib.suppress(PdctlError, OSError, sqlite3.Error):
            await self._go_home()
        await super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _return(self, tell: Tell) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            with contextlib.suppress(PdctlError, OSError, sqlite3.Error):
                if await self._go_home():
                    tell("info", f"There is room again: history is back in {self._where}.")
                    return

    async def _go_home(self) -> bool:
        """Write all of it over the database that it stands in for, and go on there."""
        home = sqlite_path(self.home)
        if self._path is None or home is None or self._path == home:
            return True
        async with self._one_writer:
            if shutil.disk_usage(home.parent).free < 2 * _size(self._path) + SPARE:
                return False
            await asyncio.to_thread(_written_over, self._path, home)
            old, self._engine = self._engine, await open_engine(self.home)
            self._writer = self._engine.execution_options(immediate=True)
            self._where, self._path = describe(self.home), home
        await old.dispose()
        shutil.rmtree(self.folder, ignore_errors=True)
        return True


async def open_store(url: str) -> SqlStore:
    """The database at `url`, or one in memory that stands in for it while its disk is full."""
    try:
        return await SqlStore.open(url)
    except PdctlError as error:
        if not _lacks_room(url, error) or (store := await StandIn.of(url)) is None:
            raise
        return store


def _lacks_room(url: str, error: PdctlError) -> bool:
    path = sqlite_path(url)
    if path is None or not path.parent.is_dir():
        return False
    full = shutil.disk_usage(path.parent).free < NO_ROOM
    return error.code == "database_full" or (full and error.code == "database_unwritable")


def _size(path: Path) -> int:
    """Bytes of the database with its write-ahead log."""
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def _copied(path: Path, folder: Path) -> Path:
    """Both files as they are: opening the first would write beside it."""
    for name in (path.name, f"{path.name}-wal"):
        if (part := path.with_name(name)).exists():
            shutil.copyfile(part, folder / name)
    return folder / path.name


def _written_over(source: Path, target: Path) -> None:
    """In one transaction of the target: it is the old database or the new one, never half."""
    with (
        contextlib.closing(sqlite3.connect(source)) as read,
        contextlib.closing(sqlite3.connect(target)) as written,
    ):
        read.backup(written)
