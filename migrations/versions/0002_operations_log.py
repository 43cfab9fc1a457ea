"""The operations log: append-only, never pruned; verbs that are still among the events move in."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: None = None
depends_on: None = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SEARCHED = ("at", "verb", "actor", "source", "outcome", "subject")
REFUSE = "the operations log is append-only"
SQLITE = """
CREATE TRIGGER operations_no_{what} BEFORE {what} ON operations
BEGIN SELECT RAISE(ABORT, '{refuse}'); END
"""
POSTGRES = (
    f"""
    CREATE FUNCTION operations_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{REFUSE}'; END $$
    """,
    """
    CREATE TRIGGER operations_append_only BEFORE UPDATE OR DELETE ON operations
    FOR EACH ROW EXECUTE FUNCTION operations_append_only()
    """,
    """
    CREATE TRIGGER operations_no_truncate BEFORE TRUNCATE ON operations
    FOR EACH STATEMENT EXECUTE FUNCTION operations_append_only()
    """,
)


def upgrade() -> None:
    """Create the log, fill it from the events, and close it to everything but appending."""
    op.create_table(
        "operations",
        sa.Column("seq", BIG, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("verb", sa.String(64), nullable=False),
        sa.Column("actor", sa.String(256), nullable=False),
        sa.Column("source", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("touched", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
    )
    for column in SEARCHED:
        op.create_index(f"ix_operations_{column}", "operations", [column])
    _move_in()
    if op.get_bind().dialect.name == "sqlite":
        for what in ("UPDATE", "DELETE"):
            op.execute(SQLITE.format(what=what, refuse=REFUSE))
    else:
        for statement in POSTGRES:
            op.execute(statement)


def _move_in() -> None:
    bind = op.get_bind()
    events = sa.table(
        "events", sa.column("seq", BIG), sa.column("at", sa.Float()), sa.column("kind", sa.Text()),
        sa.column("subject", sa.Text()), sa.column("data", sa.JSON()),
    )  # fmt: skip
    wanted = sa.select(events.c.seq, events.c.at, events.c.subject, events.c.data)
    found = bind.execute(wanted.where(events.c.kind == "operation")).all()
    log = sa.table(
        "operations", sa.column("seq", BIG), sa.column("at", sa.Float()),
        *(sa.column(name, sa.Text()) for name in ("verb", "actor", "source", "outcome")),
        sa.column("subject", sa.Text()), sa.column("touched", sa.Text()),
        sa.column("data", sa.JSON()),
    )  # fmt: skip
    if found:
        bind.execute(sa.insert(log), [_row(*row) for row in found])


def _row(seq: int, at: float, subject: str, data: dict[str, Any]) -> dict[str, Any]:
    def said(name: str, size: int) -> str:
        return str(data.get(name) or "")[:size]

    return {
        "seq": seq, "at": at, "subject": subject, "touched": f"|{subject}|", "data": data,
        "verb": said("verb", 64), "actor": said("actor", 256), "source": said("source", 32),
        "outcome": said("outcome", 32),
    }  # fmt: skip


def downgrade() -> None:
    """Drop the log, its triggers with it; what the events still hold of it stays."""
    op.drop_table("operations")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION operations_append_only()")
