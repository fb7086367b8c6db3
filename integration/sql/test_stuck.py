"""A holder whose event loop is blocked, by drivers that have no blocking way: ``max_hold`` takes back."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

import recipes
from integration import servers
from integration.sql.test_closing import by_driver
from recipes._run.clock import boot_time

Database = servers.Postgres | servers.MariaDb

MAX_HOLD_S, SESSION_S, SOON_S = 1.0, 60.0, 20.0
"""A session that ends by itself would end too late."""

pytestmark = pytest.mark.filterwarnings("ignore:a blocking client of:RuntimeWarning")
"""They block the loop on purpose."""


@pytest.mark.parametrize("driver", [0, 1])
@pytest.mark.parametrize("of", ["a URL", "an engine"])
def test_the_lock_of_a_blocked_loop_is_taken_back(
    database: Database, tables: str, driver: int, of: str
) -> None:
    url = by_driver(database, driver)
    options: dict[str, Any] = {"tables": tables, "session_timeout": SESSION_S, "restart_grace": SESSION_S}

    async def main() -> None:
        engine = create_async_engine(url)
        async with recipes.connect_async(url if of == "a URL" else engine, **options) as client:
            grant = await client.lock("x", max_hold=MAX_HOLD_S).acquire(timeout=SOON_S)
            plain = await client.lock("y").acquire(timeout=SOON_S)
            began = boot_time()
            with recipes.connect(database.url(), **options) as other:
                assert other.lock("x").acquire(timeout=SOON_S).token > grant.token
                assert boot_time() - began > MAX_HOLD_S / 2
            assert not grant.held
            assert await grant.lost.wait(SOON_S)
            assert await plain.verify(), "the session goes on"
        await engine.dispose()

    asyncio.run(main())
    gc.collect()  # a connection that was left would warn
