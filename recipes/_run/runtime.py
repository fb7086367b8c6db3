"""What one client runs on: its session state, its settings, and the calls in progress.

The parts that do not differ between threads and asyncio. A `Call` is one public call; a
`Runtime` is what all calls of a client share. Nothing here waits.
"""

from __future__ import annotations

import itertools
import os
import random
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Never, Protocol

from recipes import events
from recipes._contract.deadline import NEVER, Deadline
from recipes._contract.operations import Entry, Open, Program, Stored, StoreOp, Ticket, Write
from recipes._programs.cleaner import Job
from recipes._programs.hold import CLOSED, INTERRUPTED, REMOVED, HeldState, StoreSession
from recipes._programs.queueing import MOST_DOUBLED
from recipes._programs.session import SessionState
from recipes._programs.steps import Admit
from recipes._record import record
from recipes._run import process
from recipes._run.clock import boot_time
from recipes._run.green import refuse_eventlet
from recipes._run.hub import Hub
from recipes._run.retries import Retries
from recipes.errors import SessionLost, StoreError, StoreUnavailable
from recipes.events import Transition
from recipes.guarantees import require

if TYPE_CHECKING:
    from recipes._contract.backend import Backend
    from recipes._contract.connection import Mailbox
    from recipes._programs.reentry import Reentries
    from recipes.guarantees import Guarantees, Need

__all__ = ["Call", "Runtime", "Settings", "new_id", "pending_cleanups"]

LONGEST_REREAD_S = 10.0

SHORTEST_RACE_S, LONGEST_RACE_S = 0.002, 0.1
LIVES_ON = 2
"""For how many times its timeout a session may live on that no server has confirmed to be ended.

ZooKeeper rounds it up to a tick, of which there are at least two, and clocks differ by a tenth. A store that
was away gives each session its whole time again: it counts from when the next session has begun.
"""


def new_id() -> str:
    """Return the id of a new contender."""
    return str(uuid.uuid4())


class LeftBlock(Protocol):
    """A ``with`` block that has ended, whatever became of its ``__exit__``."""

    def leave(self) -> None:
        """Release what is still held, behind the scenes."""


@record
class Settings:
    """What ``connect`` was given, checked; seconds, and the wait and the stop of tenacity's."""

    session_timeout_s: float
    request_timeout_s: float
    owner: str | None = None
    needs: tuple[Need, ...] = ()
    wait: Any = None
    stop: Any = None


@dataclass(slots=True, eq=False)
class Call:
    """One call in progress.

    Attributes:
        runtime: The client's.
        mailbox: Where it receives events.
        owner: The thread or task that asked.
        deadline: For the whole call.
        fail_fast: Failing to start a session, or losing answers (two, or one of each server), ends it.
        session: The session it uses, once it has one.
        ticket: Its contender in a queue, if any, until somebody else looks after that.
        entry: Where it stands, as far as the store has said so.
        hold: What it was granted last.
        kept: What it was granted before, or is to release: all of it goes if the call ends in an exception.
        listening: The client's own contenders that it waits for.
        last_error: The last lost answer, to explain a timeout.
        doubt: The write that was sent and has not been answered.
        beside: The calls within this one, of the programs that run beside its own; None: there was none yet.
        lasting: It outlasts outages, whatever the user's policy for one call says.
    """

    runtime: Runtime
    mailbox: Mailbox
    owner: object = None
    deadline: Deadline = NEVER
    fail_fast: bool = False
    session: StoreSession | None = None
    ticket: Ticket | None = None
    entry: Entry | None = None
    hold: HeldState | None = None
    kept: Sequence[HeldState] = ()
    listening: set[str] = field(default_factory=set)
    last_error: StoreError | None = None
    beside: list[Call] | None = None
    doubt: Write | None = None
    lasting: bool = False

    def bound(self) -> float:
        """Return how long the next request may take; raises ``Expired``."""
        within = self.deadline.bound(self.runtime.settings.request_timeout_s, self.runtime.now())
        assert within is not None, "every request is bounded"
        return within

    def unwind(self) -> None:
        """Leave nothing behind of a call that ends in an exception; may be called twice."""
        for hold in reversed(self.kept):
            self.runtime.give_back(hold)
        if self.hold is not None and self.hold not in self.kept:
            self.hold.lose(INTERRUPTED)
        if self.ticket is not None:
            self.runtime.abandon(self, self.ticket, self.entry)
        if self.doubt is not None:
            self.runtime.settle_behind(self)
        for call in self.beside or ():
            call.unwind()
        if self.hold is not None:  # last: what a subscriber raises keeps nothing from being left
            self.runtime.report_loss(self.hold)

    def finish(self) -> None:
        """Stop hearing of events."""
        self.runtime.state.leave(self.mailbox)
        if self.session is not None:
            self.session.waiters.forget(self.mailbox, self.listening)
            self.session.connection.forget(self.mailbox)
        for call in self.beside or ():
            call.finish()


class Runtime(ABC):
    """What all calls of one client share.

    Attributes:
        client: The client, as users know it.
        reentries: What was entered and may be entered again, by owner and encoded name.
        cleaning: The jobs that are not done, by their ids.
        refused: Those among them that the store has refused, at the earliest ``refused_at``.
        resting: Where the cleaner, which has nothing else to do, is notified of another job.
        hub: What is observed.
        numbers: Those of the writes of this client.
        seen: What short values were when they were last read or written, by key: the latest thousand.
        observing_pause_s: How long after a look at what is observed the next comes at the earliest.
        sharing_pause_s: How long after one assignment of partitions the next comes at the earliest.
        on_a_beat: Clients renew together, where the store gains by that; else each by itself.
    """

    observing_pause_s: ClassVar[float] = 0.01
    sharing_pause_s: ClassVar[float] = 0.05
    on_a_beat: ClassVar[bool] = True

    def __reduce__(self) -> Never:
        """Say why nothing that a client made can go to another process; pickle asks for it there."""
        raise TypeError("a client and what it made stay in their process: pass the URL, and connect there")

    def __init__(self, backend: Backend, settings: Settings) -> None:
        refuse_eventlet()
        events.prepare()
        self.backend = backend
        self.settings = settings
        self.state = SessionState()
        self.cleaning: dict[int, Job] = {}
        self._living_on: dict[int, tuple[float | None, StoreSession]] = {}
        self.refused: list[Job] = []
        self.refused_at = 0.0
        self.resting: Mailbox | None = None
        self.client: Any = None
        self.reentries: dict[tuple[object, str], Reentries] = {}
        self.left: deque[LeftBlock] = deque()
        self.hub = Hub(self)
        self.numbers = itertools.count(1)
        self.seen: dict[str, Stored] = {}
        self._inherited: list[object] = []
        process.join(self)

    now = staticmethod(boot_time)

    # What programs ask for (see `interpret`).

    def emit(self, transition: Transition) -> None:
        """Tell about a transition."""
        if events.wanted(transition.event):
            if transition.store is None:
                transition = replace(transition, store=self.backend.label)
            events.emit(transition)

    def admit(self, call: Call, op: Admit) -> HeldState:
        """Record a grant; the session knows it before its proof is read, so that no loss misses it."""
        session = call.session
        assert session is not None, "a place belongs to a session"
        now = self.now()
        call.hold = hold = HeldState(op.entry, session, call.owner, now, op.labels, max_hold_s=op.max_hold_s)
        hold.announced = False  # it may turn out to be lost before anybody holds it
        if op.seldom:
            hold.turn = session.next_turn()
        session.take_up(hold)
        if op.max_hold_s is not None:
            self.state.wake_keepalive()  # it may sleep for longer
            self.watch_over(hold)
        session.waiters.waits_no_more(op.entry.ticket.id)
        lost = session.reason if hold.remaining(now) <= 0 else None
        if session.waiters.is_missing(op.entry.ticket.id):
            lost = REMOVED
        if lost is not None:
            hold.lose(lost)
            raise SessionLost(hold.reason or CLOSED)  # the latter if it was released
        return hold

    def abandon(self, call: Call, ticket: Ticket | None, entry: Entry | None = None) -> None:
        """Hand a ticket, or (None) the whole session, to the cleaner."""
        session = call.session
        if session is not None and (ticket is None or session.waiters.stands(ticket.id)):
            if ticket is not None:
                session.waiters.give_up(ticket)
            if entry is None and call.entry is not None and call.entry.ticket is ticket:
                entry = call.entry
            self.schedule(Job(session, ticket, entry))
        if ticket is call.ticket:
            call.ticket = None  # last: an interrupt before this has it done twice, which does no harm

    def give_back(self, hold: HeldState) -> None:
        """Release what is held, and have the cleaner withdraw it; never blocks, and may be called twice."""
        now = self.now()
        hold.release(now, self.emit)
        if hold.freed:
            self.withdraw_behind(hold)
        for transition in hold.release_to_report(now):
            self.emit(transition)

    def report_loss(self, hold: HeldState) -> None:
        """Emit that it was lost, if nobody has."""
        for transition in hold.loss_to_report():
            self.emit(transition)

    def withdraw_behind(self, hold: HeldState) -> None:
        """Have the cleaner withdraw what was held, as far as it was released and is still there."""
        for part in reversed(hold.parts):
            ticket = part.entry.ticket
            if part.freed and part.session.waiters.stands(ticket.id):
                self.schedule(Job(part.session, ticket, part.entry))

    def settle_behind(self, call: Call) -> None:
        """Have the cleaner see to it that a write that was given up does not land later."""
        write, session = call.doubt, call.session
        if write is not None and session is not None:
            given_up = session.doubts[write.number] = replace(write, data=None)  # which may be large
            if session.ended is None:
                self.schedule(Job(session, None, write=given_up))
        call.doubt = None  # last, as in `abandon`

    def sweep(self) -> None:
        """Release what was held in ``with`` blocks that were left as an interrupt struck their ends."""
        while self.left:
            try:
                block = self.left[0]
            except IndexError:  # another thread was quicker
                return
            block.leave()
            with suppress(ValueError):  # not before: an interrupt may strike; and to leave twice does no harm
                self.left.remove(block)

    def schedule(self, job: Job) -> None:
        """Have the cleaner do a job, and remember it until it is done."""
        try:
            self._remember(job)
        except BaseException:  # an interrupt: the cleaner may know of it, or not
            self._remember(job)  # to be done twice does no harm
            raise

    def _remember(self, job: Job) -> None:
        self.cleaning[id(job)] = job
        self.clean_up(job)

    def settles_within(self, job: Job) -> float | None:
        """Return how long to try: until a session has ended by itself, and a ticket until it is gone."""
        if not job.ends_session:
            return None
        return self.settings.session_timeout_s if job.within_s is None else job.within_s

    def ends_sessions(self) -> list[StoreSession]:
        """Return the sessions that are still to be ended on the store."""
        return [job.session for job in list(self.cleaning.values()) if job.ends_session]

    def cleaned(self, job: Job) -> None:
        """A job is done."""
        session = job.session
        # One that never began has written nothing.
        if job.ends_session and session.protocol.lives_on and session.clock is not None:
            self._living_on[id(session)] = None, session
            self._living()  # those before it may have had their time
        self.cleaning.pop(id(job), None)

    def ended_here(self) -> list[StoreSession]:
        """Return the sessions that were ended, and may live on at the store for a while."""
        return [*self.ends_sessions(), *self._living()]

    def _living(self) -> list[StoreSession]:
        """Return them; their time counts from where the store answers again, which restores them whole."""
        now, current = self.now(), self.state.session
        answers = current is not None and current.clock is not None and current.ended is None
        for one, (until, session) in self._living_on.copy().items():
            if until is not None and until <= now:
                self._living_on.pop(one, None)
            elif until is None and answers and session is not current and session.clock is not None:
                self._living_on[one] = now + LIVES_ON * session.clock.ttl_s, session
        return [session for _, session in self._living_on.copy().values()]

    def was_refused(self, job: Job) -> None:
        """Have a job tried again later, behind the others."""
        if not self.refused:
            self.refused_at = self.now()
        self.refused.append(job)

    def begin_rest(self) -> Call:
        """Return the call in which the cleaner waits until it is time to try again what was refused."""
        call = self.call(None, None)
        self.resting = call.mailbox
        self.state.join(call.mailbox)
        return call

    def may_rest(self) -> bool:
        """Whether all that was refused is of sessions that live; else it is done as it is tried again."""
        return all(job.session.ended is None for job in self.refused)

    def end_rest(self, *, again: bool) -> list[Job]:
        """Return what is to be tried ``again``."""
        self.resting = None
        if not again:
            return []
        refused, self.refused = self.refused, []
        return refused

    def to_clean(self) -> list[Job]:
        """Return what a new cleaner has to do where somebody has ended the last one, perhaps amid a job."""
        self.refused = []
        return [job for job in list(self.cleaning.values()) if not job.ends_session]

    def renewing(self) -> None:
        """See, as the session is renewed, to what an interrupt has left undone, and to what had its time."""
        self.sweep()
        if self._living_on:
            self._living()

    def let_go(self) -> None:
        """Release all that is held, and report that: what follows, as the client closes, may be cut short."""
        holds, now = self.holds, self.now()
        try:
            for hold in holds:
                hold.release(now, self.emit)
        finally:
            for hold in holds:
                for transition in hold.release_to_report(now):
                    self.emit(transition)

    def note(self) -> str:
        """Return what others may read beside a contender that joins now; nothing unless asked for."""
        owner = self.settings.owner
        if owner is None:
            return ""
        import json  # noqa: PLC0415 - few ask for it
        import socket  # noqa: PLC0415

        said = {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
        return json.dumps(said, separators=(",", ":"))

    def close_session(self, session: StoreSession) -> None:
        """End the session in this client, as its closing; nothing else reports holders that hung."""
        for hold in self.state.ended(session, CLOSED):
            self.report_loss(hold)

    def session_gone(self, session: StoreSession, reason: str) -> None:
        """The store says that this session has ended: nothing of it is held from here on."""
        if session.ended is None:
            session.ended, session.gone = reason, True
            self.state.wake_keepalive()

    def keepalive_failed(self, error: Exception) -> None:
        """The keepalive loop made a mistake: give the session up and notify what waits; it starts anew."""
        reason = f"renewing failed: {type(error).__name__}"
        self.give_up(reason)
        self.state.failed(StoreUnavailable(self.backend.label, reason))

    def give_up(self, reason: str) -> None:
        """Give up the session, if there is one: its keepalive loop does not look after it any more."""
        session = self.state.session
        if session is not None:
            lost = self.state.ended(session, reason)
            self.schedule(Job(session, None))  # first, as a dead grant must block nobody
            for hold in lost:
                self.report_loss(hold)

    def promised(self, guarantees: Guarantees) -> None:
        """Note what the store says that it promises; raises `TooWeak` if more is required."""
        self.backend.guarantees = guarantees
        require(self.settings.needs, guarantees, self.backend.label)

    def retrying(self, op: StoreOp[Any], error: StoreError) -> None:
        """An answer was lost, and the operation will be asked again."""
        if isinstance(op, Open):
            self.state.failed(error)
        self.emit(Transition("store.retry", reason=str(error)))

    def retries(self) -> Retries:
        """Return what says when to ask an operation again whose answer was lost, and how often."""
        return Retries(self.settings.wait, self.settings.stop, self.now())

    def race_pause(self, lost: int) -> float:
        """Return for how many seconds to let others go first, after so many races that were lost to them."""
        longest_s = min(SHORTEST_RACE_S * 2 ** min(lost, MOST_DOUBLED), LONGEST_RACE_S)
        return random.uniform(0.0, longest_s)  # noqa: S311 - spreads load only

    def reread_period(self, session: StoreSession) -> float:
        """Return after how many seconds without an event a waiter reads again, jittered."""
        ttl_s = session.clock.ttl_s if session.clock is not None else LONGEST_REREAD_S
        return min(ttl_s, LONGEST_REREAD_S) * random.uniform(0.7, 1.0)  # noqa: S311 - spreads load only

    def new_session(self) -> StoreSession:
        """Make the connection and the protocol of one more session."""
        # Threads of a store's client may keep a connection alive: it should not keep a dropped client so.
        runtime_ref = weakref.ref(self)
        session_ref: weakref.ref[StoreSession] | None = None

        def on_end(reason: str) -> None:
            runtime, session = runtime_ref(), None if session_ref is None else session_ref()
            if runtime is not None and session is not None:
                runtime.session_gone(session, reason)

        beat_at = process.beat_at() if self.on_a_beat else None
        made = StoreSession(self.make_connection(on_end), self.backend.protocol(), beat_at=beat_at)
        session_ref = weakref.ref(made)
        return made

    @property
    def holds(self) -> list[HeldState]:
        """The grants of the current session that have not ended."""
        session = self.state.session
        return [] if session is None else list(session.holds.values())

    def held_in(self, queue: str) -> list[HeldState]:
        """Return those of one queue."""
        session = self.state.session
        return [] if session is None else session.held_in(queue)

    # What differs between threads and asyncio.

    def watch_over(self, hold: HeldState) -> None:
        """Have a grant that may be held for so long only taken back, also if the keepalive loop cannot."""
        del hold  # a keepalive loop with a thread of its own can

    @abstractmethod
    def call(self, owner: object, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        """Begin a public call with one deadline for all of it."""

    @abstractmethod
    def make_connection(self, on_end: Any) -> Any:
        """Return a new connection of the backend."""

    @abstractmethod
    def want_session(self) -> None:
        """Have the keepalive loop at work."""

    @abstractmethod
    def run_behind(self, program: Program[None], call: Any) -> None:
        """Have ``program`` run in a thread or task of its own; never blocks."""

    @abstractmethod
    def clean_up(self, job: Job) -> None:
        """Have the cleaner do a job; never blocks."""

    @abstractmethod
    def in_turn(self) -> Callable[[Callable[[], object]], None]:
        """Return what has users' callbacks run one after the other, and never blocks or raises.

        Those given to what another call of this returned are not waited for, but by a loop.
        """

    # Exit and fork.

    @abstractmethod
    def leave(self) -> None:
        """Close, as the process ends; called in a thread of its own, which may be left where it is."""

    def after_fork(self) -> None:
        """In the child: hold nothing, touch nothing of the parent's, start afresh on first use."""
        old, self.state = self.state, SessionState()
        self.state.closed = old.closed
        self.cleaning, self.refused, self.resting = {}, [], None
        self._living_on = {}
        self.reentries = {}
        self.left = deque()
        self.hub.after_fork()
        session = old.session
        if session is not None:
            self._inherited.append(session)  # kept, so that no finalizer closes what the parent uses
            session.ended = "forked"
            for hold in list(session.holds.values()):
                hold.on_end = None
                hold.lose("forked")


def pending_cleanups() -> dict[str, int]:
    """Return, by stores, how many jobs the cleaners of this process's clients have still to do."""
    found: dict[str, int] = {}
    for runtime in process.present():
        label = runtime.backend.label
        found[label] = found.get(label, 0) + len(runtime.cleaning)
    return found
