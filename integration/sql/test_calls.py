"""Acts that are sent to PostgreSQL whole: with each driver, and beside a client whose acts are not."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

import recipes
from integration import servers
from integration.sql.places import make_tables
from recipes.stores.sql import carrying
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


DEFAULTS = {
    "default_transaction_isolation": "serializable",
    "synchronous_commit": "off",
    "lock_timeout": "9s",
}
HOLDS = {"transaction_isolation": "read committed", "synchronous_commit": "on"}


@pytest.fixture
def careless(postgres: servers.Postgres) -> Iterator[str]:
    """Yield a role whose transactions are set up otherwise by default."""
    role = f"r{secrets.token_hex(5)}"
    with postgres.connect(autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
        for name, value in DEFAULTS.items():
            connection.execute(f"ALTER ROLE {role} SET {name} = '{value}'")
        yield role
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Return how each transaction was set up that is one call: asked in the next one of its connection."""
    found: list[dict[str, str]] = []
    say = carrying.said

    def note(connection: Any, one: Any) -> Any:
        rows = say(connection, one)
        if one.text.startswith("SELECT * FROM pg_temp."):
            cursor = connection.connection.cursor()
            found.append({})
            for name in HOLDS:
                cursor.execute(f"SELECT current_setting('{name}')")
                ((found[-1][name],),) = cursor.fetchall()
            cursor.close()
        return rows

    monkeypatch.setattr(carrying, "said", note)
    return found


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_what_is_called_is_set_up_as_a_transaction_is_whatever_the_defaults_are(
    postgres: servers.Postgres, careless: str, set_up: list[dict[str, str]], driver: str
) -> None:
    there = f"postgresql+{driver}://{careless}@{postgres.host}:{postgres.port}/app"
    tables = f"t{secrets.token_hex(5)}_"

    async def main() -> None:
        async with recipes.connect_async(there, tables=tables, create_tables=True) as client:
            for _ in range(OFTEN):
                grant = await client.lock("x").acquire(timeout=20)
                assert await grant.release()

    asyncio.run(main())
    assert set_up
    assert all(one == HOLDS for one in set_up)


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
                return int(grant.token)

        assert asyncio.run(main()) > held.token
        assert one.lock("x").acquire(timeout=20).release()
