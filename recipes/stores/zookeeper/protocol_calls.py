"""What every operation on ZooKeeper is made of: requests sent together, and what their errors mean."""

from __future__ import annotations

from typing import Any, TypeVar

from recipes._contract.connection import Batch, Request
from recipes._contract.protocol import Steps, StoreProtocol
from recipes.errors import SessionLost, StoreRefused
from recipes.stores.zookeeper.layout import NO_CONTENDER, Child, Dated, Layout
from recipes.stores.zookeeper.requests import (
    Delete,
    Exists,
    NodeExists,
    NoNode,
    SessionExpired,
    ZooKeeperError,
)

__all__ = ["ZooKeeperCalls"]

T = TypeVar("T")
EXPIRED = "the session has expired on the store"


class ZooKeeperCalls(StoreProtocol):
    """The requests of one session.

    Args:
        label: Where the store is, for errors.
        layout: Where its nodes are.
    """

    def __init__(self, label: str, layout: Layout) -> None:
        self._label = label
        self._layout = layout
        self._session = 0
        self._timeout_s = 0.0
        self._own_watched: set[str] = set()

    def _notice(self, queue: str, names: tuple[str, ...], children: list[Child]) -> None:
        """Note who is no contender, each once, and which kinds may not wait for ours, once a lock."""
        if len(children) == len(names) and "__" not in "".join(names):
            return  # nothing odd: what is looked for below has two underscores
        node = self._layout.queue(queue)
        contenders = {name for _, name in children}
        for name in (name for name in names if "__" in name or name not in contenders):
            if (said := self._layout.stranger(name)) is not None:
                what = (name if said is NO_CONTENDER else said, node)
                self._notices.add(what, f"{node}/{name} is {said}")

    def _by_czxid(self, queue: str, children: list[Child]) -> Steps[list[Child]]:
        """Return the children by the transaction that created them, latest first."""
        node = self._layout.queue(queue)
        stats = yield from self._together(tuple(Exists(f"{node}/{name}") for _, name in children))
        there = ((stat, name) for (_, name), stat in zip(children, stats, strict=True) if stat is not None)
        return sorted((Dated((stat.czxid, name)) for stat, name in there), reverse=True)

    def _delete(self, path: str, *, again: bool) -> Steps[bool]:
        try:
            yield from self._one(Delete(path))
        except NoNode:
            return again  # asked again: it was I who deleted it
        return True

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

    def _meant(self, error: ZooKeeperError) -> SessionLost | StoreRefused:
        if isinstance(error, SessionExpired):
            return SessionLost(EXPIRED)
        return StoreRefused(
            self._label, f"ZooKeeper error {error.code} ({str(error) or type(error).__name__})"
        )
