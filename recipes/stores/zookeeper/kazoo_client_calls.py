"""One ask in progress: requests on their way, and the replies that have come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recipes._contract.connection import Batch, Request
from recipes._mutex import new_lock
from recipes._section import section
from recipes.errors import StoreUnavailable
from recipes.stores.zookeeper.codec import MULTI, Unread, encoded
from recipes.stores.zookeeper.requests import MultiFailed

__all__ = ["Call", "Part"]

_NOTHING = object()


class Call:
    """What one ``ask`` waits for.

    Args:
        request: What is asked.
        wake: Called once when all is there, in any thread; must not block or raise.
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
        self._lock = new_lock()

    def start(self) -> None:
        """Be done at once if there is nothing to ask."""
        if not self.parts:
            self._wake()

    def settle(self, position: int, reply: Any) -> None:
        """Take the reply, or the exception, for one part."""
        with section.mark, self._lock:
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
        with section.mark, self._lock:
            self.over = True
            return self._left > 0

    @property
    def complete(self) -> bool:
        """Whether every reply has come."""
        return not self._left

    def result(
        self, missing: Callable[[], StoreUnavailable], malformed: Callable[[Exception], Exception]
    ) -> Any:
        """Return the reply or raise.

        Args:
            missing: Makes what a part is that has none.
            malformed: Makes, of what was raised, what a part is whose reply cannot be read.
        """
        replies = [_read(reply, malformed) if type(reply) is Unread else reply for reply in self._replies]
        if self._left:
            replies = [missing() if reply is _NOTHING else reply for reply in replies]
        if isinstance(self.request, Batch):
            return tuple(replies)
        if isinstance(replies[0], Exception):
            raise replies[0]
        return replies[0]


def _read(reply: Unread, malformed: Callable[[Exception], Exception]) -> Any:
    try:
        return reply.read()
    except Exception as error:
        return malformed(error)


class Part:
    """One request of a call, as kazoo has to have it: what is sent, and where the reply goes to.

    Args:
        call: The call.
        position: Which of its requests.
        acl: For what is made, encoded.
        watcher: What kazoo calls with an event, if the request watches.
        failed: Told of what kazoo answers with, in place of a reply; must not block or raise.

    Attributes:
        type: ZooKeeper's number for this kind of request.
        path: The node.

    Raises:
        TypeError: The path is no text.
        UnicodeEncodeError: It cannot be sent; that would end kazoo's thread.
    """

    __slots__ = ("_body", "_call", "_decode", "_failed", "path", "position", "request", "type", "watcher")

    def __init__(
        self,
        call: Call,
        position: int,
        acl: bytes,
        watcher: Callable[[Any], None] | None,
        failed: Callable[[Call, Part, Exception], None],
    ) -> None:
        request: Any = call.parts[position]
        self.request = request
        self.position = position
        self.type, self._body, self._decode = encoded(request, acl)
        self.path: str = request.path
        self.watcher = watcher
        self._call = call
        self._failed = failed

    def serialize(self) -> bytes:
        """Return the body of the request."""
        return self._body

    def deserialize(self, message: bytes, offset: int) -> Any:
        """Return the reply."""
        return self._decode(message, offset)

    def set(self, value: Any) -> None:
        """Take the reply; kazoo makes a list of what came for the parts of a multi."""
        if self.type != MULTI:
            self._call.settle(self.position, value)
        elif value and isinstance(value[0], MultiFailed):
            self.set_exception(value[0])
        else:
            self._call.settle(self.position, tuple(value))

    def set_exception(self, error: Exception) -> None:
        """Take an error in place of it."""
        self._failed(self._call, self, error)
