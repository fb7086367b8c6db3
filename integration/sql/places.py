"""Where the rows are: ways to reach a database, each with transactions of its own kind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import sqlalchemy
from sqlalchemy.orm import Session

from integration import servers
from recipes import sql

__all__ = ["ISOLATIONS", "STORES", "WAYS", "Run", "Way", "by_cursor", "make_tables", "plain"]

STORES: dict[str, Callable[[], servers.Postgres | servers.MariaDb]] = {
    "postgresql": servers.postgres,
    "mariadb": servers.mariadb,
}
ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ")
Run = Callable[..., list[tuple[Any, ...]]]
"""Runs a statement with its values, marked ``%s``; returns its rows."""


def plain(url: str, isolation: str = "", **options: Any) -> Any:
    """Return a driver's connection, to be closed; by default as isolated as the server has it."""
    if url.startswith("postgresql"):
        made = psycopg.connect(url, **options)
        if isolation:
            made.isolation_level = psycopg.IsolationLevel[isolation.replace(" ", "_")]
        return made
    at = urlsplit(url)
    said = {"init_command": f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"} if isolation else {}
    database = at.path.strip("/")
    where = {"host": at.hostname, "port": at.port, "user": at.username, "password": at.password}
    return pymysql.connect(**where, database=database, **said, **options)


def make_tables(url: str, tables: str) -> None:
    """Make the tables of this package."""
    with contextlib.closing(plain(url)) as connection:
        for statement in sql.schema(url.partition(":")[0], tables):
            connection.cursor().execute(statement)
        connection.commit()


class Way:
    """One way to a database: by a driver.

    Attributes:
        errors: What it raises if the database, or the way to it, fails.
    """

    errors: tuple[type[Exception], ...] = (
        psycopg.OperationalError,
        psycopg.IntegrityError,
        pymysql.OperationalError,
        pymysql.InterfaceError,
        pymysql.IntegrityError,
    )

    def __init__(self, url: str, isolation: str) -> None:
        self.url, self.isolation = url, isolation
        self._connection: Any = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[tuple[Any, Run]]:
        """Commit what is done in a block, or roll it back; yield the connection, and what runs statements."""
        if self._connection is None:
            self._connection = plain(self.url, self.isolation)
        try:
            yield self._connection, by_cursor(self._connection)
            self._connection.commit()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Have the next transaction connect anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*self.errors):
                connection.close()


def by_cursor(connection: Any) -> Run:
    """Return what runs statements on a connection with cursors."""

    def run(text: str, *values: Any) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(text, values)
            return list(cursor.fetchall()) if cursor.description else []

    return run


class AlchemyWay(Way):
    """By a connection of SQLAlchemy."""

    errors = (*Way.errors, sqlalchemy.exc.OperationalError, sqlalchemy.exc.IntegrityError)
    begins: Any = staticmethod(sqlalchemy.Engine.begin)

    def __init__(self, url: str, isolation: str) -> None:
        super().__init__(url, isolation)
        drivers = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
        scheme, _, rest = url.partition(":")
        self.engine = sqlalchemy.create_engine(
            f"{drivers[scheme]}:{rest}", isolation_level=isolation, pool_pre_ping=True
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[tuple[Any, Run]]:
        with self.engine.begin() as connection:
            yield connection, by_driver(connection)

    def close(self) -> None:
        self.engine.dispose()


def by_driver(connection: sqlalchemy.Connection) -> Run:
    """Return what runs statements on SQLAlchemy's connection."""

    def run(text: str, *values: Any) -> list[tuple[Any, ...]]:
        result = connection.exec_driver_sql(text, values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return run


class SessionWay(AlchemyWay):
    """By a session of SQLAlchemy's ORM."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[tuple[Any, Run]]:
        with Session(self.engine) as session, session.begin():
            yield session, by_driver(session.connection())


class DjangoWay(Way):
    """By Django's connection, in a block of ``atomic``; one for a process."""

    def __init__(self, url: str, isolation: str) -> None:
        super().__init__(url, isolation)
        pymysql.install_as_MySQLdb()
        import django
        from django.conf import settings

        at = urlsplit(url)
        kind = "postgresql" if at.scheme == "postgresql" else "mysql"
        level: Any = isolation.lower()
        if kind == "postgresql":
            level = psycopg.IsolationLevel[isolation.replace(" ", "_")]
        where = {"HOST": at.hostname, "PORT": at.port, "USER": at.username, "PASSWORD": at.password}
        given = {"ENGINE": f"django.db.backends.{kind}", "NAME": at.path.strip("/"), **where}
        settings.configure(DATABASES={"default": {**given, "OPTIONS": {"isolation_level": level}}})
        django.setup()
        from django.db import connection, transaction
        from django.db.utils import DatabaseError, InterfaceError

        self.connection, self._atomic = connection, transaction.atomic
        self.errors = (*Way.errors, DatabaseError, InterfaceError)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[tuple[Any, Run]]:
        with self._atomic():
            yield self.connection, by_cursor(self.connection)

    def close(self) -> None:
        with contextlib.suppress(*self.errors):
            self.connection.close()


WAYS: dict[str, type[Way]] = {
    "driver": Way,
    "sqlalchemy": AlchemyWay,
    "session": SessionWay,
    "django": DjangoWay,
}
