"""One open database: who reads, who writes, and what a row that cannot be read does.

One writer: writes of this process queue on a lock and are IMMEDIATE transactions, so SQLite never
has to undo one half-way. Reads run beside them (WAL).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from sqlalchemy import RowMapping, Select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from pdctl import __version__
from pdctl.adapters.store import codec
from pdctl.adapters.store.session import (
    VERSION_TABLE,
    describe,
    normalised,
    open_engine,
    said,
    sqlite_path,
)
from pdctl.adapters.store.tables import MetaRow

log = logging.getLogger(__name__)
T = TypeVar("T")
WRITTEN_BY = "written_by"
"""Key in the meta table: the version of the last pdctl that opened the database."""


class Database:
    """An engine, and the two ways to use it."""

    def __init__(self, engine: AsyncEngine, url: str) -> None:
        self._engine = engine
        self._writer = engine.execution_options(immediate=True)
        self._where = describe(url)
        self._path = sqlite_path(url)
        self._dialect = postgresql if engine.dialect.name == "postgresql" else sqlite
        self._one_writer = asyncio.Lock()

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open and migrate; OperatorError for a damaged, foreign, newer or unusable database."""
        store = cls(await open_engine(url), normalised(url))
        await store._sign()
        return store

    async def close(self) -> None:
        """Wait for the write under way, then close every connection."""
        async with self._one_writer:
            await self._engine.dispose()

    async def schema(self) -> str:
        """The revision of the tables."""
        async with self._read() as db:
            return str(await db.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")))  # noqa: S608

    async def batches(self, wanted: Select[Any], size: int) -> AsyncIterator[Sequence[RowMapping]]:
        """The rows of a query, `size` at a time, of one moment."""
        async with self._read() as db:
            async for rows in (await db.stream(wanted)).mappings().partitions(size):
                yield rows

    async def _sign(self) -> None:
        """Note which pdctl used this database last."""
        row = {"key": WRITTEN_BY, "value": __version__}
        sign = self._dialect.insert(MetaRow).values(row)
        async with self._write() as db:
            await db.execute(sign.on_conflict_do_update(index_elements=["key"], set_=row))

    @asynccontextmanager
    async def _write(self) -> AsyncIterator[AsyncConnection]:
        async with self._one_writer:
            with said(self._where):
                async with self._writer.begin() as connection:
                    yield connection

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[AsyncConnection]:
        with said(self._where):
            async with self._engine.connect() as connection:
                yield connection


def readable(cls: type[T], rows: Iterable[Mapping[str, Any]]) -> Iterator[T]:
    """What can be understood of `rows`: one of a newer pdctl must not hide all others."""
    for row in rows:
        try:
            yield codec.decode(cls, row)
        except (ValueError, TypeError, KeyError) as error:
            log.warning("a stored %s cannot be read and is left out: %s", cls.__name__, error)
