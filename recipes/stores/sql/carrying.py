"""Carrying out an act on a connection of SQLAlchemy; by greenlets the same code serves asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from recipes.stores.sql.requests import Act, Ask, Work

__all__ = ["carry_out", "run"]


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


def carry_out(connection: Connection, act: Act[Any], work: Work) -> Any:
    """Carry out an act in a transaction of its own; any exception leaves no trace."""
    with _transaction(connection, work):
        return run(connection, act, work)


@contextmanager
def _transaction(connection: Connection, work: Work) -> Iterator[None]:
    with connection.begin() as transaction:
        yield
        if work.undo:
            transaction.rollback()
