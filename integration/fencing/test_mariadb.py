"""The gate on MariaDB, through PyMySQL: who waited is judged by what was committed; autocommit is refused."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from pymysql.constants.CLIENT import FOUND_ROWS

from integration import servers
from recipes import StaleToken
from recipes.fencing import SqlGate

gate = SqlGate()


@pytest.fixture(autouse=True)
def table(mariadb: servers.MariaDb) -> Iterator[None]:
    """Have the table of the gate, and the row of one resource."""
    mariadb.ask(gate.ddl())
    mariadb.ask("INSERT INTO fences VALUES ('x', 0, 0)")
    yield
    mariadb.ask("DROP TABLE fences")


@pytest.fixture
def first(mariadb: servers.MariaDb) -> Iterator[Any]:
    """Yield a connection that counts the rows that matched."""
    with contextlib.closing(connected(mariadb)) as connection:
        yield connection


@pytest.fixture
def second(mariadb: servers.MariaDb) -> Iterator[Any]:
    """Yield another."""
    with contextlib.closing(connected(mariadb)) as connection:
        yield connection


def connected(mariadb: servers.MariaDb, **options: Any) -> Any:
    return mariadb.connect(**{"autocommit": False, "client_flag": FOUND_ROWS, **options})


def test_an_older_token_is_refused(first: Any) -> None:
    gate.admit(first, "x", 7)
    gate.admit(first, "x", 7)
    first.commit()
    with pytest.raises(StaleToken):
        gate.admit(first, "x", 6)
    gate.admit(first.cursor(), "x", 8)


def test_who_waited_is_judged_by_what_was_committed(
    first: Any, second: Any, mariadb: servers.MariaDb
) -> None:
    gate.admit(first, "x", 7)
    outcome: list[type[Exception]] = []

    def late() -> None:
        try:
            gate.admit(second, "x", 6)
        except (StaleToken, pymysql.Error) as error:
            outcome.append(type(error))

    waiting = threading.Thread(target=late)
    waiting.start()
    waits = "SELECT count(*) FROM information_schema.innodb_lock_waits"
    assert servers.eventually(lambda: mariadb.one(waits) == 1, 20)
    first.commit()
    waiting.join(20)
    assert outcome == [StaleToken]


def test_autocommit_is_refused_but_for_a_transaction_that_was_begun(mariadb: servers.MariaDb) -> None:
    """The row was locked for as long as the statement took, and a stale holder's write stood."""
    with contextlib.closing(connected(mariadb, autocommit=True)) as connection:
        with pytest.raises(ValueError, match="commits each statement by itself"):
            gate.admit(connection, "x", 5)
        connection.begin()
        gate.admit(connection, "x", 5)
        connection.commit()
    assert mariadb.one("SELECT newest FROM fences") == 5


def test_a_driver_that_counts_what_changed_lets_nobody_in_twice(mariadb: servers.MariaDb) -> None:
    with contextlib.closing(connected(mariadb, client_flag=0)) as connection:
        gate.admit(connection, "x", 5)
        with pytest.raises(ValueError, match="FOUND_ROWS"):
            gate.admit(connection, "x", 5)
