"""The semaphore: so many permits in all, held by several at once, in order of arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from recipes._api.locks import LockBase, Manner
from recipes._rules.permits import permits
from recipes.grant import AsyncGrant, Grant
from recipes.lock import Acquiring, BlockingLock, TaskLock

if TYPE_CHECKING:
    from recipes._api.locks import OnPlace, OnSessionLost
    from recipes._programs.hold import Hold

__all__ = ["AsyncSemaphore", "AsyncSemaphoreGrant", "Semaphore", "SemaphoreGrant"]


class _Permits:
    """What the proof of holding permits is in both runtimes."""

    _fences: ClassVar[bool] = False
    _hold: Hold

    @property
    def id(self) -> str:
        """What names it among `Semaphore.holders`, and for `Semaphore.expel`."""
        return self._hold.place.spot.id

    @property
    def weight(self) -> int:
        """How many permits it is."""
        return int(self._hold.labels["weight"])


class SemaphoreGrant(_Permits, Grant):
    """The proof of holding permits of a semaphore.

    Its ``token`` is None: of several holders a gate would refuse all but the last. What the semaphore
    protects can ask by `verify`, or by a guard on the same store.
    """


class AsyncSemaphoreGrant(_Permits, AsyncGrant):
    """Same as `SemaphoreGrant`, but ``verify``, ``release`` and ``lost.wait`` are awaited."""


class _BaseSemaphore(LockBase):
    """What a semaphore is in both runtimes."""

    _recipe: ClassVar[str] = "semaphore"

    def __init__(self, runtime: Any, name: str, limit: int, **options: Any) -> None:
        super().__init__(runtime, name, **options)
        self._queue = f"~semaphore/{self._queue}"
        self._again_with = limit, options
        self._order = permits(1, limit)

    def of(self, weight: int) -> Self:
        """Return this semaphore with another weight, as for ``with semaphore.of(2)``.

        Args:
            weight: How many permits it acquires at once: from 1 to the limit, else a ValueError.
        """
        limit, options = self._again_with
        other = type(self)(self._runtime, self._name, limit, **options)
        other._order = permits(weight, limit)  # noqa: SLF001 - one of its own
        return other

    def _weighing(self, weight: int | None) -> Self:
        return self if weight is None else self.of(weight)


class Semaphore(_BaseSemaphore, BlockingLock[SemaphoreGrant]):
    """A semaphore: at most ``limit`` permits are held at once; they are granted in order of arrival.

    A contender gets all of its permits in one step, or waits for them; a light one never overtakes a
    heavy one that came before. All clients should name the same limit: where they differ, each holds back
    those behind it, and ``semaphore.limit_differs`` is logged.

    Cheap to make, safe to share between threads, used as a `Lock` is; a lock of its name is another thing.

    Args:
        limit: How many permits there are.
        max_hold: As for `Lock`.
    """

    _grant = SemaphoreGrant

    def acquire(
        self,
        weight: int | None = None,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: OnSessionLost = "requeue",
        on_queued: OnPlace | None = None,
        on_position: OnPlace | None = None,
    ) -> SemaphoreGrant:
        """Wait for so many permits and return the grant; it is held when this returns.

        Args:
            weight: How many permits, from 1 to the limit; None: as `of` was told, or 1.
            timeout: As for `Lock.acquire`, and so are the others.
            max_waiters: How many may wait, with this one.
            on_session_lost: What to do when the place in the queue is gone.
            on_queued: Called with the number of those ahead if it has to wait.
            on_position: Called when that number is seen to change.

        Raises:
            WouldDeadlock: This thread holds permits without which this contender, or one ahead of it
                that waits, can never have theirs.
            ValueError: The weight or another option does not fit; nothing was sent.
            RecipesError: As for `Lock.acquire`.
        """
        manner = Manner(max_waiters, on_session_lost, on_queued, on_position)
        return self._weighing(weight)._acquire(timeout, manner)  # noqa: SLF001 - one of its own

    def try_acquire(
        self, weight: int | None = None, *, timeout: float | None = None
    ) -> SemaphoreGrant | None:
        """Take so many permits if they are free and nothing waits, in one look, else None; see `acquire`."""
        return super(Semaphore, self._weighing(weight)).try_acquire(timeout=timeout)


class AsyncSemaphore(_BaseSemaphore, TaskLock[AsyncSemaphoreGrant]):
    """Same as `Semaphore`, but awaits; owners are tasks, and ``on_lost`` is as for `AsyncLock`."""

    _grant = AsyncSemaphoreGrant

    def acquire(
        self,
        weight: int | None = None,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: OnSessionLost = "requeue",
        on_queued: OnPlace | None = None,
        on_position: OnPlace | None = None,
    ) -> Acquiring[AsyncSemaphoreGrant]:
        """Same as `Semaphore.acquire`, but awaits: ``await`` it, or enter it with ``async with``."""
        manner = Manner(max_waiters, on_session_lost, on_queued, on_position)
        return self._weighing(weight)._acquiring(timeout, manner)  # noqa: SLF001 - one of its own

    async def try_acquire(
        self, weight: int | None = None, *, timeout: float | None = None
    ) -> AsyncSemaphoreGrant | None:
        """Same as `Semaphore.try_acquire`, but awaits."""
        return await super(AsyncSemaphore, self._weighing(weight)).try_acquire(timeout=timeout)
