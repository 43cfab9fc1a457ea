"""What tests of more than one area need: a real PostgreSQL server, where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.fakes.postgres import PostgresServer, binaries

# The machine is shared: an example that takes long tells of its load, not of the code.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run."""
    found = binaries()
    if found is None:
        pytest.skip("no postgres binary here (PATH, /usr/lib/postgresql/*/bin): `make postgres`")
    server = PostgresServer(found)
    try:
        server.start()
        yield server
    finally:
        server.stop()
