"""The session of a client: its state, and the program that keeps it alive.

A client's contenders live as long as its session. Everything here is plain state and a
generator; `recipes._programs.lease` has the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from recipes._contract.deadline import Expired
from recipes._contract.operations import Entry, Open, Program, Renew
from recipes._contract.wakeups import Event
from recipes._programs.hold import CLOSED, NOT_RENEWED, REMOVED, StoreSession
from recipes._programs.lease import SessionClock
from recipes._programs.queueing import report_loss
from recipes._programs.steps import Abandon, Emit, Now, Wait
from recipes._record import record
from recipes.errors import ClientClosed, SessionLost, StoreError, TooWeak
from recipes.events import Transition

if TYPE_CHECKING:
    from recipes._contract.connection import Mailbox
    from recipes._programs.hold import HeldState


__all__ = ["OpenFailed", "SessionEvent", "SessionState", "keep"]
STILLBORN_S = 1.0
EPSILON_S = 0.001  # sums of seconds are not exact


@record
class SessionEvent(Event):
    """Something about the session itself: started, ended, or the client closes."""


@record
class OpenFailed(SessionEvent):
    """An attempt to start a session failed; others follow unless the store refused."""

    error: StoreError | TooWeak


class SessionState:
    """What a client knows of its session, and which calls want to be notified of it.

    Calls in progress are in `calls`; all of them are notified when anything changes.
    Every method is safe from any thread: single assignments and dict operations.
    """

    def __init__(self) -> None:
        self.session: StoreSession | None = None
        self.last: StoreSession | None = None
        self.keepalive: Mailbox | None = None
        self.closed: str | None = None
        self.refused: StoreError | TooWeak | None = None
        self.calls: dict[Mailbox, None] = {}

    def live(self, now: float) -> StoreSession | None:
        """Return the session that calls may use now, if there is one.

        Raises:
            ClientClosed: The client was closed.
        """
        if self.closed is not None:
            raise ClientClosed
        session = self.session
        return session if session is not None and session.remaining(now) > 0 else None

    def join(self, mailbox: Mailbox) -> None:
        """Tell this call from now on."""
        self.calls[mailbox] = None

    def leave(self, mailbox: Mailbox) -> None:
        """Tell it no more."""
        self.calls.pop(mailbox, None)

    def tell(self, event: SessionEvent) -> None:
        """Tell all calls in progress."""
        for mailbox in list(self.calls):
            mailbox.post(event)

    def started(self, session: StoreSession) -> None:
        """A session is live."""
        self.session = self.last = session
        self.refused = None
        self.tell(SessionEvent())

    def failed(self, error: StoreError | TooWeak) -> None:
        """A session could not be started."""
        self.tell(OpenFailed(error))

    def ended(self, session: StoreSession, reason: str) -> list[HeldState]:
        """Give the session up; returns the grants that are lost with it."""
        session.ended = reason
        if self.session is session:
            self.session = None
        lost = [hold for hold in list(session.holds.values()) if hold.lose(reason)]
        self.tell(SessionEvent())
        return lost

    def idle(self) -> bool:
        """Whether the store has refused a session, and nobody asked for one since."""
        return self.closed is None and self.refused is not None

    def wake_keepalive(self) -> None:
        """Have the keepalive loop look again (a call wants a session, one has ended, the client closes)."""
        if self.keepalive is not None:
            self.keepalive.post(SessionEvent())


def keep(state: SessionState, ttl_s: float, current: Callable[[], StoreSession]) -> Program[None]:
    """Keep a session: start one, renew it, give it up in time, start the next.

    ``current`` returns the session that the last `Open` made.
    """
    while state.closed is None:
        try:
            opened = yield from Open(ttl_s)
        except ClientClosed:
            return
        except (StoreError, TooWeak) as error:
            yield from _refused(state, error)
            continue
        session = current()
        session.begin(opened.id, opened.ttl_s, opened.sent_at)
        # First, so that it comes before all that the calls do with it, and before its end.
        yield from Emit(Transition("session.started", session=session.id, timeout_s=opened.ttl_s))
        state.started(session)
        reason = yield from _renew(state, session)
        if state.closed is None:
            yield from _give_up(state, session, reason)
            yield from _stillborn(state, opened.sent_at)


def _refused(state: SessionState, error: StoreError | TooWeak) -> Program[None]:
    state.refused = error
    state.failed(error)
    while state.idle():
        yield from Wait(3600.0)  # until a call wants a session again, and pokes


def _give_up(state: SessionState, session: StoreSession, reason: str) -> Program[None]:
    lost = state.ended(session, reason)
    yield from Abandon(None)  # first of all: a dead grant must block nobody
    yield from Emit(Transition("session.lost", session=session.id, reason=reason))
    for hold in lost:
        yield from report_loss(hold)


def _stillborn(state: SessionState, sent_at: float) -> Program[None]:
    """Wait if the session hardly lived: a store that ends what it starts is not hurried."""
    now = yield from Now()
    until = now + STILLBORN_S if now - sent_at < STILLBORN_S else now
    while now < until and state.closed is None:  # what it is notified of meanwhile may be about the last one
        yield from Wait(until - now)
        now = yield from Now()


def _renew(state: SessionState, session: StoreSession) -> Program[str]:
    """Renew until the session has to be given up; returns the reason."""
    clock = session.clock
    assert clock is not None, "a started epoch has a clock"
    doubted, fresh = False, True
    while True:
        now = yield from Now()
        if fresh:
            clock.answered_in(now - clock.counted)  # the start of the session
            fresh = False
        if session.ended is not None or state.closed is not None:
            return session.ended or CLOSED
        if now >= clock.deadline:
            return NOT_RENEWED
        yield from _give_back(session, now)
        if now < clock.suspect_at:
            doubted = False
        elif not doubted:
            doubted = True
            yield from _doubt(session)
        if now >= clock.due:
            reason = yield from _renew_once(session, clock, now)
        else:
            checkpoint = clock.deadline if doubted else clock.suspect_at
            yield from Wait(max(min(clock.due, checkpoint, session.next_due) - now, 0.0))
            reason = None
        if reason is not None:
            return reason


def _doubt(session: StoreSession) -> Program[None]:
    yield from Emit(Transition("session.suspect", session=session.id))
    for hold in list(session.holds.values()):
        yield from Emit(hold.transition("suspect"))


def _renew_once(session: StoreSession, clock: SessionClock, sent_at: float) -> Program[str | None]:
    """Ask once; returns the reason if the session turns out to have ended."""
    checkpoint = clock.suspect_at if sent_at < clock.suspect_at else clock.deadline
    entries, resting = session.due()
    cut_at = clock.cut_at(sent_at, session.next_due)
    try:
        within_s = min(checkpoint, cut_at) - sent_at
        renewal = yield from Renew(entries, within_s, session.waiters.waiting, resting)
    except (StoreError, Expired):
        now = yield from Now()
        if cut_at < min(now + EPSILON_S, checkpoint):
            clock.on_cut(now)
        else:
            clock.on_missed(now)
        return None
    except SessionLost as lost:
        return lost.reason
    now = yield from Now()
    if session.remaining(now) <= 0 or not clock.on_renewed(sent_at, renewal.ttl_s, now):
        return session.reason
    session.renewals += 1
    yield from _missing(session, renewal.missing)
    return None


def _give_back(session: StoreSession, now: float) -> Program[None]:
    """Have the contenders of holders that hang withdrawn, and tell."""
    for hold in session.overheld(now):
        if hold.lose(NOT_RENEWED):
            yield from Abandon(hold.entry.ticket, hold.entry)
            yield from report_loss(hold)


def _missing(session: StoreSession, entries: tuple[Entry, ...]) -> Program[None]:
    for entry in entries:
        # first: an admission asks for this once it is among the holds
        session.waiters.missed(entry.ticket.id)
        hold = session.holds.get(entry.ticket.id)
        if hold is not None and hold.lose(REMOVED):
            yield from report_loss(hold)
            yield from Abandon(entry.ticket, entry)
