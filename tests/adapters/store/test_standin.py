"""A database whose disk is full is stood in for from memory, and goes home once there is room."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from tests.fakes.records import record
from tests.fakes.waiting import until

from pdctl.adapters.store.repository import SqlStore
from pdctl.adapters.store.standin import StandIn, open_store
from pdctl.domain.errors import InternalError, OperatorError
from pdctl.domain.handoff import RequestRecord

Usage = namedtuple("Usage", "total used free")
FULL = InternalError("database_full", "No room is left.")


def named(id_: str) -> RequestRecord:
    return replace(record(Random(1), 1, 1.0), id=id_)


class Disk:
    """The disk under the state folder: full until told otherwise; memory is not."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.full = folder, True

    def usage(self, path: Path) -> Usage:
        full = self.full and Path(path) == self.folder
        return Usage(2**40, 0, 0 if full else 2**40)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    one = Disk(tmp_path)
    opened: Any = SqlStore.open
    monkeypatch.setattr(shutil, "disk_usage", one.usage)
    monkeypatch.setattr("pdctl.adapters.store.standin.RETRY_S", 0.01)

    async def refusing(cls: type[SqlStore], url: str) -> SqlStore:
        if one.full and str(tmp_path) in url:
            raise FULL
        store: SqlStore = await opened.__func__(cls, url)
        return store

    monkeypatch.setattr(SqlStore, "open", classmethod(refusing))
    return one


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'pdctl.db'}"


@pytest_asyncio.fixture
async def standin(url: str, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    """In place of a database that holds one request."""
    disk.full = False
    before = await SqlStore.open(url)
    await before.add_requests([named("old")])
    await before.close()
    disk.full = True
    store = await open_store(url)
    assert isinstance(store, StandIn)
    yield store
    await store.close()
    assert not store.folder.exists()


async def test_it_holds_all_that_was_and_goes_home_with_all_that_came(
    standin: StandIn, disk: Disk, url: str
) -> None:
    said: list[str] = []
    standin.keep_trying(lambda _, text: said.append(text))
    await standin.add_requests([named("new")])
    assert await standin.request("old") is not None
    with pytest.raises(InternalError, match="kept in memory"):
        await standin.check()
    disk.full = False
    await until(lambda: len(said) == 2)
    assert "history is back" in said[1]
    await standin.add_requests([named("later")])
    assert (await standin.check())["requests"] == 3
    other = await SqlStore.open(url)
    try:
        assert await other.request("new") is not None
        assert await other.request("later") is not None
    finally:
        await other.close()


async def test_it_goes_home_at_its_end_when_there_is_room_by_then(
    standin: StandIn, disk: Disk, url: str
) -> None:
    await standin.add_requests([named("new")])
    disk.full = False
    await standin.close()
    other = await SqlStore.open(url)
    try:
        assert await other.request("new") is not None
    finally:
        await other.close()


async def test_without_a_database_a_full_disk_is_refused(disk: Disk, url: str) -> None:
    with pytest.raises(InternalError):
        await open_store(url)


async def test_another_trouble_is_not_stood_in_for(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    path.write_bytes(b"not a database at all")
    with pytest.raises(OperatorError, match="not a SQLite database"):
        await open_store(f"sqlite+aiosqlite:///{path}")
