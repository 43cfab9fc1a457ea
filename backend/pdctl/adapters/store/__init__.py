"""Durable memory: SQLModel tables, Alembic migrations, SQLite by default, PostgreSQL by URL.

Law: `repository` and its bases are the only modules that run queries; a database that we do not
understand is refused with a sentence and left exactly as it was found.
"""
