"""The blocking connection to ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from recipes._contract.connection import Mailbox, OnEnd, Request
from recipes._run.waiting import acquire
from recipes.stores.zookeeper.access import OPEN, Access
from recipes.stores.zookeeper.kazoo_client import KazooSession
from recipes.stores.zookeeper.kazoo_client_calls import Call

__all__ = ["KazooConnection"]


class KazooConnection:
    """A ``Connection`` to ZooKeeper: one session; threads may share it. Making one does no I/O.

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

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        done = threading.Lock()  # taken until released: the leanest event there is
        done.acquire()
        call = Call(request, done.release)
        try:
            self._session.submit(call, timeout_s)
            acquire(done, timeout_s)
        except BaseException:
            self._session.abandon(call)
            raise
        return self._session.outcome(call, timeout_s)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._session.forget(mailbox)

    def close(self) -> None:
        """Let go of the sockets and threads of this connection, within a second; never raises."""
        self._session.close()
