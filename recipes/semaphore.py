"""The semaphore: so many permits in all, held by several at once, in order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Never, Self

from recipes._api.acquiring import Acquiring
from recipes._api.held import Held
from recipes._api.held_tasks import AsyncHeld
from recipes._api.held_threads import BlockingHeld
from recipes._api.options import AcquireOptions, refuse
from recipes._api.signatures import like
from recipes._rules.permits import permits
from recipes.grant import AsyncSemaphoreGrant, SemaphoreGrant
from recipes.guarantees import Need

__all__ = ["AsyncSemaphore", "Semaphore"]


class _BaseSemaphore(Held):
    """What a semaphore is in both runtimes."""

    _recipe: ClassVar[str] = "semaphore"
    _needs: ClassVar[tuple[Need, ...]] = ("shared",)

    def __init__(self, runtime: Any, name: str, limit: int, **options: Any) -> None:
        super().__init__(runtime, name, **options)
        self._again_with = limit, options
        self._rule = permits(1, limit)

    def of(self, weight: int) -> Self:
        """Return this semaphore with a ``weight`` of 1 to the limit, as for ``with semaphore.of(2)``."""
        limit, options = self._again_with
        other = type(self)(self._runtime, self._name, limit, **options)
        other._rule = permits(weight, limit)  # noqa: SLF001 - one of its own
        return other

    def _weighing(self, weight: int | None) -> Self:
        return self if weight is None else self.of(weight)


class Semaphore(_BaseSemaphore, BlockingHeld[SemaphoreGrant]):
    """A semaphore: at most ``limit`` permits are held at once; they are granted in order of arrival.

    A contender gets all of its permits in one step, or waits for them; a light one never overtakes a
    heavy one that came before. All clients should name the same limit: where they differ, each holds back
    those behind it, and ``semaphore.limit_differs`` is logged. Cheap to make, which does no I/O, and safe to
    share. A lock of its name is another thing. Its grants have no fencing token.

    Args:
        name: The semaphore's name.
        limit: How many permits there are.
        max_hold: Seconds after which a holder that makes no ``progress`` gives its permits up.

    Raises:
        TooWeak: Several cannot hold together in the store.
        ValueError: The name, the limit or ``max_hold`` does not fit.
    """

    _grant = SemaphoreGrant

    def __init__(self, runtime: Any, name: str, limit: int, *, max_hold: float | None = None) -> None:
        super().__init__(runtime, name, limit, max_hold=max_hold)

    def acquire(
        self,
        /,
        weight: int | None = None,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: Literal["requeue", "fail"] = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
        **unknown: Never,
    ) -> SemaphoreGrant:
        """Wait for so many permits and return the grant, which is held then.

        Args:
            weight: How many permits, from 1 to the limit; None: as many as `of` says, or 1.
            timeout: As for `Lock.acquire`, and so are the others.
            max_waiters: How many may wait, with this one.
            on_session_lost: What to do when the place in the queue is gone: "requeue", or "fail".
            on_queued: Called with the number of those ahead if it has to wait.
            on_position: Called when that number changes.
            unknown: There are no other options; instead of ``blocking=False`` use `try_acquire`.

        Raises:
            WouldDeadlock: This thread or task holds permits without which this contender, or one ahead
                of it that waits, can never have theirs.
            RecipesError: As for `Lock.acquire`; a ValueError if the weight or an option does not fit.
        """
        refuse(unknown)
        how = AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position)
        return self._weighing(weight)._acquire(how)  # noqa: SLF001 - one of its own

    def try_acquire(
        self, weight: int | None = None, *, timeout: float | None = None
    ) -> SemaphoreGrant | None:
        """Take so many permits if they are free and nothing waits, in one look, else None.

        Args:
            weight: How many permits, from 1 to the limit; None: as many as `of` says, or 1.
            timeout: As for `Lock.try_acquire`.

        Raises:
            RecipesError: As for `Lock.try_acquire`; a ValueError if the weight does not fit.
        """
        return self._weighing(weight)._try_acquire(self._within(timeout))  # noqa: SLF001 - one of its own


class AsyncSemaphore(_BaseSemaphore, AsyncHeld[AsyncSemaphoreGrant]):
    """A semaphore for asyncio, as `Semaphore` is for threads; owners are tasks.

    Args:
        name: The semaphore's name.
        limit: How many permits there are; all clients should name the same.
        max_hold: Seconds after which a holder that makes no ``progress`` gives its permits up.
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or "tell" alone.

    Raises:
        TooWeak: Several cannot hold together in the store.
        ValueError: The name, the limit, ``max_hold`` or ``on_lost`` does not fit.
    """

    _grant = AsyncSemaphoreGrant

    def __init__(
        self,
        runtime: Any,
        name: str,
        limit: int,
        *,
        max_hold: float | None = None,
        on_lost: Literal["cancel", "tell"] = "cancel",
    ) -> None:
        super().__init__(runtime, name, limit, max_hold=max_hold, on_lost=on_lost)

    @like(Semaphore.acquire)
    def acquire(
        self,
        /,
        weight: int | None = None,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: Literal["requeue", "fail"] = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
        **unknown: Never,
    ) -> Acquiring[AsyncSemaphoreGrant]:
        refuse(unknown)
        how = AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position)
        return self._weighing(weight)._acquiring(how)  # noqa: SLF001 - one of its own

    @like(Semaphore.try_acquire)
    async def try_acquire(
        self, weight: int | None = None, *, timeout: float | None = None
    ) -> AsyncSemaphoreGrant | None:
        return await self._weighing(weight)._try_acquire(self._within(timeout))  # noqa: SLF001 - one of its own
