"""Clients of databases with which a test may do what it likes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from integration import servers
from integration.faults.actors import APIS, Actor, actor
from integration.harness.process import eventually
from integration.needing import needed
from integration.opening import open_patiently
from integration.proxy import Proxy
from integration.stores import make_tables

SESSION_S = 3.0
REQUEST_S = 2.0
GRACE_S = 5.0
PATIENT: dict[str, Any] = {"session_timeout": 30.0, "request_timeout": 10.0}
"""For clients that should lose nothing, however busy the machine is."""
SOON_S = 30.0

MAKE: dict[str, Callable[..., servers.Database]] = {"postgres": servers.postgres, "mariadb": servers.mariadb}
BLOCKING = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
ASYNCIO = {"postgresql": "postgresql+psycopg", "mysql": "mysql+asyncmy"}


class Lab:
    """One database, a proxy before it, and what makes clients.

    Clients agree about ``restart_grace`` by their tables, so each length has tables of its own.

    Attributes:
        name: A name for a lock.
        server: The database.
        api: "blocking" or "asyncio".
        prefix: The path of the URLs behind the database.
        url: Of a client.
    """

    name = "nightly"

    def __init__(self, server: Any, api: str, prefix: str) -> None:
        self.server, self.api, self.prefix = server, api, prefix
        self.url: str = server.url(prefix)
        self._open = contextlib.ExitStack()

    @property
    def notifies(self) -> bool:
        """Whether the server notifies its waiters."""
        return self.server.scheme == "postgresql"

    def client(self, place: Any = None, **options: Any) -> Actor:
        """Return a client, of the server, or of a URL or an engine; its session has begun."""
        given = {"session_timeout": SESSION_S, "request_timeout": REQUEST_S, **options}
        grace_s = given.setdefault("restart_grace", max(GRACE_S, given["session_timeout"]))
        if grace_s is not None:
            given.setdefault("tables", tables_of(grace_s))
        given.setdefault("create_tables", True)
        if place is not None and not isinstance(place, str):
            given["root"] = self.prefix
        one = actor(self.api, self.url if place is None else place, **given)
        self._open.callback(one.close)
        if place is not None and not isinstance(place, str):
            self._open.callback(lambda: one.call(place.dispose))
            self._open.callback(lambda: one.call(one.client.close))
        open_patiently(one)
        return one

    def engine(self, **options: Any) -> Any:
        """Return an engine of the user's, for one client, with which it ends; `sync` has its events."""
        url = self.server.url()
        scheme = (BLOCKING if self.api == "blocking" else ASYNCIO)[self.server.scheme]
        make = sqlalchemy.create_engine if self.api == "blocking" else create_async_engine
        return make(url.replace(self.server.scheme, scheme, 1), **options)

    def plain(self, **options: Any) -> sqlalchemy.Engine:
        """Return a blocking engine, for what the test itself does; disposed of when it ends."""
        url = self.server.url().replace(self.server.scheme, BLOCKING[self.server.scheme], 1)
        made = sqlalchemy.create_engine(url, **options)
        self._open.callback(made.dispose)
        return made

    def proxy(self) -> Proxy:
        """Return a proxy before the server."""
        return self._open.enter_context(Proxy.of(self.server))

    def contenders(self, grace_s: float = GRACE_S) -> tuple[str, ...]:
        """Return the contenders, as the server has them."""
        found: tuple[str, ...] = self.server.contenders(self.prefix, tables=tables_of(grace_s))
        return found

    def contenders_become(self, count: int, grace_s: float = GRACE_S) -> bool:
        """Wait until there are so many."""
        return eventually(lambda: len(self.contenders(grace_s)) == count, SOON_S)

    def close(self) -> None:
        """Close all clients."""
        self._open.close()


def tables_of(grace_s: float) -> str:
    """Return what the tables of clients with this grace begin with."""
    return f"faults_{grace_s:g}_"


def sync(engine: Any) -> sqlalchemy.Engine:
    """Return the engine that has the events, of an engine of either API."""
    found: sqlalchemy.Engine = getattr(engine, "sync_engine", engine)
    return found


@pytest.fixture(scope="session", params=list(MAKE))
def database(request: pytest.FixtureRequest) -> Iterator[servers.Database]:
    """Yield a database that keeps what was committed; every test leaves it running."""
    with needed(request.param, lambda: MAKE[request.param](keeps=True)) as one:
        make_tables(one)
        yield one


@pytest.fixture(params=APIS)
def lab(request: pytest.FixtureRequest, database: servers.Database, prefix: str) -> Iterator[Lab]:
    """Yield clients of the database, for each API in turn."""
    one = Lab(database, request.param, prefix)
    try:
        yield one
    finally:
        database.resume()
        database.start()
        one.close()
