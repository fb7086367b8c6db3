"""What the user's pool lends comes back: after calls that are cancelled, and in its own modes."""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine

import recipes
from integration import servers
from integration.sql.places import make_tables
from integration.sql.test_closing import by_driver

Database = servers.Postgres | servers.MariaDb

CONNECTIONS, CALLS, LATEST_S, SOON_S = 3, 150, 0.03, 60.0


@pytest.mark.parametrize("driver", [0, 1])
def test_a_call_that_is_cancelled_takes_no_place(database: Database, tables: str, driver: int) -> None:
    url = by_driver(database, driver)
    options = {"tables": tables, "session_timeout": SOON_S, "restart_grace": SOON_S}
    moments = random.Random(7)

    async def main() -> None:
        engine = create_async_engine(url, pool_size=CONNECTIONS, max_overflow=0)
        async with (
            recipes.connect_async(database.url(), **options) as other,
            other.lock("x"),
            recipes.connect_async(engine, **options) as client,
        ):
            for _ in range(CALLS):
                trying = asyncio.create_task(client.lock("x").acquire())
                await asyncio.sleep(moments.uniform(0, LATEST_S))
                trying.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await trying
            assert await client.lock("y").acquire(timeout=SOON_S)
        async with asyncio.timeout(SOON_S):
            while engine.pool.checkedout():  # type: ignore[attr-defined]  # noqa: ASYNC110 - it says nothing
                await asyncio.sleep(0.01)
        await engine.dispose()

    asyncio.run(main())


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("isolation", [None, psycopg.IsolationLevel.SERIALIZABLE])
def test_the_users_connection_goes_back_in_its_own_modes(
    postgres: servers.Postgres, commits: bool, isolation: psycopg.IsolationLevel | None
) -> None:
    """Where it had committed by itself, what the user wrote was rolled back as it was returned."""
    postgres.resume()
    postgres.start()
    prefix = f"t{secrets.token_hex(5)}_"
    make_tables(postgres.url(), prefix)
    place = postgres.url().replace("postgresql", "postgresql+psycopg", 1)
    engine = create_engine(place, pool_size=1, max_overflow=0, connect_args={"autocommit": commits})

    @event.listens_for(engine, "connect")
    def set_level(driver: Any, record: Any) -> None:
        del record
        driver.isolation_level = isolation

    @event.listens_for(engine, "checkout")
    def begin(driver: Any, record: Any, lent: Any) -> None:
        del record, lent
        driver.execute("SET application_name = 'theirs'")  # which begins a transaction, unless it commits

    with recipes.connect(engine, tables=prefix) as client:
        client.lock("x").acquire(timeout=SOON_S).release()
        value = client.value("v")
        value.set(b"1")
        assert value.get().data == b"1"
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            assert (driver.autocommit, driver.isolation_level) == (commits, isolation)
            assert connection.execute(text("SHOW application_name")).scalar_one() == "theirs"
        assert client.lock("x").acquire(timeout=SOON_S).verify()
    engine.dispose()
