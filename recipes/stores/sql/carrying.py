"""Carrying out acts on a connection of SQLAlchemy: the same code for threads and, by greenlets, asyncio."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from recipes.stores.sql.engines import IDLE_S, LOCK_WAIT_S, PLAIN_MODE
from recipes.stores.sql.requests import Act, Ask, Work
from recipes.stores.sql.texts import Said, Texts, call_of

__all__ = [
    "HOLDING",
    "begin_on_mysql",
    "bounded",
    "call",
    "carry_out",
    "followed",
    "given_back_as_it_is",
    "run",
    "said",
    "silenced",
]

HOLDING = {
    "synchronous_commit": "on",
    "lock_timeout": f"{LOCK_WAIT_S}s",
    "idle_in_transaction_session_timeout": f"{IDLE_S}s",
}
"""What holds in a transaction on PostgreSQL, whatever the defaults of database, role and proxy are."""
_MADE, _WAS = ("recipes", "functions"), ("recipes", "modes")
_BOUND, _AS_BEFORE = (
    f"SET {', '.join(f'{one} = {value}' for one, value in values.items())}"
    for values in (
        {
            "@recipes_waits": "@@innodb_lock_wait_timeout",
            "@recipes_tables": "@@lock_wait_timeout",
            "@recipes_idle": "@@wait_timeout",
            "@recipes_mode": "@@sql_mode",
            "SESSION innodb_lock_wait_timeout": LOCK_WAIT_S,
            "SESSION lock_wait_timeout": LOCK_WAIT_S,
            "SESSION wait_timeout": IDLE_S,
            "SESSION sql_mode": PLAIN_MODE,
        },
        {
            "SESSION innodb_lock_wait_timeout": "@recipes_waits",
            "SESSION lock_wait_timeout": "@recipes_tables",
            "SESSION wait_timeout": "@recipes_idle",
            "SESSION sql_mode": "@recipes_mode",
        },
    )
)
_BEGIN = "ROLLBACK AND NO CHAIN", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"
"""The first for what a listener of the pool has read, the last for a connection that commits by itself."""


def run(connection: Connection, act: Act[Any], work: Work) -> Any:
    """Take the steps of an act, and return what it returns; the transaction is the caller's."""
    steps, texts = act(work), Texts.of(connection.dialect)
    try:
        asks = next(steps)
        while True:
            asks = steps.send([said(connection, texts(ask)) for ask in asks])
    except StopIteration as done:
        return done.value
    finally:
        steps.close()


def said(connection: Connection, one: Said) -> Any:
    """Carry out one statement; return its rows, or how many it changed.

    SQLAlchemy's own way would take longer than the server.
    """
    lent = connection.connection
    cursor: Any = lent.cursor()
    try:
        cursor.execute(one.text, one.values)
        return cursor.rowcount if cursor.description is None else cursor.fetchall()
    except Exception as error:
        dialect: Any = connection.dialect
        if not isinstance(error, dialect.loaded_dbapi.Error):
            raise
        if dialect.is_disconnect(error, lent.dbapi_connection, cursor):
            connection.invalidate(error)
        raise DBAPIError(None, None, error) from error
    except BaseException as error:  # cancelled: the server may be at it still
        connection.invalidate(error)
        raise
    finally:
        with suppress(Exception):  # its connection may have ended
            cursor.close()


def given_back_as_it_is(connection: Connection) -> None:
    """Have a connection of the user's engine go back to its pool in the modes in which it is, and idle now.

    SQLAlchemy gives one whose isolation level was set those of its dialect then, whatever the user's
    arguments or listeners have said. A level cannot be set in a transaction, which a listener may have begun.
    """
    info = connection.info
    if _WAS in info:
        return
    driver: Any = connection.connection.dbapi_connection
    driver.commit()
    info[_WAS] = [
        (mode, getattr(driver, mode)) for mode in ("autocommit", "isolation_level") if hasattr(driver, mode)
    ]
    pool = connection.engine.pool
    if not event.contains(pool, "checkin", _as_before):
        event.listen(pool, "checkin", _as_before)


def _as_before(driver: Any, record: Any) -> None:
    """Set the modes in which a connection was lent; those of one that is broken or closed go with it."""
    for mode, value in record.info.pop(_WAS, ()):
        with suppress(Exception):
            if getattr(driver, mode) != value:
                setattr(driver, mode, value)


def call(connection: Connection, act: Act[Any], work: Work, ending: Callable[[], object]) -> Any:
    """Carry out an act that yields once in one call, on a connection that commits each statement.

    Args:
        connection: What it calls is made there once.
        act: What to do.
        work: This run of it.
        ending: Called before it is called.
    """
    steps = act(work)
    asks = next(steps)
    one = call_of(asks)
    made: set[str] = connection.info.setdefault(_MADE, set())
    if one.made.text not in made:
        said(connection, one.made)
        made.add(one.made.text)
    ending()
    found = said(connection, Texts.of(connection.dialect)(one.ask))
    try:
        steps.send([None] * (len(asks) - 1) + [found])
    except StopIteration as done:
        return done.value
    raise AssertionError("what is done in one call should yield once")


def carry_out(
    connection: Connection,
    act: Act[Any],
    work: Work,
    *,
    prepare: Callable[[Connection], object] | None = None,
    ending: Callable[[], object] | None = None,
) -> Any:
    """Carry out an act in a transaction of its own; any exception leaves no trace.

    Args:
        connection: It is in no transaction.
        act: What to do.
        work: This run of it.
        prepare: Called first, in the transaction.
        ending: Called before it is committed, unless it is undone.
    """
    with _transaction(connection, work, ending):
        if prepare is not None:
            prepare(connection)
        return run(connection, act, work)


@contextmanager
def _transaction(connection: Connection, work: Work, ending: Callable[[], object] | None) -> Generator[None]:
    with connection.begin() as transaction:
        yield
        if work.undo:
            transaction.rollback()
        elif ending is not None:
            ending()


def begin_on_mysql(connection: Connection, *, bound: bool = False) -> None:
    """Begin a transaction that is READ COMMITTED, whatever the settings of the connection are.

    SQLAlchemy's option would have it set back as the connection is returned to its pool: if that is cut off,
    the place in the pool is lost. And it is SQLAlchemy that carries this out, not `said`: if this connection
    has ended, as in a restart, then so have the others of its pool, and it uses none of them again.

    Args:
        connection: SQLAlchemy has begun the transaction, and sent nothing.
        bound: In a block of `bounded`.
    """
    for text in (*([_BOUND] if bound else []), *_BEGIN):
        connection.exec_driver_sql(text)


@contextmanager
def bounded(connection: Connection) -> Generator[None]:
    """Have a connection to MySQL be as before after the block, in which `begin_on_mysql` bounds it.

    MySQL soon ends what waits or stands still there. Else a process that is stopped there keeps a row locked
    for hours: as long as its connection may be idle. And it reads bytes as they are.
    """
    try:
        yield
    finally:
        if not (connection.closed or connection.invalidated):
            try:
                said(connection, Said(_AS_BEFORE))
            except DBAPIError:
                connection.invalidate()


def followed(act: Act[Any], last: Ask) -> Act[Any]:
    """Return an act that carries out one statement more at its end."""
    return partial(_followed, act, last)


def _followed(act: Act[Any], last: Ask, work: Work) -> Generator[tuple[Ask, ...], list[Any], Any]:
    found = yield from act(work)
    yield (last,)
    return found


def silenced(act: Act[Any]) -> Act[Any]:
    """Return an act that does the same and notifies nobody: those that wait look by time."""
    return partial(_silenced, act)


def _silenced(act: Act[Any], work: Work) -> Generator[tuple[Ask, ...], list[Any], Any]:
    steps = act(work)
    try:
        asks = next(steps)
        while True:
            left = [ask for ask in asks if "channel_" not in ask.values]
            replies = iter((yield tuple(map(_without_a_bell, left))))
            asks = steps.send([[] if "channel_" in ask.values else next(replies) for ask in asks])
    except StopIteration as done:
        return done.value
    finally:
        steps.close()


def _without_a_bell(ask: Ask) -> Ask:
    return Ask(ask.statement, {**ask.values, "tokens_": []}) if "bell_" in ask.values else ask
