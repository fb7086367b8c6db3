"""One ask in progress: requests on their way, and the replies that have come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.protocol import serialization
from kazoo.security import OPEN_ACL_UNSAFE

from recipes.errors import StoreUnavailable
from recipes.stores.base import Batch, Request
from recipes.stores.zookeeper.requests import (
    Children,
    Create,
    Delete,
    Exists,
    Get,
    SetData,
    Stat,
    Sync,
)

__all__ = ["Call", "kazoo_request", "reply_of"]

_NOTHING = object()


class Call:
    """What one ``ask`` waits for.

    Args:
        request: What is asked.
        wake: Called once when all is there, in any thread; must not block.
    """

    __slots__ = ("_left", "_lock", "_replies", "_wake", "over", "parts", "request", "sent_at")

    def __init__(self, request: Request[Any], wake: Callable[[], None]) -> None:
        self.request = request
        self.parts: tuple[Request[Any], ...] = request.parts if isinstance(request, Batch) else (request,)
        self.over = False
        self.sent_at: float | None = None
        self._wake = wake
        self._replies: list[Any] = [_NOTHING] * len(self.parts)
        self._left = len(self.parts)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Be done at once if there is nothing to ask."""
        if not self.parts:
            self._wake()

    def settle(self, position: int, reply: Any) -> None:
        """Take the reply, or the exception, for one part."""
        with self._lock:
            if self.over or self._replies[position] is not _NOTHING:
                return
            self._replies[position] = reply
            self._left -= 1
            if self._left:
                return
            self.over = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """Take ``error`` for every part that has no reply."""
        for position in range(len(self.parts)):
            self.settle(position, error)

    def abandon(self) -> bool:
        """Take no more replies, and wake nobody; returns whether some are missing."""
        with self._lock:
            self.over = True
            return self._left > 0

    def result(self, missing: Callable[[], StoreUnavailable]) -> Any:
        """Return the reply or raise; a part that has none is what ``missing`` makes."""
        replies = tuple(missing() if reply is _NOTHING else reply for reply in self._replies)
        if isinstance(self.request, Batch):
            return replies
        if isinstance(replies[0], Exception):
            raise replies[0]
        return replies[0]


def kazoo_request(  # noqa: PLR0911 - one return for each kind of request
    client: Any, request: Request[Any], watcher: Callable[[Any], None]
) -> Any:
    """Return what kazoo's own methods would queue for a request; paths are as kazoo would write them.

    Raises:
        TypeError: The path is no text.
        UnicodeEncodeError: It cannot be sent; that would end kazoo's thread.
    """
    path = getattr(request, "path", "")
    if not isinstance(path, str):
        raise TypeError(f"a path is text, not {type(path).__name__}")
    path.encode()
    match request:
        case Create(path, data, ephemeral, sequence):
            acl = client.default_acl or OPEN_ACL_UNSAFE
            return serialization.Create2(path, data, acl, ephemeral | sequence << 1)
        case Children(path):
            return serialization.GetChildren(path, None)
        case Get(path, mailbox):
            return serialization.GetData(path, None if mailbox is None else watcher)
        case Exists(path):
            return serialization.Exists(path, None)
        case SetData(path, data, version):
            return serialization.SetData(path, data, version)
        case Delete(path, version):
            return serialization.Delete(path, version)
        case Sync(path):
            return serialization.Sync(path)
        case _:
            raise AssertionError(f"ZooKeeper should not be asked {type(request).__name__} here")


def reply_of(request: Request[Any], value: Any) -> Any:
    """Return the reply to ``request`` that kazoo's ``value`` is."""
    match request:
        case Create():
            path, stat = value
            return path, _stat(stat)
        case Get():
            data, stat = value
            return data or b"", _stat(stat)
        case Children():
            return tuple(value)
        case Exists():
            return None if value is None else _stat(value)
        case SetData():
            return _stat(value)
        case _:
            return None


def _stat(stat: Any) -> Stat:
    return Stat(stat.czxid, stat.ephemeralOwner, stat.version)
