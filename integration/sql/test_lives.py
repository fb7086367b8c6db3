"""What is noted of the server that grants: which one it is, and since when."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy

import recipes
from integration import servers
from integration.needing import needed
from integration.sql.conftest import Connect
from recipes._run.clock import boot_time
from recipes.stores.sql import carrying

Database = servers.Postgres | servers.MariaDb
GRACE_S, SHORT_S, SOON_S, DAY_S = 15.0, 2.0, 60.0, 86_400


def test_a_mariadb_that_takes_over_again_grants_nothing_for_a_while(
    database: Database, tables: str, connect: Connect
) -> None:
    """Another was the primary meanwhile, and no connection has ended: here only the note says so."""
    if database.scheme == "postgresql":
        pytest.skip("a PostgreSQL is started again before it takes over again")
    connection = connect()
    cursor = connection.cursor()
    noted = f"SELECT life FROM {tables}server"
    with recipes.connect(database.url(), tables=tables, restart_grace=GRACE_S) as client:
        client.lock("x").acquire(timeout=20).release()
        cursor.execute(noted)
        before = cursor.fetchall()
        cursor.execute(f"UPDATE {tables}server SET life = 'another'")
        connection.commit()
        with recipes.connect(database.url(), tables=tables, restart_grace=GRACE_S) as other:
            with pytest.raises(recipes.StoreUnavailable, match="restart_grace"):
                other.lock("x").try_acquire()  # by a connection of its own, which notes it once more
            for one in (client, other):
                with pytest.raises(recipes.StoreUnavailable, match="restart_grace"):
                    one.lock("x").try_acquire()
        cursor.execute(noted)
        assert cursor.fetchall() == before


def test_after_a_clock_was_set_back_the_grace_is_waited_for_and_no_longer(
    database: Database, tables: str, connect: Connect
) -> None:
    """A failover was noted while the clock was a day ahead."""
    options = {"tables": tables, "restart_grace": SHORT_S, "session_timeout": SHORT_S}
    with recipes.connect(database.url(), **options) as client:
        client.lock("x").acquire(timeout=20).release()
    connection = connect()
    ahead_us = round((time.time() + DAY_S) * 1e6)
    connection.cursor().execute(f"UPDATE {tables}server SET since_us = {ahead_us}")
    connection.commit()
    with recipes.connect(database.url(), **options) as client:
        began = boot_time()
        with client.lock("x").acquire(timeout=60):
            assert boot_time() - began > SHORT_S - 0.5
        assert client.lock("x").try_acquire() is not None


def test_one_that_stops_as_it_notes_the_server_is_not_waited_for(
    database: Database, tables: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has locked the row that all others look at, on the engine of a user, which has no limits."""
    stopped, go_on, say = threading.Event(), threading.Event(), carrying.said

    def stopping(connection: Any, one: Any) -> Any:
        found = say(connection, one)
        if one.text.startswith(f"UPDATE {tables}server SET life") and not stopped.is_set():
            stopped.set()
            assert go_on.wait(SOON_S)
        return found

    # Nobody hangs up on it meanwhile.
    options: dict[str, Any] = {"tables": tables, "restart_grace": 0}
    options |= {"session_timeout": SOON_S, "request_timeout": SOON_S}
    with recipes.connect(database.url(), **options) as client:
        assert client.lock("x").acquire(timeout=20).release()
    connection = connect()
    connection.cursor().execute(f"UPDATE {tables}server SET life = 'another'")
    connection.commit()
    monkeypatch.setattr(carrying, "said", stopping)
    scheme = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}[database.scheme]
    engine = sqlalchemy.create_engine(database.url().replace(database.scheme, scheme, 1))
    with (
        contextlib.closing(recipes.connect(engine, **options)) as stops,
        contextlib.closing(recipes.connect(database.url(), **options)) as other,
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(lambda: stops.lock("y").acquire(timeout=SOON_S).release())
        try:
            assert stopped.wait(SOON_S)
            assert other.lock("x").acquire(timeout=SOON_S / 2).release()
        finally:
            go_on.set()
        assert first.result(SOON_S)
    engine.dispose()


def test_a_mysql_that_refuses_what_changes_all_rows() -> None:
    """It is told so for each connection, as a careful operator does."""
    careful = {"init-connect": "SET sql_safe_updates=1"}
    with needed("mariadb", lambda: servers.mariadb(settings=careful)) as server:
        options = {"restart_grace": SHORT_S, "session_timeout": SHORT_S, "create_tables": True}
        with recipes.connect(server.url(), **options) as client:
            assert client.lock("x").acquire(timeout=60).release()
        with server.connect() as admin, admin.cursor() as cursor:
            cursor.execute("UPDATE recipes_server SET life = 'another'")
        with recipes.connect(server.url(), **options) as client:
            assert client.lock("x").acquire(timeout=60).release()
        assert server.one("SELECT life <> 'another' FROM recipes_server")


def test_a_postgresql_that_does_not_say_where_its_log_is(postgres: servers.Postgres) -> None:
    """As Aurora does not: it is noted by its start, by each driver as the same."""
    database = f"d{secrets.token_hex(5)}"
    with postgres.connect() as admin:
        admin.execute(f"CREATE DATABASE {database} OWNER app")
    with postgres.connect(database) as admin:
        admin.execute("REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC")
    url = f"postgresql://app:app@{postgres.host}:{postgres.port}/{database}"
    with recipes.connect(url, create_tables=True) as client:
        assert client.lock("x").acquire(timeout=20).release()

    async def main() -> None:
        for driver in ("psycopg", "asyncpg"):
            there = url.replace("postgresql", f"postgresql+{driver}", 1)
            async with recipes.connect_async(there) as client:
                grant = await client.lock("x").try_acquire()
                assert grant is not None, "no server took over"
                assert await grant.release()

    asyncio.run(main())
    with postgres.connect(database) as admin:
        ((life, since_us),) = admin.execute("SELECT life, since_us FROM recipes_server").fetchall()
    assert (life.partition("/")[0], since_us) == ("0", 0)
