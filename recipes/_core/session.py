"""The session: its clock, its state, and the program that keeps it alive.

A session is what a client's contenders live and die with. The store ends it ``ttl``
seconds after it last heard from the client; the client gives it up earlier, by its own
clock, so that nobody believes in a grant that the store may give away. The rule comes
from Gray and Cheriton's leases (1989): count from the moment a renewal was *sent*, and
only renewals that were confirmed count.

Everything here is plain state and a generator; the clock's readings are passed in.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from recipes._core.deadline import Expired
from recipes._core.local import Local
from recipes._core.ops import Abandon, Emit, Now, Open, Place, Program, Renew, Wait
from recipes.errors import ClientClosed, SessionLost, StoreError
from recipes.events import Transition
from recipes.stores.base import Event

if TYPE_CHECKING:
    from recipes._core.hold import Hold
    from recipes.stores.base import Mailbox
    from recipes.stores.protocol import StoreProtocol

__all__ = ["Board", "Epoch", "OpenFailed", "SessionClock", "SessionEvent", "keep"]

NOT_RENEWED = "the session was not renewed in time"
STILLBORN_S = 1.0
SHORTEST_RENEWAL_S = 0.5
"""How long to wait for the answer to a renewal at least, even if a grant reaches its ``max_hold``."""
EPSILON_S = 0.001  # sums of seconds are not exact

State = Literal["held", "suspect", "lost"]


class SessionClock:
    """When a session must be renewed, is doubted, and is given up; boot time, seconds.

    Args:
        ttl_s: What the store granted.
        sent_at: When the request that started the session was sent.
        per_ttl: How many renewals are due within one ``ttl_s``.
        lag: By what share of ``ttl_s`` the store may be behind: the last confirmed renewal
            that was answered so long before the very last one was sent counts. 0: the last one does.

    Attributes:
        deadline: From here on the session is given up: 10 % of the TTL, at least half a
            second, before the store may end it. That covers clock rates 10 % apart.
        counted: When the renewal was sent that counts.
        due: When the next renewal should be sent.
        patience_s: How long to wait for its answer at least, even if a grant reaches its ``max_hold``.
        suspect_at: From here on the session is doubted: two renewals went by unanswered.
    """

    __slots__ = (
        "_answered",
        "_per_ttl",
        "counted",
        "deadline",
        "due",
        "lag",
        "patience_s",
        "suspect_at",
        "ttl_s",
    )

    def __init__(self, ttl_s: float, sent_at: float, *, per_ttl: int, lag: float = 0.0) -> None:
        self.lag = lag
        self._per_ttl = per_ttl
        self.patience_s = SHORTEST_RENEWAL_S
        self._answered: deque[tuple[float, float]] = deque()  # when each was sent, and when it was answered
        self._count(sent_at, ttl_s, sent_at)  # the start is the store's own act: it is never behind with that

    def _count(self, sent_at: float, ttl_s: float, now: float) -> None:
        self._answered.append((sent_at, now))
        lag_s = self.lag * ttl_s
        while len(self._answered) > 1 and (not lag_s or self._answered[1][1] <= sent_at - lag_s):
            self._answered.popleft()
        self.ttl_s = ttl_s
        self.counted = self._answered[0][0]
        self.deadline = self.counted + ttl_s - max(ttl_s / 10, 0.5)
        self.due = max(
            sent_at + self.interval_s, now + lag_s / 2
        )  # the next but one shows that this one counts
        self.suspect_at = min(sent_at + 2.25 * self.interval_s, self.deadline)

    @property
    def interval_s(self) -> float:
        """Seconds from one renewal to the next."""
        return self.ttl_s / self._per_ttl

    def on_renewed(self, sent_at: float, ttl_s: float, now: float) -> bool:
        """Count a renewal that was confirmed; False if it came too late: lost stays lost."""
        if now >= self.deadline:
            return False
        self._count(sent_at, ttl_s, now)
        self.answered_in(now - sent_at)
        return True

    def answered_in(self, took_s: float) -> None:
        """Be patient enough for the next answer to take twice as long."""
        self.patience_s = max(SHORTEST_RENEWAL_S, 2 * took_s)

    def cut_at(self, sent_at: float, wanted_at: float) -> float:
        """Return when to leave a renewal that is sent now, for something else to be done at ``wanted_at``.

        Never, once there would be no time left to wait for another as long as without such a thing.
        """
        at = max(wanted_at, sent_at + self.patience_s)
        return at if at + 1.5 * self.interval_s <= self.deadline else math.inf

    def on_cut(self, now: float) -> None:
        """Ask again at once after a renewal that was left, and then wait longer for its answer."""
        self.patience_s *= 2
        self.due = now

    def on_missed(self, now: float) -> None:
        """Plan the next try after a renewal that was not confirmed."""
        self.due = now + self.interval_s / 4

    def state(self, now: float) -> State:
        """Return "held", "suspect" or "lost"."""
        if now >= self.deadline:
            return "lost"
        return "suspect" if now >= self.suspect_at else "held"


class Epoch:
    """One session of a client, from its start on the store to its end; never taken up again."""

    def __init__(self, link: Any, protocol: StoreProtocol) -> None:
        self.link = link
        self.protocol = protocol
        self.id = ""
        self.clock: SessionClock | None = None
        self.ended: str | None = None
        self.holds: dict[str, Hold] = {}
        self.local = Local()

    def begin(self, session_id: str, ttl_s: float, sent_at: float) -> None:
        """Take up what the store granted."""
        self.id = session_id
        protocol = self.protocol
        self.clock = SessionClock(ttl_s, sent_at, per_ttl=protocol.renewals_per_ttl, lag=protocol.renewal_lag)

    def remaining(self, now: float) -> float:
        """Seconds for which the session is proven without another renewal; 0 if it is not.

        Whoever sees it unproven ends it for everybody: what was lost once stays lost, however
        late a renewal is counted.
        """
        if self.ended is not None or self.clock is None:
            return 0.0
        left = self.clock.deadline - now
        if left <= 0:
            self.ended = NOT_RENEWED
            return 0.0
        return left

    def overheld(self, now: float) -> list[Hold]:
        """Return the grants that were held for longer than they may be without progress."""
        return [hold for hold in list(self.holds.values()) if hold.is_overheld(now)]

    @property
    def next_due(self) -> float:
        """When the first of its grants will be held for too long; infinite if none can be."""
        return min((hold.due for hold in list(self.holds.values())), default=math.inf)

    @property
    def reason(self) -> str:
        """Why the session ended."""
        return self.ended or NOT_RENEWED


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
        yield from Emit(hold.transition("lock.lost", reason=hold.reason))


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
        yield from Emit(hold.transition("lock.suspect"))


def _renew_once(epoch: Epoch, clock: SessionClock, sent_at: float) -> Program[str | None]:
    """Ask once; returns the reason if the session turns out to have ended."""
    checkpoint = clock.suspect_at if sent_at < clock.suspect_at else clock.deadline
    places = tuple(hold.place for hold in list(epoch.holds.values()))
    cut_at = clock.cut_at(sent_at, epoch.next_due)
    try:
        renewal = yield from Renew(places, min(checkpoint, cut_at) - sent_at)
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
            yield from Emit(hold.transition("lock.lost", reason=hold.reason))


def _missing(epoch: Epoch, places: tuple[Place, ...]) -> Program[None]:
    for place in places:
        hold = epoch.holds.get(place.spot.id)
        if hold is not None and hold.lose("its contender was removed from the store"):
            yield from Emit(hold.transition("lock.lost", reason=hold.reason))
            yield from Abandon(place.spot, place)
