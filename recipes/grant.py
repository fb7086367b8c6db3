"""A grant: the proof of holding a lock, and the same on every store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from recipes._api.leaving import Block, enters, looked_up, seen_leaving
from recipes._api.shared import Shared
from recipes._api.signatures import like
from recipes._callback import check_callback
from recipes._contract.deadline import duration
from recipes._contract.wakeups import Event
from recipes._programs.queueing import downgrade, release, verify
from recipes.errors import LockLost, ReentrantCall

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.runtime import Call
    from recipes._run.tasks import AsyncRuntime

__all__ = [
    "AsyncGrant",
    "AsyncLost",
    "AsyncSemaphoreGrant",
    "AsyncWriteGrant",
    "Grant",
    "Lost",
    "SemaphoreGrant",
    "WriteGrant",
]


AnyShared = TypeVar("AnyShared", bound=Shared)


class _Callback:
    """A user's callback, which is called once, however often it is handed over to be called.

    As with ``asyncio.Future.add_done_callback``, it runs in the context of the code that added it.
    """

    __slots__ = ("_context", "_grant", "_left")

    def __init__(self, function: Callable[[Any], object], grant: Any) -> None:
        self._left = [function]
        self._grant = grant
        self._context = copy_context()

    def __call__(self) -> None:
        """Call it, unless another thread does, or has."""
        try:
            function = self._left.pop()
        except IndexError:
            return
        self._context.run(function, self._grant)


class _BaseLost:
    """What the event of a grant is in both runtimes."""

    def __init__(self, runtime: Any, hold: HeldState, grant: Any) -> None:
        self._runtime = runtime
        self._hold = hold
        self._grant = grant
        self._callbacks: dict[_Callback, None] = {}
        self._waiting: list[Any] = []

    def is_set(self) -> bool:
        """Return whether the grant is lost: as reported, or by the clock; no I/O, never blocks."""
        return self._hold.lost(self._runtime.now()) is not None

    def add_callback(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(grant)`` once if the grant is lost; at once if it is already.

        It runs in a thread of its own, beside all other callbacks, so it may block and may use
        the client (up to 64 callbacks of a client run at once). In asyncio it runs soon, in the
        loop, and should not block: that blocks the loop. What it raises is logged, and ends
        nothing else. It sees the context variables of the code that added it. Closing the client
        takes no callback away from a grant that was lost.

        Raises:
            TypeError: It cannot be called with a grant, or is a coroutine function.
        """
        check_callback("a callback", callback, "the grant")
        self._callbacks[_Callback(callback, self._grant)] = None
        if self._hold.reason is not None:
            self._tell()

    def _wake(self) -> None:
        for mailbox in list(self._waiting):
            mailbox.post(Event())

    def _left(self, end: float | None) -> float:
        """Return how long to wait for the end now: until the proof runs out, or the time to wait does."""
        if self._hold.ended:
            return 0.0
        now = self._runtime.now()
        proven = self._hold.remaining(now)
        return proven if end is None else min(proven, end - now)

    def _tell(self) -> None:
        """Hand over each callback; what an interrupt leaves of that, a second call does."""
        for callback in list(self._callbacks):
            self._runtime.in_turn()(callback)
            self._callbacks.pop(callback, None)  # last: until here it is handed over again


class Lost(_BaseLost):
    """Set when a grant is lost; never when it is released."""

    _runtime: BlockingRuntime

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the grant is lost or released, at most ``timeout`` seconds.

        Returns:
            Whether it is lost.
        """
        duration("timeout", timeout)
        end = None if timeout is None else self._runtime.now() + timeout
        mailbox = self._runtime.mailbox()
        self._waiting.append(mailbox)
        try:
            while (left := self._left(end)) > 0:
                mailbox.receive(left)
        finally:
            self._waiting.remove(mailbox)
        return self.is_set()

    def _on_end(self) -> None:
        self._wake()
        if self._hold.reason is not None:
            self._tell()


class AsyncLost(_BaseLost):
    """Set when a grant is lost; never when it is released."""

    _runtime: AsyncRuntime

    @like(Lost.wait)
    async def wait(self, timeout: float | None = None) -> bool:
        duration("timeout", timeout)
        end = None if timeout is None else self._runtime.now() + timeout
        mailbox = self._runtime.mailbox()
        self._waiting.append(mailbox)
        try:
            while (left := self._left(end)) > 0:
                await mailbox.receive(left)
        finally:
            self._waiting.remove(mailbox)
        return self.is_set()

    def _on_end(self) -> None:
        self._wake()
        if self._hold.reason is not None:
            self._tell()
            self._grant._interrupt()  # noqa: SLF001 - the two are one


class _BaseGrant:
    """What a grant is in both runtimes: everything that needs no I/O."""

    _fences: ClassVar[bool] = True
    """Whether its token fences: not where several hold, and a later one does not end the earlier."""
    _runtime: Any
    _hold: HeldState
    _entered: object = None
    """The mark of the call that entered it: only one does."""
    _frame = 0

    def __init__(self, runtime: Any, hold: HeldState, lost: Any) -> None:
        self._runtime = runtime
        self._hold = hold
        hold.grant = self
        hold.on_end = lost._on_end  # noqa: SLF001 - the two are one
        if hold.ended:
            lost._on_end()  # noqa: SLF001 - it ended before it could be notified

    @property
    def token(self) -> int:
        """The fencing token, unique in its lock and larger than that of every earlier grant.

        Hand it to what the lock protects, and have that refuse a smaller one than it has
        seen: this alone protects where clocks, pauses and networks do not. Permits and multi-locks
        have none: theirs is None.
        """
        token: Any = self._hold.entry.token if self._fences else None  # then its own type says so
        return token  # type: ignore[no-any-return]

    @property
    def _queues(self) -> tuple[str, ...]:
        return tuple(part.entry.ticket.queue for part in self._hold.parts)

    @property
    def id(self) -> str:
        """What names its contender in `ContenderInfo` and for `Lock.evict`, also where it has no token."""
        return self._hold.entry.ticket.id

    @property
    def name(self) -> str:
        """The name of the lock, or whatever is held."""
        name: str = self._hold.labels["name"]
        return name

    @property
    def held(self) -> bool:
        """Whether the local clock proves that the lock is held; no I/O, never blocks.

        False from the deadline on, from the first moment a stopped process runs again past
        it, and for ever after a release or a loss.
        """
        return self.remaining > 0

    @property
    def remaining(self) -> float:
        """Seconds for which ``held`` is proven without another renewal, and without `progress`."""
        return self._hold.remaining(self._runtime.now())

    @property
    def lost_reason(self) -> str | None:
        """Why the grant was lost, in a few words; None if it was not."""
        return self._hold.lost(self._runtime.now())

    @property
    def mode(self) -> str:
        """What it proves, "exclusive" or "shared" (of a reader, and of a writer that downgraded)."""
        return self._hold.mode

    def check(self) -> None:
        """Raise `LockLost` unless the grant is held; no I/O.

        Raises:
            LockLost: The grant was lost, or released.
        """
        if not self.held:
            raise self._lost_error()

    def progress(self) -> None:
        """Say that the work goes on: ``max_hold`` counts from now on; no I/O.

        Call it where the work really advances, between two steps of it: a thread that calls it
        for another that may hang takes the point out of ``max_hold``. It brings nothing back.
        Without ``max_hold`` it is the same as `check`.

        Raises:
            LockLost: The grant was lost, or released.
        """
        if not self._hold.progress(self._runtime.now()):
            raise self._lost_error()

    def guarding(self, shared: AnyShared) -> AnyShared:
        """Return a value, counter or latch whose writes are done only if this grant stands; no I/O.

        The store itself compares, in the step in which it writes: no clock takes part, and no token has to
        be kept. A holder that was stopped past its session writes nothing any more, however late its request
        arrives. Such a write raises `LockLost` once the grant is lost, released, or downgraded.

        Args:
            shared: Of the same client: ``grant.guarding(client.value("config")).set(data)``. If other
                grants guard it already, all of them have to stand.

        Raises:
            ValueError: It is of another client.
            TypeError: It is something else.
        """
        given: object = shared
        if not isinstance(given, Shared):
            wanted = "a grant guards a value, a counter or a latch"
            raise TypeError(f"{wanted}, not {type(given).__name__}")
        return shared._guarded_by(self)  # noqa: SLF001 - one package

    def _enter(self, owner: object) -> None:
        """Note that this thread or task owns it from now on, which enters it: it may have been handed over.

        Of a re-entrant lock this is one entry alone: who may enter that again stays as it is.
        """
        for hold in self._hold.parts:
            hold.owner = owner

    def _check_or_leave(self) -> None:
        """Check as a ``with`` block begins: one that does not begin has no end to release it."""
        if not self.held:
            lost = self._lost_error()
            self._runtime.give_back(self._hold)
            raise lost

    def _twice(self) -> RuntimeError:
        words = "is entered already, and released where that block ends; leave the second with statement out"
        return RuntimeError(f"{self._hold.title} {words}")

    def _lost_error(self) -> LockLost:
        reason = self.lost_reason or ("it was downgraded" if self.held else "it was released")
        return LockLost(self.name, self.token, reason, recipe=self._hold.labels["recipe"])

    def _settle(self, error: BaseException | None, reason: str | None) -> None:
        """Say at the end of a ``with`` block what became of the grant."""
        if reason is None:
            return
        if error is None:
            raise self._lost_error()
        with suppress(Exception):  # a frozen exception takes no note, and is raised without one
            error.add_note(f"{self._hold.title} was lost before this: {reason}")

    def _asking(self) -> Call:
        """Return a call that asks the store about this grant, once or twice."""
        call: Call = self._runtime.call(None, self._runtime.settings.request_timeout_s, fail_fast=True)
        call.session = self._hold.session
        return call

    def _verification(self) -> Program[bool]:
        return verify(self._hold)

    def _withdrawal(self, *, wait: bool) -> Program[bool]:
        return release(self._hold, wait=wait)

    def _releasing(self, call: Call) -> Call:
        call.session, call.ticket, call.entry = self._hold.session, self._hold.entry.ticket, self._hold.entry
        return call

    def __repr__(self) -> str:
        state = "held" if self.held else "lost" if self.lost_reason else "released"
        return f"<{type(self).__name__} of {self._hold.title}: {state}>"


class Grant(_BaseGrant):
    """The proof of holding a lock.

    Use it in a ``with`` statement, or call `release`. Dropping the last reference releases
    nothing: the client keeps every live grant.

    Attributes:
        lost: An event that is set when the grant is lost.
    """

    _runtime: BlockingRuntime
    _block: Block | None = None
    lost: Lost

    def __init__(self, runtime: BlockingRuntime, hold: HeldState) -> None:
        self.lost = Lost(runtime, hold, self)
        super().__init__(runtime, hold, self.lost)

    def verify(self) -> bool:
        """Ask the store (linearizably, if it is) whether the lock is held; at most the request timeout.

        Raises:
            StoreUnavailable: The answer cannot be had.
        """
        if not self.held:
            return False
        return self._runtime.run(self._verification(), self._asking()) and self.held

    def release(self, *, wait: bool = True) -> bool:
        """Give the lock back: deletes the own contender and never another's.

        Waits at most the request timeout; what is not settled by then is cleaned up behind.
        A second release, or one after a loss, does nothing.

        Args:
            wait: False: return at once, and have all of it done behind the scenes
                (`Client.pending_cleanups`); the next in line gets the lock a moment later. That it
                was lost unnoticed before is not found out then.

        Returns:
            Whether the lock was still held.
        """
        try:
            call = self._releasing(self._runtime.call(None, self._runtime.settings.request_timeout_s))
            if not self._hold.release(self._runtime.now(), self._runtime.emit):
                return False
            if not self._hold.freed:
                return True
            try:
                return self._runtime.run(self._withdrawal(wait=wait), call, waits=wait)
            except ReentrantCall:  # a signal handler does not wait for what it interrupted
                return self._runtime.run(self._withdrawal(wait=False), call, waits=False)
        except BaseException:
            self._release_behind()
            raise

    def _release_behind(self) -> None:
        """Finish a release that was interrupted: before it began, or before anybody withdrew the place."""
        self._runtime.give_back(self._hold)

    def __enter__(self) -> Self:
        mark: list[Any] = []  # one of its own
        try:
            found = looked_up(self)
            if self.__dict__.setdefault("_entered", mark) is not mark:
                raise self._twice()  # noqa: TRY301 - what comes before may be interrupted
            self._enter(threading.current_thread())
            self._block = enters(found, self._runtime, self)
            self._check_or_leave()
        except BaseException:
            another = self._entered is not None and self._entered is not mark
            if not another and not self._hold.ended:  # an interrupt: the block has no end
                self._release_behind()
            raise
        return self

    @seen_leaving
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)
        self._block = None  # last: until here the end of the block would be seen

    def _leave(self, error: BaseException | None) -> None:
        try:
            self.release()
        except BaseException:
            self._release_behind()
            raise
        self._settle(error, self.lost_reason)


class AsyncGrant(_BaseGrant):
    """The proof of holding a lock, in asyncio: ``verify``, ``release`` and ``lost.wait`` are awaited.

    Use it in an ``async with`` statement, or call `release`. Dropping the last reference releases
    nothing: the client keeps every live grant. As an async context manager it cancels its body when
    the grant is lost, as ``asyncio.timeout`` does, and leaves as `LockLost`; not with
    ``on_lost="tell"``.

    Attributes:
        lost: An event that is set when the grant is lost.
    """

    _runtime: AsyncRuntime
    lost: AsyncLost

    def __init__(self, runtime: AsyncRuntime, hold: HeldState, *, cancels: bool) -> None:
        self._cancels = cancels
        self._body: asyncio.Task[Any] | None = None
        self._interrupted = False
        self._cancelling = 0
        self.lost = AsyncLost(runtime, hold, self)
        super().__init__(runtime, hold, self.lost)

    @like(Grant.verify)
    async def verify(self) -> bool:
        if not self.held:
            return False
        return await self._runtime.run(self._verification(), self._asking()) and self.held

    @like(Grant.release)
    async def release(self, *, wait: bool = True) -> bool:
        call = self._releasing(self._runtime.call(None, self._runtime.settings.request_timeout_s))
        if not self._hold.release(self._runtime.now(), self._runtime.emit):
            return False
        return not self._hold.freed or await self._runtime.run(self._withdrawal(wait=wait), call)

    def _interrupt(self) -> None:
        """Cancel the body of the ``async with`` statement, once, and while it waits for something."""
        body = self._body
        if body is None or self._interrupted:
            return
        import asyncio  # noqa: PLC0415 - as in lock.py

        if asyncio._get_running_loop() is None:  # noqa: SLF001 - the process ends, and the loop has ended
            return
        if self._in_body():  # cancelling itself would strike behind the block
            asyncio.get_running_loop().call_soon(self._interrupt)
            return
        self._interrupted = True
        body.cancel()

    def _in_body(self) -> bool:
        """Whether this is called in the task that has entered it."""
        import asyncio  # noqa: PLC0415 - as in lock.py

        runs = asyncio._get_running_loop() is not None  # noqa: SLF001 - as in blocking.py
        return runs and asyncio.current_task() is self._body

    async def __aenter__(self) -> Self:
        if self._entered is not None:
            raise self._twice()
        self._entered = True
        import asyncio  # noqa: PLC0415 - as in lock.py

        self._enter(asyncio.current_task())
        self._check_or_leave()
        if self._cancels:
            self._body = asyncio.current_task()
            assert self._body is not None, "an async with statement runs in a task"
            self._cancelling = self._body.cancelling()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio  # noqa: PLC0415 - as in lock.py

        body, self._body = self._body, None
        try:
            await self.release()
        finally:  # also if that is cancelled: of a multi-lock the other parts are withdrawn
            only_mine = self._interrupted and body is not None and body.uncancel() <= self._cancelling
        if only_mine and kind is asyncio.CancelledError:
            raise self._lost_error() from error
        self._settle(error, self.lost_reason)


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
        self.check()  # it may have been lost, or released, while the store was asked


class AsyncWriteGrant(AsyncGrant):
    """The proof of holding a read-write lock as its writer, in asyncio."""

    @like(WriteGrant.downgrade)
    async def downgrade(self) -> None:
        self.check()
        if not self._hold.mark and not await self._runtime.run(downgrade(self._hold), self._asking()):
            raise self._lost_error()
        self.check()  # as above


class _Permits:
    """What the proof of holding permits is in both runtimes."""

    _fences: ClassVar[bool] = False
    _hold: HeldState

    if TYPE_CHECKING:

        @property
        def token(self) -> None: ...

    @property
    def weight(self) -> int:
        """How many permits it is."""
        return int(self._hold.labels["weight"])


class SemaphoreGrant(_Permits, Grant):  # type: ignore[misc]  # its token is None
    """The proof of holding permits of a semaphore.

    Its ``token`` is None: of several holders a gate would refuse all but the last. What the semaphore
    protects can ask by `Grant.verify`, or by a guard on the same store.
    """


class AsyncSemaphoreGrant(_Permits, AsyncGrant):  # type: ignore[misc]  # its token is None
    """The proof of holding permits of a semaphore, in asyncio; see `SemaphoreGrant`."""
