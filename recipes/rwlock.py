"""The read-write lock: many readers together, or one writer alone, in order of arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from recipes._api.held_tasks import AsyncHeld
from recipes._api.held_threads import BlockingHeld
from recipes._rules.exclusive import WRITER
from recipes._rules.readwrite import SHARED
from recipes.grant import AsyncGrant, AsyncWriteGrant, Grant, WriteGrant
from recipes.guarantees import Need

if TYPE_CHECKING:
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.tasks import AsyncRuntime

__all__ = [
    "AsyncReadLock",
    "AsyncReadWriteLock",
    "AsyncWriteLock",
    "ReadLock",
    "ReadWriteLock",
    "WriteLock",
]

RECIPE = "rwlock"
NEEDS: tuple[Need, ...] = ("shared",)


class ReadLock(BlockingHeld[Grant]):
    """The shared side of a `ReadWriteLock`: held together with other readers, with no writer beside."""

    _rule, _recipe, _grant, _needs = SHARED, RECIPE, Grant, NEEDS


class WriteLock(BlockingHeld[WriteGrant]):
    """The exclusive side of a `ReadWriteLock`; its grants can be downgraded."""

    _rule, _recipe, _grant, _needs = WRITER, RECIPE, WriteGrant, NEEDS


class AsyncReadLock(AsyncHeld[AsyncGrant]):
    """The shared side of an `AsyncReadWriteLock`: held with other readers, with no writer beside."""

    _rule, _recipe, _grant, _needs = SHARED, RECIPE, AsyncGrant, NEEDS


class AsyncWriteLock(AsyncHeld[AsyncWriteGrant]):
    """The exclusive side of an `AsyncReadWriteLock`; its grants can be downgraded."""

    _rule, _recipe, _grant, _needs = WRITER, RECIPE, AsyncWriteGrant, NEEDS


class _BaseReadWriteLock:
    """What a read-write lock is in both runtimes."""

    reader: Any
    writer: Any

    @property
    def name(self) -> str:
        """The name of the lock, as it was given."""
        name: str = self.writer.name
        return name

    def __repr__(self) -> str:
        return repr(self.writer).replace(type(self.writer).__name__, type(self).__name__, 1)


class ReadWriteLock(_BaseReadWriteLock):
    """A shared/exclusive lock: ``reader`` and ``writer`` each have all that a `Lock` has.

    Readers and writers are served in order of arrival: readers that stand next to each
    other hold together; a reader that comes after a waiting writer waits behind it, so
    that none starves. A `Lock` of the same name counts as a writer.

    A writer may become a reader at once (`WriteGrant.downgrade`); a reader that would wait
    to become a writer gets `UpgradeError`. A thread that holds the lock as a reader and
    would wait to read again, behind a writer that waits for it, gets `WouldDeadlock`.

    Cheap to make, which does no I/O, and safe to share between threads. The rule is that of
    Courtois, Heymans and Parnas (1971) with a fair queue, as in ZooKeeper's recipe for shared locks.

    Args:
        name: The lock's name.
        max_hold: Seconds after which a grant of either side is lost, and the next in line gets
            it, unless `Grant.progress` was called. At least 0.1; None: never.

    Raises:
        TooWeak: The store has no shared locks.
        ValueError: The name is empty, or longer than 1 024 encoded bytes;
            ``max_hold`` is too short.
        TypeError: The name is no text, or ``max_hold`` no number.

    Attributes:
        reader: The shared side.
        writer: The exclusive side.
    """

    reader: ReadLock
    writer: WriteLock

    def __init__(self, runtime: BlockingRuntime, name: str, *, max_hold: float | None = None) -> None:
        self.reader = ReadLock(runtime, name, max_hold=max_hold)
        self.writer = WriteLock(runtime, name, max_hold=max_hold)


class AsyncReadWriteLock(_BaseReadWriteLock):
    """A shared/exclusive lock for asyncio: ``reader`` and ``writer`` each have all that an `AsyncLock` has.

    Served in order of arrival, by the rule of `ReadWriteLock`; an `AsyncLock` of the same name counts
    as a writer. A writer may become a reader (`AsyncWriteGrant.downgrade`); a reader that would wait
    to write gets `UpgradeError`, and one that would wait behind a writer to read again `WouldDeadlock`.

    Cheap to make, which does no I/O, and safe to share between the tasks of one loop.

    Args:
        name: The lock's name.
        max_hold: Seconds after which a grant of either side is lost, and the next in line gets
            it, unless `AsyncGrant.progress` was called. At least 0.1; None: never.
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
            only "tell" by ``grant.lost``.

    Raises:
        TooWeak: The store has no shared locks.
        ValueError: The name is empty, or longer than 1 024 encoded bytes;
            ``max_hold`` is too short; ``on_lost`` is neither.
        TypeError: The name is no text, or ``max_hold`` no number.

    Attributes:
        reader: The shared side.
        writer: The exclusive side.
    """

    reader: AsyncReadLock
    writer: AsyncWriteLock

    def __init__(
        self,
        runtime: AsyncRuntime,
        name: str,
        *,
        max_hold: float | None = None,
        on_lost: Literal["cancel", "tell"] = "cancel",
    ) -> None:
        self.reader = AsyncReadLock(runtime, name, max_hold=max_hold, on_lost=on_lost)
        self.writer = AsyncWriteLock(runtime, name, max_hold=max_hold, on_lost=on_lost)
