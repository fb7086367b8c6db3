"""The drivers on a clock that is moved by hand; what `recipes.testing` runs clients on.

Every wait of a driver is for a mailbox (a request without an answer waits for its call's
mailbox too), so a clock that hands out the mailboxes knows which calls wait, and until when.
Time moves to the next of these moments, those that it concerns are woken, and it moves on
only when all of them wait again: keepalive loops renew, sessions end, deadlines pass and
callers are notified in the order they would in real time.
"""

from __future__ import annotations

import math
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from recipes._contract.operations import Program
from recipes._contract.wakeups import Event
from recipes._mutex import new_rlock
from recipes._run.blocking import BlockingRuntime, ThreadMailbox
from recipes._run.retries import Retries
from recipes._run.runtime import LONGEST_REREAD_S, Runtime
from recipes._run.tasks import AsyncRuntime, TaskMailbox

if TYPE_CHECKING:
    from recipes._contract.backend import Backend
    from recipes._programs.cleaner import Job
    from recipes._programs.hold import HeldState, StoreSession
    from recipes._run.runtime import Call, Settings

__all__ = ["AsyncManualRuntime", "ManualMailbox", "ManualRuntime", "ManualTime"]

T = TypeVar("T")
START_S = 1000.0
_JOB: ContextVar[Job | None] = ContextVar("job", default=None)
EPSILON_S = 1e-9  # sums of seconds are not exact: what is due within this is due


class ManualTime:
    """The time of one store and its clients, and which calls wait for it.

    Attributes:
        changed: Notified whenever somebody begins or ends to wait. Its lock is that of the
            whole store, so that nothing changes while it is held.
        told: Counts what callers were notified of: their calls that ended.
    """

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.changed = threading.Condition(self.lock)
        self.runtimes: list[_Manual] = []
        self.told = 0
        self._now = START_S
        self._busy: set[ManualMailbox] = set()
        self._parked: dict[ManualMailbox, float | None] = {}
        self._behind: weakref.WeakSet[ManualMailbox] = weakref.WeakSet()

    def now(self) -> float:
        """Return the time, in seconds."""
        return self._now

    def after(self, seconds: float | None) -> float | None:
        """Return when so many seconds have passed; None: never."""
        return None if seconds is None else self._now + seconds

    @contextmanager
    def working(self, mailbox: ManualMailbox) -> Generator[None]:
        """Count a call as busy, except where it waits."""
        with self.changed:
            mailbox.works = True
            self._busy.add(mailbox)
        try:
            yield
        finally:
            with self.changed:
                mailbox.works = False
                self.unpark(mailbox)

    def begin(self, mailbox: Any) -> None:
        """Count a call as busy whose thread or task is about to start; it is never one of a caller."""
        with self.changed:
            self._behind.add(mailbox)
            self._busy.add(mailbox)

    def end(self, mailbox: Any) -> None:
        """Count a call as busy no more, whether or not it has begun."""
        with self.changed:
            self._busy.discard(mailbox)
            self.changed.notify_all()

    def park(self, mailbox: ManualMailbox, at: float | None) -> None:
        """Note that ``mailbox`` is waited for, until ``at``."""
        self._busy.discard(mailbox)
        self._parked[mailbox] = at
        self.changed.notify_all()

    def unpark(self, mailbox: ManualMailbox) -> None:
        """Note that the waiting is over."""
        with self.changed:
            self._parked.pop(mailbox, None)
            if mailbox.works:
                self._busy.add(mailbox)
            else:
                self._busy.discard(mailbox)
                self.told += 1
            self.changed.notify_all()

    def wake(self, mailbox: ManualMailbox) -> None:
        """Have those that wait look again; it counts as busy from now on."""
        with self.changed:
            if mailbox in self._parked:
                del self._parked[mailbox]
                self._busy.add(mailbox)
                mailbox.ring()

    def is_parked(self, mailbox: object) -> bool:
        """Whether ``mailbox`` is waited for."""
        return mailbox in self._parked

    def settled(self) -> bool:
        """Whether everybody waits, so that nothing happens before time moves or somebody calls."""
        with self.lock:
            return not self._busy and all(runtime.rests() for runtime in self.runtimes)

    def awaited(self) -> bool:
        """Whether a caller waits for time to pass, rather than a client's own keepalive loop or cleaner."""
        own: set[object] = {*self._behind, *(runtime.state.keepalive for runtime in self.runtimes)}
        own.update(*(runtime.settling.values() for runtime in self.runtimes))
        return any(mailbox not in own for mailbox in self._parked)

    def due(self) -> float:
        """Return when somebody's waiting ends by time; infinite if nobody's does."""
        return min((at for at in self._parked.values() if at is not None), default=math.inf)

    def move(self, to: float) -> None:
        """Let time be ``to``, and wake those who waited for that."""
        with self.changed:
            self._now = max(self._now, to)
            for mailbox, at in list(self._parked.items()):
                if at is not None and at <= self._now:
                    self.wake(mailbox)


class ManualMailbox(ABC):
    """What the mailboxes of both drivers share."""

    works: bool = False
    _events: Any

    def __init__(self, time: ManualTime, *args: Any) -> None:
        super().__init__(*args)
        self._time = time

    def post(self, event: Event) -> None:
        """Deliver ``event``; from any thread."""
        with self._time.lock:
            self._events.append(event)
            self._time.wake(self)

    @abstractmethod
    def ring(self) -> None:
        """Have the thread or task that waits look again."""


class ManualThreadMailbox(ManualMailbox, ThreadMailbox):
    """Where a blocking call receives events, and of time."""

    def __init__(self, time: ManualTime) -> None:
        super().__init__(time)
        self._rung = threading.Condition(time.lock)

    def ring(self) -> None:
        """Have the thread that waits look again."""
        self._rung.notify_all()

    def receive(self, at_most_s: float | None) -> Event | None:
        """Wait for an event; None if none came in time."""
        with self._time.lock:
            self.wait(self._time.after(at_most_s), lambda: bool(self._events))
            return self._events.pop(0) if self._events else None

    def wait(self, until: float | None, over: Callable[[], bool]) -> None:
        """Wait until that time, or until ``over()``, which is asked again at each event."""
        time = self._time
        with time.lock:
            try:
                while not over() and (until is None or time.now() < until):
                    time.park(self, until)
                    self._rung.wait()
            finally:
                time.unpark(self)


class ManualTaskMailbox(ManualMailbox, TaskMailbox):
    """Same as `ManualThreadMailbox`, but awaited."""

    def ring(self) -> None:
        """Have the task that waits look again."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed, and nobody waits
            self.works = False
            self._time.unpark(self)

    async def receive(self, at_most_s: float | None) -> Event | None:
        """Wait for an event; None if none came in time."""
        await self.wait(self._time.after(at_most_s), lambda: bool(self._events))
        return self._events.pop(0) if self._events else None

    async def wait(self, until: float | None, over: Callable[[], bool]) -> None:
        """Same as `ManualThreadMailbox.wait`, but awaits."""
        time = self._time
        try:
            while True:
                with time.lock:
                    if over() or (until is not None and time.now() >= until):
                        return
                    self._waiter = self._loop.create_future()
                    time.park(self, until)
                await self._waiter
        finally:
            self._waiter = None
            time.unpark(self)


class _Manual(Runtime):
    """What both drivers share.

    Attributes:
        settling: Which mailbox each job that is being settled waits for, by its id.
    """

    observing_pause_s: ClassVar[float] = 0.0  # as `pauses` are none
    sharing_pause_s: ClassVar[float] = 0.0  # a call in the thread that moves the clock would wait for ever
    on_a_beat: ClassVar[bool] = False

    def __init__(self, time: ManualTime, backend: Backend, settings: Settings) -> None:
        self._time = time
        self._wanted = False
        self.settling: dict[int, object] = {}
        super().__init__(backend, settings)
        with time.lock:
            time.runtimes = [runtime for runtime in time.runtimes if runtime.state.closed is None]
            time.runtimes.append(self)

    def now(self) -> float:
        """Return the time, in seconds."""
        return self._time.now()

    def cleaned(self, job: Job) -> None:
        """A job is done."""
        with self._time.changed:
            super().cleaned(job)
            self._time.changed.notify_all()

    @contextmanager
    def _settling(self, job: Job) -> Generator[None]:
        """Settle ``job`` in here: the next call of this thread or task is for it."""
        token = _JOB.set(job)
        try:
            yield
        finally:
            _JOB.reset(token)
            with self._time.lock:
                self.settling.pop(id(job), None)

    def _begun(self, call: Call) -> Call:
        job = _JOB.get()
        if job is not None:
            with self._time.lock:
                self.settling[id(job)] = call.mailbox
        return call

    def begin_rest(self) -> Call:
        """Return the call in which the cleaner waits; it counts as busy from now on."""
        call = super().begin_rest()
        self._time.begin(call.mailbox)
        return call

    def end_rest(self, *, again: bool) -> list[Job]:
        """Return what is to be tried again; a cleaner that did not rest is not busy any more."""
        resting = self.resting
        if resting is not None:
            self._time.end(resting)
        return super().end_rest(again=again)

    def retries(self) -> Retries:
        """Return what has no pauses: asking again takes no time, so that a caller needs nobody to move it."""
        return Retries(lambda _state: 0.0, self.settings.stop, self.now())

    def race_pause(self, lost: int) -> float:
        """Return no pause, as there."""
        return 0.0

    def reread_period(self, session: StoreSession) -> float:
        """Return the longest such period, without jitter: a test runs the same each time."""
        return min(self.settings.session_timeout_s, LONGEST_REREAD_S)

    def leave(self) -> None:
        """Leave it open as the process ends: its store goes with it, and nobody moves the time."""

    def rests(self) -> bool:
        """Whether the client's own keepalive loop and cleaner have nothing to do now."""
        if self.state.closed is not None:
            return True
        waits, settling = self._time.is_parked, self.settling
        if (self._wanted and not waits(self.state.keepalive)) or not all(map(waits, settling.values())):
            return False
        resting, refused = self.resting, {id(job) for job in self.refused}
        jobs = [job for job in list(self.cleaning.values()) if id(job) not in refused]
        ending = (id(job) in settling for job in jobs if job.ends_session)  # each in a thread of its own
        leaving = [id(job) in settling for job in jobs if not job.ends_session]  # one after the other
        if refused and not leaving and not (resting is not None and waits(resting)):
            return False
        return all(ending) and (not leaving or any(leaving))


class ManualRuntime(_Manual, BlockingRuntime):
    """What a blocking client runs on, when a test moves the time."""

    def mailbox(self) -> ManualThreadMailbox:
        """Return a new mailbox: all waiting is for one."""
        return ManualThreadMailbox(self._time)

    def call(self, owner: object, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        """Begin a call, and note whether it settles a job."""
        return self._begun(super().call(owner, timeout_s, fail_fast=fail_fast))

    def _settle(self, job: Job) -> bool:
        with self._settling(job):
            return super()._settle(job)

    def want_session(self) -> None:
        """Have the keepalive loop at work; it counts as busy from now on."""
        self._wanted = True
        super().want_session()

    def run_behind(self, program: Program[None], call: Call) -> None:
        """Have ``program`` run in a thread of its own; it counts as busy from now on."""
        self._time.begin(call.mailbox)
        super().run_behind(program, call)

    def run(self, program: Program[T], call: Call, *, waits: bool = True) -> T:
        """Run ``program`` to its end, in this thread."""
        mailbox: Any = call.mailbox
        with self._time.working(mailbox):
            return super().run(program, call, waits=waits)


class AsyncManualRuntime(_Manual, AsyncRuntime):
    """Same as `ManualRuntime`, but for asyncio."""

    def mailbox(self) -> ManualTaskMailbox:
        """Return a new mailbox: all waiting is for one."""
        super().mailbox()  # which binds the client to the loop, or refuses
        return ManualTaskMailbox(self._time, self._loop, self._thread)

    def call(self, owner: object, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        """Begin a call, and note whether it settles a job."""
        return self._begun(super().call(owner, timeout_s, fail_fast=fail_fast))

    async def _settle(self, job: Job) -> bool:
        with self._settling(job):
            return await super()._settle(job)

    def watch_over(self, hold: HeldState) -> None:
        """Leave it to the keepalive loop: while the loop is blocked no time passes."""

    def want_session(self) -> None:
        """Have the keepalive loop at work; it counts as busy from now on."""
        self._wanted = True
        super().want_session()

    def run_behind(self, program: Program[None], call: Call) -> None:
        """Have ``program`` run in a task of its own; it counts as busy from now on."""
        self._time.begin(call.mailbox)
        super().run_behind(program, call)

    async def run(self, program: Program[T], call: Call) -> T:
        """Run ``program`` to its end, in this task."""
        mailbox: Any = call.mailbox
        with self._time.working(mailbox):
            return await super().run(program, call)

    def rests(self) -> bool:
        """Whether the client's own keepalive loop and cleaner have nothing to do now.

        Their loop may be gone.
        """
        return self._loop is None or self._loop.is_closed() or super().rests()
