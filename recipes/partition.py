"""Partitions: each member of a group works on its share of a set of items, and no item has two workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from recipes._api.sharing import Assignment, BasePartitions, BaseSharing
from recipes._api.signatures import like
from recipes._contract.deadline import Expired
from recipes._programs.observing import Over
from recipes.errors import Closed, ReentrantCall
from recipes.grant import AsyncGrant, Grant

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState

__all__ = ["Assignment", "AsyncPartitions", "Partitions"]


class Partitions(BasePartitions[Grant]):
    """Which of a set of items are a member's: an iterator of the assignment now, and after each change.

    For one thread, which should come back soon: what is leaving is held until then. Close it, or leave it in
    a ``with`` statement, to give all items back and stay a member; releasing the membership gives them back
    too, behind the scenes. It ends when it is closed or the membership released.
    """

    def _granted(self, hold: HeldState) -> Grant:
        return Grant(self._runtime, hold)

    def next(self, timeout: float | None = None) -> Assignment[Grant] | None:
        """Let go of what was leaving, and wait for another assignment.

        Args:
            timeout: How many seconds at most; None: for ever.

        Returns:
            The assignment; None: there is no other than the last.

        Raises:
            LockLost: The membership was lost. What is held even so is held until `close`, also if it was
                removed by `evict`: close this before you join again, whose share would wait for it.
            Closed: It was closed, or the membership released, as the client's `close` does.
            StoreRefused: The store said no. The others take over what is not held here.
            StoreFull: The same, as it has no room.
            ClientClosed: The client is closed just now.
        """
        try:
            return self._assigned(self._runtime.run(*self._next(timeout)))
        except Expired:
            return None
        except Over:
            raise Closed from None

    def close(self) -> None:
        """Give all items back, and have no share any more; waits at most the request timeout.

        What is not given back by then is so behind the scenes. Stop the work on the items before.
        """
        waiting = self._closing()
        if waiting is not None:
            try:
                self._runtime.run(*waiting)
            except ReentrantCall:  # a signal handler does not wait for what it interrupted
                return

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Assignment[Grant]:
        try:
            assignment = self.next()
        except Closed:
            raise StopIteration from None
        assert assignment is not None, "without a timeout there is one"
        return assignment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class AsyncPartitions(BasePartitions[AsyncGrant]):
    """Which of a set of items are a member's, in asyncio: an asynchronous iterator, for one task.

    As `Partitions` is for threads.
    """

    def _granted(self, hold: HeldState) -> AsyncGrant:
        return AsyncGrant(self._runtime, hold, cancels=self._membership._cancels)  # noqa: SLF001 - the two are one

    @like(Partitions.next)
    async def next(self, timeout: float | None = None) -> Assignment[AsyncGrant] | None:
        try:
            return self._assigned(await self._runtime.run(*self._next(timeout)))
        except Expired:
            return None
        except Over:
            raise Closed from None

    @like(Partitions.close)
    async def close(self) -> None:
        waiting = self._closing()
        if waiting is not None:
            await self._runtime.run(*waiting)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Assignment[AsyncGrant]:
        try:
            assignment = await self.next()
        except Closed:
            raise StopAsyncIteration from None
        assert assignment is not None, "without a timeout there is one"
        return assignment

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


class SharingGrant(BaseSharing, Grant):
    """The proof of being a member, which may share items with the other members."""

    def partitions(self, items: Iterable[str]) -> Partitions:
        """Share these items with the members of the group that name the same: each has its own of them.

        The result is an iterator of `Assignment`, the current one first, then after every change. Every item
        is a lock of its own: no two members hold it at a time, whatever they believe of each other. A member
        that comes takes its share from all, one that goes leaves its own to all, and nothing else moves.

        Args:
            items: Names, in any order; each of 1 character to about 1 000 bytes with that of the group.

        Raises:
            LockLost: The membership is lost.
            RuntimeError: This membership shares items already: close that first.
            StoreUnavailable: That was closed, and the store has not taken all of it back yet.
            ValueError: A name does not fit, or is there twice; nothing was sent.
        """
        return Partitions(self, items)


class AsyncSharingGrant(BaseSharing, AsyncGrant):
    """The proof of being a member, which may share items with the other members, in asyncio."""

    @like(SharingGrant.partitions)
    def partitions(self, items: Iterable[str]) -> AsyncPartitions:
        return AsyncPartitions(self, items)
