"""What a restart must find again: applied plans, wishes, leases of ports and devices, the owner."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
    )
    op.create_index("ix_runs_revision", "runs", ["revision"], unique=True)
    op.create_index("ix_runs_state", "runs", ["state"])
    op.create_table(
        "wishes",
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("instance", sa.String(256), primary_key=True),
        sa.Column("generation", sa.Integer(), primary_key=True, autoincrement=False),
    )
    op.create_table(
        "leases",
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("value", sa.String(256), primary_key=True),
        sa.Column("instance", sa.String(256), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
    )
    op.create_table(
        "owner",
        sa.Column("key", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("beat", sa.Float(), nullable=False),
        sa.Column("who", sa.JSON(), nullable=False),
    )


def downgrade() -> None:
    """Drop the tables: an older pdctl forgets its operations at each restart."""
    for table in ("owner", "leases", "wishes", "runs"):
        op.drop_table(table)
