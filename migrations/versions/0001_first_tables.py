"""What pdctl remembers: revisions, instances, finished requests, durable events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: None = None
depends_on: None = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INDEXES = {
    "request_records": (
        "id", "received_at", "path", "outcome", "e2e_ms", "prefill", "decode",
    ),
    "events": ("kind", "subject"),
}  # fmt: skip


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.String(1024), nullable=False),
    )
    op.create_table(
        "revisions",
        sa.Column("revision", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("actor", sa.String(256), nullable=False),
        sa.Column("reason", sa.String(1024), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
    )
    op.create_table(
        "instances",
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("pool", sa.String(256), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
    )
    _history()
    for table, columns in INDEXES.items():
        for column in columns:
            op.create_index(f"ix_{table}_{column}", table, [column])


def _history() -> None:
    op.create_table(
        "request_records",
        sa.Column("key", BIG, primary_key=True),
        sa.Column("id", sa.String(1024), nullable=False),
        sa.Column("received_at", sa.Float(), nullable=False),
        sa.Column("path", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("e2e_ms", sa.Float()),
        sa.Column("prefill", sa.String(256), nullable=False),
        sa.Column("decode", sa.String(256), nullable=False),
        sa.Column("touched", sa.Text(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("seq", BIG, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
    )


def downgrade() -> None:
    """Drop every table, indexes with them."""
    for table in ("events", "request_records", "instances", "revisions", "meta"):
        op.drop_table(table)
