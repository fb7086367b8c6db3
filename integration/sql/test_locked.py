"""A name is locked in a transaction of the user's, on real databases."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import psycopg
import pymysql
import pytest

import recipes
from integration import servers
from integration.needing import needed
from integration.sql.places import by_cursor, make_tables, plain
from recipes import sql
from recipes._run.clock import boot_time
from recipes.stores.sql import inside
from tests.pace import Pace

Connect = Callable[..., Any]
Database = servers.Postgres | servers.MariaDb
SOON_S = 0.3


def waits(database: Database, count: int = 1, of: int | None = None) -> None:
    """Wait until so many transactions wait for a lock; on PostgreSQL, of one process alone."""
    asked = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        if isinstance(database, servers.Postgres)
        else "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    )
    if of is not None:
        asked += f" AND pid = {of}"
    assert servers.eventually(lambda: database.one(asked) >= count, 60, every_s=0.01)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as one:
        yield one


def test_it_is_held_until_the_transaction_ends(
    database: Database, tables: str, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    first, second = connect(), connect()
    one = sql.locked(first, "a b/é", tables=tables)
    waiting = pool.submit(sql.locked, second, "a b/é", timeout=60, tables=tables)
    waits(database)
    assert sql.locked(first, "a b/é", tables=tables) > one, "it may be locked again"
    assert sql.locked(connect(), "another", nowait=True, tables=tables)
    first.commit()
    assert waiting.result(60) > one


def test_tokens_rise_by_the_clock_that_is_read_behind_the_wait(
    database: Database, tables: str, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    first, second = connect(), connect()
    sql.locked(first, "x", tables=tables)
    waiting = pool.submit(sql.locked, second, "x", timeout=60, tables=tables)
    waits(database)
    later = sql.locked(first, "x", tables=tables)
    first.rollback()  # and so is its token
    assert waiting.result(60) > later


@pytest.mark.parametrize("limit", [{"nowait": True}, {"timeout": 0}, {"timeout": SOON_S}])
def test_it_times_out_and_the_transaction_goes_on(
    database: Database, tables: str, connect: Connect, limit: dict[str, Any]
) -> None:
    first, second = connect(), connect()
    sql.locked(first, "x", tables=tables)
    token = sql.locked(second, "kept", tables=tables)
    before = limits(database, second)
    begun = time.monotonic()
    with pytest.raises(recipes.LockTimeout) as caught:
        sql.locked(second, "x", tables=tables, **limit)
    assert time.monotonic() - begun >= limit.get("timeout", 0)
    assert isinstance(caught.value, TimeoutError)
    first.commit()
    assert sql.locked(second, "x", tables=tables, **limit), "the transaction can go on"
    assert limits(database, second) == before
    second.commit()
    assert by_cursor(second)(f"SELECT token FROM {tables}named WHERE name = 'kept'") == [(token,)]


@pytest.mark.parametrize("limit", [{"nowait": True}, {"timeout": SOON_S}], ids=["nowait", "timeout"])
def test_where_a_wait_undoes_the_whole_transaction_it_is_no_timeout(
    undoing: servers.MariaDb, limit: dict[str, Any]
) -> None:
    """What it had locked before is free then.

    MariaDB stops a statement at its time without that, and MySQL one that does not wait at all.
    """
    mysql = isinstance(undoing, servers.MySql)
    undone = ("timeout" in limit) == mysql
    at_once = recipes.LockTimeout if mysql else pymysql.OperationalError
    with (
        contextlib.closing(plain(undoing.url(), "READ COMMITTED")) as first,
        contextlib.closing(plain(undoing.url(), "READ COMMITTED")) as second,
    ):
        sql.locked(first, "x")
        sql.locked(second, "kept")
        with pytest.raises(pymysql.OperationalError if undone else recipes.LockTimeout):
            sql.locked(second, "x", **limit)
        with contextlib.nullcontext() if undone else pytest.raises(at_once):
            sql.locked(first, "kept", nowait=True)


@pytest.fixture
def undoing() -> Iterator[servers.MariaDb]:
    """Yield a MariaDB, or a MySQL, where a lock that is waited for too long undoes all; it has the tables."""
    said = {"innodb-rollback-on-timeout": "ON"}
    with needed("mariadb", lambda: servers.mariadb(settings=said)) as one:
        make_tables(one.url(), "recipes_")
        yield one


def limits(database: Database, connection: Any) -> list[tuple[Any, ...]]:
    """Return how long a statement of a connection may wait, and how long it may run."""
    if isinstance(database, servers.Postgres):
        said = "current_setting('lock_timeout'), current_setting('statement_timeout')"
    else:
        runs = "max_execution_time" if isinstance(database, servers.MySql) else "max_statement_time"
        said = f"@@innodb_lock_wait_timeout, @@{runs}"
    return by_cursor(connection)(f"SELECT {said}")


def test_the_timeout_is_for_the_whole_wait(
    database: Database, tables: str, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    """However often another transaction is quicker: PostgreSQL's lock_timeout begins anew each time."""
    holder = connect()
    sql.locked(holder, "x", tables=tables)
    over = threading.Event()

    def again_and_again() -> None:
        one = connect()
        while not over.is_set():
            stepped_s = time.time() - boot_time()
            try:
                sql.locked(one, "x", timeout=60, tables=tables)
            except recipes.LockTimeout:  # MariaDB counts by the wall clock, which some machines set ahead
                if time.time() - boot_time() < stepped_s + 1.0:
                    raise
            else:
                time.sleep(0.7)
            finally:
                one.commit()

    others = [pool.submit(again_and_again) for _ in range(4)]
    waits(database)  # MariaDB does not show all that wait for one row
    last = connect()
    with Pace() as pace:
        begun = boot_time()
        waiting = pool.submit(sql.locked, last, "x", timeout=3.0, tables=tables)
        holder.commit()
        try:
            waiting.result(60)
        except recipes.LockTimeout:
            assert boot_time() - begun < 3.0 + 2.0 + pace.late_s(begun)  # the machine may be slow
        finally:
            last.rollback()
            over.set()
            for other in as_completed(others, 70):  # the first that fails may be why others do
                other.result()


def test_what_another_stops_is_no_timeout(postgres: servers.Postgres, pool: ThreadPoolExecutor) -> None:
    """Neither the user's own statement_timeout, if it is shorter, nor a cancellation."""
    with postgres.connect() as admin:
        for statement in sql.schema("postgresql", "stopped_"):
            admin.execute(statement)
        admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
    with psycopg.connect(postgres.url()) as first, psycopg.connect(postgres.url()) as second:
        sql.locked(first, "x", tables="stopped_")
        second.execute("SET LOCAL statement_timeout = '100ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            sql.locked(second, "x", timeout=60, tables="stopped_")
        second.rollback()
        waiting = pool.submit(sql.locked, second, "x", timeout=60, tables="stopped_")
        waits(postgres, of=second.info.backend_pid)  # in its savepoint, and not before
        second.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            waiting.result(60)
        assert second.execute("SELECT 1").fetchone() == (1,), "the transaction can go on"


def test_it_is_refused_where_nothing_would_be_locked(tables: str, connect: Connect) -> None:
    with pytest.raises(recipes.StoreRefused, match="autocommit"):
        sql.locked(connect(autocommit=True), "x", tables=tables)
    with pytest.raises(recipes.StoreRefused, match="tables are missing"):
        sql.locked(connect(), "x", tables="none_")


def test_repeatable_read_works_or_is_refused(
    database: Database, tables: str, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    """What is read under the lock is never what was there before it."""
    run = by_cursor(connect())
    run(f"SELECT token FROM {tables}named")
    early = connect("REPEATABLE READ")
    assert sql.locked(early, "first", tables=tables), "it begins the transaction"
    early.commit()
    by_cursor(early)(f"SELECT count(*) FROM {tables}named")  # which fixes what it reads
    other = connect()
    sql.locked(other, "x", tables=tables)
    other.commit()
    if isinstance(database, servers.Postgres):
        with pytest.raises(psycopg.errors.SerializationFailure):
            sql.locked(early, "x", tables=tables)
    else:
        with pytest.raises(recipes.StoreRefused, match="READ COMMITTED"):
            sql.locked(early, "x", tables=tables)
    early.rollback()
    assert sql.locked(early, "x", tables=tables)


def test_what_mysql_lacks_of_mariadb_is_done_without(
    mariadb: servers.MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a MariaDB in the place of a MySQL."""
    monkeypatch.setattr(inside, "MARIADB", "none is that")
    with mariadb.connect() as admin:
        for statement in sql.schema("mysql", "plain_"):
            by_cursor(admin)(statement)
    with mariadb.connect(autocommit=False) as first, mariadb.connect(autocommit=False) as second:
        run = by_cursor(second)
        run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        before = limits(mariadb, second)
        sql.locked(first, "x", tables="plain_")
        for limit in ({"nowait": True}, {"timeout": 0.2}):
            with pytest.raises(recipes.LockTimeout):
                sql.locked(second, "x", tables="plain_", **limit)
        first.commit()
        assert sql.locked(second, "x", nowait=True, tables="plain_")
        assert sql.locked(second, "x", timeout=3, tables="plain_")
        assert limits(mariadb, second) == before


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_two_that_do_not_wait_for_names_that_are_new_do_not_meet(
    mariadb: servers.MariaDb, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """With a MariaDB in the place of a MySQL. What looks for a row that is not there may lock the gap."""
    monkeypatch.setattr(inside, "MARIADB", "none is that")
    tables = f"t{secrets.token_hex(5)}_"
    make_tables(mariadb.url(), tables)
    with mariadb.connect(autocommit=False) as first, mariadb.connect(autocommit=False) as second:
        for connection in (first, second):
            by_cursor(connection)(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        assert sql.locked(first, "order/1", nowait=True, tables=tables)
        assert sql.locked(second, "order/2", nowait=True, tables=tables)


def test_it_excludes_with_select_for_update_both_ways(
    database: Database, tables: str, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    ours, theirs = connect(), connect()
    sql.locked(ours, "orders/7", tables=tables)
    ours.commit()
    row = f"SELECT token FROM {tables}named WHERE name = 'orders/7' FOR UPDATE"
    sql.locked(ours, "orders/7", tables=tables)
    waiting = pool.submit(by_cursor(theirs), row)
    waits(database)
    ours.commit()
    assert waiting.result(60)
    with pytest.raises(recipes.LockTimeout):
        sql.locked(ours, "orders/7", nowait=True, tables=tables)
    mine = pool.submit(sql.locked, ours, "orders/7", timeout=60, tables=tables)
    waits(database)
    theirs.commit()
    assert mine.result(60)
