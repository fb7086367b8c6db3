"""Connections of the user's, as statements are run on them: SQLAlchemy's, Django's, and those of drivers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeVar

from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from recipes.errors import StoreRefused
from recipes.stores.sql.inside import NO_ATOMIC, Failed, Words
from recipes.stores.sql.meaning import code_of
from recipes.stores.sql.tables import dialect_of
from recipes.stores.sql.texts import Said

__all__ = ["run_awaited", "run_blocking"]

T = TypeVar("T")
Begin = Callable[[Words], Generator[Said, Any, T]]
"""Begins what is said, in the words of one connection."""

BLOCKING = {"psycopg": "postgresql", "psycopg2": "postgresql", "pymysql": "mysql", "MySQLdb": "mysql"}
AWAITED = {"psycopg": "postgresql", "asyncpg": "asyncpg", "aiomysql": "mysql", "asyncmy": "mysql"}
KNOWN = "psycopg, psycopg2, PyMySQL or mysqlclient"
AWAITED_KNOWN = "psycopg, asyncpg, aiomysql or asyncmy"


def run_blocking(given: Any, prefix: str, begin: Begin[T]) -> T:
    """Say something on a connection of the user's, in its transaction.

    Raises:
        TypeError: It is no connection, or one for asyncio.
        ValueError: It is one to another database.
    """
    root = _root(given)
    if root == "sqlalchemy":
        given = _session(given)
        if hasattr(given, "run_sync"):
            raise TypeError(f"{type(given).__name__} is for asyncio: use locked_async() and guard_async()")
        return _run_on_alchemy(given, prefix, begin)
    if root == "django":
        return _run(_on_cursors(given), _Turns(begin(Words.of(prefix, _of_django(given)))))
    if root not in BLOCKING or _awaits(given):
        raise _unknown(given, BLOCKING, KNOWN)
    return _run(_on_cursors(given), _Turns(begin(Words.of(prefix, _dialect(BLOCKING[root])))))


async def run_awaited(given: Any, prefix: str, begin: Begin[T]) -> T:
    """Do as `run_blocking` does, but await."""
    root = _root(given)
    if root == "sqlalchemy":
        given = _session(given)
        if not hasattr(given, "run_sync"):
            raise TypeError(f"{type(given).__name__} is for threads: use locked() and guard()")
        done: T = await given.run_sync(_run_on_alchemy, prefix, begin)
        return done
    if root not in AWAITED or not (root == "asyncpg" or _awaits(given)):
        raise _unknown(given, AWAITED, AWAITED_KNOWN)
    runs = _on_asyncpg(given) if root == "asyncpg" else _on_awaited_cursors(given)
    turns = _Turns(begin(Words.of(prefix, _dialect(AWAITED[root]))))
    while turns.said is not None:
        try:
            rows = await runs(turns.said)
        except Exception as error:
            turns.fail(error)
        else:
            turns.answer(rows)
    return turns.result


def _run(runs: Callable[[Said], list[Any]], turns: _Turns[T]) -> T:
    while turns.said is not None:
        try:
            rows = runs(turns.said)
        except Exception as error:
            turns.fail(error)
        else:
            turns.answer(rows)
    return turns.result


class _Turns(Generic[T]):
    """What is said next, and what came of it.

    Attributes:
        said: The next statement; None at the end.
        result: What is returned then.
    """

    result: T

    def __init__(self, steps: Generator[Said, Any, T]) -> None:
        self._steps = steps
        self.said: Said | None = None
        self._go(lambda: next(steps))

    def answer(self, rows: list[Any]) -> None:
        """Go on with the rows of a statement."""
        self._go(lambda: self._steps.send(rows))

    def fail(self, error: Exception) -> None:
        """Go on with what a statement raised."""
        self._go(lambda: self._steps.throw(Failed(_code_of(error), error)))

    def _go(self, on: Callable[[], Said]) -> None:
        try:
            self.said = on()
        except StopIteration as done:
            self.said, self.result = None, done.value
        except Failed as failure:
            raise failure.error from None


def _code_of(error: BaseException | None) -> str | int | None:
    """Return the code of an error of a driver, or of what was made of one."""
    while error is not None:
        code = code_of(error)
        if code is not None:
            return code
        error = getattr(error, "orig", None) or error.__cause__
    return None


# Which connection it is.


def _root(given: Any) -> str:
    """Return the package of a connection, or of the class that it is derived from."""
    roots = [kind.__module__.partition(".")[0] for kind in type(given).__mro__]
    known = {"sqlalchemy", "django", *BLOCKING, *AWAITED}
    return next((root for root in roots if root in known), "")


def _session(given: Any) -> Any:
    """Return the session of this thread or task, if a registry of sessions is given."""
    return getattr(given, "registry", lambda: given)()


def _awaits(given: Any) -> bool:
    return iscoroutinefunction(getattr(given, "commit", None))


def _unknown(given: Any, drivers: Mapping[str, str], known: str) -> TypeError:
    kind = f"{type(given).__module__.partition('.')[0]}.{type(given).__name__}"
    others = f"a connection or session of SQLAlchemy, or a connection of {known}"
    return TypeError(f"{kind}: it takes {others}" + (", or Django's" if drivers is BLOCKING else ""))


@cache
def _dialect(name: str) -> Any:
    known: dict[str, Any] = {"asyncpg": PGDialect_asyncpg, "postgresql": PGDialect_psycopg}
    return known[name]() if name in known else dialect_of(name)


def _of_django(connection: Any) -> Any:
    """Return the dialect of Django's connection, in a block of ``atomic``."""
    vendor = str(getattr(connection, "vendor", type(connection).__name__))
    if vendor not in BLOCKING.values():
        raise ValueError(f"this is for PostgreSQL, MySQL and MariaDB, and not for {vendor}")
    if not connection.in_atomic_block:
        raise StoreRefused(vendor, NO_ATOMIC)
    return _dialect(vendor)


# How it runs a statement.


def _run_on_alchemy(given: Any, prefix: str, begin: Begin[T]) -> T:
    if not hasattr(given, "execute"):
        raise _unknown(given, BLOCKING, KNOWN)
    connection = given if hasattr(given, "exec_driver_sql") else given.connection()

    def runs(said: Said) -> list[Any]:
        values = tuple(said.values) if isinstance(said.values, list) else said.values
        result = connection.exec_driver_sql(said.text, values)
        return _rows(result.fetchall()) if result.returns_rows else []

    return _run(runs, _Turns(begin(Words.of(prefix, connection.dialect))))


def _on_cursors(connection: Any) -> Callable[[Said], list[Any]]:
    def runs(said: Said) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(said.text, said.values)
            return _rows(cursor.fetchall()) if cursor.description else []

    return runs


def _on_awaited_cursors(connection: Any) -> Callable[[Said], Awaitable[list[Any]]]:
    async def runs(said: Said) -> list[Any]:
        async with connection.cursor() as cursor:
            await cursor.execute(said.text, said.values)
            return _rows(await cursor.fetchall()) if cursor.description else []

    return runs


def _on_asyncpg(connection: Any) -> Callable[[Said], Awaitable[list[Any]]]:
    async def runs(said: Said) -> list[Any]:
        return _rows(await connection.fetch(said.text, *(said.values or ())))

    return runs


def _rows(found: Any) -> list[Any]:
    """Return rows as tuples, whatever kind of row the connection makes."""
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in found]
