"""Clients that are closed: in time, with no task, thread or connection left, whatever the server does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

import recipes
from integration import servers
from integration.harness.process import eventually
from tests.pace import taking

Database = servers.Postgres | servers.MariaDb

CLOSED_S = 5.0
"""As `Client.close` promises."""
SOON_S = 30.0
ASYNCIO = {"postgresql": ("psycopg", "asyncpg"), "mysql": ("asyncmy",)}
CLIENTS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'recipes'",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE command = 'Sleep'",
}
Happens = Callable[[Database], object]


def by_driver(database: Database, number: int) -> str:
    """Return the URL that names this one of the drivers for asyncio; skips if there is none."""
    drivers = ASYNCIO[database.scheme]
    if number == len(drivers):
        pytest.skip("there is one driver for asyncio")
    return database.url().replace(database.scheme, f"{database.scheme}+{drivers[number]}", 1)


def nothing(_: Database) -> None:
    """All is well."""


def falls_silent(database: Database) -> None:
    """The server answers nothing any more."""
    database.pause()


def hangs_up(database: Database) -> None:
    """The connections are ended, and made anew as the client is closed."""
    database.terminate()


HAPPENS = pytest.mark.parametrize("happens", [nothing, falls_silent, hangs_up])


def connected(database: Database) -> int:
    """Return how many connections of clients the server has."""
    return int(database.one(CLIENTS[database.scheme]))


@pytest.mark.parametrize("driver", [0, 1])
@HAPPENS
def test_one_of_asyncio(database: Database, tables: str, driver: int, happens: Happens) -> None:
    url = by_driver(database, driver)
    before, said = connected(database), list[str]()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: said.append(str(context["message"])))

    async def begin() -> tuple[Any, asyncio.Task[Any]]:
        client = recipes.connect_async(url, tables=tables, session_timeout=20, request_timeout=10)
        await client.lock("x").acquire(timeout=SOON_S)
        waiting = asyncio.create_task(client.lock("x").acquire())
        while not await client.lock("x").waiters():  # noqa: ASYNC110
            await asyncio.sleep(0)
        return client, waiting

    client, waiting = loop.run_until_complete(begin())
    happens(database)
    left = end(loop, client, waiting)
    del client, waiting, loop
    gc.collect()
    database.resume()
    assert not left
    assert not said, "as of a task that is destroyed"
    assert eventually(lambda: connected(database) <= before, SOON_S)


@pytest.mark.parametrize("driver", [0, 1])
def test_one_of_asyncio_whose_session_has_not_begun(database: Database, tables: str, driver: int) -> None:
    url = by_driver(database, driver)
    before, said = connected(database), list[str]()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: said.append(str(context["message"])))
    database.pause()

    async def begin() -> tuple[Any, asyncio.Task[Any]]:
        client = recipes.connect_async(url, tables=tables, session_timeout=20, request_timeout=10)
        opening = asyncio.create_task(client.open())
        while len(asyncio.all_tasks()) < 4:  # noqa: ASYNC110 - this one, that one, and two of the client's
            await asyncio.sleep(0)
        return client, opening

    client, opening = loop.run_until_complete(begin())
    left = end(loop, client, opening)
    del client, opening, loop
    gc.collect()
    database.resume()
    assert not left
    assert not said
    assert eventually(lambda: connected(database) <= before, SOON_S)


def end(loop: asyncio.AbstractEventLoop, client: Any, calling: asyncio.Task[Any]) -> list[str]:
    """Close a client and the loop; return which tasks it has left."""

    async def close() -> list[str]:
        await client.close()
        return [str(one) for one in asyncio.all_tasks() - {calling, asyncio.current_task()}]

    with taking(CLOSED_S):
        left = loop.run_until_complete(close())
    with contextlib.suppress(recipes.RecipesError):
        loop.run_until_complete(calling)
    left += [str(one) for one in asyncio.all_tasks(loop)]
    loop.close()
    return left


@HAPPENS
def test_a_blocking_one(database: Database, tables: str, happens: Happens) -> None:
    before, threads = connected(database), set(threading.enumerate())
    client = recipes.connect(database.url(), tables=tables, session_timeout=20, request_timeout=10)
    client.lock("x").acquire(timeout=SOON_S)

    def wait() -> None:
        with contextlib.suppress(recipes.RecipesError):
            client.lock("x").acquire()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert eventually(lambda: bool(client.lock("x").waiters()), SOON_S)
    happens(database)
    with taking(CLOSED_S):
        client.close()
    waiting.join(SOON_S)
    database.resume()
    assert eventually(lambda: not set(threading.enumerate()) - threads, SOON_S)
    assert eventually(lambda: connected(database) <= before, SOON_S)


@pytest.mark.long  # until its threads have given up
def test_a_blocking_one_whose_session_has_not_begun(database: Database, tables: str) -> None:
    before, threads = connected(database), set(threading.enumerate())
    database.pause()
    client = recipes.connect(database.url(), tables=tables, session_timeout=20, request_timeout=10)

    def open_session() -> None:
        with contextlib.suppress(recipes.RecipesError):
            client.open()

    opening = threading.Thread(target=open_session)
    opening.start()
    assert eventually(lambda: any(one.name == "recipes-sql" for one in threading.enumerate()), SOON_S)
    with taking(CLOSED_S):
        client.close()
    opening.join(SOON_S)
    assert eventually(lambda: not set(threading.enumerate()) - threads, SOON_S)
    database.resume()
    assert eventually(lambda: connected(database) <= before, SOON_S)
