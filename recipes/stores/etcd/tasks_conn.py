"""One HTTP connection on asyncio: a protocol that answers the requests written to it, in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from recipes.stores.etcd.session_conn import readable
from recipes.stores.etcd.wire import Exchange, Reply, WireError
from recipes.stores.etcd.wire_dial import Address, Endpoint, forget_unsent, look_up, numeric, tune
from recipes.stores.tls import CLOSED

__all__ = ["Conn", "connect", "told"]

T = TypeVar("T")
GIVEN_UP_S = 2.0


class Conn(asyncio.Protocol):
    """Write requests with ``send``, and await one future for each reply; all fail together."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._exchange = Exchange()
        self._loop = asyncio.get_running_loop()
        self._over = False
        self._given_up = False
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def send(self, data: bytes, count: int) -> list[asyncio.Future[Reply]]:
        """Write ``count`` requests, and return the futures of their replies."""
        replies: list[asyncio.Future[Reply]] = [self._loop.create_future() for _ in range(count)]
        self._waiting.extend(replies)
        self.transport.write(data)
        return replies

    def good(self) -> bool:
        """Say whether it can take a request: nothing came unasked, not even what the loop has yet to read."""
        if self._over or self.transport.is_closing():
            return False
        sock = self.transport.get_extra_info("socket")
        return sock is None or not readable(sock.fileno())

    def fail(self, error: Exception) -> None:
        """Close it at once; whatever waits for a reply gets ``error``."""
        self.reset()
        self._tell(error)

    def reset(self) -> None:
        """Close it, and have nothing delivered that the server has not got yet."""
        self._over = True
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            forget_unsent(sock)
        self.transport.abort()

    def _tell(self, error: Exception) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()  # seen: not every reply of a batch is awaited after a failure

    def give_up(self, error: Exception, *, reads: bool) -> None:
        """Use it no more; one whose calls only read is left until the server has answered, or for a while.

        For the reason see ``LeanSession.give_up``.
        """
        if self._given_up:
            return
        self._given_up = reads and not self._over
        if not self._given_up:
            self.fail(error)
            return
        self._over = True
        self._loop.call_later(GIVEN_UP_S, self.reset)
        self._tell(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; one of uvloop's is a Transport by its methods alone."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Cut what arrived into replies."""
        if self._given_up:
            self.reset()
            return
        try:
            while self._waiting:
                reply = self._exchange.feed(data)
                if reply is None:
                    return
                self._exchange = Exchange()
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_result(reply)
                if not reply.reusable:
                    self.fail(WireError("the server closed the connection"))
                    return
                data = reply.rest
                if not data:
                    return
            self._over = True  # more than was asked for: not to be used again
        except WireError as error:
            self.fail(error)

    def eof_received(self) -> bool:
        """Serve a reply that the end completes; anything else is cut short."""
        if self._waiting:
            self.data_received(b"")
        self._over = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody."""
        self.fail(exc or WireError("the connection was closed before a reply; does this port want TLS?"))
        if not self.closed.done():
            self.closed.set_result(None)


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
                    # What was made too late is still going down, and would tell of the next one's end.
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
        sock.close()
        words = (error.strerror if context is None else None) or CLOSED
        raise ConnectionResetError(errno.ECONNRESET, words) from error
    except BaseException:
        # In the very turn in which a handshake ends asyncio only begins to close: the transport would keep
        # the number of the socket, and the next connection that gets this number could not be used.
        made = getattr(protocol, "transport", None)
        if made is not None:
            made.abort()
        sock.close()
        raise
