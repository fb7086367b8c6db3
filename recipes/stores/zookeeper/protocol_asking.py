"""What the parts of the ZooKeeper protocol share: how they ask, and what errors mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from recipes._contract.connection import Batch, Request
from recipes._contract.operations import End
from recipes._contract.protocol import RequestContext, Steps, StoreProtocol
from recipes.errors import SessionLost, StoreFull, StoreRefused
from recipes.stores.zookeeper.layout import Layout
from recipes.stores.zookeeper.requests import (
    Close,
    Connect,
    Create,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionInfo,
    ZooKeeperError,
)

__all__ = ["ANOTHERS", "ANY", "EXPIRED", "MOST_LISTED", "Asking", "listed"]

T = TypeVar("T")

ANY = -1
ANOTHERS = "the reply names {}, which was not asked for"
EXPIRED = "the session has expired on the store"
MOST_LISTED = 900_000
"""So many bytes the end of a session may list: the transaction names each ephemeral node. One that is longer
than ``jute.maxbuffer``, a megabyte, no server reads, from the leader or from its own log (ZOOKEEPER-4306)."""
WITH_LENGTH = 4


class Asking(StoreProtocol):
    """One session with ZooKeeper, as far as asking goes.

    Args:
        label: Where the store is, for errors.
        layout: Where its nodes are.
    """

    def __init__(self, label: str, layout: Layout) -> None:
        self._label = label
        self._layout = layout
        self._listed = 0  # bytes that the end of the session lists, and what was deleted since it was counted

    def _count_listed(self, sizes: Iterable[int]) -> None:
        """Count anew what the end of the session lists; raises `StoreFull` if that is too much."""
        self._listed = sum(sizes)
        if self._listed > MOST_LISTED:
            raise StoreFull(
                self._label,
                f"what this client's session has there takes {self._listed:,} bytes to list, near the most "
                "that servers can read as it ends (jute.maxbuffer): use several clients",
            )

    def _connected(self, ttl_s: float) -> Steps[SessionInfo]:
        """Connect; the server says which session it is, and which timeout it grants."""
        granted = yield from self._one(Connect(ttl_s))
        self.session_id = f"{granted.id & (2**64 - 1):x}"
        return granted

    def end(self, op: End, context: RequestContext) -> Steps[None]:
        """Close the session, and never resume it; all that it has goes with it."""
        try:
            self.lives_on = not (yield from self._one(Close()))
        except SessionLost:
            return

    def _one(self, request: Request[T]) -> Steps[T]:
        try:
            reply: T = yield from request
        except (NoNode, NodeExists):
            raise
        except ZooKeeperError as error:
            raise self._meant(error) from error
        return reply

    def _together(self, requests: tuple[Request[Any], ...]) -> Steps[tuple[Any, ...]]:
        """Send requests back to back; a node that is not there is None."""
        if not requests:
            return ()
        replies = yield from Batch(requests)
        return self._answers(tuple(None if isinstance(reply, NoNode) else reply for reply in replies))

    def _answers(self, replies: tuple[Any, ...]) -> tuple[Any, ...]:
        for reply in replies:
            if isinstance(reply, ZooKeeperError):
                raise self._meant(reply) from reply
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _make(self, paths: list[str]) -> Steps[None]:
        """Make these nodes, topmost first; a node above the last that is there need not be writable."""
        replies = yield from Batch(tuple(Create(path) for path in paths))
        above = tuple(None if isinstance(reply, StoreRefused) else reply for reply in replies[:-1])
        refused = [reply for reply in replies[:-1] if isinstance(reply, StoreRefused)]
        if refused and isinstance(replies[-1], NoNode):
            raise refused[-1]  # what could not be made is missing
        there = (NodeExists, NoNode)  # no node: deleted under our hands, and made again next time
        self._answers(tuple(None if isinstance(r, there) else r for r in (*above, replies[-1])))

    def _meant(self, error: ZooKeeperError) -> SessionLost | StoreRefused:
        if isinstance(error, SessionExpired):
            return SessionLost(EXPIRED)
        return StoreRefused(
            self._label, f"ZooKeeper error {error.code} ({str(error) or type(error).__name__})"
        )


def listed(path: str) -> int:
    """Return how many bytes the end of a session has for this ephemeral node."""
    return len(path) + WITH_LENGTH
