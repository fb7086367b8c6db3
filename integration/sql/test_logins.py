"""Logging in without a password, as the server allows it."""

from __future__ import annotations

import asyncio
import secrets

import recipes
from integration import servers


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
