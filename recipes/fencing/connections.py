"""What a gate is handed to reach a database by, and the little that has to be known of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from recipes._rules.fence import FIELDS
from recipes.fencing.statements import Statement, rendered

__all__ = ["Target", "rows_of", "text_of"]

ALCHEMY = "sqlalchemy"
IDLE = 0
"""psycopg's and libpq's word for "no transaction is open"."""
IN_TRANSACTION = 1
"""The bit of MySQL's server status that says that one is (``SERVER_STATUS_IN_TRANS``)."""


@dataclass(frozen=True, slots=True)
class Target:
    """A cursor, or what SQLAlchemy has in its place.

    Attributes:
        inner: What ``execute`` is called on.
        style: How it wants parameters.
    """

    inner: Any
    style: str

    @classmethod
    def of(cls, given: Any, style: str | None, *, awaited: bool) -> Target:
        """Recognize what a user hands to a gate; TypeError if it is nothing of the kind."""
        if any(root == ALCHEMY for root in _roots(given)):
            given = getattr(given, "registry", lambda: given)()  # a scoped session has one
            return cls(_fit(given, given, awaited=awaited), ALCHEMY)
        cursor = given if hasattr(given, "fetchone") else given.cursor() if hasattr(given, "cursor") else None
        _fit(cursor, given, awaited=awaited)
        style = style or next(filter(None, map(_style, _roots(cursor))), None)
        if style is None:
            raise ValueError(
                f"{type(cursor).__name__} does not say how it marks parameters: give paramstyle="
            )
        return cls(cursor, style)

    @property
    def alchemy(self) -> bool:
        """Whether it is of SQLAlchemy."""
        return self.style == ALCHEMY

    def run(self, text: Any, values: Any) -> Any:
        """Call ``execute``."""
        return self.inner.execute(text, values)

    def check_transaction(self) -> None:
        """Raise ValueError if no transaction is open after a statement, as far as that can be seen."""
        if _alone(self._connection()):
            raise ValueError(
                "this connection commits each statement by itself (autocommit): the gate would let go before "
                "you write; begin a transaction first, and turn autocommit off if this driver does not show "
                "one that was begun by hand"
            )

    def _connection(self) -> Any:
        """Return the driver's connection."""
        if not self.alchemy:
            return getattr(self.inner, "connection", None)
        of_session = callable(self.inner.connection)  # which has a method of that name
        connection = self.inner.connection() if of_session else self.inner
        adapted = connection.connection.dbapi_connection
        return getattr(adapted, "driver_connection", adapted)  # of drivers for asyncio


def _fit(target: Any, given: Any, *, awaited: bool) -> Any:
    """Return what runs statements; TypeError if it does not, or is for the other kind of gate."""
    kind = type(given).__name__
    if not hasattr(target, "execute"):
        raise TypeError(f"a gate takes a DB-API connection or cursor, or SQLAlchemy's, not {kind}")
    if iscoroutinefunction(target.execute) != awaited:
        raise TypeError(f"{kind} is for {'SqlGate' if awaited else 'AsyncSqlGate'}")
    return target


def _alone(connection: Any) -> bool:
    """Whether a connection says, in the words of the drivers below, that no transaction is open.

    Some of them say only that they begin none by themselves: mysqlclient, pg8000, pyodbc.
    """
    within = getattr(connection, "in_transaction", None)  # sqlite3, mysql-connector
    if isinstance(within, bool):
        return not within
    if hasattr(connection, "is_in_transaction"):  # asyncpg
        return not connection.is_in_transaction()
    status = getattr(getattr(connection, "info", None), "transaction_status", None)  # psycopg
    if status is not None:
        return int(status) == IDLE
    bits = getattr(connection, "server_status", None)  # PyMySQL, aiomysql, asyncmy
    if isinstance(bits, int):
        return not bits & IN_TRANSACTION
    asked = getattr(connection, "get_autocommit", None)
    return (asked() if callable(asked) else getattr(connection, "autocommit", None)) is True


def _roots(given: Any) -> list[str]:
    """Return the packages that a thing's class and its bases come from."""
    return [kind.__module__.partition(".")[0] for kind in type(given).__mro__]


def _style(package: str) -> str | None:
    return getattr(sys.modules.get(package), "paramstyle", None)


def text_of(statement: Statement, style: str) -> tuple[Any, Any]:
    """Return what ``execute`` wants."""
    if style != ALCHEMY:
        return rendered(statement, style)
    from sqlalchemy import text  # noqa: PLC0415 - who hands us something of SQLAlchemy has it

    return text(statement.text), statement.values


def rows_of(row: Any) -> list[int] | None:
    """Return the two numbers of a row, whatever kind of row the connection makes."""
    if row is None:
        return None
    return [int(row[field]) for field in FIELDS] if isinstance(row, Mapping) else [int(row[0]), int(row[1])]
