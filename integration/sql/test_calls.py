"""Acts that are sent to PostgreSQL whole: with each driver, and beside a client whose acts are not."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

import recipes
from integration import servers
from integration.sql.places import make_tables
from recipes.stores.sql.wire import QUICK_FROM

OFTEN = 4 * QUICK_FROM
MADE = "SELECT count(*) FROM pg_proc WHERE proname ~ '^recipes_[0-9a-f]{24}$'"


@pytest.fixture
def place(postgres: servers.Postgres) -> tuple[str, str]:
    """Return a URL, and what the names of tables begin with that no other test has used."""
    tables = f"t{secrets.token_hex(5)}_"
    make_tables(postgres.url(), tables)
    return postgres.url(), tables


def test_a_client_that_is_used_again_calls_functions_of_its_own(
    postgres: servers.Postgres, place: tuple[str, str]
) -> None:
    url, tables = place
    before = postgres.one(MADE)
    with recipes.connect(url, tables=tables) as client:
        tokens = []
        for _ in range(OFTEN):
            with client.lock("x").acquire(timeout=20) as grant:
                tokens.append(grant.token)
        assert tokens == sorted(set(tokens))
        assert postgres.one(MADE) - before >= 2, "one to take, one to remove"


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_so_does_one_of_asyncio(postgres: servers.Postgres, place: tuple[str, str], driver: str) -> None:
    url, tables = place
    before = postgres.one(MADE)

    async def main() -> None:
        there = url.replace("postgresql", f"postgresql+{driver}", 1)
        async with recipes.connect_async(there, tables=tables) as client:
            for _ in range(OFTEN):
                grant = await client.lock("x").acquire(timeout=20)
                assert await grant.release()
            assert postgres.one(MADE) - before >= 2

    asyncio.run(main())


def test_a_database_that_isolates_more_does_not_isolate_calls(
    postgres: servers.Postgres, place: tuple[str, str]
) -> None:
    """Each statement of a call has to see what was committed while the one before it waited."""
    name = f"isolated_{secrets.token_hex(5)}"
    postgres.ask(f"CREATE DATABASE {name} OWNER app")
    postgres.ask(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    url = urlunsplit(urlsplit(place[0])._replace(path=f"/{name}"))
    make_tables(url, place[1])
    with recipes.connect(url, tables=place[1]) as client:
        for _ in range(OFTEN):
            assert client.lock("x").acquire(timeout=20).release()
        session: Any = client._runtime.state.session
        with session.connection._engine.connect() as connection:
            assert connection.exec_driver_sql(MADE).scalar() >= 2, "it calls"
            said = connection.exec_driver_sql("SHOW default_transaction_isolation").scalar()
    assert said == "read committed"


def test_a_release_in_one_call_wakes_a_waiter_of_another_client(place: tuple[str, str]) -> None:
    url, tables = place
    with recipes.connect(url, tables=tables) as one:
        for _ in range(OFTEN):
            one.lock("x").acquire(timeout=20).release()
        held = one.lock("x").acquire(timeout=20)

        async def main() -> int:
            async with recipes.connect_async(url, tables=tables) as other:
                assert await other.lock("x").try_acquire() is None
                waiting = asyncio.create_task(other.lock("x").acquire(timeout=20))
                while len(await asyncio.to_thread(lambda: one.lock("x").waiters())) == 0:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert await asyncio.to_thread(held.release)
                grant = await waiting
                assert await asyncio.to_thread(one.lock("x").try_acquire) is None
                await grant.release()
                return int(grant.token or 0)

        assert asyncio.run(main()) > (held.token or 0)
        assert one.lock("x").acquire(timeout=20).release()
