"""Which descriptors the connections of drivers have: what other code closed is neither used nor closed.

A driver closes the number that it has; whose file or socket is open under it by now, it does not know.
"""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError

from recipes._descriptors import TAKEN, Identity, identity, leave

__all__ = ["guard", "hang_up", "taken"]

_known: weakref.WeakKeyDictionary[Any, tuple[int, Identity | None]] = weakref.WeakKeyDictionary()
_NOTHING = SimpleNamespace(close=lambda: None)
"""What a pool closes in place of a connection that is left as it is."""


def guard(engine: Any) -> None:
    """Have an engine of blocking connections lend and close none that is taken."""
    event.listen(engine, "connect", lambda connection, _: _note(connection))
    event.listen(engine, "checkout", lambda connection, _, __: _check(connection))
    event.listen(engine, "close", _leave_taken)


def taken(connection: Any) -> bool:
    """Whether other code of this process closed the descriptor of a driver's connection."""
    number, kind = _known.get(connection, (-1, None))
    return number >= 0 and identity(number) != kind and _number(connection) == number


def hang_up(connection: Any) -> None:
    """Have what uses a driver's connection find its end; from any thread; never raises.

    The thread that uses it may close it meanwhile, and its number may be that of another file at once. What a
    copy of the number leads to stays what it is: so the copy is made first, and then looked at.
    """
    number, kind = _known.get(connection, (-1, None))
    with suppress(OSError):
        copy = os.dup(number)
        if identity(copy) != kind:
            os.close(copy)
            return
        # The family does not matter; only this object closes it, wherever an interrupt strikes.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=copy) as sock:
            sock.shutdown(socket.SHUT_RDWR)


def _note(connection: Any) -> None:
    number = _number(connection)
    _known[connection] = number, identity(number)


def _number(connection: Any) -> int:
    """Return the number of the descriptor; below zero: it is closed."""
    with suppress(Exception):  # psycopg and PyMySQL say it in their own ways
        sock = getattr(connection, "_sock", connection)  # PyMySQL's
        return int(sock.fileno())
    return -1


def _check(connection: Any) -> None:
    if connection not in _known:  # a pool had it before it was guarded
        _note(connection)
    if taken(connection):
        raise DisconnectionError(TAKEN)  # the pool makes another


def _leave_taken(connection: Any, record: Any) -> None:
    if taken(connection):
        leave(connection)
        record.dbapi_connection = _NOTHING
