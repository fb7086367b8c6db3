"""Databases with ShedLock's table for these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration import servers
from integration.shedlock.store import ShedlockStore


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> servers.Database:
    """Return each database in turn, running."""
    one: servers.Database = request.getfixturevalue(request.param)
    one.resume()
    one.start()
    return one


@pytest.fixture
def store(database: servers.Database, prefix: str) -> Iterator[ShedlockStore]:
    """Yield a root in it as the contract suite sees it."""
    one = ShedlockStore(database, prefix)
    yield one
    one.close()
