"""The driver for asyncio: the only place of the asyncio API that waits.

A call's requests are asked in the caller's own task. Two tasks serve a client, the
keepalive loop and the cleaner, with no thread of this package's own (but for `Watchdog`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from recipes._contract.connection import AsyncConnection
from recipes._contract.deadline import Deadline, Expired
from recipes._contract.operations import Entry, Program
from recipes._contract.wakeups import Disturbed, Event
from recipes._programs.cleaner import Job, clean, rest
from recipes._programs.hold import CLOSED, HeldState, StoreSession
from recipes._programs.queueing import open_session
from recipes._programs.session import SessionEvent, keep
from recipes._run import process
from recipes._run.interpreter import Receive, interpret
from recipes._run.runtime import Call, Runtime
from recipes._run.watchdog import Watchdog
from recipes._signals import of_a_handler
from recipes._threads import new_thread
from recipes.events import log

if TYPE_CHECKING:
    from recipes._contract.backend import Backend
    from recipes._contract.protocol import StoreProtocol
    from recipes._run.runtime import Settings

__all__ = ["AsyncRuntime"]

T = TypeVar("T")
CLOSE_WITHIN_S = 2.0
KEEPALIVE_PAUSE_S = 1.0
STRUCK_S = 0.01
"""Whether the keepalive goes on is looked at again after so long."""
LOOP_WITHIN_S = 1.0  # for a loop to close its client as the process ends


class TaskMailbox:
    """Where an asyncio call receives events."""

    __slots__ = ("_events", "_loop", "_thread", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self._loop = loop
        self._thread = thread
        self._events: list[Event] = []  # a deque is ten times as large, and here are one or two
        self._waiter: asyncio.Future[None] | None = None

    def post(self, event: Event) -> None:
        """Deliver ``event``; from any thread."""
        if threading.get_ident() == self._thread:
            self._deliver(event)
        else:
            try:
                self._loop.call_soon_threadsafe(self._deliver, event)
            except RuntimeError:  # the loop is closed, and nobody waits
                log.debug("an event came after its loop was closed")

    def clear(self) -> None:
        """Forget what has come so far."""
        self._events.clear()

    def _deliver(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self, at_most_s: float | None) -> Event | None:
        """Wait for an event; None if none came in time."""
        if not self._events:
            self._waiter = self._loop.create_future()
            timer = None if at_most_s is None else self._loop.call_later(at_most_s, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        return self._events.pop(0) if self._events else None


class AsyncRuntime(Runtime):
    """What an asyncio client runs on; it belongs to the loop of its first call."""

    def __init__(self, *args: Any) -> None:
        self._start_tasks_afresh()  # first: the process may be forked as soon as it knows of this
        super().__init__(*args)

    def _start_tasks_afresh(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._keepalive: asyncio.Task[None] | None = None
        self._cleaner: asyncio.Task[None] | None = None
        self._behind: set[asyncio.Task[Any]] = set()  # those that end by themselves
        self._jobs: deque[Job] = deque()
        self._unborn: list[Job] = []  # sessions that were cancelled, by `close`, before they had begun
        self._watchdog: Watchdog | None = None

    def call(self, owner: object, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        """Begin a public call with one deadline for all of it.

        Raises:
            RuntimeError: The running loop is not the one that the client belongs to.
        """
        mailbox = self.mailbox()
        deadline = Deadline.after(timeout_s, self.now())
        return Call(self, mailbox, owner, deadline, fail_fast)

    def mailbox(self) -> TaskMailbox:
        """Return a new mailbox: all waiting is for one.

        Raises:
            RuntimeError: As `call`.
        """
        self._refuse_other_loop()
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._thread = loop, threading.get_ident()
        return TaskMailbox(loop, self._thread)

    def _refuse_other_loop(self) -> None:
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise RuntimeError("this client belongs to another event loop; make one for each loop")

    async def run(self, program: Program[T], call: Call) -> T:
        """Run ``program`` to its end, in this task; an exception leaves nothing behind."""
        effects = interpret(program, call)
        mailbox: Any = call.mailbox
        try:
            effect = effects.send(None)
            while True:
                try:
                    if type(effect) is Receive:
                        result = await mailbox.receive(call.deadline.bound(effect.at_most_s, self.now()))
                    else:
                        result = await call.session.connection.ask(effect, call.bound())  # type: ignore[union-attr]
                except Expired as expired:
                    effect = effects.throw(await _a_turn_later(expired))
                except BaseException as error:
                    effect = effects.throw(error)
                else:
                    effect, result = effects.send(result), None  # kept by nobody while it waits
        except StopIteration as stop:
            finished: T = stop.value
            return finished
        except BaseException:
            call.unwind()
            raise
        finally:
            call.finish()

    def make_connection(self, on_end: Callable[[str], None]) -> AsyncConnection:
        """Return a new connection of the backend; its word of the end comes from any thread."""
        loop, thread = self._loop, self._thread
        assert loop is not None, "a link is made by a call, which knows the loop"

        def told(reason: str) -> None:  # it does not refer to this runtime: see `new_session`
            if threading.get_ident() == thread:
                on_end(reason)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(on_end, reason)

        return self.backend.async_connection(told)

    def want_session(self) -> None:
        """Have the keepalive loop at work."""
        if self._keepalive is not None and self._keepalive.done():
            self._unkept(self._keepalive)
        if self._keepalive is None:
            self._keepalive = _task("keepalive", self._keep())
            self._keepalive.add_done_callback(self._on_keepalive_done, context=Context())
        if self.state.refused is not None:
            self.state.refused = None
            self.state.wake_keepalive()

    async def _keep(self) -> None:
        while self.state.closed is None:
            call = self.call(None, None)
            self.state.keepalive = call.mailbox
            try:
                await self._keep_session(call)
            except Exception as error:  # a mistake of ours: give up what cannot be kept, and start anew
                log.exception("the keepalive loop of the session failed")
                self.keepalive_failed(error)
                await call.mailbox.receive(KEEPALIVE_PAUSE_S)  # type: ignore[attr-defined]

    def _on_keepalive_done(self, keepalive: asyncio.Task[None]) -> None:
        """See to the session if somebody cancelled its keepalive loop, unless the loop ends first."""
        session, loop = self.state.session, self._loop
        if session is not None and self.state.closed is None and loop is not None:
            loop.call_later(session.remaining(self.now()), self._unkept, keepalive)

    def _unkept(self, keepalive: asyncio.Task[None]) -> None:
        if self._keepalive is keepalive and self.state.closed is None:
            self._keepalive = None
            self.give_up("the task that renews was ended")
            if self._jobs:
                self._start_cleaner()

    async def _keep_session(self, call: Call) -> None:
        def current() -> Any:
            return call.session

        await self.run(keep(self.state, self.settings.session_timeout_s, current), call)
        late = self.state.session
        if late is not None:  # it began while the client was being closed
            await self._end(late)

    def watch_over(self, hold: HeldState) -> None:
        """Have a thread take the grant back if the loop is blocked when that is due."""
        if self._watchdog is None:
            withdraw = partial(_withdraw_in_new_loop, self.backend, self.settings)
            self._watchdog = Watchdog(self.backend, self.settings, withdraw)
        self._watchdog.watch(hold)

    def run_behind(self, program: Program[None], call: Call) -> None:
        """Have ``program`` run in a task of its own."""
        task = self._start_behind("observer", self.run(program, call))
        task.add_done_callback(partial(self._begin_after_all, program, call), context=Context())

    def _begin_after_all(self, program: Program[None], call: Call, task: asyncio.Task[None]) -> None:
        """Run what other code has cancelled before it had begun, unless the loop ends."""
        unbegun = inspect.getgeneratorstate(program) == inspect.GEN_CREATED
        if task.cancelled() and unbegun and self.state.closed is None and _goes_on():
            AsyncRuntime.run_behind(self, program, call)

    def _start_behind(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = _task(name, work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard, context=Context())
        return task

    def clean_up(self, job: Job) -> None:
        """Have the cleaner do a job, or a task of its own if it ends a session; never blocks."""
        keepalive = self._keepalive
        if keepalive is not None and keepalive.cancelling():
            if job.ends_session and self.state.closed is not None:
                self._unborn.append(job)
                return
            # The loop is ending, and with it the session; or a timeout of its own has struck the keepalive.
            if not keepalive.done():
                keepalive.get_loop().call_later(STRUCK_S, self.clean_up, job)
                return
            if not _goes_on():  # or somebody has cancelled that task alone: then it is done later
                if not job.ends_session:
                    self._jobs.append(job)
                return
        if job.ends_session:
            _ = self._start_behind("closer", self._clean_one(job))
            return
        self._jobs.append(job)
        self._start_cleaner()
        if (resting := self.resting) is not None:
            resting.post(Disturbed())

    def _start_cleaner(self) -> None:
        cleaner = self._cleaner
        if cleaner is None or cleaner.done():
            if cleaner is not None and cleaner.cancelled():
                self._jobs = deque(self.to_clean())
            self._cleaner = _task("cleaner", self._clean())

    def renewing(self) -> None:
        """See to what an interrupt has left undone, or a cancel that struck the cleaner."""
        super().renewing()
        if self._cleaner is not None and self._cleaner.cancelled():
            self._start_cleaner()

    async def _clean(self) -> None:
        while self._jobs or self.refused:
            if not self._jobs:
                await self._rest()
                continue
            job = self._jobs.popleft()
            if not await self._clean_one(job):
                self.was_refused(job)

    async def _rest(self) -> None:
        """Wait until it is time to try again what was refused, or there is another job."""
        call, again = self.begin_rest(), not self.may_rest()
        if not again:
            again = await self.run(rest(self.refused_at), call)
        call.finish()
        self._jobs.extend(self.end_rest(again=again))

    async def _clean_one(self, job: Job) -> bool:
        """Do a job; False if it has to be done again."""
        done = True
        try:
            done = await self._settle(job)
        except Exception:
            log.exception("a contender could not be withdrawn; it goes with its session")
        if done:
            self.cleaned(job)
        return done

    async def _settle(self, job: Job) -> bool:
        call = self.call(None, self.settles_within(job), fail_fast=job.within_s is not None)
        call.session = job.session
        self.state.join(call.mailbox)  # so that the end of the session ends the waiting
        try:
            return await self.run(clean(job), call)
        finally:
            if job.ends_session:
                await job.session.connection.close()

    def in_turn(self) -> Callable[[Callable[[], object]], None]:
        """Return what runs users' callbacks in order, soon, in the loop; callable from any thread."""
        return self._call_back

    def _call_back(self, callback: Callable[[], object]) -> None:
        loop = self._loop or asyncio._get_running_loop()  # noqa: SLF001 - the former: none yet in a forked child
        if loop is not None:
            try:
                loop.call_soon_threadsafe(_guarded, callback)
            except RuntimeError:
                log.debug("a callback was due after its loop was closed")

    async def close(self) -> None:
        """Let go of everything, and end the session on the store."""
        if self.state.closed is not None:
            return
        self._refuse_other_loop()
        session = self._begin_closing()
        waits = False
        try:
            if session is not None:
                await self._end(session)
            waits = True
        finally:
            await self._stop_tasks(waits=waits)

    def _begin_closing(self) -> StoreSession | None:
        """Let no call begin and hold nothing from here on; returns the session that is to be ended."""
        self.state.closed = "closed"
        session = self.state.session
        self.let_go()
        return session

    async def _end(self, session: Any) -> None:
        """End a session on the store, in a task that goes on where this one is cancelled."""
        self.close_session(session)
        job = Job(session, None)
        self.cleaning[id(job)] = job  # as the process ends it is done, if the loop ends before
        ending = self._start_behind("closer", self._end_on_store(job))
        await asyncio.wait([ending])
        if not ending.cancelled():
            ending.result()

    async def _end_on_store(self, job: Job) -> None:
        call = self.call(None, CLOSE_WITHIN_S)
        call.session = job.session
        try:
            await self.run(clean(job), call)
            self.cleaned(job)
        finally:
            await job.session.connection.close()

    async def _stop_tasks(self, *, waits: bool) -> None:
        self.state.tell(SessionEvent())
        self.state.wake_keepalive()
        if self._watchdog is not None:
            self._watchdog.look()
        known: list[asyncio.Task[Any] | None] = [self._keepalive, self._cleaner, *self._behind]
        tasks = [task for task in known if task is not None and not task.done()]
        if waits and tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_WITHIN_S / 2)
            for task in late:
                task.cancel()
            if late:  # so that none is left when the loop is closed next
                await asyncio.wait(late, timeout=CLOSE_WITHIN_S / 2)
        for job in self._unborn:
            await job.session.connection.close()

    def leave(self) -> None:
        """Close; by the loop if that runs, and without it if it was closed, or is blocked."""
        session, loop = self.state.session, self._loop
        if loop is not None and loop.is_running() and self._closed_in(loop):
            return
        if self.state.closed is None:
            self._begin_closing()
        if session is not None:
            session.ended = CLOSED
        self.state.tell(SessionEvent())
        for one in dict.fromkeys((session, *self.ends_sessions())):  # some of a `close` that was cancelled
            if one is not None and one.id:
                self._end_without_loop(one, one.connection.for_another_loop())()

    def _closed_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        closing = self.close()
        try:
            asyncio.run_coroutine_threadsafe(closing, loop).result(LOOP_WITHIN_S)
        except (TimeoutError, concurrent.futures.CancelledError):  # it is blocked, or ends just now
            return False
        except RuntimeError:  # it was closed meanwhile
            closing.close()
            return False
        return True

    def _end_without_loop(
        self, session: StoreSession, connection: AsyncConnection | None
    ) -> Callable[[], object]:
        """Return what ends a session on the store from any thread; it refers to nothing of this client."""
        return partial(
            _end_in_new_loop, self.backend, self.settings, connection, session.protocol, session.id
        )

    def __del__(self) -> None:
        state = getattr(self, "state", None)  # none if it was never made
        session = None if state is None or state.closed is not None else state.session
        if session is None or session.clock is None:
            return
        connection = session.connection.for_another_loop()
        # A connection that depends on no loop may keep the session alive by itself, and what waits in it.
        if connection is not None or session.holds:
            until = session.clock.counted + session.clock.ttl_s if connection is None else None
            process.dropped(self, until, self._end_without_loop(session, connection))

    def after_fork(self) -> None:
        """In the child: as the base says, for a loop of the child's own."""
        super().after_fork()
        self._inherited.append((self._keepalive, self._cleaner, self._behind))
        self._start_tasks_afresh()


def _withdraw_in_new_loop(backend: Backend, settings: Settings, hold: HeldState, within_s: float) -> bool:
    """Withdraw what was held, as its loop is blocked."""
    session = hold.session
    return _end_in_new_loop(backend, settings, None, session.protocol, session.id, hold.entry, within_s)


def _end_in_new_loop(  # noqa: PLR0917 - the parts of a session, which are given by position
    backend: Backend,
    settings: Settings,
    connection: AsyncConnection | None,
    protocol: StoreProtocol,
    session_id: str,
    entry: Entry | None = None,
    within_s: float | None = None,
) -> bool:
    """End a session whose loop is gone, by its own connection if that can be used, or else by another's.

    Args:
        backend: Where it is.
        settings: Of the client.
        connection: The session's own; None: it needs its loop.
        protocol: The session's.
        session_id: Its id.
        entry: Only this is withdrawn, and the session goes on.
        within_s: How long that may take.

    Returns:
        Whether that is done.
    """

    async def end() -> bool:
        runtime = AsyncRuntime(backend, settings)
        try:
            opening = runtime.call(None, 2 * settings.request_timeout_s, fail_fast=True)
            if connection is None:
                await runtime.run(open_session(), opening)
                assert opening.session is not None, "a session was opened"
            call = runtime.call(None, within_s or settings.request_timeout_s)
            call.session = StoreSession(connection or opening.session.connection, protocol)  # type: ignore[union-attr]
            call.session.id = session_id
            job = Job(call.session, None if entry is None else entry.ticket, entry)
            return await runtime.run(clean(job), call)
        finally:
            await runtime.close()
            if connection is not None:  # whatever the store said, nothing of it keeps the session alive
                await connection.close()

    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(_Threads())
        return runner.run(end())


class _Threads(ThreadPoolExecutor):
    """Runs each function in a thread of its own: as the interpreter ends, no pool takes any.

    A loop has the names of hosts resolved by its executor.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **options: Any) -> concurrent.futures.Future[T]:
        """Run it; it cannot be cancelled any more."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(fn(*args, **options))
            except BaseException as error:
                done.set_exception(error)

        new_thread("resolve", run).start()
        return done


async def _a_turn_later(expired: Expired) -> BaseException:
    """Let the loop run, which a call without time to wait may not have done; return what to raise."""
    try:
        await asyncio.sleep(0)
    except BaseException as error:  # it is cancelled
        return error
    return expired


def _task(name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task that outlives the call that needs it, and so has nothing of that call's context."""
    return Context().run(asyncio.get_running_loop().create_task, work, name=f"recipes-{name}")


def _goes_on() -> bool:
    """Whether the running loop is not about to end: as it ends, all of its tasks are cancelled."""
    runs = asyncio._get_running_loop() is not None  # noqa: SLF001 - as in blocking.py
    return runs and not all(task.cancelling() for task in asyncio.all_tasks())


def _guarded(callback: Callable[[], object]) -> None:
    """Call ``callback``; what it raises ends nothing else, not even the loop."""
    try:
        callback()
    except KeyboardInterrupt:  # the user's own, which came while this ran
        raise
    except BaseException as error:
        if of_a_handler(error):
            raise
        log.exception("a callback failed")
