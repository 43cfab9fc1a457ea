"""Requests can be looked for by the name of their API key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    """Add the column; requests from before came without a key."""
    op.add_column(
        "request_records",
        sa.Column("api_key", sa.String(64), nullable=False, server_default=""),
    )
    op.create_index("ix_request_records_api_key", "request_records", ["api_key"])


def downgrade() -> None:
    """Drop the column."""
    op.drop_index("ix_request_records_api_key", "request_records")
    op.drop_column("request_records", "api_key")
