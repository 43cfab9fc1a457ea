"""The tables. A change here needs a migration in `migrations/versions`; a test compares the two.

Types are portable: what is searched has a column, the whole value is JSON beside it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
)
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)
_BIG = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only when the type is exactly INTEGER."""


class Row(SQLModel, registry=registry(metadata=METADATA)):
    """Base of all tables: our own metadata, so that nobody else's tables are migrated."""


class MetaRow(Row, table=True):
    """Facts about the database itself."""

    __tablename__ = "meta"

    key: str = Field(sa_column=Column(String(64), primary_key=True))
    value: str = Field(sa_column=Column(String(1024), nullable=False))


class RevisionRow(Row, table=True):
    """Every accepted desired state: append-only."""

    __tablename__ = "revisions"

    revision: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    at: float = Field(sa_column=Column(Float, nullable=False))
    actor: str = Field(sa_column=Column(String(256), nullable=False))
    reason: str = Field(sa_column=Column(String(1024), nullable=False))
    spec: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class InstanceRow(Row, table=True):
    """The last known instances."""

    __tablename__ = "instances"

    id: str = Field(sa_column=Column(String(256), primary_key=True))
    pool: str = Field(sa_column=Column(String(256), nullable=False))
    phase: str = Field(sa_column=Column(String(32), nullable=False))
    at: float = Field(sa_column=Column(Float, nullable=False))
    position: int = Field(sa_column=Column(Integer, nullable=False))
    state: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class RequestRow(Row, table=True):
    """Finished requests in the order of finishing. Clients choose ids, so an id may repeat."""

    __tablename__ = "request_records"

    key: int | None = Field(default=None, sa_column=Column(_BIG, primary_key=True))
    id: str = Field(sa_column=Column(String(1024), nullable=False, index=True))
    received_at: float = Field(sa_column=Column(Float, nullable=False, index=True))
    path: str = Field(sa_column=Column(String(32), nullable=False, index=True))
    outcome: str = Field(sa_column=Column(String(32), nullable=False, index=True))
    api_key: str = Field(
        sa_column=Column(String(64), nullable=False, index=True, server_default="")
    )
    """Its name."""
    model: str = Field(sa_column=Column(String(256), nullable=False, index=True, server_default=""))
    missed: str = Field(sa_column=Column(String(1024), nullable=False, server_default=""))
    """Objectives that it missed, between bars: for one LIKE."""
    e2e_ms: float | None = Field(sa_column=Column(Float, index=True))
    prefill: str = Field(sa_column=Column(String(256), nullable=False, index=True))
    decode: str = Field(sa_column=Column(String(256), nullable=False, index=True))
    touched: str = Field(sa_column=Column(Text, nullable=False))
    """Every instance of every leg between bars, "|prefill-0|decode-1|": for one LIKE."""
    record: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class EventRow(Row, table=True):
    """Durable facts of the feed."""

    __tablename__ = "events"

    seq: int = Field(sa_column=Column(_BIG, primary_key=True, autoincrement=False))
    at: float = Field(sa_column=Column(Float, nullable=False))
    kind: str = Field(sa_column=Column(String(64), nullable=False, index=True))
    subject: str = Field(sa_column=Column(String(512), nullable=False, index=True))
    data: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class OperationRow(Row, table=True):
    """The operations log: append-only (triggers refuse the rest) and never pruned."""

    __tablename__ = "operations"

    seq: int = Field(sa_column=Column(_BIG, primary_key=True, autoincrement=False))
    """Of the event that told it."""
    at: float = Field(sa_column=Column(Float, nullable=False, index=True))
    verb: str = Field(sa_column=Column(String(64), nullable=False, index=True))
    actor: str = Field(sa_column=Column(String(256), nullable=False, index=True))
    source: str = Field(sa_column=Column(String(32), nullable=False, index=True))
    outcome: str = Field(sa_column=Column(String(32), nullable=False, index=True))
    subject: str = Field(sa_column=Column(String(512), nullable=False, index=True))
    touched: str = Field(sa_column=Column(Text, nullable=False))
    """The subject and everything that the verb names between bars: for one LIKE."""
    data: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class AnswerRow(Row, table=True):
    """Answers to writes that came with an Idempotency-Key; dropped when they expire."""

    __tablename__ = "answers"

    key: str = Field(sa_column=Column(String(600), primary_key=True))
    fingerprint: str = Field(sa_column=Column(String(64), nullable=False))
    at: float = Field(sa_column=Column(Float, nullable=False, index=True))
    status: int = Field(sa_column=Column(Integer, nullable=False))
    headers: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    body: str = Field(sa_column=Column(Text, nullable=False))


class RunRow(Row, table=True):
    """Applied plans (the API calls them operations) and how far they are."""

    __tablename__ = "runs"

    id: str = Field(sa_column=Column(String(64), primary_key=True))
    revision: int = Field(sa_column=Column(Integer, nullable=False, index=True, unique=True))
    """The one that it wants: no two runs share one."""
    state: str = Field(sa_column=Column(String(32), nullable=False, index=True))
    record: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class WishRow(Row, table=True):
    """What operators want of single starts; each expires with the start that it names."""

    __tablename__ = "wishes"

    kind: str = Field(sa_column=Column(String(32), primary_key=True))
    instance: str = Field(sa_column=Column(String(256), primary_key=True))
    generation: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))


class LeaseRow(Row, table=True):
    """Who holds a port, a device or a core: one holder each, by the primary key."""

    __tablename__ = "leases"

    kind: str = Field(sa_column=Column(String(32), primary_key=True))
    value: str = Field(sa_column=Column(String(256), primary_key=True))
    instance: str = Field(sa_column=Column(String(256), nullable=False))
    generation: int = Field(sa_column=Column(Integer, nullable=False))


class OwnerRow(Row, table=True):
    """The one pdctl that may write here: a single row."""

    __tablename__ = "owner"

    key: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    name: str = Field(sa_column=Column(String(64), nullable=False))
    beat: float = Field(sa_column=Column(Float, nullable=False))
    """Wall time (UTC seconds, by the database where it has a clock) of its last sign of life."""
    who: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class SignalRow(Row, table=True):
    """Signals that fired, one row for each time."""

    __tablename__ = "signals"

    episode: str = Field(sa_column=Column(String(700), primary_key=True))
    fired_at: float = Field(sa_column=Column(Float, nullable=False, index=True))
    firing: bool = Field(sa_column=Column(Boolean, nullable=False, index=True))
    record: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class SilenceRow(Row, table=True):
    """Silences; dropped when they have ended."""

    __tablename__ = "silences"

    id: str = Field(sa_column=Column(String(64), primary_key=True))
    until: float = Field(sa_column=Column(Float, nullable=False, index=True))
    record: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class MinuteRow(Row, table=True):
    """What one group counted in one minute; a minute in which pdctl was restarted has several."""

    __tablename__ = "latency_minutes"

    key: int | None = Field(default=None, sa_column=Column(_BIG, primary_key=True))
    at: float = Field(sa_column=Column(Float, nullable=False, index=True))
    """Wall time (UTC seconds) of its beginning."""
    grouped: str = Field(sa_column=Column(String(300), nullable=False))
    counts: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Histograms, packed (`domain.minutes`)."""


class MarkRow(Row, table=True):
    """Moments that operators named."""

    __tablename__ = "marks"

    name: str = Field(sa_column=Column(String(64), primary_key=True))
    at: float = Field(sa_column=Column(Float, nullable=False))
    actor: str = Field(sa_column=Column(String(256), nullable=False))
