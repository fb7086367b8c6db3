"""Logging in without a password, as the server allows it, and past a server that is silent."""

from __future__ import annotations

import asyncio
import secrets
import socket

import pytest

import recipes
from integration import servers
from integration.sql.places import make_tables


def test_a_user_that_the_server_trusts_needs_no_password(postgres: servers.Postgres) -> None:
    url = f"postgresql://postgres@{postgres.host}:{postgres.port}/app"
    tables = f"t{secrets.token_hex(5)}_"
    with recipes.connect(url, tables=tables, create_tables=True) as client:
        assert client.lock("x").acquire(timeout=20).release()

    async def main() -> None:
        for driver in ("psycopg", "asyncpg"):
            there = url.replace("postgresql", f"postgresql+{driver}", 1)
            async with recipes.connect_async(there, tables=tables) as client:
                grant = await client.lock("x").acquire(timeout=20)
                assert await grant.release()

    asyncio.run(main())


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_of_several_servers_the_first_may_be_silent(postgres: servers.Postgres, driver: str) -> None:
    """It accepts connections and says nothing: the next one is asked in time."""
    tables = f"t{secrets.token_hex(5)}_"
    make_tables(postgres.url(), tables)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        places = f"127.0.0.1:{silent.getsockname()[1]},{postgres.host}:{postgres.port}"
        url = f"postgresql+{driver}://postgres@{places}/app"

        async def main() -> None:
            async with recipes.connect_async(url, tables=tables) as client:
                grant = await client.lock("x").acquire(timeout=60)
                assert await grant.release()

        asyncio.run(main())
