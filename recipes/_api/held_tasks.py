"""Held things for asyncio tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, ParamSpec, TypeVar

from recipes._api.acquiring import Acquiring
from recipes._api.decorating import check_coroutine_function
from recipes._api.held import Acquired, Held
from recipes._api.held_threads import BlockingEntered, BlockingHeld, BlockingQueued
from recipes._api.options import AT_ONCE_S, DEFAULTS, AcquireOptions, refuse
from recipes._api.signatures import like
from recipes._programs.observing import look_up
from recipes.errors import StoreUnavailable
from recipes.grant import AsyncGrant

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from recipes._run.runtime import Call
    from recipes._run.tasks import AsyncRuntime
    from recipes.inspection import ContenderInfo

__all__ = ["AsyncEntered", "AsyncHeld", "AsyncQueued", "current_task"]

P = ParamSpec("P")
T = TypeVar("T")
AnyAsyncGrant = TypeVar("AnyAsyncGrant", bound=AsyncGrant)


def current_task() -> asyncio.Task[Any] | None:
    """Return the task that runs; None: no task does, but a callback of the loop."""
    # A third of what importing the package takes, and where there is a task it is imported.
    import asyncio  # noqa: PLC0415

    return asyncio.current_task()


class AsyncAcquired(Acquired, Generic[AnyAsyncGrant]):
    """What is acquired, in the asyncio API, whatever its recipe calls that; owners are tasks."""

    _runtime: AsyncRuntime

    def _acquiring(self, options: AcquireOptions, called: str = "acquire") -> Acquiring[AnyAsyncGrant]:
        work: Any = self._acquire(options)
        work.__qualname__ = f"{type(self).__name__}.{called}"  # what Python warns of if it is never awaited
        return Acquiring(work)

    async def _acquire(self, options: AcquireOptions) -> AnyAsyncGrant:
        if options.timeout == 0:
            try:
                grant = await self._try_acquire(AT_ONCE_S, options)
            except StoreUnavailable as silent:
                raise self._late(0.0, silent=silent) from silent
            if grant is None:
                raise self._late(0.0, position=1)
            return grant
        owner = current_task()
        again: AnyAsyncGrant | None = self._again(owner)
        if again is not None:
            return again
        self._refuse_deadlock(owner)
        call = self._runtime.call(owner, options.timeout)
        grant = await self._take(call, self._acquisition(call, options))
        assert grant is not None, "acquire returns a grant or raises"
        return grant

    async def _try_acquire(self, within: float, options: AcquireOptions = DEFAULTS) -> AnyAsyncGrant | None:
        owner = current_task()
        again: AnyAsyncGrant | None = self._again(owner)
        if again is not None:
            return again
        call = self._runtime.call(owner, within, fail_fast=True)
        return await self._take(call, self._trial(call, options))

    async def _take(self, call: Call, program: Program[Any]) -> AnyAsyncGrant | None:
        try:
            granted = await self._runtime.run(program, call)
            return None if granted is None else self._granted(granted)
        except BaseException:
            call.unwind()
            raise


def cancels(on_lost: Literal["cancel", "tell"]) -> bool:
    """Whether a body is cancelled when what it holds is lost."""
    if on_lost not in ("cancel", "tell"):
        raise ValueError(f"on_lost is 'cancel' or 'tell', not {on_lost!r}")
    return on_lost == "cancel"


class AsyncQueued(AsyncAcquired[AnyAsyncGrant], Held):
    """What is queued for in one queue, in the asyncio API."""

    _grant: type[AnyAsyncGrant]

    def __init__(
        self,
        runtime: AsyncRuntime,
        name: str,
        *,
        max_hold: float | None = None,
        on_lost: Literal["cancel", "tell"] = "cancel",
    ) -> None:
        super().__init__(runtime, name, max_hold=max_hold)
        self._cancels = cancels(on_lost)

    @like(BlockingQueued.holders)
    async def holders(self, *, limit: int = 100) -> list[ContenderInfo]:
        return [one for one in await self._listed(limit) if one.holds]

    @like(BlockingQueued.waiters)
    async def waiters(self, *, limit: int = 100) -> list[ContenderInfo]:
        return [one for one in await self.contenders(limit=limit) if not one.holds]

    @like(BlockingQueued.contenders)
    async def contenders(self, *, limit: int = 100) -> list[ContenderInfo]:
        self._need_queue()
        return await self._listed(limit)

    @like(BlockingQueued.evict)
    async def evict(self, token: int | str) -> bool:
        return await self._outside(self._eviction(token))

    async def _listed(self, limit: int) -> list[ContenderInfo]:
        return self._described(await self._outside(look_up(self._list(limit))))

    async def _outside(self, program: Program[T]) -> T:
        call = self._runtime.call(None, self._runtime.settings.request_timeout_s, fail_fast=True)
        return await self._runtime.run(program, call)

    def _grant_of(self, hold: HeldState) -> AnyAsyncGrant:
        return self._grant(self._runtime, hold, cancels=self._cancels)


class AsyncEntered(AsyncAcquired[AnyAsyncGrant]):
    """What is acquired, in the asyncio API, by a call or by entering it."""

    @like(BlockingEntered.acquire)
    def acquire(
        self,
        /,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: Literal["requeue", "fail"] = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
        **unknown: Never,
    ) -> Acquiring[AnyAsyncGrant]:
        refuse(unknown)
        return self._acquiring(AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position))

    @like(BlockingEntered.try_acquire)
    async def try_acquire(self, *, timeout: float | None = None) -> AnyAsyncGrant | None:
        return await self._try_acquire(self._within(timeout))

    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return ``function`` with each call of it inside ``async with self``: as a decorator.

        Same as for the blocking API, for coroutine functions. If the grant is lost, the call is cancelled
        and raises `LockLost`, as an ``async with`` block does.

        Raises:
            TypeError: It is no coroutine function.
        """
        check_coroutine_function(self, function)

        @wraps(function)
        async def call(*args: P.args, **options: P.kwargs) -> T:
            async with self:
                return await function(*args, **options)

        return call

    async def __aenter__(self) -> AnyAsyncGrant:
        grant = await (await self._acquire(DEFAULTS)).__aenter__()
        grant._frame = id(sys._getframe(1))  # noqa: SLF001 - public but for its name; and the two are one
        self._enter(current_task(), grant)
        return grant

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant = self._ended(id(sys._getframe(1)))  # noqa: SLF001 - as above
        try:
            await grant.__aexit__(kind, error, trace)
        finally:
            self._forget(grant._hold.owner, grant)  # noqa: SLF001 - the two are one

    def _ended(self, frame: int) -> AnyAsyncGrant:
        """Return the grant of the block in this frame, whichever task has entered that; else the innermost.

        Of other tasks only one that is alone.
        """
        mine, others = self._entered.get(current_task(), []), self._entered_by_all()
        for grants in (mine, others):
            for grant in reversed(grants):
                if grant._frame == frame:  # noqa: SLF001 - the two are one
                    found: AnyAsyncGrant = grant
                    return found
        if not mine and len(others) != 1:
            raise self._not_entered()
        last: AnyAsyncGrant = (mine or others)[-1]
        return last


class AsyncHeld(AsyncEntered[AnyAsyncGrant], AsyncQueued[AnyAsyncGrant]):
    """What is held in one queue, in the asyncio API."""

    @like(BlockingHeld.locked)
    async def locked(self) -> bool:
        return self._blocked_by(await self._outside(look_up(self._all_that_may_block())))
