"""Where a server is: a host and a port, the addresses they stand for, and how each socket is set up."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
from collections.abc import Callable
from typing import Any

from recipes._record import record
from recipes._signals import of_a_wait
from recipes._threads import new_thread, start
from recipes.stores.urls import written

__all__ = ["Address", "Endpoint", "addresses", "forget_unsent", "look_up", "numeric", "tune"]

Address = tuple[int, tuple[Any, ...]]
"""A socket family, and what ``connect`` takes."""


@record
class Endpoint:
    """One server."""

    host: str
    port: int

    @property
    def store(self) -> str:
        """What errors call it, and HTTP."""
        return written(self.host, self.port)


def numeric(endpoint: Endpoint) -> list[Address] | None:
    """Return the address if the host is one already, else None."""
    try:
        return _resolve(endpoint, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None


def look_up(endpoint: Endpoint, done: Callable[[list[Address] | Exception], None]) -> None:
    """Ask the resolver from a thread of its own, since nothing can interrupt it; ``done`` is called there.

    If no thread can be started, ``done`` is called with that error at once.
    """

    def work() -> None:
        try:
            found: list[Address] | Exception = _resolve(endpoint, 0)
        except (OSError, UnicodeError) as error:
            found = error
        done(found)

    try:
        start(new_thread("resolve", work))
    except OSError as error:
        done(error)


def addresses(endpoint: Endpoint, timeout_s: float) -> list[Address]:
    """Return the addresses of ``endpoint`` within ``timeout_s``, or raise OSError."""
    found: list[Address] | Exception | None = numeric(endpoint)
    if found is None:
        answer: queue.Queue[list[Address] | Exception] = queue.Queue()  # not Simple: a signal may hang that
        look_up(endpoint, answer.put)
        try:
            found = answer.get(timeout=max(timeout_s, 0))
        except queue.Empty:
            raise TimeoutError("the name was not resolved in time") from None
        except Exception as error:
            raise of_a_wait(error) from None
    if isinstance(found, Exception):
        raise OSError(f"the name cannot be resolved: {found}")
    return found


def tune(sock: socket.socket) -> None:
    """Set what every connection needs: no delay, and probes that notice a dead peer within 20 s."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2)):
        with contextlib.suppress(AttributeError, OSError):  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def forget_unsent(sock: Any) -> None:
    """Have the kernel forget what it has not delivered when ``sock`` is closed, and reset the connection.

    Otherwise it goes on delivering for about a quarter of an hour, to a server that was cut off too.
    """
    with contextlib.suppress(OSError, ValueError):  # it is closed already; uvloop says it with the second
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _resolve(endpoint: Endpoint, flags: int) -> list[Address]:
    infos = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in infos]
