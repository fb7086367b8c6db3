"""Carrying out acts on a connection of SQLAlchemy: the same code for threads and, by greenlets, asyncio."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection

from recipes.stores.sql.requests import Act, Ask, Work

__all__ = ["carry_out", "followed", "run"]


def run(connection: Connection, act: Act[Any], work: Work) -> Any:
    """Take the steps of an act, and return what it returns; the transaction is the caller's."""
    steps = act(work)
    try:
        asks = next(steps)
        while True:
            asks = steps.send([_reply(connection, ask) for ask in asks])
    except StopIteration as done:
        return done.value
    finally:
        steps.close()


def _reply(connection: Connection, ask: Ask) -> Any:
    result = connection.execute(ask.statement, ask.values)
    return result.fetchall() if result.returns_rows else result.rowcount


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


def followed(act: Act[Any], last: Ask) -> Act[Any]:
    """Return an act that carries out one statement more at its end."""
    return partial(_followed, act, last)


def _followed(act: Act[Any], last: Ask, work: Work) -> Generator[tuple[Ask, ...], list[Any], Any]:
    found = yield from act(work)
    yield (last,)
    return found
