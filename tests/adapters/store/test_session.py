"""Opening: what is refused, in which words, and that nothing refused is changed."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import JSON, create_engine, inspect
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from pdctl.adapters.store import session
from pdctl.adapters.store.repository import SqlStore
from pdctl.adapters.store.session import alembic_config, describe, migrations_dir
from pdctl.adapters.store.tables import METADATA
from pdctl.domain.errors import OperatorError, PdctlError
from pdctl.domain.request_query import RequestQuery

HEAD = max(path.name for path in (migrations_dir() / "versions").glob("*.py"))[:4]


def url_of(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


async def make(path: Path) -> None:
    await (await SqlStore.open(url_of(path))).close()


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


async def refused(path: Path) -> PdctlError:
    """The refusal, after making sure that the file is as it was."""
    before = content(path)
    with pytest.raises(PdctlError) as caught:
        await SqlStore.open(url_of(path))
    assert content(path) == before
    assert caught.value.hint
    return caught.value


async def test_a_new_database_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there" / "yet" / "pdctl.db"
    await make(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("SELECT version_num FROM alembic_version").fetchone() == (HEAD,)
        assert db.execute("SELECT key FROM meta").fetchall() == [("written_by",)]
    db.close()


async def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    path.touch()
    await make(path)
    assert path.stat().st_size > 0


@pytest.mark.parametrize("content", [b"hello, I am a text file\n" * 400, b"x", b"\0" * 9000])
async def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pdctl.db"
    path.write_bytes(content)
    error = await refused(path)
    assert error.code == "database_foreign"
    assert "is not a SQLite database" in error.message


async def test_damaged_pages_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    await make(path)
    data = bytearray(path.read_bytes())
    data[4096 : len(data) // 2] = os.urandom(len(data) // 2 - 4096)
    path.write_bytes(data)
    error = await refused(path)
    assert error.code == "database_damaged"
    assert "left as it is" in error.message
    assert "Move it away" in error.hint


async def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    await make(path)
    path.write_bytes(path.read_bytes()[:5000])
    assert (await refused(path)).code == "database_damaged"


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    await make(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE alembic_version SET version_num = '0999'")
    db.close()
    error = await refused(path)
    assert error.code == "database_newer"
    assert "0999" in error.message
    assert "Upgrade pdctl" in error.hint


async def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    assert (await refused(path)).code == "database_foreign"


async def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    error = await refused(tmp_path / "file" / "pdctl.db")
    assert error.code == "database_unwritable"
    assert "PDCTL_STATE_DIR" in error.hint


async def test_a_folder_in_place_of_the_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    path.mkdir()
    assert (await refused(path)).code == "database_unwritable"


async def test_a_place_where_nothing_can_be_made_is_refused() -> None:
    error = await refused(Path("/proc/1/nothing/here/pdctl.db"))
    assert error.code == "database_unwritable"
    assert "/proc/1/nothing/here/pdctl.db" in error.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
async def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    assert (await refused(folder / "pdctl.db")).code == "database_unwritable"
    folder.chmod(0o700)


@pytest.mark.parametrize("url", ["", "not a url", "carrier+pigeon://coop/db"])
async def test_an_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(OperatorError, match="not a database URL that works here"):
        await SqlStore.open(url)


def test_a_password_is_never_told() -> None:
    assert "hunter2" not in describe("postgresql+asyncpg://me:hunter2@db.example/pdctl")


async def test_a_database_that_another_process_holds_is_said_to_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pdctl.db"
    await make(path)
    monkeypatch.setattr(session, "_PRAGMAS", ("busy_timeout=50",))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(PdctlError, match="held by another process"):
        await SqlStore.open(url_of(path))
    holder.execute("ROLLBACK")
    holder.close()
    await make(path)


def test_the_tables_can_be_made_in_postgresql() -> None:
    for table in METADATA.sorted_tables:
        made = str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
        assert made.strip().startswith(f"CREATE TABLE {table.name}")
        assert ("JSON" in made) == any(isinstance(one.type, JSON) for one in table.columns)


async def test_the_schema_is_what_the_tables_say(tmp_path: Path) -> None:
    path = tmp_path / "pdctl.db"
    await make(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_every_migration_goes_up_and_down_again(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'pdctl.db'}")
    for _ in range(2):
        with engine.begin() as connection:
            command.upgrade(alembic_config(connection), "head")
        assert set(METADATA.tables) <= set(inspect(engine).get_table_names())
        with engine.begin() as connection:
            command.downgrade(alembic_config(connection), "base")
        assert inspect(engine).get_table_names() == ["alembic_version"]
    engine.dispose()


def test_verbs_of_an_older_database_enter_the_operations_log(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'pdctl.db'}")

    def go(step: Callable[[Config, str], None], where: str) -> None:
        with engine.begin() as connection:
            step(alembic_config(connection), where)

    def ask(statement: str) -> list[tuple[Any, ...]]:
        with engine.begin() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    go(command.upgrade, "0001")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO events VALUES (1, 5.0, 'notice', 'fleet', '{}'), "
            '(2, 6.0, \'operation\', \'decode-0\', \'{"verb": "restart", "actor": "ada"}\')'
        )
    log = "SELECT seq, verb, actor, outcome, touched FROM operations"
    for _ in range(2):
        go(command.upgrade, "head")
        assert ask(log) == [(2, "restart", "ada", "", "|decode-0|")]
        assert len(ask("SELECT seq FROM events")) == 2
        go(command.downgrade, "0001")
    assert len(ask("SELECT seq FROM events")) == 2
    engine.dispose()


def test_migrations_are_numbered_in_one_line() -> None:
    names = sorted(path.name for path in (migrations_dir() / "versions").glob("*.py"))
    assert [name[:4] for name in names] == [f"{n:04d}" for n in range(1, len(names) + 1)]


async def test_many_openings_at_once_migrate_once(tmp_path: Path) -> None:
    stores = await asyncio.gather(*(SqlStore.open(url_of(tmp_path / "pdctl.db")) for _ in range(5)))
    assert [(await store.check())["head"] for store in stores] == [HEAD] * 5
    for store in stores:
        await store.close()


WRITER = """
import asyncio, sys
from random import Random
from pdctl.adapters.store import session
from pdctl.adapters.store.repository import SqlStore
from tests.fakes.records import record

async def main():
    store, rng, n = await SqlStore.open(sys.argv[1]), Random(1), 0
    while True:
        await store.add_requests([record(rng, n + i, 1e9) for i in range(50)])
        n += 50
        print(n, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("batches", [1, 3, 6])
async def test_a_writer_killed_at_work_leaves_whole_batches(tmp_path: Path, batches: int) -> None:
    url = url_of(tmp_path / "pdctl.db")
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert writer.stdout is not None
    said = 0
    async with asyncio.timeout(60):
        for _ in range(batches):
            said = int(await writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        said = max([said, *(int(line) for line in (await writer.stdout.read()).split())])
        await writer.wait()
    store = await SqlStore.open(url)
    found = await store.requests(RequestQuery(limit=100_000))
    await store.close()
    assert len(found) % 50 == 0
    assert len(found) >= said
