"""The read-write lock: many readers together, or one writer alone, in order of arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from recipes._contract.rule import Order
from recipes._programs.queueing import downgrade
from recipes._rules.exclusive import WRITER
from recipes._rules.readwrite import SHARED
from recipes.grant import AsyncGrant, Grant
from recipes.lock import BlockingLock, TaskLock

if TYPE_CHECKING:
    from recipes._api.locks import OnLost
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.tasks import AsyncRuntime

__all__ = [
    "AsyncReadLock",
    "AsyncReadWriteLock",
    "AsyncWriteGrant",
    "AsyncWriteLock",
    "ReadLock",
    "ReadWriteLock",
    "WriteGrant",
    "WriteLock",
]

RECIPE = "rwlock"


class WriteGrant(Grant):
    """The proof of holding a read-write lock as its writer."""

    def downgrade(self) -> None:
        """Go on as a reader: let in the readers that are next in line, and no writer.

        Atomic: at no moment is the lock free. The place in the queue and the token stay. Do
        not write any more: guards that were made before (`recipes.etcd.guard`,
        `recipes.zookeeper.guard`) refuse it from now on, a resource that compares tokens does
        once a reader behind this grant was there. There is no way back: release, and acquire
        the writer again.

        Waits at most the request timeout. Where it raises, the grant counts as shared all
        the same; call it again, or release. A second downgrade does nothing.

        Raises:
            LockLost: The grant was lost, or released.
            StoreUnavailable: The store gave no answer: readers may have been let in, or not.
        """
        self.check()
        if not self._hold.mark and not self._runtime.run(downgrade(self._hold), self._asking()):
            raise self._lost_error()


class AsyncWriteGrant(AsyncGrant):
    """Same as `WriteGrant`, but ``downgrade`` is awaited as well."""

    async def downgrade(self) -> None:
        """Same as `WriteGrant.downgrade`, but awaits."""
        self.check()
        if not self._hold.mark and not await self._runtime.run(downgrade(self._hold), self._asking()):
            raise self._lost_error()


class ReadLock(BlockingLock[Grant]):
    """The shared side of a `ReadWriteLock`: held together with other readers, with no writer beside."""

    _order: Order = SHARED
    _recipe: ClassVar[str] = RECIPE
    _grant = Grant


class WriteLock(BlockingLock[WriteGrant]):
    """The exclusive side of a `ReadWriteLock`; its grants can be downgraded."""

    _order: Order = WRITER
    _recipe: ClassVar[str] = RECIPE
    _grant = WriteGrant


class AsyncReadLock(TaskLock[AsyncGrant]):
    """Same as `ReadLock`, but awaits; owners are tasks."""

    _order: Order = SHARED
    _recipe: ClassVar[str] = RECIPE
    _grant = AsyncGrant


class AsyncWriteLock(TaskLock[AsyncWriteGrant]):
    """Same as `WriteLock`, but awaits; owners are tasks."""

    _order: Order = WRITER
    _recipe: ClassVar[str] = RECIPE
    _grant = AsyncWriteGrant


class _BaseReadWriteLock:
    """What both faces of a read-write lock share."""

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
    """A shared/exclusive lock: ``reader`` and ``writer`` each have the whole face of a `Lock`.

    Readers and writers are served in order of arrival: readers that stand next to each
    other hold together; a reader that comes after a waiting writer waits behind it, so
    nobody starves. A `Lock` of the same name counts as a writer.

    A writer may become a reader at once (`WriteGrant.downgrade`); a reader that would wait
    to become a writer gets `UpgradeError`. A thread that holds the lock as a reader and
    would wait to read again, behind a writer that waits for it, gets `WouldDeadlock`.

    Cheap to make and safe to share between threads. The rule is that of Courtois, Heymans
    and Parnas (1971) with a fair queue, as in ZooKeeper's recipe for shared locks.

    Args:
        max_hold: As for `Lock`; for the grants of both sides.

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
    """Same as `ReadWriteLock`, but its two sides await; owners are tasks.

    Args:
        max_hold: As for `Lock`; for the grants of both sides.
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
            only "tell" by ``grant.lost``.

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
        on_lost: OnLost = "cancel",
    ) -> None:
        self.reader = AsyncReadLock(runtime, name, max_hold=max_hold, on_lost=on_lost)
        self.writer = AsyncWriteLock(runtime, name, max_hold=max_hold, on_lost=on_lost)
