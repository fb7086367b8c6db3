"""What asyncio does with the connections of drivers: receives what is notified there, and ends them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

__all__ = ["ears_of", "hang_up", "let_go"]

Deaf = asyncio.Future[None]


def hang_up(raw: Any) -> None:
    """Have a connection of a driver end at once, without the server; what waits for it finds its end."""
    with suppress(Exception):  # it has ended
        if hasattr(raw, "pgconn"):  # psycopg would close the descriptor, which the loop may watch
            with socket.socket(fileno=os.dup(raw.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)
        else:
            (raw.terminate if hasattr(raw, "terminate") else raw.close)()


def let_go(raw: Any) -> None:
    """Let go of a connection that nothing uses any more, without the server."""
    with suppress(Exception):  # it has ended
        (raw.pgconn.finish if hasattr(raw, "pgconn") else raw.terminate)()


def ears_of(raw: Any, channel: str, hear: Callable[[str], None]) -> AbstractAsyncContextManager[Deaf]:
    """Listen, on a connection that nothing else uses meanwhile; yield what is done as soon as it is lost.

    Args:
        raw: The driver's connection, in no transaction.
        channel: Where to listen.
        hear: Called with each payload.
    """
    return (_of_psycopg if hasattr(raw, "pgconn") else _of_asyncpg)(raw, channel, hear)


@asynccontextmanager
async def _of_psycopg(raw: Any, channel: str, hear: Callable[[str], None]) -> AsyncGenerator[Deaf]:
    """Read when something arrives; psycopg's own way looks ten times a second."""
    loop = asyncio.get_running_loop()
    deaf: Deaf = loop.create_future()
    number, pgconn = raw.fileno(), raw.pgconn

    def read() -> None:
        try:
            pgconn.consume_input()
            while (notified := pgconn.notifies()) is not None:
                hear(notified.extra.decode("utf-8", "replace"))
        except Exception:
            loop.remove_reader(number)
            deaf.set_result(None)

    raw.add_notify_handler(lambda notified: hear(notified.payload))
    await raw.execute(f'LISTEN "{channel}"')
    loop.add_reader(number, read)
    try:
        yield deaf
    finally:
        if not deaf.done():  # else that is done, and the number may be another's by now
            loop.remove_reader(number)


@asynccontextmanager
async def _of_asyncpg(raw: Any, channel: str, hear: Callable[[str], None]) -> AsyncGenerator[Deaf]:
    deaf: Deaf = asyncio.get_running_loop().create_future()

    def lost(_: Any) -> None:
        if not deaf.done():
            deaf.set_result(None)

    raw.add_termination_listener(lost)
    await raw.add_listener(channel, lambda *said: hear(said[-1]))
    try:
        yield deaf
    finally:
        raw.remove_termination_listener(lost)
