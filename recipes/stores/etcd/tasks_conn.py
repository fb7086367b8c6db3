"""One HTTP connection on asyncio: a protocol that answers the requests written to it, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TypeVar, cast

from recipes.stores.addresses import forget_unsent
from recipes.stores.etcd.wires import Call, Line, Reply, WireError
from recipes.stores.sockets import readable
from recipes.stores.tls import ENDED, UNANSWERED, of_established

__all__ = ["Conn"]

T = TypeVar("T")
GIVEN_UP_S = 2.0


class Conn(asyncio.Protocol):
    """Write requests with ``send``, and await one future for each reply; all fail together."""

    transport: asyncio.Transport

    def __init__(self, line: Line) -> None:
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._over = False
        self._given_up = False
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def send(self, calls: Sequence[Call], token: str | None) -> list[asyncio.Future[Reply]]:
        """Write the requests, and return the futures of their replies."""
        data = self._line.ask(calls, token)
        replies: list[asyncio.Future[Reply]] = [self._loop.create_future() for _ in calls]
        self._waiting.extend(replies)
        self.transport.write(data)
        return replies

    def good(self) -> bool:
        """Say whether it can take a request: nothing came unasked, not even what the loop has yet to read."""
        if self._over or self.transport.is_closing() or not self._line.usable:
            return False
        if self._line.chatty:  # the loop reads it, and notes the end
            return True
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

        For the reason see ``Pool.give_up``.
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
        try:
            replies = self._line.feed(data)
        except WireError as error:
            self.fail(error)
            return
        if self._given_up:
            if replies or not data or not self._line.usable:
                self.reset()
            return
        for reply in replies:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(reply)
        if not self._line.usable:
            self._over = True  # closed, or going to be, or more than was asked for
        if self._waiting and not self._line.owes:
            self.fail(WireError("the server closed the connection"))
        elif more := self._line.more():
            self.transport.write(more)

    def eof_received(self) -> bool:
        """Serve a reply that the end completes; anything else is cut short."""
        if self._waiting:
            self.data_received(b"")
        self._over = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody."""
        end = WireError(ENDED if self._line.answered else UNANSWERED)
        self.fail(end if exc is None else of_established(exc))
        if not self.closed.done():
            self.closed.set_result(None)
