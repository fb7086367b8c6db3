"""The multi-lock: several locks, readers, writers and permits together, all or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from recipes._api.held_tasks import AsyncEntered, AsyncHeld, cancels
from recipes._api.held_threads import BlockingEntered, BlockingHeld
from recipes._api.together import BaseMultiGrant, BaseMultiLock, Grants
from recipes.grant import AsyncGrant, Grant

if TYPE_CHECKING:
    from recipes._programs.together import Together

__all__ = ["AsyncMultiGrant", "AsyncMultiLock", "MultiGrant", "MultiLock"]

Part: TypeAlias = BlockingHeld[Any]
AsyncPart: TypeAlias = AsyncHeld[Any]
AnyGrant = TypeVar("AnyGrant", bound=Grant)
AnyAsyncGrant = TypeVar("AnyAsyncGrant", bound=AsyncGrant)


class MultiGrant(BaseMultiGrant, Grant):  # type: ignore[misc]  # its token is None
    """The proof of holding every part of a `MultiLock`; ``grant[lock]`` is the grant of one part.

    It is held while all parts are, for the least that ``remaining`` is of one, and lost with the first
    that is lost; then the others are still held until it is released. Its ``token`` is None, for each part
    has its own; its ``id`` is that of the first contender.
    """

    def __init__(self, runtime: Any, hold: Together, of: Grants) -> None:
        self._of = of
        super().__init__(runtime, hold)
        hold.follow()

    def __getitem__(self, lock: BlockingHeld[AnyGrant]) -> AnyGrant:
        """Return the grant of a part, by what was given, or by another of its kind and name.

        Raises:
            KeyError: It is no part.
        """
        found: AnyGrant = self._found(lock)
        return found


class AsyncMultiGrant(BaseMultiGrant, AsyncGrant):  # type: ignore[misc]  # its token is None
    """The proof of holding every part of an `AsyncMultiLock`, as `MultiGrant` is of a `MultiLock`."""

    def __init__(self, runtime: Any, hold: Together, of: Grants, *, cancels: bool) -> None:
        self._of = of
        super().__init__(runtime, hold, cancels=cancels)
        hold.follow()

    def __getitem__(self, lock: AsyncHeld[AnyAsyncGrant]) -> AnyAsyncGrant:
        """Return the grant of a part, as `MultiGrant.__getitem__`."""
        found: AnyAsyncGrant = self._found(lock)
        return found


class MultiLock(BaseMultiLock, BlockingEntered[MultiGrant]):
    """Several locks, readers, writers and permits together: all of them are held, or none.

    Every client acquires them one by one in the order of their paths in the store, whatever order is given
    here, so multi-locks never wait for each other in a circle. One timeout is for all. When a part is lost
    while another is waited for, all are given back, and it begins again. What the same thread held before is
    outside of that order: acquire together what is needed together. Of several ``try_acquire`` that overlap
    all may fail. Cheap to make, which does no I/O, and safe to share.

    Args:
        locks: `Lock`, `RLock`, the reader or writer of a `ReadWriteLock`, or `Semaphore`, also ``.of(2)``;
            of this client, and no two in one queue: a lock and a read-write lock of its name share one.

    Raises:
        ValueError: There is none, one is of another client, or two share a queue.
        TypeError: One is something else.
    """

    _part = BlockingHeld

    def __init__(self, runtime: Any, *locks: Part) -> None:
        super().__init__(runtime, locks)

    def _grant_of(self, hold: Together, of: Grants) -> MultiGrant:
        return MultiGrant(self._runtime, hold, of)


class AsyncMultiLock(BaseMultiLock, AsyncEntered[AsyncMultiGrant]):
    """Several locks, readers, writers and permits together, in asyncio, as `MultiLock` is for threads.

    Args:
        locks: `AsyncLock`, `AsyncRLock`, the reader or writer of an `AsyncReadWriteLock`, or
            `AsyncSemaphore`; of this client, and no two in one queue.
        on_lost: What ``async with`` does when a part is lost: "cancel" the body, or "tell" alone.

    Raises:
        ValueError: There is none, one is of another client, two share a queue, or ``on_lost`` is neither.
        TypeError: One is something else.
    """

    _part = AsyncHeld

    def __init__(
        self, runtime: Any, *locks: AsyncPart, on_lost: Literal["cancel", "tell"] = "cancel"
    ) -> None:
        super().__init__(runtime, locks)
        self._cancels = cancels(on_lost)

    def _grant_of(self, hold: Together, of: Grants) -> AsyncMultiGrant:
        return AsyncMultiGrant(self._runtime, hold, of, cancels=self._cancels)
