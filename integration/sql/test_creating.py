"""Tables are made at first use, whatever is there already, and whoever else makes them."""

from __future__ import annotations

import asyncio
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import recipes
from integration import servers
from integration.needing import needed
from integration.sql.conftest import Connect
from integration.sql.places import by_cursor

Database = servers.Postgres | servers.MariaDb

OPENERS, SOON_S = 8, 60.0


@pytest.fixture
def fresh() -> str:
    """Return what the names of tables begin with that are not there."""
    return f"t{secrets.token_hex(5)}_"


def works(database: Database, tables: str, layout: str | None = None) -> bool:
    with recipes.connect(database.url(), tables=tables, create_tables=True, layout=layout) as client:
        return client.lock(f"x{secrets.token_hex(5)}").acquire(timeout=SOON_S).release()


def test_several_may_come_first(database: Database, fresh: str) -> None:
    together = threading.Barrier(OPENERS)

    def come(_: int) -> bool:
        together.wait(SOON_S)
        return works(database, fresh)

    with ThreadPoolExecutor(OPENERS) as pool:
        assert all(pool.map(come, range(OPENERS)))


def test_what_was_made_half_is_made_whole(database: Database, tables: str, connect: Connect) -> None:
    connection = connect()
    run = by_cursor(connection)
    for table in ("session", "buried"):
        run(f"DROP TABLE {tables}{table}")
        connection.commit()
        assert works(database, tables)


def test_one_layout_may_come_after_the_other(database: Database, fresh: str) -> None:
    assert works(database, fresh, "shedlock")
    assert works(database, fresh)


def test_the_database_may_have_no_encoding(postgres: servers.Postgres) -> None:
    database = f"d{secrets.token_hex(5)}"
    with postgres.connect() as admin:
        admin.execute(f"CREATE DATABASE {database} OWNER app ENCODING 'SQL_ASCII' TEMPLATE template0")
    url = f"postgresql://app:app@{postgres.host}:{postgres.port}/{database}"
    with recipes.connect(url, create_tables=True, owner="é") as client:
        grant = client.lock("x é").acquire(timeout=SOON_S)
        assert [one.owner for one in client.lock("x é").holders()] == ["é"]
        assert grant.release()

    async def main() -> None:
        for driver in ("psycopg", "asyncpg"):
            there = url.replace("postgresql", f"postgresql+{driver}", 1)
            async with recipes.connect_async(there) as client:
                grant = await client.lock("x é").acquire(timeout=SOON_S)
                assert await grant.release()

    asyncio.run(main())


def test_a_mysql_may_give_a_default_to_the_first_time_of_a_table_only(fresh: str) -> None:
    settings = {"explicit-defaults-for-timestamp": "OFF", "sql-mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE"}
    with needed("mariadb", lambda: servers.mariadb(settings=settings)) as server:
        assert works(server, fresh, "shedlock")
