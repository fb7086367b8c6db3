"""The driver for threads: the only place of the blocking API that waits.

A call's requests are asked in the caller's own thread. Two daemon threads serve a
client: the keepalive loop, which renews the session, and the cleaner, which settles what
interrupted calls left behind. Callbacks run in threads of their own (`Callbacks`).
"""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from recipes import events
from recipes._contract.connection import Connection
from recipes._contract.deadline import Deadline
from recipes._contract.operations import Program
from recipes._contract.wakeups import Disturbed, Event
from recipes._mutex import new_rlock
from recipes._programs.cleaner import Job, clean, rest
from recipes._programs.hold import StoreSession
from recipes._programs.session import SessionEvent, keep
from recipes._run.callbacks import Callbacks
from recipes._run.interpreter import Receive, interpret
from recipes._run.runtime import Call, Runtime
from recipes._run.waiting import acquire
from recipes._section import section
from recipes._signals import Struck
from recipes._threads import new_thread
from recipes.errors import ReentrantCall
from recipes.events import log

__all__ = ["BlockingRuntime"]

_MODULES = sys.modules
"""An event loop can run only where asyncio was imported."""

T = TypeVar("T")
CLOSE_WITHIN_S = 2.0
KEEPALIVE_PAUSE_S = 1.0


class ThreadMailbox:
    """Where a blocking call receives events; one thread receives.

    Attributes:
        bell: Called at each event while the thread waits by its ``source``.
        source: Waits for an event by reading it, until a time (of ``time.monotonic``) at most; set and unset
            by the connection whose events the thread is to read for itself.

    Not a ``queue.SimpleQueue``: up to Python 3.12 its ``get`` waits for ever if a signal
    comes while its time runs out (a process that is stopped and continued, say).
    """

    __slots__ = ("_events", "_waker", "bell", "source")

    def __init__(self) -> None:
        self._events: list[Event] = []  # a deque is ten times as large, and here are one or two
        self._waker = threading.Lock()  # free once it was rung
        self._waker.acquire()
        self.bell: Callable[[], None] | None = None
        self.source: Callable[[ThreadMailbox, ThreadMailbox, float], None] | None = None

    def ready(self) -> bool:
        """Whether an event has come."""
        return bool(self._events)

    def post(self, event: Event) -> None:
        """Deliver ``event``; from any thread."""
        self._events.append(event)
        try:
            self._waker.release()
        except RuntimeError:  # it rings already
            pass
        if (bell := self.bell) is not None:
            bell()

    def clear(self) -> None:
        """Forget what has come so far."""
        self._events.clear()

    def receive(self, at_most_s: float | None) -> Event | None:
        """Wait for an event; None if none came in time."""
        source = self.source  # once: another thread may unset it
        if source is not None and not self._events:
            until = math.inf if at_most_s is None else time.monotonic() + at_most_s
            source(self, self, until)
            at_most_s = None if at_most_s is None else max(0.0, until - time.monotonic())
        while not self._events:  # it may have rung for an event that was taken without waiting: once
            if not acquire(self._waker, at_most_s):
                return None
        return self._events.pop(0)


class BlockingRuntime(Runtime):
    """What a blocking client runs on."""

    def __init__(self, *args: Any) -> None:
        self._warned = False
        self._start_threads_afresh()  # first: the process may be forked as soon as it knows of this
        super().__init__(*args)

    def _start_threads_afresh(self) -> None:
        self._starting = new_rlock()  # a signal handler may close the client
        self._keepalive: threading.Thread | None = None
        self._cleaner: threading.Thread | None = None
        self._closer: threading.Thread | None = None
        self._ending: StoreSession | None = None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._callbacks = Callbacks()

    def call(self, owner: object, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        """Begin a public call with one deadline for all of it."""
        loops = _MODULES.get("_asyncio")  # written in C: it is there as a whole, or not yet
        if loops is not None and loops._get_running_loop() is not None and not self._warned:  # noqa: SLF001
            self._warn_of_the_loop()
        if self.left:
            self.sweep()
        deadline = Deadline.after(timeout_s, self.now())
        return Call(self, self.mailbox(), owner, deadline, fail_fast)

    def _warn_of_the_loop(self) -> None:
        """Warn, once, that this thread runs an event loop: that does nothing else while the call waits."""
        self._warned = True
        warnings.warn(
            f"a blocking client of {self.backend.label} is used inside a running event loop, which does "
            "nothing else while the client waits; use recipes.connect_async(), or asyncio.to_thread()",
            RuntimeWarning,
            stacklevel=events.stacklevel(),
        )

    def mailbox(self) -> ThreadMailbox:
        """Return a new mailbox: all waiting is for one."""
        return ThreadMailbox()

    def run(self, program: Program[T], call: Call, *, waits: bool = True) -> T:
        """Run ``program`` to its end, in this thread; an exception leaves nothing behind.

        Raises:
            ReentrantCall: It ``waits`` for the store, and this is amid what that may wait for.
        """
        if waits and section.struck():
            raise ReentrantCall
        effects = interpret(program, call)
        mailbox: Any = call.mailbox
        try:
            effect = effects.send(None)
            while True:
                try:
                    if type(effect) is Receive:
                        result = mailbox.receive(call.deadline.bound(effect.at_most_s, self.now()))
                    else:
                        result = call.session.connection.ask(effect, call.bound())  # type: ignore[union-attr]
                except Struck as struck:
                    effect = effects.throw(struck.raised)
                except BaseException as error:
                    effect = effects.throw(error)
                else:
                    effect, result = effects.send(result), None  # kept by nobody while it waits
        except StopIteration as stop:
            finished: T = stop.value
            return finished
        except BaseException:
            call.unwind()  # an interrupt may strike between the program's own clauses
            raise
        finally:
            if waits:  # else it is not notified, and the connection may be what a signal handler interrupted
                call.finish()

    def make_connection(self, on_end: Callable[[str], None]) -> Connection:
        """Return a new connection of the backend."""
        return self.backend.connection(on_end)

    def want_session(self) -> None:
        """Have the keepalive loop at work."""
        with section.mark, self._starting:
            if not self._keeping():
                _thread("keepalive", self._keep)
        if self.state.refused is not None:
            self.state.refused = None
            self.state.wake_keepalive()

    def _keep(self) -> None:
        # A thread says itself that it is at work: an interrupt may strike the thread that waits for its
        # start.
        with section.mark, self._starting:
            if self._keeping() or self.state.closed is not None:
                return
            self._keepalive = threading.current_thread()
        try:
            self._keep_on()
        except BaseException:  # somebody ends threads; the next call that needs one starts another
            # First: what follows notifies the waiting calls, and they ask at once.
            with section.mark, self._starting:
                self._keepalive = None
            self.give_up("the thread that renews was ended")
            raise

    def _keeping(self) -> bool:
        return self._keepalive is not None and self._keepalive.is_alive()

    def _keep_on(self) -> None:
        while self.state.closed is None:
            call = self.call(None, None)
            self.state.keepalive = call.mailbox
            try:
                self._keep_session(call)
            except Exception as error:  # a mistake of ours: give up what cannot be kept, and start anew
                log.exception("the keepalive loop of the session failed")
                self.keepalive_failed(error)
                call.mailbox.receive(KEEPALIVE_PAUSE_S)  # type: ignore[attr-defined]

    def _keep_session(self, call: Call) -> None:
        def current() -> Any:
            return call.session

        program = keep(self.state, self.settings.session_timeout_s, current)
        self.run(program, call)
        late = self.state.session
        if late is not None and late is not self._ending:  # it began while the client was being closed
            self._end(late)

    def run_behind(self, program: Program[None], call: Call) -> None:
        """Have ``program`` run in a thread of its own."""
        _thread("observer", self.run, program, call)

    def clean_up(self, job: Job) -> None:
        """Have the cleaner do a job, or a thread of its own if it ends a session; never blocks."""
        if job.ends_session:
            self._closer = _thread_behind("closer", self._clean_one, job)
            return
        with section.mark, self._starting:  # so that a cleaner either sees the job, or has ended
            self._jobs.put(job)
            if self.state.closed is not None:
                self._jobs.put(None)
            if not self._cleans():
                _thread_behind("cleaner", self._clean, self._jobs)
        if (resting := self.resting) is not None:
            resting.post(Disturbed())

    def renewing(self) -> None:
        """See to what an interrupt has left undone, or a process that could start no thread."""
        super().renewing()
        if self.cleaning and not self._cleans() and (self._cleaner is not None or not self._jobs.empty()):
            _thread_behind("cleaner", self._clean, self._jobs)

    def _cleans(self) -> bool:
        return self._cleaner is not None and self._cleaner.is_alive()

    def _clean(self, jobs: queue.SimpleQueue[Job | None]) -> None:
        with section.mark, self._starting:
            if self._cleans():
                return
            if self._cleaner is not None:  # somebody has ended it
                self._cleaner = None
                self._put(self.to_clean())
            if jobs.empty():  # another was quicker, and did it all
                return
            self._cleaner = threading.current_thread()
        while True:
            if self.refused and jobs.empty():
                self._rest()
            elif self._cleaned_all(job := jobs.get()):
                return
            elif job is not None and not self._clean_one(job):
                self.was_refused(job)

    def _rest(self) -> None:
        """Wait until it is time to try again what was refused, or there is another job."""
        call, again = self.begin_rest(), not self.may_rest()
        if not again and self._jobs.empty():
            again = self.run(rest(self.refused_at), call)
        call.finish()
        self._put(self.end_rest(again=again))

    def _put(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._jobs.put(job)
        if jobs and self.state.closed is not None:
            self._jobs.put(None)  # the one that closing put may have come before

    def _clean_one(self, job: Job) -> bool:
        """Do a job; False if it has to be done again."""
        done = True
        try:
            done = self._settle(job)
        except Exception:
            log.exception("a contender could not be withdrawn; it goes with its session")
        if done:
            self.cleaned(job)
        return done

    def _cleaned_all(self, job: Job | None) -> bool:
        """Whether the client is closed and no job is left; one that comes later has a thread started."""
        with section.mark, self._starting:
            if job is None and self._jobs.empty() and not self.refused:
                self._cleaner = None
                return True
        return False

    def _settle(self, job: Job) -> bool:
        call = self.call(None, self.settles_within(job), fail_fast=job.within_s is not None)
        call.session = job.session
        self.state.join(call.mailbox)  # so that the end of the session ends the waiting
        try:
            return self.run(clean(job), call)
        finally:
            if job.ends_session:
                job.session.connection.close()

    def in_turn(self) -> Callable[[Callable[[], object]], None]:
        """Return what runs users' callbacks in order, in a thread that nothing else depends on."""
        return self._callbacks.lane().put

    def close(self) -> None:
        """Let go of everything, and end the session on the store."""
        self.sweep()
        try:
            self._close()
        except BaseException:  # an interrupt
            self._close_behind()
            raise

    def _close(self) -> None:
        state = self.state
        with section.mark, self._starting:
            if state.closed is not None:
                return
            state.closed = "closed"
            session = self._ending = state.session
        waits = False
        try:
            self.let_go()
            waits = session is None or self._end(session)
        finally:
            self._stop_threads(waits=waits)

    def _close_behind(self) -> None:
        """End the session also if closing was interrupted before it came to that."""
        session = self.state.session
        if session is not None and self.state.closed is not None:
            self.close_session(session)
            if session not in self.ends_sessions():
                self.schedule(Job(session, None))
        self._stop_threads(waits=False)

    def _end(self, session: Any) -> bool:
        """End a session on the store; False if that is done behind."""
        job = Job(session, None)
        try:
            call = self.call(None, CLOSE_WITHIN_S)
            call.session = session
            self.close_session(session)
            self.run(clean(job), call)
            session.connection.close()
        except ReentrantCall:  # no answer comes before the handler returns, or the hook of a fork
            self.schedule(job)  # which closes the connection, too
            return False
        except BaseException:  # an interrupt
            if self.state.session is not session:  # else it is as if it had not begun
                self.schedule(job)
            raise
        return True

    def _stop_threads(self, *, waits: bool) -> None:
        self.state.tell(SessionEvent())
        self.state.wake_keepalive()
        self._jobs.put(None)
        if not waits or section.struck():  # they may wait for what was interrupted
            return
        for thread in (self._keepalive, self._cleaner):
            if thread is not None and thread is not threading.current_thread():
                thread.join(CLOSE_WITHIN_S / 2)

    def leave(self) -> None:
        """Close; see the base."""
        self.close()
        self._close_behind()
        if (closer := self._closer) is not None:
            closer.join(CLOSE_WITHIN_S)
            return
        for job in list(self.cleaning.values()):
            if job.ends_session:  # no thread could be started for it
                self._clean_one(job)

    def after_fork(self) -> None:
        """In the child: as the base says, with threads of its own."""
        super().after_fork()
        self._start_threads_afresh()


def _thread(name: str, target: Callable[..., object], *args: Any) -> threading.Thread:
    thread = new_thread(name, target, *args)
    thread.start()
    return thread


def _thread_behind(name: str, target: Callable[..., object], *args: Any) -> threading.Thread | None:
    """Start a thread for what a call leaves behind; None if that fails, which hides no error of the call."""
    try:
        return _thread(name, target, *args)
    except RuntimeError:
        log.warning("what a call left behind is not withdrawn yet: no thread could be started", exc_info=True)
        return None
