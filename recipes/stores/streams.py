"""A TCP or TLS connection that is made before a deadline: for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from recipes.stores.addresses import Address, Endpoint, look_up, numeric, tune
from recipes.stores.tls import CLOSED

__all__ = ["connect", "told"]

T = TypeVar("T")


async def told(start: Callable[[Callable[[T], None]], Callable[[], None] | None]) -> T:
    """Return what ``start`` has somebody tell, from whatever thread; call what it returned, at the end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T) -> None:
        if not answer.done():
            answer.set_result(result)

    def done(result: T) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result)

    forget = start(done)
    try:
        return await answer
    finally:
        if forget is not None:
            forget()


async def _resolve(endpoint: Endpoint) -> list[Address]:
    """Return the addresses of ``endpoint``, or raise OSError."""
    found = numeric(endpoint)
    if found is not None:
        return found
    outcome: list[Address] | Exception = await told(partial(look_up, endpoint))
    if isinstance(outcome, Exception):
        raise OSError(f"the name cannot be resolved: {outcome}")
    return outcome


async def connect(
    endpoint: Endpoint, context: ssl.SSLContext | None, protocol: asyncio.Protocol, until: float
) -> None:
    """Connect ``protocol`` to ``endpoint``, trying each of its addresses, or raise OSError.

    ``until`` is an instant of the loop's clock.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(until):
            found = await _resolve(endpoint)
            for position, address in enumerate(found, 1):
                now = loop.time()
                share = now + (until - now) / (len(found) - position + 1)
                try:
                    async with asyncio.timeout_at(share):
                        await _connect(address, endpoint.host, context, protocol)
                        return
                except OSError:
                    # What was made too late is still going down, and would report the next one's end.
                    if position == len(found) or getattr(protocol, "transport", None) is not None:
                        raise
    except TimeoutError as error:
        raise TimeoutError(error.strerror or "no connection in time") from None


async def _connect(
    address: Address, host: str, context: ssl.SSLContext | None, protocol: asyncio.Protocol
) -> None:
    family, where = address
    loop = asyncio.get_running_loop()
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        tune(sock)
        sock.setblocking(False)
        await loop.sock_connect(sock, where)
        name = host if context is not None else None
        await loop.create_connection(lambda: protocol, sock=sock, ssl=context, server_hostname=name)
    except ConnectionResetError as error:
        _give_up(sock)
        words = (error.strerror if context is None else None) or CLOSED
        raise ConnectionResetError(errno.ECONNRESET, words) from error
    except BaseException:
        # In the very turn in which a handshake ends asyncio only begins to close: the transport would keep
        # the number of the socket, and the next connection that gets this number could not be used.
        made = getattr(protocol, "transport", None)
        if made is not None:
            made.abort()
        _give_up(sock)
        raise


def _give_up(sock: socket.socket) -> None:
    """Close a socket of which no transport was made.

    A uvloop transport that ended before it was handed over has closed the descriptor, and keeps the object
    from doing so; the object would close that number later, when it may be another connection's.
    """
    sock.close()
    if sock.fileno() >= 0:
        sock.detach()
