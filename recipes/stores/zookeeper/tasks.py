"""The asyncio connection to ZooKeeper: kazoo's threads do the I/O, the loop waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Self

from recipes._contract.connection import Mailbox, OnEnd, Request
from recipes.stores.zookeeper.access import OPEN, Access
from recipes.stores.zookeeper.kazoo_client import KazooSession
from recipes.stores.zookeeper.kazoo_client_calls import Call

__all__ = ["AsyncKazooConnection"]


class AsyncKazooConnection:
    """An ``AsyncConnection`` to ZooKeeper: as ``KazooConnection``, but awaited; belongs to one loop.

    Args:
        hosts: ``host:port`` of each server, with commas between.
        on_end: Told once, in some thread, why the session ended if not by a close.
        access: TLS, who the client is, and the ACL of what it makes.
        kazoo_options: More for ``KazooClient``.
    """

    def __init__(
        self,
        hosts: str,
        *,
        on_end: OnEnd,
        access: Access = OPEN,
        kazoo_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._session = KazooSession(hosts, on_end, access, kazoo_options)
        self._arrived: deque[asyncio.Future[None]] = deque()
        self._announced = False

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        call = Call(request, partial(self._wake, loop, done))
        timer = loop.call_later(timeout_s, _resolve, done)
        try:
            self._session.submit(call, timeout_s)
            await done
        except BaseException:
            self._session.abandon(call)
            raise
        finally:
            timer.cancel()
        return self._session.outcome(call, timeout_s)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._session.forget(mailbox)

    def for_another_loop(self) -> Self:
        """Return a connection with the same session: kazoo's threads, which do the I/O, know no loop."""
        other = type(self).__new__(type(self))
        other._session, other._arrived, other._announced = self._session, deque(), False  # noqa: SLF001
        return other

    async def close(self) -> None:
        """Let go of the sockets and threads of this connection, within a second; never raises."""
        self._session.close()

    def _wake(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        """Resolve ``done`` in its loop; those that arrive until the loop gets there share one wake-up."""
        self._arrived.append(done)
        if not self._announced:
            self._announced = True
            try:
                loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed, and nobody waits
                self._arrived.clear()

    def _deliver(self) -> None:
        self._announced = False  # first: what arrives from here on announces itself
        while self._arrived:
            _resolve(self._arrived.popleft())


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
