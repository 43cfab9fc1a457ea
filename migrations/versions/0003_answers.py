"""Answers to writes that came with an Idempotency-Key, so that a retry finds them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "answers",
        sa.Column("key", sa.String(600), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_index("ix_answers_at", "answers", ["at"])


def downgrade() -> None:
    """Drop the table: a retry then does its work again."""
    op.drop_table("answers")
