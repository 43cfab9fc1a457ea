"""Latency by minute and marks outlive a restart; requests are found by model and objective."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    """Add both tables, empty, and two columns that requests from before know nothing for."""
    op.create_table(
        "latency_minutes",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("grouped", sa.String(300), nullable=False),
        sa.Column("counts", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_latency_minutes"),
    )
    op.create_index("ix_latency_minutes_at", "latency_minutes", ["at"])
    op.create_table(
        "marks",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("actor", sa.String(256), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_marks"),
    )
    for name, size in (("model", 256), ("missed", 1024)):
        op.add_column(
            "request_records",
            sa.Column(name, sa.String(size), nullable=False, server_default=""),
        )
    op.create_index("ix_request_records_model", "request_records", ["model"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_request_records_model", "request_records")
    for name in ("missed", "model"):
        op.drop_column("request_records", name)
    op.drop_table("marks")
    op.drop_table("latency_minutes")
