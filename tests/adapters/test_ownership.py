"""One owner of a database: a second is refused by name, and what is gone is replaced at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.fakes.clock import VirtualClock
from tests.fakes.postgres import PostgresServer

from pdctl import tasks
from pdctl.adapters.ownership import Ownership, has_ended, ourselves
from pdctl.adapters.store.repository import SqlStore
from pdctl.domain.errors import ConflictError
from pdctl.domain.owner import SILENCE_S, Owner
from pdctl.shim import procfs


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'state' / 'pdctl.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return await server.database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqlStore]:
    opened = await SqlStore.open(url)
    yield opened
    await opened.close()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    return one, other


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this machine."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as one:
        yield one
        one.kill()


def start_of(process: subprocess.Popen[bytes]) -> int:
    seen = procfs.look(process.pid)
    assert seen is not None
    return seen.start


def living(_: Owner) -> bool:
    return False


async def test_a_second_pdctl_is_refused_and_told_of_the_first(
    store: SqlStore, folders: tuple[Path, Path]
) -> None:
    first = await Ownership.take(store, folders[0], VirtualClock())
    await first.announce("http://127.0.0.1:21500")
    with pytest.raises(ConflictError) as caught:
        await Ownership.take(store, folders[1], VirtualClock())
    said = str(caught.value)
    for part in (f"pid {os.getpid()}", str(folders[0]), "http://127.0.0.1:21500", "DATABASE_URL"):
        assert part in said
    await first.release()
    await Ownership.take(store, folders[1], VirtualClock())


async def test_the_next_one_of_the_same_folder_takes_over_at_once(
    store: SqlStore, folders: tuple[Path, Path]
) -> None:
    old = ourselves(folders[0])
    await store.own(old, living)
    await Ownership.take(store, folders[0], VirtualClock())
    assert not await store.beat(old)
    await store.disown(old)
    with pytest.raises(ConflictError):
        await store.own(ourselves(folders[1]), living)


async def test_one_whose_process_is_gone_is_replaced_at_once(
    store: SqlStore, folders: tuple[Path, Path], process: subprocess.Popen[bytes]
) -> None:
    me = ourselves(folders[0])
    other = replace(me, name="other", pid=process.pid, start=start_of(process))
    await store.own(other, living)
    assert not has_ended(other, me)
    with pytest.raises(ConflictError):
        await Ownership.take(store, folders[1], VirtualClock())
    process.kill()
    process.communicate()
    assert has_ended(other, me)
    assert not has_ended(replace(other, boot="elsewhere"), me)
    await Ownership.take(store, folders[1], VirtualClock())


async def test_of_an_owner_elsewhere_only_a_long_silence_counts(
    store: SqlStore, folders: tuple[Path, Path]
) -> None:
    me = ourselves(folders[0])
    far = replace(me, name="far", boot="elsewhere", host="gpu-box-2", folder=me.folder)
    await store.own(far, living)
    with pytest.raises(ConflictError, match=r"gpu-box-2 .* try again in (29|30) s"):
        await Ownership.take(store, folders[0], VirtualClock())
    async with store._write() as db:
        await db.execute(text(f"UPDATE owner SET beat = beat - {SILENCE_S}"))
    await Ownership.take(store, folders[0], VirtualClock())


async def test_who_has_lost_the_database_hears_of_it_and_writes_no_instances(
    url: str, store: SqlStore, folders: tuple[Path, Path]
) -> None:
    clock = VirtualClock()
    old = await Ownership.take(store, folders[0], clock)
    await store.save_instances([], 1.0)
    other = await SqlStore.open(url)
    try:
        await other.own(replace(ourselves(folders[1]), host="gpu-box-2"), lambda _: True)
        with pytest.raises(ConflictError, match=r"it belongs to pdctl .* gpu-box-2"):
            await store.save_instances([], 2.0)
        await other.save_instances([], 3.0)
        keeping = tasks.spawn(old.keep(), name="keep")
        await clock.until(keeping.done)
        await old.release()
        await other.save_instances([], 4.0)
    finally:
        await other.close()
