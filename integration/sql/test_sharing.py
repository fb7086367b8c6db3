"""A program that locks a row by ``SELECT ... FOR UPDATE`` as many do, and ours: they exclude each other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import recipes
from integration import servers
from integration.sql.conftest import Connect
from integration.sql.places import by_cursor
from integration.sql.test_locked import waits
from recipes import sql


def select_for_update(connection: Any, table: str, row: Any, work: Callable[[], object]) -> object:
    """Lock a row of a table for as long as the transaction lasts."""
    cursor = connection.cursor()
    try:
        cursor.execute(f"SELECT id FROM {table} WHERE id = %s FOR UPDATE", (row,))
        cursor.fetchall()
        return work()
    finally:
        connection.commit()


@pytest.fixture
def table(tables: str, connect: Connect) -> str:
    """Return their table, made of ours: a view that has our column under their name."""
    run = by_cursor(connection := connect())
    run(f"CREATE VIEW {tables}lock_log AS SELECT name AS id FROM {tables}named")
    sql.locked(connection, "42", tables=tables)  # their row has to be there
    connection.commit()
    return f"{tables}lock_log"


def test_ours_waits_for_theirs(tables: str, table: str, connect: Connect) -> None:
    ours = connect()

    def work() -> None:
        with pytest.raises(recipes.LockTimeout):
            sql.locked(ours, "42", nowait=True, tables=tables)
        assert sql.locked(ours, "43", nowait=True, tables=tables), "another name is free"

    select_for_update(connect(), table, "42", work)
    assert sql.locked(ours, "42", nowait=True, tables=tables)


def test_theirs_waits_for_ours(
    database: servers.Postgres | servers.MariaDb, tables: str, table: str, connect: Connect
) -> None:
    ours, entered = connect(), []
    sql.locked(ours, "42", tables=tables)
    with ThreadPoolExecutor() as pool:
        theirs = pool.submit(select_for_update, connect(), table, "42", lambda: entered.append("theirs"))
        waits(database)
        assert not entered
        ours.commit()
        theirs.result(60)
    assert entered
