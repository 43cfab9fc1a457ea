"""A bundle: what the store knows of the last hours in one zip, secrets masked; and back again.

Rows go out as they are stored, a table each, and come back into an empty database of the same
schema, which is then migrated: what an older pdctl recorded opens in a newer one. Nothing of what
comes in is trusted: names, sizes and shapes are checked before a row is written.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from alembic import command
from alembic.util.exc import CommandError
from sqlalchemy import Connection, LargeBinary, MetaData, Table, create_engine, insert, select
from sqlalchemy.exc import SQLAlchemyError

from pdctl.adapters.store import codec
from pdctl.adapters.store.database import Database
from pdctl.adapters.store.session import VERSION_TABLE, alembic_config
from pdctl.adapters.store.tables import METADATA
from pdctl.domain.bundle import FORMAT, Manifest, masked
from pdctl.domain.errors import OperatorError

TIMED = {
    "request_records": "received_at", "events": "at", "operations": "at", "latency_minutes": "at",
}  # fmt: skip
"""Tables of which the window is taken, by the column that has the time."""
WHOLE = ("revisions", "instances", "runs", "signals", "silences", "marks")
"""Tables that are taken whole: small, and needed to understand the rest."""
BATCH = 500
LARGEST = 4 * 2**30
"""Bytes of a bundle when it is unpacked, at most."""
LONGEST_LINE = 8 * 2**20
_MANIFEST = "manifest.json"
_HINT = "Was it made by `pdctl bundle`, and did it arrive whole?"


@asynccontextmanager
async def bundled(store: Database, about: Manifest) -> AsyncIterator[Path]:
    """A bundle in a file that is there until the block ends. `about.schema` is filled in."""
    with tempfile.TemporaryDirectory(prefix="pdctl-bundle-") as folder:
        file = Path(folder) / "bundle.zip"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for name in (*WHOLE, *TIMED):
                await _take(store, archive, METADATA.tables[name], about.since)
            schema = await store.schema()
            archive.writestr(_MANIFEST, json.dumps({**asdict(about), "schema": schema}))
        yield file


async def _take(store: Database, archive: zipfile.ZipFile, table: Table, since: float) -> None:
    wanted = select(table)
    if (column := TIMED.get(table.name)) is not None:
        wanted = wanted.where(table.c[column] >= since)
    with archive.open(f"{table.name}.jsonl", "w") as out:
        async for rows in store.batches(wanted.order_by(*table.primary_key), BATCH):
            lines = await asyncio.to_thread(_lines, rows)
            await asyncio.to_thread(out.write, lines)


def _lines(rows: Sequence[Any]) -> bytes:
    return "".join(f"{codec.dumps(_outward(dict(row)))}\n" for row in rows).encode()


def _outward(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else masked(value, name)
        for name, value in row.items()
    }


def manifest(file: Path) -> Manifest:
    """What a bundle says of itself. OperatorError when it is none, or too new."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check(archive)
            found = codec.decode(Manifest, json.loads(archive.read(_MANIFEST)))
    except OSError as error:
        raise OperatorError(
            "no_bundle", f"{file} cannot be read: {error.strerror or error}.", ""
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise OperatorError("no_bundle", f"{file} is no bundle of pdctl.", _HINT) from error
    if found.format > FORMAT:
        raise OperatorError(
            "newer_bundle", f"{file} was made by pdctl {found.version}, which is newer.",
            "Open it with that one.",
        )  # fmt: skip
    return found


def _check(archive: zipfile.ZipFile) -> None:
    names = {_MANIFEST, *(f"{name}.jsonl" for name in (*WHOLE, *TIMED))}
    parts = archive.infolist()
    if len(parts) > len(names) or sum(one.file_size for one in parts) > LARGEST:
        raise ValueError("more than a bundle holds")
    if unknown := {one.filename for one in parts} - names:
        raise ValueError(f"unknown part {min(unknown)}")


def unpack(file: Path, database: Path) -> Manifest:
    """Fill a new SQLite database at `database` from a bundle; blocking.

    It has the bundle's schema then: whoever opens it migrates it. OperatorError when the
    bundle cannot be understood.
    """
    about = manifest(file)
    engine = create_engine(f"sqlite:///{database}")
    try:
        with zipfile.ZipFile(file) as archive, engine.begin() as db:
            command.upgrade(alembic_config(db), about.schema)
            _fill(archive, db)
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, EOFError,
            SQLAlchemyError, CommandError) as error:  # fmt: skip
        raise OperatorError("no_bundle", f"{file} cannot be understood.", _HINT) from error
    finally:
        engine.dispose()
    return about


def _fill(archive: zipfile.ZipFile, db: Connection) -> None:
    there = MetaData()
    there.reflect(db)
    for part in archive.namelist():
        name = part.removesuffix(".jsonl")
        table = there.tables.get(name)
        if table is None or name == VERSION_TABLE or part == _MANIFEST:
            continue
        for rows in _rows(archive, part, table):
            db.execute(insert(table), rows)


def _rows(archive: zipfile.ZipFile, part: str, table: Table) -> Iterator[list[dict[str, Any]]]:
    binary = {one.name for one in table.columns if isinstance(one.type, LargeBinary)}
    batch: list[dict[str, Any]] = []
    with archive.open(part) as lines:
        while line := lines.readline(LONGEST_LINE):
            row = json.loads(line)
            batch.append(
                {
                    name: base64.b64decode(value) if name in binary else value
                    for name, value in row.items()
                    if name in table.columns
                }
            )
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch
