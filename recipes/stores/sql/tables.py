"""The tables, as SQLAlchemy has them: what is the same in all databases, and the little that differs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.functions import FunctionElement

__all__ = ["OBSERVERS", "PREFIX", "Clock", "Server", "Tables", "dialect_of", "tables_of"]

PREFIX = "recipes_"
OBSERVERS = 0
"""What watches this token watches the whole queue; no contender has it."""
KEY_LENGTH = 1100
"""Of a queue or a value: the root, a recipe, and a name of 1 024 bytes, all ASCII."""
ID_LENGTH = 64


class Clock(FunctionElement[int]):
    """The server's wall clock in microseconds, read when the statement starts, or later."""

    type = BigInteger()
    inherit_cache = True


@compiles(Clock, "postgresql")
def _of_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


@compiles(Clock, "mysql")
@compiles(Clock, "mariadb")
def _of_mysql(*_: Any, **__: Any) -> str:
    return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"


class Server(FunctionElement[str]):
    """Which server carries out the statement: the same text as before only while it is the same one.

    A connection does not say that: a proxy may lead the next transaction to another server, which took over.

    On PostgreSQL it is when the server was started: no server becomes a standby, or the primary that follows
    one, without a start that no other has shared. On MySQL that is not so, and it is the server's own name
    beside the one that is noted, and since when: it may be noted once more, after another was.

    Args:
        noted: Reads which server is noted, and since when.
    """

    type = String()
    inherit_cache = True


@compiles(Server, "postgresql")
def _server_of_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 AS BIGINT) AS VARCHAR)"


@compiles(Server, "mysql")
@compiles(Server, "mariadb")
def _server_of_mysql(element: Any, compiler: Any, **more: Any) -> str:
    own = "@@hostname, @@port, @@server_id" if compiler.dialect.is_mariadb else "@@server_uuid"
    noted = compiler.process(element.clauses, **more)
    return f"CONCAT_WS('/', {own}, CONVERT({noted} USING utf8mb4))"


def _ascii(length: int) -> Any:
    """Return a text that is compared byte by byte: `reports` and `Reports` are two names."""
    plain = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return (
        String(length)
        .with_variant(plain, "mysql", "mariadb")
        .with_variant(postgresql.VARCHAR(length, collation="C"), "postgresql")
    )


def _text() -> Any:
    return Text().with_variant(
        mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def _blob(name: str) -> Column[Any]:
    return Column(name, LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb"), nullable=False)


def _number(name: str) -> Column[Any]:
    return Column(name, BigInteger, nullable=False, autoincrement=False)


def _key(name: str, **more: Any) -> Column[Any]:
    return Column(name, _ascii(KEY_LENGTH), nullable=False, **more)


def _one(name: str, **more: Any) -> Column[Any]:
    return Column(name, _ascii(ID_LENGTH), nullable=False, **more)


class Tables:
    """The tables of one prefix.

    Attributes:
        queue: One row for each queue and each value, with the last token; its lock puts all acts in order.
        session: Until when each lives, by the server's clock in microseconds; negative: it is dead for good.
        contender: Which contender is in which queue.
        watch: Which sessions are notified of what; lost by a crash, as their connections are.
        buried: Contenders that must not come to stand any more.
        value: What is stored; a deleted value keeps its version in the row of its queue.
        receipt: Which writes of a session were done.
        server: One row: which server it was, since when, and how far idle queues were tidied.
        named: One row for each name that `recipes.sql.locked` has locked.
    """

    def __init__(self, prefix: str = PREFIX) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", prefix):
            raise ValueError(f"tables={prefix!r}: at most 31 of a-z 0-9 _, a letter first")
        self.prefix = prefix
        self.metadata = MetaData()
        self.queue = self._table("queue", _key("name", primary_key=True), _number("token"))
        self.session = self._table(
            "session", _one("id", primary_key=True), _number("ttl_us"), _number("expires_at")
        )
        self.contender = self._table(
            "contender",
            _key("queue"),
            _number("token"),
            _one("id"),
            Column("kind", _ascii(32), nullable=False),
            _one("session"),
            Column("mark", _text(), nullable=False),
            Column("owner", _text(), nullable=False),
            _blob("data"),
            _number("version"),
            PrimaryKeyConstraint("queue", "token"),
            UniqueConstraint("queue", "id"),
            UniqueConstraint("session", "queue", "token"),  # what is a session's, and where
        )
        self.watch = self._table(
            "watch", _key("queue"), _number("token"), _one("session"),
            PrimaryKeyConstraint("queue", "token", "session"), prefixes=["UNLOGGED"],
        )  # fmt: skip
        self.buried = self._table("buried", _one("id", primary_key=True), _number("until_us"))
        self.value = self._table(
            "value",
            _key("name", primary_key=True),
            _number("version"),
            _blob("data"),
        )
        self.receipt = self._table(
            "receipt", _one("session"), _key("name"), _number("version"), _blob("said"),
            PrimaryKeyConstraint("session", "name"),
        )  # fmt: skip
        self.server = self._table(
            "server", Column("only_row", SmallInteger, primary_key=True, autoincrement=False),
            Column("life", _ascii(200), nullable=False), _number("since_us"), _number("grace_us"),
            _key("tidied_to"),
        )  # fmt: skip
        self.named = self._table("named", _key("name", primary_key=True), _number("token"))

    def _table(self, name: str, *columns: Any, **more: Any) -> Table:
        return Table(
            f"{self.prefix}{name}",
            self.metadata,
            *columns,
            mysql_engine="InnoDB",
            mariadb_engine="InnoDB",
            **more,
        )

    def of(self, dialect: str) -> list[Table]:
        """Return the tables that a dialect needs: subscriptions only where servers notify.

        The first that is looked at is made last.
        """
        left_out = {self.server} if dialect == "postgresql" else {self.server, self.watch}
        return [*(one for one in self.metadata.sorted_tables if one not in left_out), self.server]

    def ddl(self, dialect: str) -> Iterator[str]:
        """Yield the statements that make the tables, if they are not there."""
        speaking = dialect_of(dialect)
        for table in self.of(dialect):
            made = CreateTable(table, if_not_exists=True)
            yield str(made.compile(dialect=speaking)).strip()


@lru_cache(maxsize=32)
def tables_of(prefix: str) -> Tables:
    """Return the tables of a prefix, the same to all; ValueError if none can have it."""
    return Tables(prefix)


def dialect_of(name: str) -> Any:
    """Return SQLAlchemy's dialect of a name."""
    known: dict[str, Any] = {"postgresql": postgresql.dialect, "mysql": mysql.dialect}
    return known[name]()
