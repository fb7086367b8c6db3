"""A transaction of the user's commits only while a grant stands, on real databases."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import recipes
from integration import servers
from integration.sql.places import by_cursor, make_tables, plain
from integration.sql.test_locked import waits
from recipes import sql

Connect = Callable[..., Any]
Database = servers.Postgres | servers.MariaDb


def connected(database: Database, tables: str) -> recipes.Client:
    """Return a client whose renewals are no sooner than what a test does meanwhile."""
    return recipes.connect(database.url(), tables=tables, session_timeout=90, restart_grace=0)


@pytest.fixture
def client(database: Database, tables: str) -> Iterator[recipes.Client]:
    with connected(database, tables) as one:
        yield one


@pytest.fixture
def other(database: Database, tables: str) -> Iterator[recipes.Client]:
    with connected(database, tables) as one:
        yield one


def test_it_passes_while_the_grant_stands(
    client: recipes.Client, other: recipes.Client, connect: Connect
) -> None:
    connection = connect()
    with client.lock("x").acquire(timeout=60) as grant:
        sql.guard(connection, grant)
        sql.guard(connection, grant)
        connection.commit()
    with pytest.raises(recipes.LockLost):
        sql.guard(connection, grant)
    with other.lock("x").acquire(timeout=60), pytest.raises(recipes.LockLost):
        sql.guard(connection, grant)


def test_the_database_knows_before_the_holder_does(
    client: recipes.Client, tables: str, connect: Connect
) -> None:
    """Whether the contender was removed, or the session is over."""
    connection, run = connect(), by_cursor(connect(autocommit=True))
    evicted = client.lock("x").acquire(timeout=60)
    run(f"DELETE FROM {tables}contender WHERE token = %s", evicted.token)
    with pytest.raises(recipes.LockLost, match="contender is gone"):
        sql.guard(connection, evicted)
    connection.rollback()
    expired = client.lock("y").acquire(timeout=60)
    run(f"UPDATE {tables}session SET expires_at = 0")
    with pytest.raises(recipes.LockLost, match="session over"):
        sql.guard(connection, expired)


def test_a_session_that_is_over_is_known_when_others_have_tidied(
    database: Database, client: recipes.Client, other: recipes.Client, tables: str, connect: Connect
) -> None:
    """The next holder has it be dead for good, and the next that opens deletes what was over long ago."""
    connection, run = connect(), by_cursor(connect(autocommit=True))
    grant = client.lock("x").acquire(timeout=60)
    run(
        f"UPDATE {tables}session SET expires_at = {database.now} - 1000 WHERE id = %s", grant._hold.session.id
    )
    assert other.lock("x").acquire(timeout=60).token > grant.token
    run(f"INSERT INTO {tables}buried VALUES ('over', 1)")
    with connected(database, tables) as third:
        third.open()
        assert servers.eventually(lambda: run(f"SELECT count(*) FROM {tables}buried") == [(0,)], 60)
    with pytest.raises(recipes.LockLost, match="session over"):
        sql.guard(connection, grant)


def test_nobody_is_granted_before_a_guarded_transaction_ends(
    client: recipes.Client, other: recipes.Client, tables: str, connect: Connect
) -> None:
    """Even if the session of the one that is guarded is over long ago."""
    connection, run = connect(), by_cursor(connect(autocommit=True))
    grant = client.lock("x").acquire(timeout=60)
    sql.guard(connection, grant)
    run(f"UPDATE {tables}session SET expires_at = 1 WHERE id = %s", grant._hold.session.id)
    assert other.lock("x").try_acquire(timeout=60) is None
    connection.commit()
    assert servers.eventually(lambda: other.lock("x").try_acquire(timeout=60) is not None, 60)


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_that_reads_what_was_there_before_the_last_renewal_is_guarded(
    postgres: servers.Postgres, isolation: str
) -> None:
    """What it reads of the session is out of date. What counts is that the contender is there, and locked."""
    tables = f"t{secrets.token_hex(5)}_"
    make_tables(postgres.url(), tables)
    with (
        connected(postgres, tables) as client,
        connected(postgres, tables) as other,
        contextlib.closing(plain(postgres.url(), isolation)) as connection,
        contextlib.closing(plain(postgres.url(), autocommit=True)) as beside,
    ):
        run = by_cursor(beside)
        grant = client.lock("x").acquire(timeout=60)
        run(f"UPDATE {tables}session SET expires_at = expires_at - 90000000")
        by_cursor(connection)(f"SELECT count(*) FROM {tables}named")  # which fixes what it reads
        run(f"UPDATE {tables}session SET expires_at = expires_at + 90000000")  # as a renewal does
        sql.guard(connection, grant)
        run(f"UPDATE {tables}session SET expires_at = 1 WHERE id = %s", grant._hold.session.id)
        assert other.lock("x").try_acquire(timeout=60) is None, "also if its session is over meanwhile"
        connection.commit()
        assert servers.eventually(lambda: other.lock("x").try_acquire(timeout=60) is not None, 60)


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_the_session_is_renewed_while_a_transaction_is_guarded(
    client: recipes.Client, other: recipes.Client, tables: str, connect: Connect, isolation: str
) -> None:
    """MySQL locks all that a SERIALIZABLE transaction reads: a renewal waited, and the session was lost."""
    connection, run = connect(isolation), by_cursor(connect(autocommit=True))
    grant = client.lock("x").acquire(timeout=60)
    sql.guard(connection, grant)
    run(f"UPDATE {tables}session SET expires_at = expires_at + 1 WHERE id = %s", grant._hold.session.id)
    run(f"UPDATE {tables}session SET expires_at = 1 WHERE id = %s", grant._hold.session.id)
    assert other.lock("x").try_acquire(timeout=60) is None, "not either if its session is over meanwhile"
    connection.commit()
    assert servers.eventually(lambda: other.lock("x").try_acquire(timeout=60) is not None, 60)


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_that_reads_a_contender_that_has_gone_since_is_refused(
    postgres: servers.Postgres, isolation: str
) -> None:
    tables = f"t{secrets.token_hex(5)}_"
    make_tables(postgres.url(), tables)
    with (
        connected(postgres, tables) as client,
        contextlib.closing(plain(postgres.url(), isolation)) as connection,
        contextlib.closing(plain(postgres.url(), autocommit=True)) as beside,
    ):
        grant = client.lock("x").acquire(timeout=60)
        by_cursor(connection)(f"SELECT count(*) FROM {tables}named")
        by_cursor(beside)(f"DELETE FROM {tables}contender WHERE token = %s", grant.token)
        with pytest.raises(psycopg.errors.SerializationFailure):
            sql.guard(connection, grant)


def test_a_release_waits_for_a_guarded_transaction(
    database: Database, client: recipes.Client, other: recipes.Client, connect: Connect
) -> None:
    connection = connect()
    grant = client.lock("x").acquire(timeout=60)
    sql.guard(connection, grant)
    with ThreadPoolExecutor() as pool:
        releasing = pool.submit(grant.release)
        waits(database)
        assert not releasing.done()
        assert other.lock("x").try_acquire(timeout=60) is None
        connection.commit()
        assert releasing.result(60)


@pytest.mark.parametrize(
    "end",
    [
        lambda client, other, grant: grant.release(),
        lambda client, other, grant: grant.downgrade(),
        lambda client, other, grant: other.lock("x").evict(grant.token),
        lambda client, other, grant: client.close(),
    ],
    ids=["release", "downgrade", "evict", "close"],
)
def test_what_waits_for_a_guarded_transaction_keeps_nobody_from_joining(
    mariadb: servers.MariaDb, end: Callable[..., object]
) -> None:
    """Who joins would wait for its lock on the queue, and as MySQL counts that, for as long as it does."""
    tables = f"t{secrets.token_hex(5)}_"
    make_tables(mariadb.url(), tables)
    with (
        connected(mariadb, tables) as client,
        connected(mariadb, tables) as other,
        contextlib.closing(plain(mariadb.url(), "READ COMMITTED")) as connection,
        contextlib.closing(plain(mariadb.url(), autocommit=True)) as beside,
        ThreadPoolExecutor() as pool,
    ):
        assert client.lock("before x").acquire(timeout=60)  # which ends with the client, in one transaction
        grant = client.rwlock("x").writer.acquire(timeout=60)
        sql.guard(connection, grant)
        ending = pool.submit(end, client, other, grant)
        try:
            waits(mariadb)
            assert by_cursor(beside)(f"SELECT name FROM {tables}queue FOR UPDATE NOWAIT")
        finally:
            connection.commit()
        ending.result(60)


def test_a_writers_guard_ends_with_its_downgrade(
    client: recipes.Client, tables: str, connect: Connect
) -> None:
    connection = connect()
    grant = client.rwlock("x").writer.acquire(timeout=60)
    sql.guard(connection, grant)
    connection.commit()
    grant.downgrade()
    sql.guard(connection, grant)  # which says less from here on
    connection.rollback()
    unaware = client.rwlock("y").writer.acquire(timeout=60)
    by_cursor(connection)(f"UPDATE {tables}contender SET mark = 'downgraded'")
    with pytest.raises(recipes.LockLost, match="downgraded"):
        sql.guard(connection, unaware)


def test_it_is_refused_where_it_would_guard_nothing(
    database: Database, client: recipes.Client, tables: str, connect: Connect
) -> None:
    late = connect("REPEATABLE READ")
    by_cursor(late)(f"SELECT count(*) FROM {tables}named")  # which fixes what it reads
    with client.lock("x").acquire(timeout=60) as grant:
        with pytest.raises(recipes.StoreRefused, match="autocommit"):
            sql.guard(connect(autocommit=True), grant)
        with pytest.raises((recipes.LockLost, recipes.StoreRefused, ValueError)):
            sql.guard(late, grant)
        late.rollback()
        sql.guard(late, grant)
        late.rollback()


def test_another_database_is_noticed(
    database: Database, client: recipes.Client, connect: Connect, tables: str
) -> None:
    """It has tables of the same names, and knows neither the grant nor its session."""
    run = by_cursor(connect(autocommit=True))
    grant = client.lock("x").acquire(timeout=60)
    run(f"DELETE FROM {tables}session")
    run(f"DELETE FROM {tables}contender")
    with pytest.raises(ValueError, match="another database"):
        sql.guard(connect(), grant)
