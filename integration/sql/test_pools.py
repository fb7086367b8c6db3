"""Calls that are cancelled leave the pool of the user's engine as it was."""

from __future__ import annotations

import asyncio
import random

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

import recipes
from integration import servers
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
