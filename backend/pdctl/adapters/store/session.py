"""Opens the database: looks before it touches, migrates under a lock, refuses in sentences."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pdctl.adapters.store import codec
from pdctl.domain.errors import InternalError, OperatorError, PdctlError

HEADER = b"SQLite format 3\0"
BUSY_MS = 5_000
BUSY = "database_busy"
"""Code of the error that says that another process holds the database."""
VERSION_TABLE = "alembic_version"
_PRAGMAS = (f"busy_timeout={BUSY_MS}", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")
_ADVISORY_LOCK = 0x70646374
"""PostgreSQL advisory lock of our migrations ("pdct")."""
_DENIED = re.compile(
    r"password authentication failed|no pg_hba.conf entry|permission denied|role .* does not exist"
)
_ELSEWHERE = "Free or repair it, or point PDCTL_STATE_DIR (or PDCTL_DATABASE_URL) elsewhere."


def migrations_dir() -> Path:
    """The migration scripts: beside the installed package, else at the top of the checkout."""
    here = Path(__file__).resolve()
    for place in (here.parents[1] / "migrations", here.parents[4] / "migrations"):
        if (place / "env.py").is_file():
            return place
    raise InternalError("no_migrations", "This pdctl carries no migrations.", "Reinstall pdctl.")


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, bound to an open connection when one is given."""
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def normalised(url: str) -> str:
    """`url` with the driver that pdctl uses: as psql and other programs write it, it works too."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return url
    if parsed.drivername not in ("postgres", "postgresql", "postgresql+asyncpg"):
        return url
    query = {"ssl" if name == "sslmode" else name: value for name, value in parsed.query.items()}
    return parsed.set(drivername="postgresql+asyncpg", query=query).render_as_string(
        hide_password=False
    )


async def open_engine(url: str) -> AsyncEngine:
    """A migrated database, ready for use; OperatorError says why it is not."""
    url = normalised(url)
    where = describe(url)
    path = sqlite_path(url)
    if path is not None:
        await asyncio.to_thread(_look, path)
    try:
        engine = _engine(url)
    except ModuleNotFoundError as error:
        raise OperatorError(
            "no_database_driver", f"{where} needs the Python package {error.name}.",
            "Install it beside pdctl: pip install 'pdctl[postgres]'.",
        ) from error  # fmt: skip
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise OperatorError(
            "database_url", f"{where} is not a database URL that works here: {error}.",
            "Use sqlite+aiosqlite:///path or postgresql+asyncpg://user:password@host/name.",
        ) from error  # fmt: skip
    try:
        await _bring_up(engine, where)
    except BaseException:
        await engine.dispose()
        raise
    return engine


async def _bring_up(engine: AsyncEngine, where: str) -> None:
    """Migrate; SQLite refuses two that switch a new file to WAL at once without waiting itself."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            with said(where):
                async with engine.execution_options(immediate=True).begin() as connection:
                    await connection.run_sync(_migrate, where)
                return
        except InternalError as error:
            if error.code != BUSY or time.monotonic() >= deadline:
                raise
        await asyncio.sleep(0.05)


def describe(url: str) -> str:
    """What to call the database in messages: never with a password."""
    path = sqlite_path(url)
    if path is not None:
        return str(path)
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "The configured text"


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite URL; None for another database or one in memory."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return None
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(parsed.database or "")


@contextmanager
def said(where: str) -> Iterator[None]:
    """Turn what the driver raises into our errors: one sentence, and what to do."""
    try:
        yield
    except PdctlError:
        raise
    except (DBAPIError, sqlite3.Error) as error:
        raise _sentence(where, error) from error
    except OSError as error:
        why = error.strerror or "no answer"
        raise OperatorError(
            "database_unreachable", f"The database {where} cannot be reached: {why}.", _ELSEWHERE
        ) from error


def _sentence(where: str, error: Exception) -> PdctlError:
    why = str(getattr(error, "orig", None) or error).splitlines()[0]
    if "full" in why:
        return InternalError("database_full", f"No room is left for {where}: {why}.", "Free space.")
    if "malformed" in why or "not a database" in why:
        return _damaged(where, why)
    if "locked" in why:
        return InternalError(
            BUSY, f"The database {where} is held by another process.",
            "Is a second pdctl, a backup or a database browser using it?",
        )  # fmt: skip
    if "database" in why and why.endswith("does not exist"):
        return OperatorError(
            "database_missing", f"There is no such database as {where}: {why}.",
            "Create it (createdb), empty and for pdctl alone; pdctl makes its tables.",
        )  # fmt: skip
    if _DENIED.search(why):
        return OperatorError(
            "database_denied", f"The database {where} does not let pdctl in: {why}.",
            "Check user, password and rights in PDCTL_DATABASE_URL.",
        )  # fmt: skip
    if "readonly" in why or "unable to open" in why or "disk I/O" in why:
        return OperatorError(
            "database_unwritable", f"The database {where} cannot be written: {why}.", _ELSEWHERE
        )
    return InternalError("database_failed", f"The database {where} failed: {why}.", _ELSEWHERE)


def _damaged(where: str, why: str) -> OperatorError:
    return OperatorError(
        "database_damaged",
        f"{where} is damaged ({why}). It was left as it is.",
        "Move it away to start with an empty history, or restore a copy.",
    )


def _foreign(where: str) -> OperatorError:
    return OperatorError(
        "database_foreign",
        f"{where} belongs to another program. It was left as it is.",
        "Point PDCTL_STATE_DIR (or PDCTL_DATABASE_URL) elsewhere.",
    )


def _look(path: Path) -> None:
    """Refuse, without touching it, a file that is not a sound SQLite database."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        header = path.read_bytes()[: len(HEADER)] if path.stat().st_size < 4096 else _head(path)
    except FileNotFoundError:
        return
    except OSError as error:
        why = error.strerror or "it cannot be used"
        raise OperatorError(
            "database_unwritable", f"The database {path} cannot be used: {why}.", _ELSEWHERE
        ) from error
    if not header:
        return
    if header != HEADER:
        raise OperatorError(
            "database_foreign", f"{path} is not a SQLite database. It was left as it is.",
            "Move it away, or point PDCTL_STATE_DIR (or PDCTL_DATABASE_URL) elsewhere.",
        )  # fmt: skip
    _quick_check(path)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(HEADER))


def _quick_check(path: Path) -> None:
    with said(str(path)):
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=BUSY_MS / 1000
        )
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        finally:
            connection.close()
    if verdict != "ok":
        raise _damaged(str(path), str(verdict).splitlines()[-1])
    if tables and VERSION_TABLE not in tables:
        raise _foreign(str(path))


def _engine(url: str) -> AsyncEngine:
    engine = create_async_engine(url, json_serializer=codec.dumps, pool_pre_ping=True)
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare)
        event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _: Any) -> None:
    # The driver must not begin transactions by itself: `_begin` does, and says which kind.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _migrate(connection: Connection, where: str) -> None:
    """Bring the schema to our head, inside the one transaction that locks it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    scripts = ScriptDirectory.from_config(alembic_config())
    heads = MigrationContext.configure(connection).get_current_heads()
    if not heads and inspect(connection).get_table_names():
        raise _foreign(where)
    for head in heads:
        _known(scripts, head, where)
    if set(heads) != set(scripts.get_heads()):
        command.upgrade(alembic_config(connection), "head")


def _known(scripts: ScriptDirectory, head: str, where: str) -> None:
    try:
        scripts.get_revision(head)
    except CommandError as error:
        raise OperatorError(
            "database_newer",
            f"{where} was written by a newer pdctl (schema {head}). It was left as it is.",
            "Upgrade pdctl, or use another PDCTL_STATE_DIR.",
        ) from error
