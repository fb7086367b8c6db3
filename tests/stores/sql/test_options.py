"""Options that a database's driver takes, or does not."""

from __future__ import annotations

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.pq.misc import PGnotify
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine

import recipes
from recipes.stores.credentials import Credentials
from recipes.stores.sql import backend_of_engine
from recipes.stores.sql.blocking import SqlConnection
from recipes.stores.sql.engines import PLAIN_MODE, Target, _drop_notifications, _prepare_mysql, driver_of


@pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])
def test_psycopg_is_given_files_and_no_context(connect: Any) -> None:
    with pytest.raises(ValueError, match=r"ssl_context= is nothing to psycopg.*tls_ca=.*postgresql\+asyncpg"):
        connect("postgresql://host/app", ssl_context=ssl.create_default_context())


@pytest.mark.parametrize(
    ("connect", "scheme"),
    [
        (recipes.connect_async, "postgresql+asyncpg"),
        (recipes.connect_async, "mysql"),
        (recipes.connect, "mysql"),
    ],
)
def test_other_drivers_are_given_a_context(connect: Any, scheme: str) -> None:
    connect(f"{scheme}://host/app", ssl_context=ssl.create_default_context())


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_user_needs_no_password(scheme: str) -> None:
    recipes.connect(f"{scheme}://app@host/app")
    known = Credentials.given(scheme, {"username": "app"}, passwordless=True)
    assert known is not None
    assert (known.username, bool(known.source)) == ("app", False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"password": "x"}, "username= is missing"),
        ({"username": "app", "password": ""}, "password= is empty"),
        ({"username": ""}, "username= is empty"),
    ],
)
def test_a_password_needs_a_user_and_an_empty_one_is_none(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Credentials.given("postgresql", options, passwordless=True)


class Refused(Exception):
    """What an engine is made to raise where it would connect."""


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionRefusedError(),
        asyncpg.TargetServerAttributeNotMatched("said"),
        asyncpg.CannotConnectNowError("said"),
    ],
)
def test_each_of_several_servers_has_a_time_of_its_own(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The first is silent, and the second is asked for all that; asyncpg has one time for all."""
    asked: list[tuple[Any, ...]] = []

    async def connect(*, host: str, port: int, timeout: float, target_session_attrs: str, **_: Any) -> None:
        asked.append((host, port, timeout, target_session_attrs))
        if host == "one":
            raise error from asyncio.CancelledError()  # as of a time that is over
        raise Refused

    monkeypatch.setattr(asyncpg, "connect", connect)
    target = Target("label", (("one", 1), ("two", 2), ("three", 3)), "app", None)
    engine = target.engine(driver_of("postgresql+asyncpg", asynchronous=True))

    async def main() -> None:
        with pytest.raises(Refused):
            await engine.connect()

    asyncio.run(main())
    assert asked == [("one", 1, 2, "read-write"), ("two", 2, 2, "read-write")]


def test_of_several_servers_the_last_one_says_why_none_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*, host: str, **_: Any) -> None:
        raise ConnectionRefusedError(host)

    monkeypatch.setattr(asyncpg, "connect", connect)
    target = Target("label", (("one", 1), ("two", 2)), "app", None)
    engine = target.engine(driver_of("postgresql+asyncpg", asynchronous=True))

    async def main() -> None:
        with pytest.raises(ConnectionRefusedError, match="two"):
            await engine.connect()

    asyncio.run(main())


def test_in_another_loop_the_engine_of_a_user_has_connections_of_its_own() -> None:
    """They are made as its own are, and those are left alone."""
    engine = create_async_engine("postgresql+asyncpg://app@host/app", connect_args={"timeout": 7})
    made, _ = backend_of_engine(engine, {}, asynchronous=True)
    seen: list[dict[str, Any]] = []

    @event.listens_for(engine.sync_engine, "do_connect")
    def refuse(_: Any, record: Any, args: Any, options: dict[str, Any]) -> None:
        seen.append(options)
        raise Refused

    async def here() -> Any:
        found = made.async_connection(print)._engine
        with pytest.raises(Refused):
            await found.connect()
        return found

    assert asyncio.run(here()) is engine
    other = asyncio.run(here())
    assert other.sync_engine.pool is not engine.sync_engine.pool
    assert [(one["user"], one["timeout"]) for one in seen] == [("app", 7)] * 2


def test_in_a_child_the_engine_of_a_user_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its parent are sent nothing: answers would reach the wrong one of the two."""
    engine = create_engine("postgresql+psycopg://app@host/app", pool_size=3)
    made, _ = backend_of_engine(engine, {}, asynchronous=False)

    def disposed(settings: Any) -> list[Any]:
        connection = SqlConnection(settings, print)
        seen: list[Any] = []
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "dispose", lambda made: seen.append(made) or None)
            found = connection._engine
            connection.close()
        assert seen == ([] if found is engine else [found])
        return [found]

    (here,) = disposed(made._settings(asynchronous=False))
    assert here is engine
    monkeypatch.setattr("os.getpid", lambda: -1)
    (child,) = disposed(made._settings(asynchronous=False))
    assert child.pool is not engine.pool
    assert (child.url, child.pool.size()) == (engine.url, 3)


def test_an_engine_of_asyncio_has_no_blocking_way() -> None:
    engine = create_async_engine("mysql+asyncmy://app@host/app")
    made, _ = backend_of_engine(engine, {}, asynchronous=True)
    made.check_api(asynchronous=True)
    with pytest.raises(ValueError, match="other API"):
        made.check_api(asynchronous=False)


@pytest.mark.parametrize("root", ["team#1", "team?1", "te\nam", "te am", "team//1"])
def test_the_root_of_an_engine_is_taken_as_it_is_or_refused(root: str) -> None:
    """What was behind one of the first two was dropped: several applications had their locks in one place."""
    engine = create_engine("postgresql+psycopg://app@host/app")
    with pytest.raises(ValueError, match="A-Z a-z 0-9"):
        recipes.connect(engine, root=root)
    made, _ = backend_of_engine(engine, {"root": "/team/1.a_b-c/"}, asynchronous=False)
    assert made.given.root == "team/1.a_b-c"


def test_psycopg_speaks_utf8_whatever_the_database_is_in() -> None:
    """One in SQL_ASCII answered in bytes, which SQLAlchemy does not understand."""
    engine = Target("label", (("one", 1),), "app", None).engine(driver_of("postgresql", asynchronous=False))
    seen: list[Any] = []

    @event.listens_for(engine, "do_connect")
    def refuse(_: Any, record: Any, args: Any, options: dict[str, Any]) -> None:
        seen.append(options.get("client_encoding"))
        raise Refused

    with pytest.raises(Refused):
        engine.connect()
    assert seen == ["utf8"]


@pytest.mark.parametrize(
    ("version", "ends"), [("8.4.3", ""), ("10.11.6-MariaDB", ", idle_transaction_timeout = 5")]
)
def test_what_is_sent_to_mysql_waits_neither_for_a_row_nor_for_a_table_for_long(
    version: str, ends: str
) -> None:
    asked: list[str] = []
    cursor = SimpleNamespace(execute=asked.append, fetchall=lambda: [(version,)], close=list)
    _prepare_mysql(SimpleNamespace(cursor=lambda: cursor, commit=list), None)
    waits = "innodb_lock_wait_timeout = 2, lock_wait_timeout = 2, wait_timeout = 60"
    assert asked[1:] == [f"SET SESSION {waits}{ends}, sql_mode = {PLAIN_MODE}"]


def test_what_psycopg_is_notified_where_nobody_listens_is_not_kept() -> None:
    """A LISTEN may be left there, behind a proxy that lends connections: what arrived piled up."""
    engine = Target("label", (("one", 1),), "app", None).engine(driver_of("postgresql", asynchronous=False))
    assert event.contains(engine, "connect", _drop_notifications)
    connection = psycopg.Connection[Any](psycopg.pq.PGconn.connect_start(b"host=/nowhere"))
    _drop_notifications(connection, SimpleNamespace(driver_connection=connection))
    assert connection.pgconn.notify_handler is not None
    connection.pgconn.notify_handler(PGnotify(b"recipes_me", 1, b"g"))
    assert not connection._notifies_backlog
