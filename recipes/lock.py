"""The exclusive lock, and the two faces of every lock that queues."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from recipes._api.leaving import ends, enters, looked_up, seen_leaving
from recipes._api.locks import ANYHOW, LockBase, Manner, OnLost, OnSessionLost
from recipes._contract.deadline import duration
from recipes._programs.observing import look_up
from recipes._programs.queueing import acquire, try_acquire
from recipes.errors import LockTimeout, ReentrantCall, StoreUnavailable
from recipes.grant import AsyncGrant, Grant

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from recipes._contract.operations import Program
    from recipes._programs.hold import Hold
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.runtime import Call
    from recipes._run.tasks import AsyncRuntime
    from recipes.inspection import ContenderInfo

__all__ = ["Acquiring", "AsyncLock", "BlockingLock", "Lock", "TaskLock"]

AT_ONCE_S = 0.2  # that much later than 0 a call may return, whatever the network does
T = TypeVar("T")
AnyGrant = TypeVar("AnyGrant", bound=Grant)
AnyAsyncGrant = TypeVar("AnyAsyncGrant", bound=AsyncGrant)


class BlockingLock(LockBase, Generic[AnyGrant]):
    """The blocking face of every lock that queues."""

    _runtime: BlockingRuntime
    _grant: type[AnyGrant]

    def acquire(
        self,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: OnSessionLost = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
    ) -> AnyGrant:
        """Wait for the lock and return the grant; it is held when this returns.

        Args:
            timeout: Seconds for the whole call; None waits for ever, also through an
                outage of the store; 0 tries once, as `try_acquire` does, and gives the store 0.2 s
                to answer. Where a first use, which starts the session, or one request may take
                longer, open the client before, or use `try_acquire`.
            max_waiters: How many may wait for the lock, with this one; it does not wait as one
                more. 0: acquire it only if that takes no waiting. None: any number.
            on_session_lost: What to do when the place in the queue is gone, with the session or by
                an operator's hand: "requeue" at the tail, or "fail".
            on_queued: Called with the number of those ahead if it has to wait, and each time it
                queues again. It runs where callbacks of `Lost` do, after the earlier ones of this
                call: in a thread for them, or soon in the loop.
            on_position: Called with that number then, and whenever a look at the queue shows
                another. Who waits looks when the one he watches goes: deep in a queue numbers
                are skipped. In a short queue on etcd being told takes one look more.

        Raises:
            LockTimeout: Not acquired in time; nothing is left in the queue.
            QueueFull: ``max_waiters`` wait already; nothing is left in the queue.
            SessionLost: The place in the queue is gone, and ``on_session_lost`` is "fail".
            WouldDeadlock: This thread holds the lock in a way that it would wait for itself
                (`UpgradeError`: it holds it shared, and asks for it exclusively).
            StoreRefused: The store said no (permissions, credentials).
            ClientClosed: The client was closed.
            ValueError: The timeout is negative or not finite, or another option is none; nothing
                was sent.
        """
        return self._acquire(timeout, Manner(max_waiters, on_session_lost, on_queued, on_position))

    def _acquire(self, timeout: float | None, manner: Manner) -> AnyGrant:
        duration("timeout", timeout)
        if self._runtime.left:
            self._runtime.sweep()  # what this thread has left does not stand in its way
        if timeout == 0:
            try:
                grant = self.try_acquire(timeout=AT_ONCE_S)
            except StoreUnavailable as silent:
                raise LockTimeout(self._name, 0.0) from silent
            if grant is None:
                raise LockTimeout(self._name, 0.0, position=1)
            return grant
        owner = threading.current_thread()
        again: AnyGrant | None = self._again(owner)
        if again is not None:
            return again
        self._refuse_deadlock(owner)
        call = self._runtime.call(owner, timeout)
        grant = self._take(call, acquire(self._attempt(timeout, owner, manner)))
        assert grant is not None, "acquire returns a grant or raises"
        return grant

    def try_acquire(self, *, timeout: float | None = None) -> AnyGrant | None:
        """Take the lock if nobody is in the way, in one look; None if somebody holds or waits for it.

        Never queues.

        Args:
            timeout: Seconds for the store to answer, in all, also where a session has to be started
                first; at least 0.05. None: the request timeout.

        Raises:
            StoreUnavailable: The store gave no answer in time; nothing is left in the queue.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            ValueError: The timeout is too short, or not finite; nothing was sent.
        """
        if self._runtime.left:
            self._runtime.sweep()
        within = self._within(timeout)
        owner = threading.current_thread()
        again: AnyGrant | None = self._again(owner)
        if again is not None:
            return again
        call = self._runtime.call(owner, within, fail_fast=True)
        return self._take(call, try_acquire(self._attempt(0.0, owner, ANYHOW)))

    def holders(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Return who holds the lock as the store shows it: nobody, one, or several readers.

        Also those of other sides and clients that share the queue of this name. Reading takes at
        most the request timeout, and holds up nobody.

        Args:
            limit: How many contenders are read, from the head of the queue on; 1 to 10 000.

        Raises:
            StoreUnavailable: The store gave no answer.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            ValueError: The limit does not fit; nothing was sent.
        """
        return [one for one in self.contenders(limit=limit) if one.holds]

    def waiters(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Return who waits, in order, among the first ``limit`` of the queue; see `holders`."""
        return [one for one in self.contenders(limit=limit) if not one.holds]

    def contenders(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Return who holds the lock and who waits, in order, at one moment; see `holders`."""
        return self._described(self._outside(look_up(self._list(limit))))

    def expel(self, token: int | str) -> bool:
        """Remove the contender with this token (of a semaphore: this id) from the queue: for an operator.

        Its client is told by its next renewal, not before, and may go on until then: what the lock
        protects has to refuse the old token, or its process has to be ended first.

        Args:
            token: As `holders` and `waiters` show it; no other contender has it, now or later. It has to
                be among the first 10 000 of the queue.

        Returns:
            Whether it was there.

        Raises:
            StoreUnavailable: The store gave no answer; it may be removed, or not.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
        """
        return self._outside(self._expulsion(token))

    def _outside(self, program: Program[T]) -> T:
        call = self._runtime.call(None, self._runtime.settings.request_timeout_s, fail_fast=True)
        return self._runtime.run(program, call)

    def _take(self, call: Call, program: Program[Hold] | Program[Hold | None]) -> AnyGrant | None:
        try:
            hold = self._runtime.run(program, call)
            return None if hold is None else self._granted(self._grantable(hold))
        except BaseException:
            call.unwind()
            raise

    def _granted(self, hold: Hold) -> AnyGrant:
        return self._grant(self._runtime, hold)

    def _refuse_waiting_for_oneself(self) -> None:
        # By the stack: whatever would be noted, an interrupt could leave noted for ever.
        frame, found = inspect.currentframe(), 0
        while frame is not None:
            if frame.f_code in _STANDING and self._shares_queue(frame.f_locals["self"]):
                found += 1
            frame = frame.f_back
        if found > 1:  # one is this call; what the other does, a signal handler has interrupted to call this
            raise ReentrantCall

    def _shares_queue(self, other: Any) -> bool:
        """Whether another lock, or a grant, is of the same client and name."""
        queue = other._queue if isinstance(other, LockBase) else other._hold.place.spot.queue  # noqa: SLF001
        return queue == self._queue and other._runtime is self._runtime  # noqa: SLF001

    def __enter__(self) -> AnyGrant:
        found = looked_up(self)
        owner = threading.current_thread()
        grant = self.acquire()
        try:
            grant.check()
            self._enter(owner, grant)
            grant._block = enters(found, self._runtime, grant, self)  # noqa: SLF001 - the two are one
        except BaseException:
            self._forget(owner, grant)
            grant.release()
            raise
        return grant

    @seen_leaving
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        owner = threading.current_thread()
        grant = ends(self._entered_by(owner))
        try:
            grant._leave(error)  # noqa: SLF001 - the two are one
        finally:
            self._forget(owner, grant)
        grant._block = None  # noqa: SLF001 - last: until here the end of the block would be seen


# The functions in which this thread has a place in the queue that only their going on takes away.
_STANDING = tuple(
    function.__code__
    for function in (BlockingLock._take, Grant.release, Grant._release_behind)  # noqa: SLF001 - one of us
)


class Lock(BlockingLock[Grant]):
    """An exclusive lock: one grant at a time, in order of arrival.

    Cheap to make and safe to share between threads; every acquire is a contender of its
    own. As a context manager it acquires, waiting for ever, and releases; it may be
    entered by many threads at once, and each leaves its own grant.

    It protects nothing by itself from a holder that stopped and went on too late: hand
    ``grant.token`` to the resource (see the guarantees page of the documentation).

    Args:
        max_hold: Seconds after which a grant is lost unless `Grant.progress` was called; None:
            it may be held for as long as the session lasts.
    """

    _grant = Grant


def _current_task() -> asyncio.Task[Any] | None:
    # A third of what importing the package takes, and who has a task has it imported.
    import asyncio  # noqa: PLC0415

    return asyncio.current_task()


class Acquiring(Coroutine[Any, Any, AnyAsyncGrant]):
    """An acquire that was asked for: await it for the grant, or enter it with ``async with``, once.

    It is a coroutine: it can be made a task of, and Python warns of one that was never
    awaited.
    """

    __slots__ = ("_grant", "_work")

    def __init__(self, work: Coroutine[Any, Any, AnyAsyncGrant]) -> None:
        self._work = work
        self._grant: AnyAsyncGrant | None = None

    def __await__(self) -> Generator[Any, Any, AnyAsyncGrant]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """Go on with ``value``; for the event loop."""
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an exception; for the event loop."""
        return self._work.throw(*error)

    def close(self) -> None:
        """End it where it is; for the event loop."""
        self._work.close()

    async def __aenter__(self) -> AnyAsyncGrant:
        self._grant = await self
        return await self._grant.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._grant is not None, "what is left was entered"
        await self._grant.__aexit__(kind, error, trace)


class TaskLock(LockBase, Generic[AnyAsyncGrant]):
    """The asyncio face of every lock that queues; owners are tasks."""

    _runtime: AsyncRuntime
    _grant: type[AnyAsyncGrant]

    def __init__(
        self,
        runtime: AsyncRuntime,
        name: str,
        *,
        max_hold: float | None = None,
        on_lost: OnLost = "cancel",
    ) -> None:
        super().__init__(runtime, name, max_hold=max_hold)
        if on_lost not in ("cancel", "tell"):
            raise ValueError(f"on_lost is 'cancel' or 'tell', not {on_lost!r}")
        self._cancels = on_lost == "cancel"

    def acquire(
        self,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: OnSessionLost = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
    ) -> Acquiring[AnyAsyncGrant]:
        """Same as `Lock.acquire`, but awaits: ``await`` it, or enter it with ``async with``."""
        return self._acquiring(timeout, Manner(max_waiters, on_session_lost, on_queued, on_position))

    def _acquiring(self, timeout: float | None, manner: Manner) -> Acquiring[AnyAsyncGrant]:
        duration("timeout", timeout)
        return Acquiring(self._acquire(timeout, manner))

    async def _acquire(self, timeout: float | None, manner: Manner = ANYHOW) -> AnyAsyncGrant:
        if timeout == 0:
            try:
                grant = await self.try_acquire(timeout=AT_ONCE_S)
            except StoreUnavailable as silent:
                raise LockTimeout(self._name, 0.0) from silent
            if grant is None:
                raise LockTimeout(self._name, 0.0, position=1)
            return grant
        owner = _current_task()
        again: AnyAsyncGrant | None = self._again(owner)
        if again is not None:
            return again
        self._refuse_deadlock(owner)
        call = self._runtime.call(owner, timeout)
        grant = await self._take(call, acquire(self._attempt(timeout, owner, manner)))
        assert grant is not None, "acquire returns a grant or raises"
        return grant

    async def try_acquire(self, *, timeout: float | None = None) -> AnyAsyncGrant | None:
        """Same as `Lock.try_acquire`, but awaits."""
        within = self._within(timeout)
        owner = _current_task()
        again: AnyAsyncGrant | None = self._again(owner)
        if again is not None:
            return again
        call = self._runtime.call(owner, within, fail_fast=True)
        return await self._take(call, try_acquire(self._attempt(0.0, owner, ANYHOW)))

    async def holders(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Same as `Lock.holders`, but awaits."""
        return [one for one in await self.contenders(limit=limit) if one.holds]

    async def waiters(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Same as `Lock.waiters`, but awaits."""
        return [one for one in await self.contenders(limit=limit) if not one.holds]

    async def contenders(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Same as `Lock.contenders`, but awaits."""
        return self._described(await self._outside(look_up(self._list(limit))))

    async def expel(self, token: int | str) -> bool:
        """Same as `Lock.expel`, but awaits."""
        return await self._outside(self._expulsion(token))

    async def _outside(self, program: Program[T]) -> T:
        call = self._runtime.call(None, self._runtime.settings.request_timeout_s, fail_fast=True)
        return await self._runtime.run(program, call)

    async def _take(self, call: Call, program: Program[Hold] | Program[Hold | None]) -> AnyAsyncGrant | None:
        try:
            hold = await self._runtime.run(program, call)
            return None if hold is None else self._granted(self._grantable(hold))
        except BaseException:
            call.unwind()
            raise

    def _granted(self, hold: Hold) -> AnyAsyncGrant:
        return self._grant(self._runtime, hold, cancels=self._cancels)

    async def __aenter__(self) -> AnyAsyncGrant:
        grant = await (await self.acquire()).__aenter__()
        self._enter(_current_task(), grant)
        return grant

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        owner = _current_task()
        grant = self._entered_by(owner)[-1]
        try:
            await grant.__aexit__(kind, error, trace)
        finally:
            self._forget(owner, grant)


class AsyncLock(TaskLock[AsyncGrant]):
    """Same as `Lock`, but awaits; owners are tasks.

    Args:
        max_hold: As for `Lock`.
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
            only "tell" by ``grant.lost``.
    """

    _grant = AsyncGrant
