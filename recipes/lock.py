"""The exclusive lock, and what all locks that queue share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from recipes._core.deadline import duration
from recipes._core.hold import SHARED
from recipes._core.names import encode
from recipes._core.order import EXCLUSIVE, Order
from recipes._core.queueing import Attempt, acquire, try_acquire
from recipes._run.runtime import new_id
from recipes.errors import LockTimeout, UpgradeError, WouldDeadlock
from recipes.grant import AsyncGrant, Grant

if TYPE_CHECKING:
    from types import TracebackType

    from recipes._core.hold import Hold
    from recipes._core.ops import Program
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.runtime import Call
    from recipes._run.tasks import AsyncRuntime

__all__ = ["Acquiring", "AsyncLock", "BlockingLock", "Lock", "TaskLock"]

OnLost = Literal["cancel", "tell"]
AnyGrant = TypeVar("AnyGrant", bound=Grant)
AnyAsyncGrant = TypeVar("AnyAsyncGrant", bound=AsyncGrant)


class _BaseLock:
    """What both faces of a lock share."""

    _order: ClassVar[Order] = EXCLUSIVE
    _recipe: ClassVar[str] = "lock"
    _mode: ClassVar[str] = "exclusive"

    def __init__(self, runtime: Any, name: str) -> None:
        self._runtime = runtime
        self._queue = encode(name)
        self._name = name
        self._entered: dict[object, list[Any]] = {}

    @property
    def name(self) -> str:
        """The name of the lock, as it was given."""
        return self._name

    def _attempt(self, timeout_s: float | None, owner: object) -> Attempt:
        labels = {
            "lock": self._name,
            "recipe": self._recipe,
            "mode": self._mode,
            "store": self._runtime.engine.label,
        }

        def before_waiting() -> None:
            # Who stands in the way of one that holds already waits for that one, sooner or later.
            if mine := self._held_by(owner):
                raise self._deadlock(mine)

        return Attempt(self._queue, self._order, new_id, labels, timeout_s, before_waiting)

    def _held_by(self, owner: object) -> list[Hold]:
        now = self._runtime.now()
        return [
            hold
            for hold in self._runtime.holds
            if hold.owner is owner and hold.place.spot.queue == self._queue and hold.remaining(now) > 0
        ]

    def _deadlock(self, mine: list[Hold]) -> WouldDeadlock:
        last = mine[-1]
        upgrades = self._mode != SHARED and last.mode == SHARED
        return (UpgradeError if upgrades else WouldDeadlock)(self._name, last.place.token)

    def _refuse_deadlock(self, owner: object) -> None:
        """Raise if waiting would be for a grant of the same thread or task, and that is held."""
        mine = self._held_by(owner)
        if self._order.blockers(tuple(hold.contender for hold in reversed(mine))):
            raise self._deadlock(mine)

    def _enter(self, owner: object, grant: Any) -> None:
        self._entered.setdefault(owner, []).append(grant)

    def _innermost(self, owner: object) -> Any:
        entered = self._entered.get(owner)
        if entered is None:
            words = "was not entered by this thread or task; leave it where it was entered"
            raise RuntimeError(f"lock {self._name!r} {words}")
        return entered[-1]

    def _leave(self, owner: object) -> Any:
        """Return the grant that this owner entered last, and forget it; None if there is none."""
        entered = self._entered.get(owner)
        if entered is None:
            return None
        grant = entered.pop()
        if not entered:
            del self._entered[owner]
        return grant

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} on {self._runtime.engine.label}>"


class BlockingLock(_BaseLock, Generic[AnyGrant]):
    """The blocking face of every lock that queues."""

    _runtime: BlockingRuntime
    _grant: type[AnyGrant]

    def acquire(self, *, timeout: float | None = None) -> AnyGrant:
        """Wait for the lock and return the grant; it is held when this returns.

        Args:
            timeout: Seconds for the whole call; None waits for ever, also through an
                outage of the store; 0 tries once.

        Raises:
            LockTimeout: Not acquired in time; nothing is left in the queue.
            WouldDeadlock: This thread holds the lock in a way that it would wait for itself
                (`UpgradeError`: it holds it shared, and asks for it exclusively).
            StoreRefused: The store said no (permissions, credentials).
            ClientClosed: The client was closed.
            ValueError: The timeout is negative or not finite; nothing was sent.
        """
        duration("timeout", timeout)
        if timeout == 0:
            grant = self.try_acquire()
            if grant is None:
                raise LockTimeout(self._name, 0.0, position=1)
            return grant
        owner = threading.current_thread()
        self._refuse_deadlock(owner)
        call = self._runtime.call(owner, timeout)
        grant = self._take(call, acquire(self._attempt(timeout, owner)))
        assert grant is not None, "acquire returns a grant or raises"
        return grant

    def try_acquire(self) -> AnyGrant | None:
        """Take the lock if nobody is in the way, in one look; None if somebody holds or waits for it.

        Never queues, and waits at most the request timeout for the store.

        Raises:
            StoreUnavailable: The store gave no answer.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
        """
        within = self._runtime.settings.request_timeout_s
        owner = threading.current_thread()
        call = self._runtime.call(owner, within, fail_fast=True)
        return self._take(call, try_acquire(self._attempt(0.0, owner)))

    def _take(self, call: Call, program: Program[Hold] | Program[Hold | None]) -> AnyGrant | None:
        try:
            hold = self._runtime.run(program, call)
            return None if hold is None else self._grant(self._runtime, hold)
        except BaseException:
            call.unwind()
            raise

    def __enter__(self) -> AnyGrant:
        grant = self.acquire()
        try:
            grant.check()
            self._enter(threading.current_thread(), grant)
        except BaseException:
            grant.release()
            raise
        return grant

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._innermost(threading.current_thread()).__exit__(kind, error, trace)
        finally:
            grant = self._leave(threading.current_thread())
            if grant is not None and grant.held:  # an interrupt struck before it was released
                grant._release_behind()  # noqa: SLF001 - the two are one


class Lock(BlockingLock[Grant]):
    """An exclusive lock: one grant at a time, in order of arrival.

    Cheap to make and safe to share between threads; every acquire is a contender of its
    own. As a context manager it acquires, waiting for ever, and releases; it may be
    entered by many threads at once, and each leaves its own grant.

    It protects nothing by itself from a holder that stopped and went on too late: hand
    ``grant.token`` to the resource (see the guarantees page of the documentation).
    """

    _grant = Grant


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


class TaskLock(_BaseLock, Generic[AnyAsyncGrant]):
    """The asyncio face of every lock that queues; owners are tasks."""

    _runtime: AsyncRuntime
    _grant: type[AnyAsyncGrant]

    def __init__(self, runtime: AsyncRuntime, name: str, *, on_lost: OnLost = "cancel") -> None:
        super().__init__(runtime, name)
        if on_lost not in ("cancel", "tell"):
            raise ValueError(f"on_lost is 'cancel' or 'tell', not {on_lost!r}")
        self._cancels = on_lost == "cancel"

    def acquire(self, *, timeout: float | None = None) -> Acquiring[AnyAsyncGrant]:
        """Same as `Lock.acquire`, but awaits: ``await`` it, or enter it with ``async with``."""
        duration("timeout", timeout)
        return Acquiring(self._acquire(timeout))

    async def _acquire(self, timeout: float | None) -> AnyAsyncGrant:
        if timeout == 0:
            grant = await self.try_acquire()
            if grant is None:
                raise LockTimeout(self._name, 0.0, position=1)
            return grant
        owner = asyncio.current_task()
        self._refuse_deadlock(owner)
        call = self._runtime.call(owner, timeout)
        grant = await self._take(call, acquire(self._attempt(timeout, owner)))
        assert grant is not None, "acquire returns a grant or raises"
        return grant

    async def try_acquire(self) -> AnyAsyncGrant | None:
        """Same as `Lock.try_acquire`, but awaits."""
        within = self._runtime.settings.request_timeout_s
        owner = asyncio.current_task()
        call = self._runtime.call(owner, within, fail_fast=True)
        return await self._take(call, try_acquire(self._attempt(0.0, owner)))

    async def _take(self, call: Call, program: Program[Hold] | Program[Hold | None]) -> AnyAsyncGrant | None:
        try:
            hold = await self._runtime.run(program, call)
            return None if hold is None else self._grant(self._runtime, hold, cancels=self._cancels)
        except BaseException:
            call.unwind()
            raise

    async def __aenter__(self) -> AnyAsyncGrant:
        grant = await (await self.acquire()).__aenter__()
        self._enter(asyncio.current_task(), grant)
        return grant

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._innermost(asyncio.current_task()).__aexit__(kind, error, trace)
        finally:
            self._leave(asyncio.current_task())


class AsyncLock(TaskLock[AsyncGrant]):
    """Same as `Lock`, but awaits; owners are tasks.

    Args:
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
            only "tell" by ``grant.lost``.
    """

    _grant = AsyncGrant
