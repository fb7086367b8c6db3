"""Held things for threads."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, ParamSpec, TypeVar

from recipes._api.decorating import check_plain_function
from recipes._api.held import Acquired, Held
from recipes._api.leaving import ends, enters, looked_up, seen_leaving
from recipes._api.options import AT_ONCE_S, DEFAULTS, AcquireOptions, refuse
from recipes._programs.observing import look_up
from recipes.errors import ReentrantCall, StoreUnavailable
from recipes.grant import Grant

if TYPE_CHECKING:
    from types import TracebackType

    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.runtime import Call
    from recipes.inspection import ContenderInfo

__all__ = ["BlockingEntered", "BlockingHeld", "BlockingQueued"]

P = ParamSpec("P")
T = TypeVar("T")
AnyGrant = TypeVar("AnyGrant", bound=Grant)


class BlockingAcquired(Acquired, Generic[AnyGrant]):
    """What is acquired, in the blocking API, whatever its recipe calls that; owners are threads."""

    _runtime: BlockingRuntime

    def _acquire(self, options: AcquireOptions) -> AnyGrant:
        if self._runtime.left:
            self._runtime.sweep()  # what this thread has left does not stand in its way
        if options.timeout == 0:
            try:
                grant = self._try_acquire(AT_ONCE_S, options)
            except StoreUnavailable as silent:
                raise self._late(0.0, silent=silent) from silent
            if grant is None:
                raise self._late(0.0, position=1)
            return grant
        owner = threading.current_thread()
        again: AnyGrant | None = self._again(owner)
        if again is not None:
            return again
        self._refuse_deadlock(owner)
        call = self._runtime.call(owner, options.timeout)
        grant = self._take(call, self._acquisition(call, options))
        assert grant is not None, "acquire returns a grant or raises"
        return grant

    def _try_acquire(self, within: float, options: AcquireOptions = DEFAULTS) -> AnyGrant | None:
        if self._runtime.left:
            self._runtime.sweep()
        owner = threading.current_thread()
        again: AnyGrant | None = self._again(owner)
        if again is not None:
            return again
        call = self._runtime.call(owner, within, fail_fast=True)
        return self._take(call, self._trial(call, options))

    def _take(self, call: Call, program: Program[Any]) -> AnyGrant | None:
        try:
            granted = self._runtime.run(program, call)
            return None if granted is None else self._granted(granted)
        except BaseException:
            call.unwind()
            raise


class BlockingQueued(BlockingAcquired[AnyGrant], Held):
    """What is queued for in one queue, in the blocking API."""

    _grant: type[AnyGrant]

    def __init__(self, runtime: BlockingRuntime, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(runtime, name, max_hold=max_hold)

    def holders(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Return what holds it as the store shows it: none, one, or several.

        Also those of other recipes and clients that share the queue of this name. Reading takes at
        most the request timeout, and delays no other client.

        Args:
            limit: How many contenders are read, from the head of the queue on; 1 to 10 000.

        Raises:
            StoreUnavailable: The store gave no answer.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            ValueError: The limit does not fit; nothing was sent.
        """
        return [one for one in self._listed(limit) if one.holds]

    def waiters(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Return what waits, in order, among the first ``limit`` of the queue.

        Args:
            limit: How many contenders are read, from the head of the queue on; 1 to 10 000.

        Raises:
            StoreUnavailable: The store gave no answer.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            TooWeak: The store has no queue; nothing was sent.
            ValueError: The limit does not fit; nothing was sent.
        """
        return [one for one in self.contenders(limit=limit) if not one.holds]

    def contenders(self, *, limit: int = 100) -> list[ContenderInfo]:
        """Return what holds it and what waits, in order, at one moment.

        Args:
            limit: How many contenders are read, from the head of the queue on; 1 to 10 000.

        Raises:
            StoreUnavailable: The store gave no answer.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            TooWeak: The store has no queue; nothing was sent.
            ValueError: The limit does not fit; nothing was sent.
        """
        self._need_queue()
        return self._listed(limit)

    def evict(self, token: int | str) -> bool:
        """Remove the contender with this token from the queue, whichever it is: for an operator.

        Its client learns of it by its next renewal, not before, and may go on until then: what is
        protected has to refuse the old token, or its process has to be ended first.

        Args:
            token: As `holders` and `waiters` show it, or the id, which is all that one in a semaphore has;
                no other has it, now or later. A contender of another kind or program may have a token
                alone. It has to be among the first 10 000 of the queue.

        Returns:
            Whether it was there.

        Raises:
            StoreUnavailable: The store gave no answer; it may be removed, or not.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            TooWeak: The store has no queue; nothing was sent.
        """
        return self._outside(self._eviction(token))

    def _listed(self, limit: int) -> list[ContenderInfo]:
        return self._described(self._outside(look_up(self._list(limit))))

    def _outside(self, program: Program[T]) -> T:
        call = self._runtime.call(None, self._runtime.settings.request_timeout_s, fail_fast=True)
        return self._runtime.run(program, call)

    def _grant_of(self, hold: HeldState) -> AnyGrant:
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


class BlockingEntered(BlockingAcquired[AnyGrant]):
    """What is acquired, in the blocking API, by a call or by entering it."""

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
    ) -> AnyGrant:
        """Wait until it is granted, and return the grant, which is held then.

        In asyncio ``await`` it, or enter it with ``async with``.

        Args:
            timeout: Seconds for the whole call; None waits for ever, also through an
                outage of the store; 0 tries once, as `try_acquire` does, and gives the store 0.2 s
                to answer. Where a first use, which starts the session, or one request may take
                longer, open the client before, or use `try_acquire`.
            max_waiters: How many may wait for it, with this one; it does not wait as one
                more. 0: acquire it only if that takes no waiting. None: any number. Readers
                that hold it beside a writer that was downgraded count as well.
            on_session_lost: What to do when the place in the queue is gone, with the session or by
                an operator's hand: "requeue" at the tail, or "fail". What did not have to wait has none.
            on_queued: Called with the number of those ahead if it has to wait, and each time it
                queues again. It runs where callbacks of `Lost` do, after the earlier ones of this
                call: in a thread for them, or soon in the loop.
            on_position: Called with that number then, and whenever a look at the queue shows
                another. A waiter looks when the one it watches goes: deep in a queue numbers
                are skipped. In a short queue on etcd knowing it takes one look more.
            unknown: There are no other options; instead of ``blocking=False`` use `try_acquire`.

        Raises:
            LockTimeout: Not acquired in time; its place in the queue is withdrawn just behind the call. If
                the store did not answer, it is a `StoreTimeout`, which is a `StoreUnavailable` too.
            QueueFull: ``max_waiters`` wait already; nothing is left in the queue.
            SessionLost: The place in the queue is gone, and ``on_session_lost`` is "fail".
            WouldDeadlock: This thread or task holds it in a way that it would wait for itself
                (`UpgradeError`: it holds it shared, and asks for it exclusively).
            StoreRefused: The store said no (permissions, credentials).
            ClientClosed: The client was closed.
            TooWeak: The store has no queue, and ``max_waiters`` or ``on_position`` asks for what only that
                can tell; nothing was sent.
            ValueError: The timeout is negative or not finite, or another option is none; nothing
                was sent.
            TypeError: There is no such option, or a value is of the wrong type.
        """
        refuse(unknown)
        return self._acquire(AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position))

    def try_acquire(self, *, timeout: float | None = None) -> AnyGrant | None:
        """Take it if nothing is in the way, in one look; None if something is that holds it or waits.

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
        return self._try_acquire(self._within(timeout))

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return ``function`` with each call of it inside ``with self``: as a decorator.

        Every call acquires it, waiting for ever, and releases it; a call whose grant was lost raises
        `LockLost` at its end. For a timeout, or for the grant, acquire it inside the function.

        Raises:
            TypeError: It is no function, or a coroutine function or a generator.
        """
        check_plain_function(self, function)

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            with self:
                return function(*args, **options)

        return call

    def __enter__(self) -> AnyGrant:
        found = looked_up(self)
        owner = threading.current_thread()
        grant = self._acquire(DEFAULTS)
        try:
            grant.check()
            self._enter(owner, grant)
            grant._entered = True  # noqa: SLF001 - the two are one
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
        grant = ends(self._entered.get(threading.current_thread(), []), self._entered_by_all)
        if grant is None:
            raise self._not_entered()
        try:
            grant._leave(error)  # noqa: SLF001 - the two are one
        finally:
            self._forget(grant._hold.owner, grant)  # noqa: SLF001 - the two are one
        grant._block = None  # noqa: SLF001 - last: until here the end of the block would be seen


class BlockingHeld(BlockingEntered[AnyGrant], BlockingQueued[AnyGrant]):
    """What is held in one queue, in the blocking API."""

    def locked(self) -> bool:
        """Return whether another owner that acquires it now would have to wait.

        That is: whether a lock is held, by any client, this one included; whether a writer is in the way
        of a reader; whether a semaphore has too few free permits, or others wait for them. One look at the
        store, of which the answer may be out of date when it arrives: to take it if it is free, use
        `try_acquire`.

        Raises:
            StoreUnavailable: The store gave no answer within the request timeout.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
        """
        return self._blocked_by(self._outside(look_up(self._all_that_may_block())))


# The functions in which this thread has a place in the queue that only their going on takes away.
_STANDING = tuple(
    function.__code__
    for function in (BlockingAcquired._take, Grant.release, Grant._release_behind)  # noqa: SLF001 - one of us
)
