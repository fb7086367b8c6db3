"""Engines of SQLAlchemy: those that a client makes for itself, from a URL and options."""

from __future__ import annotations

import asyncio
import os
import ssl
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.util import await_only

from recipes.errors import StoreDenied
from recipes.stores.credentials import Credentials
from recipes.stores.secret import Secret
from recipes.stores.sql.descriptors import guard
from recipes.stores.sql.meaning import code_of
from recipes.stores.streams import told

__all__ = ["IDLE_S", "LOCK_WAIT_S", "PLAIN_MODE", "WORKERS", "Bound", "Driver", "Target", "driver_of"]

LOCK_WAIT_S = 2
"""So long an act waits for a row that somebody else has locked, or a table."""
IDLE_S = 5
"""So long a transaction may stand still before the server ends it: its process was stopped, or cut off."""
PLAIN_MODE = "REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')"
"""The mode in which MySQL reads what asyncmy sends of bytes as those bytes, whatever the server's is."""
CONNECT_S = 5
CONNECT_EACH_S = 2
"""So long one of several servers has to connect; it may be the next one that takes writes."""
STARTING = "57P03"
"""What a PostgreSQL says that starts, or ends."""
WORKERS = 2, 4, 4
"""How many of a blocking client do what is about the session, what joins, and all else.

The second of the session goes on where the first connects to a server that does not answer: until it has
connected, nobody can hang up on it.
"""
MOST_CONNECTIONS = sum(WORKERS) + 1
"""With the one that listens, until it is taken out of the pool."""
ASYNCIO = "sqlalchemy.ext.asyncio"
"""Brings the whole of SQLAlchemy's ORM along: imported only where it is used."""
RECYCLE_S = 30
"""How old a connection to MySQL may become, which ends those that were idle for twice as long."""


@dataclass(frozen=True, slots=True)
class Driver:
    """What speaks to a database.

    Attributes:
        dialect: "postgresql" or "mysql".
        name: As SQLAlchemy has it, and as it is imported.
        package: As it is installed.
        asynchronous: Whether it is for asyncio.
    """

    dialect: str
    name: str
    package: str
    asynchronous: bool

    @property
    def listens(self) -> bool:
        """Whether what the server notifies can be received through it."""
        return self.name in ("psycopg", "asyncpg")


_BLOCKING = {
    "psycopg": Driver("postgresql", "psycopg", "psycopg[binary]", asynchronous=False),
    "pymysql": Driver("mysql", "pymysql", "pymysql", asynchronous=False),
}
_ASYNCIO = {
    "psycopg": Driver("postgresql", "psycopg", "psycopg[binary]", asynchronous=True),
    "asyncpg": Driver("postgresql", "asyncpg", "asyncpg", asynchronous=True),
    "asyncmy": Driver("mysql", "asyncmy", "asyncmy", asynchronous=True),
}


def driver_of(scheme: str, *, asynchronous: bool) -> Driver:
    """Return what a URL with this scheme is spoken to by; imports it, so that no request waits for that.

    Raises:
        ValueError: The driver that it names is not for this API.
        ImportError: It is not installed.
    """
    store, _, name = scheme.partition("+")
    if not name:
        name = "psycopg" if store == "postgresql" else "asyncmy" if asynchronous else "pymysql"
    driver = (_ASYNCIO if asynchronous else _BLOCKING).get(name)
    if driver is None:
        given, wanted = ("asyncio", "connect_async()") if not asynchronous else ("threads", "connect()")
        raise ValueError(f"{scheme}:// is for {given}: use it with {wanted}, or {store}:// here")
    for needed in ("sqlalchemy", driver.name, *(["greenlet"] if asynchronous else [])):
        if find_spec(needed) is None:
            also = " asyncpg" if driver.name == "asyncpg" else ""  # which no extra brings
            raise ImportError(
                f"{scheme}:// needs {needed}: pip install 'coordination-recipes[{driver.dialect}]'{also}",
                name=needed,
            )
    import_module(driver.name)
    import_module(f"sqlalchemy.dialects.{driver.dialect}.{driver.name}")
    if asynchronous:
        import_module(ASYNCIO)
    return driver


@dataclass(frozen=True, slots=True)
class Target:
    """The database that a URL names.

    Attributes:
        label: Where it is, for errors.
        hosts: Its servers; of several the one that takes writes.
        database: Its name.
        credentials: How to log in; None: as the driver does by itself.
        context: What to encrypt with; None: nothing is said about that.
        files: The same as the options say it.
    """

    label: str
    hosts: tuple[tuple[str, int], ...]
    database: str
    credentials: Credentials | None
    context: ssl.SSLContext | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def engine(self, driver: Driver) -> Any:
        """Return a new engine, connected to nothing yet: an `AsyncEngine` for asyncio.

        Its connections are as acts need them.
        """
        url = URL.create(f"{driver.dialect}+{driver.name}")
        options: dict[str, Any] = {
            "isolation_level": "READ COMMITTED",
            "connect_args": _ARGUMENTS[driver.name](self),
            "pool_size": MOST_CONNECTIONS,
            "max_overflow": 0,
            "pool_timeout": CONNECT_S,
            "pool_use_lifo": True,  # what is prepared on a connection serves the next request
            "pool_reset_on_return": None,  # each act ends its transaction
            "hide_parameters": True,
        }
        if driver.dialect == "mysql":
            options["pool_recycle"] = RECYCLE_S
        if driver.asynchronous:
            made: Any = import_module(ASYNCIO).create_async_engine(url, **options)
            engine = made.sync_engine
        else:
            made = engine = create_engine(url, **options)
            guard(engine)
        if self.credentials is not None and self.credentials.source:  # else the driver's way
            event.listen(engine, "do_connect", partial(self._log_in, driver))
        if driver.name == "asyncpg" and len(self.hosts) > 1:
            event.listen(engine, "do_connect", partial(_connect_in_turn, self.hosts))
        if driver.name == "psycopg":
            event.listen(engine, "connect", _drop_notifications)
        if driver.dialect == "mysql":
            event.listen(engine, "connect", _prepare_mysql)
        return made

    def _log_in(self, driver: Driver, dialect: Any, record: Any, args: Any, options: dict[str, Any]) -> None:
        """Fill in the password, asked for anew; before each connection."""
        del dialect, record, args
        assert self.credentials is not None, "there should be somebody to log in as"
        if not driver.asynchronous:
            options["password"] = str(self.credentials.asker.within(self.label, CONNECT_S))
            return
        found: Secret | StoreDenied = await_only(told(partial(self.credentials.asker.ask, self.label)))
        if isinstance(found, StoreDenied):
            raise found
        options["password"] = str(found)

    @property
    def username(self) -> dict[str, str]:
        """Whom to log in as, as the drivers take it."""
        return {} if self.credentials is None else {"user": self.credentials.username}


class Bound:
    """An engine of the user's: its connections belong to one process, and for asyncio to one event loop.

    Args:
        engine: An `Engine`, whose process is the one that gives it; or an `AsyncEngine`, whose loop is the
            first that asks for it.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._known = getattr(engine, "sync_engine", engine)
        self._pid = os.getpid()
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None

    @property
    def asynchronous(self) -> bool:
        """Whether it is an `AsyncEngine`."""
        return self._known is not self._engine

    def here(self) -> Any:
        """Return the engine; elsewhere one that makes its connections as that does, but its own.

        A child that was forked must not send anything on its parent's.
        """
        here = os.getpid() == self._pid
        if not self.asynchronous:
            return self._engine if here else self._like()
        if here and self._in_its_loop():
            return self._engine
        return import_module(ASYNCIO).AsyncEngine(self._like())

    def _in_its_loop(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = weakref.ref(loop)
        return self._loop() is loop

    def _like(self) -> Engine:
        known = self._known
        same = {"execution_options": known.get_execution_options(), "hide_parameters": known.hide_parameters}
        return Engine(known.pool.recreate(), known.dialect, known.url, **same)


def _of_psycopg(target: Target) -> dict[str, Any]:
    names = {"tls_ca": "sslrootcert", "tls_cert": "sslcert", "tls_key": "sslkey"}
    encrypted: dict[str, str] = {}
    if target.context is not None:
        files = {names[one]: path for one, path in target.files.items()}
        if "sslcert" in files:
            files.setdefault("sslkey", files["sslcert"])
        encrypted = {"sslmode": "verify-full", "sslrootcert": "system", **files}
    hosts, ports = zip(*target.hosts, strict=True)
    return {
        "host": ",".join(hosts),
        "port": ",".join(map(str, ports)),
        "dbname": target.database,
        **({"target_session_attrs": "read-write"} if len(hosts) > 1 else {}),
        "connect_timeout": CONNECT_S if len(hosts) == 1 else CONNECT_EACH_S,
        "application_name": "recipes",
        "client_encoding": "utf8",  # of a database in SQL_ASCII psycopg would return bytes
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 20_000,
        "prepare_threshold": None,  # a proxy may give each transaction another connection
        **encrypted,
        **target.username,
    }


def _of_asyncpg(target: Target) -> dict[str, Any]:
    host, port = target.hosts[0]
    several = len(target.hosts) > 1
    return {
        "host": host,
        "port": port,
        "database": target.database,
        **({"target_session_attrs": "read-write"} if several else {}),
        "timeout": CONNECT_EACH_S if several else CONNECT_S,
        "server_settings": {"application_name": "recipes"},
        **({} if target.context is None else {"ssl": target.context}),
        **target.username,
    }


def _connect_in_turn(
    hosts: tuple[tuple[str, int], ...], dialect: Any, record: Any, args: Any, options: dict[str, Any]
) -> Any:
    """Connect to the first server that takes writes; each has a time of its own.

    asyncpg has one time for all of them: a server that is silent would use it up.
    """
    del record
    *others, last = ({**options, "host": host, "port": port} for host, port in hosts)
    for one in others:
        try:
            return dialect.connect(*args, **one)
        except Exception as error:
            if not _may_do_elsewhere(error):
                raise
    return dialect.connect(*args, **last)


def _may_do_elsewhere(error: Exception) -> bool:
    """Whether another server may take writes: this one is silent, away, starting, or a standby."""
    standby: type[Exception] = import_module("asyncpg").TargetServerAttributeNotMatched
    known = error, error.__cause__  # SQLAlchemy wraps some
    return any(isinstance(one, (OSError, standby)) or code_of(one) == STARTING for one in known)


def _of_mysql(target: Target, *, database: str = "database") -> dict[str, Any]:
    ((host, port),) = target.hosts
    return {
        "host": host,
        "port": port,
        database: target.database,
        "connect_timeout": CONNECT_S,
        "charset": "utf8mb4",
        **({} if target.context is None else {"ssl": target.context}),
        **target.username,
    }


def _of_pymysql(target: Target) -> dict[str, Any]:
    """Bound what the server says first too: its time to connect ends before that."""
    return {**_of_mysql(target), "read_timeout": CONNECT_S}


_ARGUMENTS: dict[str, Callable[[Target], dict[str, Any]]] = {
    "psycopg": _of_psycopg,
    "asyncpg": _of_asyncpg,
    "pymysql": _of_pymysql,
    "asyncmy": _of_mysql,
}


def _drop_notifications(connection: Any, record: Any) -> None:
    """Have psycopg keep nothing of what is notified; asyncpg does not.

    Behind a proxy a LISTEN is left on a connection that is lent to others. What listens reads by itself.
    """
    del connection
    record.driver_connection.add_notify_handler(lambda _: None)


def _prepare_mysql(connection: Any, record: Any) -> None:
    """Have the server read bytes as they are, and end what stands still: MariaDB soon, MySQL later."""
    del record
    cursor = connection.cursor()
    cursor.execute("SELECT VERSION()")
    ((version,),) = cursor.fetchall()
    ends = f", idle_transaction_timeout = {IDLE_S}" if "MariaDB" in version else ""
    said = f"innodb_lock_wait_timeout = {LOCK_WAIT_S}, lock_wait_timeout = {LOCK_WAIT_S}"
    said += f", wait_timeout = {2 * RECYCLE_S}{ends}, sql_mode = {PLAIN_MODE}"
    cursor.execute(f"SET SESSION {said}")
    cursor.close()
    connection.commit()
    if hasattr(connection, "_read_timeout"):  # PyMySQL's: from here on each request has a time of its own
        connection._read_timeout = None  # noqa: SLF001 - it takes no other way
