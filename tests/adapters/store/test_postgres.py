"""What is PostgreSQL's own: URLs, refusals, migrations of many at once, the schema."""

from __future__ import annotations

import asyncio
import sys

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from tests.fakes.postgres import PostgresServer

from pdctl.adapters.store.repository import SqlStore
from pdctl.adapters.store.session import alembic_config, normalised
from pdctl.adapters.store.tables import METADATA
from pdctl.domain.errors import OperatorError


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database()


async def refused(url: str) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        await SqlStore.open(url)
    assert caught.value.hint
    assert "hunter2" not in str(caught.value)
    return caught.value


def test_urls_as_other_programs_write_them() -> None:
    ours = "postgresql+asyncpg://me:hunter2@db.example:6000/pdctl"
    for scheme in ("postgres", "postgresql", "postgresql+asyncpg"):
        assert normalised(ours.replace("postgresql+asyncpg", scheme)) == ours
    assert normalised("postgresql://db/x?sslmode=require") == (
        "postgresql+asyncpg://db/x?ssl=require"
    )
    for other in ("sqlite+aiosqlite:///x.db", "not a url", "", "mysql://db/x"):
        assert normalised(other) == other


async def test_a_plain_url_works(postgres: PostgresServer, url: str) -> None:
    store = await SqlStore.open(url.replace("postgresql+asyncpg", "postgresql"))
    facts = await store.check()
    assert facts["bytes"] > 0
    assert str(facts["url"]).startswith("postgresql+asyncpg://")
    await store.close()


async def test_a_database_that_is_not_there_is_named(postgres: PostgresServer) -> None:
    error = await refused(postgres.url("nowhere"))
    assert error.code == "database_missing"
    assert "createdb" in error.hint


async def test_who_is_not_let_in_is_told(postgres: PostgresServer, url: str) -> None:
    error = await refused(url.replace("//pdctl@", "//mallory:hunter2@"))
    assert error.code == "database_denied"
    assert "PDCTL_DATABASE_URL" in error.hint


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    error = await refused("postgresql://me:hunter2@127.0.0.1:1/pdctl")
    assert error.code == "database_unreachable"


async def test_without_the_driver_the_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    error = await refused("postgresql://me:hunter2@127.0.0.1:1/pdctl")
    assert error.code == "no_database_driver"
    assert "pdctl[postgres]" in error.hint


async def test_the_database_of_another_program_is_refused(url: str) -> None:
    engine = create_async_engine(url)
    async with engine.begin() as db:
        await db.exec_driver_sql("CREATE TABLE bookmarks (url TEXT)")
    await engine.dispose()
    assert (await refused(url)).code == "database_foreign"


async def test_many_openings_at_once_migrate_once(url: str) -> None:
    stores = await asyncio.gather(*(SqlStore.open(url) for _ in range(6)))
    heads = {(await store.check())["head"] for store in stores}
    assert len(heads) == 1
    for store in stores:
        await store.close()


async def test_the_schema_goes_up_and_down_and_is_what_the_tables_say(url: str) -> None:
    engine = create_async_engine(url)
    for _ in range(2):
        await _in(engine, lambda db: command.upgrade(alembic_config(db), "head"))
        await _in(engine, _same_schema)
        await _in(engine, lambda db: command.downgrade(alembic_config(db), "base"))
        await _in(engine, _only_the_version)
    await engine.dispose()


async def _in(engine: AsyncEngine, step: object) -> None:
    async with engine.begin() as db:
        await db.run_sync(step)  # type: ignore[arg-type]


def _same_schema(db: Connection) -> None:
    context = MigrationContext.configure(db, opts={"compare_type": True})
    assert compare_metadata(context, METADATA) == []


def _only_the_version(db: Connection) -> None:
    assert inspect(db).get_table_names() == ["alembic_version"]
