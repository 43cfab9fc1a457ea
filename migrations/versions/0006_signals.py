"""Signals that fired, and silences, outlive a restart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    """Add both tables, empty."""
    op.create_table(
        "signals",
        sa.Column("episode", sa.String(700), nullable=False),
        sa.Column("fired_at", sa.Float(), nullable=False),
        sa.Column("firing", sa.Boolean(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("episode", name="pk_signals"),
    )
    op.create_index("ix_signals_fired_at", "signals", ["fired_at"])
    op.create_index("ix_signals_firing", "signals", ["firing"])
    op.create_table(
        "silences",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_silences"),
    )
    op.create_index("ix_silences_until", "silences", ["until"])


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("silences")
    op.drop_table("signals")
