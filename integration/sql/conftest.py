"""Databases with the tables of this package, and connections to them."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integration import servers
from integration.sql.places import make_tables, plain

Connect = Callable[..., Any]


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> servers.Postgres | servers.MariaDb:
    """Return each database in turn, running."""
    one: servers.Postgres | servers.MariaDb = request.getfixturevalue(request.param)
    one.resume()
    one.start()
    return one


@pytest.fixture
def tables(database: servers.Postgres | servers.MariaDb) -> str:
    """Return what the names of tables begin with that no other test has used; they are there."""
    prefix = f"t{secrets.token_hex(5)}_"
    make_tables(database.url(), prefix)
    return prefix


@pytest.fixture
def connect(database: servers.Postgres | servers.MariaDb) -> Iterator[Connect]:
    """Yield what makes a driver's connection, READ COMMITTED unless it is told otherwise; it is closed."""
    with contextlib.ExitStack() as stack:

        def made(isolation: str = "READ COMMITTED", **options: Any) -> Any:
            return stack.enter_context(contextlib.closing(plain(database.url(), isolation, **options)))

        yield made
