"""The session of a client: its state, and the program that keeps it alive.

A client's contenders live as long as its session. Everything here is plain state and a
generator; `recipes._programs.lease` has the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recipes._contract.deadline import Expired
from recipes._contract.operations import Open, Place, Program, Renew
from recipes._contract.wakeups import Event
from recipes._programs.hold import NOT_RENEWED, REMOVED, Epoch
from recipes._programs.lease import SessionClock
from recipes._programs.steps import Abandon, Emit, Now, Wait
from recipes.errors import ClientClosed, SessionLost, StoreError
from recipes.events import Transition

if TYPE_CHECKING:
    from recipes._contract.connection import Mailbox
    from recipes._programs.hold import Hold


__all__ = ["Board", "OpenFailed", "SessionEvent", "keep"]
STILLBORN_S = 1.0
EPSILON_S = 0.001  # sums of seconds are not exact


@dataclass(frozen=True, slots=True)
class SessionEvent(Event):
    """Something about the session itself: started, ended, or the client closes."""


@dataclass(frozen=True, slots=True)
class OpenFailed(SessionEvent):
    """An attempt to start a session failed; others follow unless the store refused."""

    error: StoreError


class Board:
    """What a client knows of its session, and who wants to hear of it.

    Calls in progress stand in `calls`; all of them are told when anything changes.
    Every method is safe from any thread: single assignments and dict operations.
    """

    def __init__(self) -> None:
        self.epoch: Epoch | None = None
        self.last: Epoch | None = None
        self.keeper: Mailbox | None = None
        self.closed: str | None = None
        self.refused: StoreError | None = None
        self.calls: dict[Mailbox, None] = {}

    def live(self, now: float) -> Epoch | None:
        """Return the session that calls may use now, if there is one.

        Raises:
            ClientClosed: The client was closed.
        """
        if self.closed is not None:
            raise ClientClosed
        epoch = self.epoch
        return epoch if epoch is not None and epoch.remaining(now) > 0 else None

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

    def started(self, epoch: Epoch) -> None:
        """A session is live."""
        self.epoch = self.last = epoch
        self.refused = None
        self.tell(SessionEvent())

    def failed(self, error: StoreError) -> None:
        """A session could not be started."""
        self.tell(OpenFailed(error))

    def ended(self, epoch: Epoch, reason: str) -> list[Hold]:
        """Give the session up; returns the grants that are lost with it."""
        epoch.ended = reason
        if self.epoch is epoch:
            self.epoch = None
        lost = [hold for hold in list(epoch.holds.values()) if hold.lose(reason)]
        self.tell(SessionEvent())
        return lost

    def idle(self) -> bool:
        """Whether the store has refused a session, and nobody asked for one since."""
        return self.closed is None and self.refused is not None

    def tell_keeper(self) -> None:
        """Have the keeper look again (a call wants a session, one has ended, the client closes)."""
        if self.keeper is not None:
            self.keeper.post(SessionEvent())


def keep(board: Board, ttl_s: float, current: Callable[[], Epoch]) -> Program[None]:
    """Keep a session: start one, renew it, give it up in time, start the next.

    ``current`` returns the epoch that the last `Open` made.
    """
    while board.closed is None:
        try:
            opened = yield from Open(ttl_s)
        except ClientClosed:
            return
        except StoreError as error:
            yield from _refused(board, error)
            continue
        epoch = current()
        epoch.begin(opened.id, opened.ttl_s, opened.sent_at)
        board.started(epoch)
        yield from Emit(Transition("session.started", session=epoch.id, timeout_s=opened.ttl_s))
        reason = yield from _renew(board, epoch)
        if board.closed is None:
            yield from _give_up(board, epoch, reason)
            yield from _stillborn(board, opened.sent_at)


def _refused(board: Board, error: StoreError) -> Program[None]:
    board.refused = error
    board.failed(error)
    while board.idle():
        yield from Wait(3600.0)  # until a call wants a session again, and pokes


def _give_up(board: Board, epoch: Epoch, reason: str) -> Program[None]:
    lost = board.ended(epoch, reason)
    yield from Abandon(None)  # first of all: a dead grant must block nobody
    yield from Emit(Transition("session.lost", session=epoch.id, reason=reason))
    for hold in lost:
        yield from Emit(hold.transition("lost", reason=hold.reason))


def _stillborn(board: Board, sent_at: float) -> Program[None]:
    """Wait if the session hardly lived: a store that ends what it starts is not hurried."""
    now = yield from Now()
    until = now + STILLBORN_S if now - sent_at < STILLBORN_S else now
    while now < until and board.closed is None:  # what it is told meanwhile may be about the last one
        yield from Wait(until - now)
        now = yield from Now()


def _renew(board: Board, epoch: Epoch) -> Program[str]:
    """Renew until the session has to be given up; returns the reason."""
    clock = epoch.clock
    assert clock is not None, "a started epoch has a clock"
    doubted, fresh = False, True
    while True:
        now = yield from Now()
        if fresh:
            clock.answered_in(now - clock.counted)  # the start of the session
            fresh = False
        if epoch.ended is not None or board.closed is not None:
            return epoch.ended or "the client was closed"
        if now >= clock.deadline:
            return NOT_RENEWED
        yield from _give_back(epoch, now)
        if now < clock.suspect_at:
            doubted = False
        elif not doubted:
            doubted = True
            yield from _doubt(epoch)
        if now >= clock.due:
            reason = yield from _renew_once(epoch, clock, now)
        else:
            checkpoint = clock.deadline if doubted else clock.suspect_at
            yield from Wait(max(min(clock.due, checkpoint, epoch.next_due) - now, 0.0))
            reason = None
        if reason is not None:
            return reason


def _doubt(epoch: Epoch) -> Program[None]:
    yield from Emit(Transition("session.suspect", session=epoch.id))
    for hold in list(epoch.holds.values()):
        yield from Emit(hold.transition("suspect"))


def _renew_once(epoch: Epoch, clock: SessionClock, sent_at: float) -> Program[str | None]:
    """Ask once; returns the reason if the session turns out to have ended."""
    checkpoint = clock.suspect_at if sent_at < clock.suspect_at else clock.deadline
    places = tuple(hold.place for hold in list(epoch.holds.values()))
    cut_at = clock.cut_at(sent_at, epoch.next_due)
    try:
        renewal = yield from Renew(places, min(checkpoint, cut_at) - sent_at, epoch.local.waiting)
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
    if epoch.remaining(now) <= 0 or not clock.on_renewed(sent_at, renewal.ttl_s, now):
        return epoch.reason
    yield from _missing(epoch, renewal.missing)
    return None


def _give_back(epoch: Epoch, now: float) -> Program[None]:
    """Have the contenders of holders that hang withdrawn, and tell."""
    for hold in epoch.overheld(now):
        if hold.lose(NOT_RENEWED):
            yield from Abandon(hold.place.spot, hold.place)
            yield from Emit(hold.transition("lost", reason=hold.reason))


def _missing(epoch: Epoch, places: tuple[Place, ...]) -> Program[None]:
    for place in places:
        epoch.local.missed(place.spot.id)  # first: an admission asks for this once it is among the holds
        hold = epoch.holds.get(place.spot.id)
        if hold is not None and hold.lose(REMOVED):
            yield from Emit(hold.transition("lost", reason=hold.reason))
            yield from Abandon(place.spot, place)
