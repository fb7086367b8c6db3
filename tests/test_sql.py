"""Locks and guards in a transaction of the user's: what is said, and on which connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import async_scoped_session
from sqlalchemy.orm import Session, scoped_session

import recipes
from recipes import sql
from recipes.stores.sql.inside import row_of
from recipes.stores.sql.tables import dialect_of

TOKEN = 7


class Refused(Exception):
    """What a driver raises."""

    def __init__(self, code: str | int) -> None:
        super().__init__(*([code] if isinstance(code, int) else []))
        if isinstance(code, str):
            self.sqlstate = code


class Server:
    """Answers as a database would, or refuses what a test says.

    Attributes:
        said: All statements so far.
    """

    def __init__(
        self,
        refuses: dict[str, Any] | None = None,
        *,
        isolation: str = "READ-COMMITTED",
        undoes_all: bool = False,
        version: str = "10.11.19-MariaDB",
    ) -> None:
        self.said: list[str] = []
        self._version = version
        self._refuses, self._isolation, self._undoes_all = refuses or {}, isolation, int(undoes_all)

    def run(self, text: str) -> list[Any]:
        self.said.append(text)
        for begins, error in self._refuses.items():
            if begins in text:
                raise error if isinstance(error, Exception) else Refused(error)
        if "VERSION()" in text:
            return [(self._version, 50, self._isolation, 0.0, self._undoes_all)]
        if "clock_timestamp" in text and text.startswith("SELECT"):
            return [("0", "0", 100.0, "", "")] if "set_config" in text else [(100.5,)]
        return [{"token": TOKEN}] if "_named.token" in text and text.startswith("SELECT") else []


class Cursor:
    """A cursor, for threads and for asyncio."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rows: list[Any] = []
        self.description: Any = None

    def execute(self, text: str, values: Any = None) -> None:
        del values
        self._rows = self._server.run(text)
        self.description = self._rows or None

    def fetchall(self) -> list[Any]:
        return self._rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class AwaitedCursor(Cursor):
    async def execute(self, text: str, values: Any = None) -> None:  # type: ignore[override]
        super().execute(text, values)

    async def fetchall(self) -> list[Any]:  # type: ignore[override]
        return super().fetchall()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Connection:
    """Of a driver."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def cursor(self) -> Cursor:
        return Cursor(self.server)

    def commit(self) -> None:
        raise AssertionError("the transaction should be the user's")


class AwaitedConnection(Connection):
    def cursor(self) -> AwaitedCursor:
        return AwaitedCursor(self.server)

    async def commit(self) -> None:  # type: ignore[override]
        raise AssertionError("the transaction should be the user's")

    async def fetch(self, text: str, *values: Any) -> list[Any]:
        del values
        return self.server.run(text)


class DjangoConnection(Connection):
    vendor, in_atomic_block = "postgresql", True


class AlchemyConnection(Connection):
    """Of SQLAlchemy."""

    dialect = dialect_of("postgresql")
    returns_rows = True

    def execute(self) -> None:
        raise AssertionError("statements should be text")

    def exec_driver_sql(self, text: str, values: Any = None) -> Any:
        cursor = Cursor(self.server)
        cursor.execute(text, values)
        cursor.returns_rows = True  # type: ignore[attr-defined]
        return cursor


class AlchemySession(Connection):
    def execute(self) -> None:
        raise AssertionError("statements should be text")

    def connection(self) -> AlchemyConnection:
        return AlchemyConnection(self.server)


class AwaitedAlchemy(AlchemyConnection):
    async def run_sync(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(AlchemyConnection(self.server), *args)


def of(package: str, kind: type[Connection], **more: Any) -> Callable[[Server], Any]:
    """Return what makes a connection of a package."""
    return type(kind.__name__, (kind,), {"__module__": f"{package}.connection", **more})


BLOCKING: dict[str, Callable[[Server], Any]] = {
    "psycopg": of("psycopg", Connection),
    "psycopg2": of("psycopg2", Connection),
    "pymysql": of("pymysql", Connection),
    "mysqlclient": of("MySQLdb", Connection),
    "django": of("django", DjangoConnection),
    "django-mysql": of("django", DjangoConnection, vendor="mysql"),
    "sqlalchemy": of("sqlalchemy", AlchemyConnection),
    "session": of("sqlalchemy", AlchemySession),
    "registry": lambda server: scoped_session(lambda: BLOCKING["session"](server)),
}
AWAITED: dict[str, Callable[[Server], Any]] = {
    "psycopg": of("psycopg", AwaitedConnection),
    "asyncpg": of("asyncpg", AwaitedConnection),
    "aiomysql": of("aiomysql", AwaitedConnection),
    "asyncmy": of("asyncmy", AwaitedConnection),
    "sqlalchemy": of("sqlalchemy", AwaitedAlchemy),
    "registry": lambda server: async_scoped_session(lambda: AWAITED["sqlalchemy"](server), lambda: 0),
}
POSTGRES, MYSQL = BLOCKING["psycopg"], BLOCKING["pymysql"]


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_name_is_locked_on_each_kind_of_connection(kind: str) -> None:
    server = Server()
    assert sql.locked(BLOCKING[kind](server), "x") == TOKEN
    assert sum("INSERT INTO recipes_named" in one for one in server.said) == 2


@pytest.mark.parametrize("kind", AWAITED)
def test_a_name_is_locked_on_each_kind_for_asyncio(kind: str) -> None:
    server = Server()
    assert asyncio.run(sql.locked_async(AWAITED[kind](server), "x")) == TOKEN
    assert sum("INSERT INTO recipes_named" in one for one in server.said) == 2


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"name": ""}, ValueError, "at least one character"),
        ({"name": 7}, TypeError, "a name is a str"),
        ({"timeout": -1}, ValueError, "0 or more"),
        ({"timeout": "1"}, TypeError, "number of seconds"),
        ({"timeout": 1, "nowait": True}, ValueError, "give one of them"),
        ({"tables": "Bad-"}, ValueError, "tables="),
    ],
)
def test_bad_input_is_refused_before_anything_is_said(
    given: dict[str, Any], error: type[Exception], says: str
) -> None:
    server = Server()
    with pytest.raises(error, match=says):
        sql.locked(POSTGRES(server), **{"name": "x", **given})
    assert not server.said


def test_what_is_no_connection_for_it_is_refused() -> None:
    server = Server()
    for one in (object(), AWAITED["psycopg"](server)):
        with pytest.raises(TypeError):
            sql.locked(one, "x")
    for one in (AWAITED["sqlalchemy"](server), AWAITED["registry"](server)):
        with pytest.raises(TypeError, match="is for asyncio"):
            sql.locked(one, "x")
    for one in (object(), POSTGRES(server), BLOCKING["django"](server)):
        with pytest.raises(TypeError):
            asyncio.run(sql.locked_async(one, "x"))
    for one in (BLOCKING["session"](server), BLOCKING["registry"](server)):
        with pytest.raises(TypeError, match="is for threads"):
            asyncio.run(sql.locked_async(one, "x"))
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(TypeError, match="Engine"):
        sql.locked(engine, "x")
    with engine.connect() as connection, Session(engine) as session:
        for one in (connection, session):
            with pytest.raises(ValueError, match="not for sqlite"):
                sql.locked(one, "x")
    with pytest.raises(ValueError, match="not for oracle"):
        sql.locked(of("django", DjangoConnection, vendor="oracle")(server), "x")
    with pytest.raises(recipes.StoreRefused, match="atomic"):
        sql.locked(of("django", DjangoConnection, in_atomic_block=False)(server), "x")
    assert not server.said


@pytest.mark.parametrize("code", ["55P03", 1205, 3572])
@pytest.mark.parametrize("limit", [{}, {"nowait": True}, {"timeout": 0.5}])
def test_a_lock_that_is_not_to_be_had_is_a_timeout(code: str | int, limit: dict[str, Any]) -> None:
    server = Server({"INSERT": code})
    make = POSTGRES if isinstance(code, str) else MYSQL
    with pytest.raises(recipes.LockTimeout) as caught:
        sql.locked(make(server), "x", **limit)
    assert caught.value.timeout_s == limit.get("timeout", 0)
    if make is POSTGRES:
        assert [one.split(" recipes")[0] for one in server.said[-2:]] == [
            "ROLLBACK TO SAVEPOINT",
            "RELEASE SAVEPOINT",
        ]


@pytest.mark.parametrize("limit", [{}, {"nowait": True}, {"timeout": 0.5}])
def test_a_wait_that_has_undone_the_whole_transaction_is_no_timeout(limit: dict[str, Any]) -> None:
    """With innodb_rollback_on_timeout the transaction cannot go on: all it had locked is free."""
    with pytest.raises(Refused):
        sql.locked(MYSQL(Server({"INSERT": 1205}, undoes_all=True)), "x", **limit)
    with pytest.raises(recipes.LockTimeout):
        sql.locked(MYSQL(Server({"INSERT": 3572}, undoes_all=True)), "x", **limit)


@pytest.mark.parametrize(
    ("isolation", "looks"), [("READ-COMMITTED", True), ("REPEATABLE-READ", False), ("SERIALIZABLE", False)]
)
def test_mysql_looks_whether_a_name_is_locked_only_where_that_locks_no_gap(
    isolation: str, *, looks: bool
) -> None:
    """Two that looked for names that were new, and then added them, were a deadlock."""
    server = Server(isolation=isolation, version="8.0.40")
    assert sql.locked(MYSQL(server), "x", nowait=True) == TOKEN
    assert any(text.endswith("FOR UPDATE NOWAIT") for text in server.said) == looks


@pytest.mark.parametrize(("timeout", "late"), [(0.5, True), (0.6, False), (None, False)])
def test_a_statement_is_stopped_by_the_time_or_by_somebody(timeout: float | None, *, late: bool) -> None:
    """Half a second has passed, as the server says."""
    connection = POSTGRES(Server({"INSERT": "57014"}))
    with pytest.raises(recipes.LockTimeout if late else Refused):
        sql.locked(connection, "x", timeout=timeout)


@pytest.mark.parametrize(
    ("make", "refuses", "says"),
    [
        (POSTGRES, {"SAVEPOINT": "25P01"}, "autocommit"),
        (POSTGRES, {"INSERT": "42P01"}, "tables are missing"),
        (MYSQL, {"RELEASE": 1305}, "autocommit"),
        (MYSQL, {"INSERT": 1146}, "tables are missing"),
        (MYSQL, {"SET TRANSACTION": 1568}, "first statement"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, refuses: dict[str, Any], says: str) -> None:
    with pytest.raises(recipes.StoreRefused, match=says):
        sql.locked(make(Server(refuses, isolation="REPEATABLE-READ")), "x")


@pytest.mark.parametrize("at", ["SAVEPOINT", "INSERT", "_named.token", "set_config", "RELEASE"])
def test_what_else_is_raised_is_raised_as_it_is(at: str) -> None:
    error = ConnectionResetError("gone")
    with pytest.raises(ConnectionResetError) as caught:
        sql.locked(POSTGRES(Server({at: error})), "x", timeout=1)
    assert caught.value is error


def test_a_connection_that_is_lost_says_so_by_its_first_error() -> None:
    first = Refused("57P01")
    server = Server({"INSERT": first, "ROLLBACK TO": RuntimeError("the connection is lost")})
    with pytest.raises(Refused) as caught:
        sql.locked(POSTGRES(server), "x")
    assert caught.value is first


def test_a_connection_to_mysql_that_is_lost_says_so_by_its_first_error() -> None:
    first = Refused(2013)
    server = Server(
        {"INSERT": first, "_timeout = 50": RuntimeError("the connection is lost")}, version="8.4.0"
    )
    with pytest.raises(Refused) as caught:
        sql.locked(MYSQL(server), "x", timeout=1)
    assert caught.value is first


@pytest.mark.parametrize(("timeout_s", "waited"), [(1, 1205), (0, 3572)])
def test_a_connection_to_mysql_that_is_lost_behind_a_wait_says_so(timeout_s: float, waited: int) -> None:
    """Not LockTimeout: that would say that the transaction can go on, with what it had locked before."""
    lost = RuntimeError("the connection is lost")
    at = "INSERT" if timeout_s else "NOWAIT"
    server = Server({at: Refused(waited), "_timeout = 50": lost}, version="8.4.0")
    with pytest.raises(RuntimeError) as caught:
        sql.locked(MYSQL(server), "x", timeout=timeout_s)
    assert caught.value is lost


def test_errors_are_known_by_what_they_are_made_of() -> None:
    """SQLAlchemy and Django wrap those of drivers."""
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = Refused("55P03")
    with pytest.raises(recipes.LockTimeout):
        sql.locked(POSTGRES(Server({"INSERT": wrapped})), "x")
    made = sqlalchemy.exc.OperationalError("INSERT", {}, Refused(1205))
    with pytest.raises(recipes.LockTimeout):
        sql.locked(MYSQL(Server({"INSERT": made})), "x")


def test_rows_are_called_as_the_names_are() -> None:
    names = ["orders/7", "a b", "a%20b", "é", "%C3%A9", "A", "a", "a ", "x" * 1024]
    rows = [row_of(name) for name in names]
    assert len(set(rows)) == len(names)
    assert rows[0] == "orders/7"
    assert all(row.isascii() and " " not in row for row in rows)


def test_the_schema_is_for_each_dialect() -> None:
    assert any("UNLOGGED" in one for one in sql.schema("postgresql"))
    assert sql.schema("mysql") == sql.schema("mariadb")
    assert any("mine_named" in one for one in sql.schema("mysql", "mine_"))
    with pytest.raises(ValueError, match="'oracle' is no dialect"):
        sql.schema("oracle")


@pytest.fixture
def client() -> Iterator[recipes.Client]:
    with recipes.connect("memory://") as one:
        yield one


def test_a_guard_is_of_a_grant_on_a_database(client: recipes.Client) -> None:
    server = Server()
    with client.lock("x") as grant, pytest.raises(TypeError, match="takes one of a SQL database"):
        sql.guard(POSTGRES(server), grant)
    both = client.multilock(client.lock("a"), client.lock("b"))
    with both as grants, pytest.raises(TypeError, match=r"each grant\[lock\]"):
        sql.guard(POSTGRES(server), grants)
    assert not server.said
