"""Alembic's entry: on the connection it is handed (pdctl serve), else on the configured database.

No logging is configured here: pdctl's own is in force.
"""

from __future__ import annotations

import asyncio

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from pdctl.adapters.store.tables import METADATA


def migrate(connection: Connection) -> None:
    """Run the migrations on an open connection."""
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        render_as_batch=True,
        compare_type=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def from_settings() -> None:
    """The `alembic` command line: the database that `pdctl serve` would open."""
    from pdctl.adapters.store.session import normalised
    from pdctl.settings import Settings

    engine = create_async_engine(normalised(Settings().url))
    async with engine.begin() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


handed: Connection | None = context.config.attributes.get("connection")
if handed is not None:
    migrate(handed)
else:
    asyncio.run(from_settings())
