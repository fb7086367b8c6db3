"""What a client has: its session on the store, and what it holds in it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.operations import Guard
from recipes._programs.lease import SessionClock
from recipes._programs.waiters import InProcessWaiters
from recipes._rules.exclusive import WRITER
from recipes._rules.registry import rule_of
from recipes.events import Transition, happened, titled

if TYPE_CHECKING:
    from recipes._contract.operations import Entry, Write
    from recipes._contract.protocol import StoreProtocol
    from recipes._contract.rule import Rule

__all__ = ["CLOSED", "INTERRUPTED", "RELEASED", "REMOVED", "SHARED", "HeldState", "StoreSession"]

CLOSED = "the client was closed"
INTERRUPTED = "the call was interrupted before it returned"
NOT_RENEWED = "the session was not renewed in time"
REMOVED = "its contender was removed from the store"


class StoreSession:
    """One session of a client, from its start on the store to its end; never taken up again.

    Args:
        connection: What it asks the store by.
        protocol: What it asks for.
        beat_at: A moment of the beat of all clients of this process (see `SessionClock`), if there is one.
    """

    def __init__(self, connection: Any, protocol: StoreProtocol, *, beat_at: float | None = None) -> None:
        self.connection = connection
        self.protocol = protocol
        self._beat_at = beat_at
        self.id = ""
        self.clock: SessionClock | None = None
        self.ended: str | None = None
        self.gone = False  # the store has said so
        self.holds: dict[str, HeldState] = {}
        self._in_queue: dict[str, dict[str, HeldState]] = {}  # the same, by queue
        self.waiters = InProcessWaiters()
        self.doubts: dict[int, Write] = {}  # by their numbers: writes that were given up and may yet be done
        self.renewals = 0  # how many were answered
        self._turns = itertools.count()

    def begin(self, session_id: str, ttl_s: float, sent_at: float) -> None:
        """Take up what the store granted."""
        self.id = session_id
        per_ttl, lag = self.protocol.renewals_per_ttl, self.protocol.renewal_lag
        beat_at = self._beat_at if self.protocol.renews_on_a_beat else None
        self.clock = SessionClock(ttl_s, sent_at, per_ttl=per_ttl, lag=lag, beat_at=beat_at)

    def remaining(self, now: float) -> float:
        """Seconds for which the session is proven without another renewal; 0 if it is not.

        The first call that sees it unproven ends it for all: what was lost once stays lost, however
        late a renewal is counted.
        """
        if self.ended is not None or self.clock is None:
            return 0.0
        left = self.clock.deadline - now
        if left <= 0:
            self.ended = NOT_RENEWED
            return 0.0
        return left

    def take_up(self, hold: HeldState) -> None:
        """Note a grant, to be found by its contender and in its queue."""
        self.holds[hold.entry.ticket.id] = hold
        self._put_in(hold)

    def drop(self, hold: HeldState) -> None:
        """Forget a grant that has ended; what an interrupt leaves of that, a second call does."""
        self._take_out(hold)
        self.holds.pop(hold.entry.ticket.id, None)
        self._take_out(hold)  # another thread may have put it in again before that

    def _put_in(self, hold: HeldState) -> None:
        ticket = hold.entry.ticket
        while (grants := self._in_queue.setdefault(ticket.queue, {})).get(ticket.id) is not hold:
            grants[ticket.id] = hold  # and look again: another thread may have taken ``grants`` out as empty
        if self.holds.get(ticket.id) is not hold:  # another thread has dropped it
            self._take_out(hold)

    def _take_out(self, hold: HeldState) -> None:
        queue = hold.entry.ticket.queue
        grants = self._in_queue.get(queue, {})
        grants.pop(hold.entry.ticket.id, None)
        if not grants:
            for other in list(self._in_queue.pop(queue, {}).values()):  # which came in between
                self._put_in(other)

    def held_in(self, queue: str) -> list[HeldState]:
        """Return the grants of a queue, first come first, however many there are of others."""
        return list(self._in_queue.get(queue, {}).values())

    def blocked_by_own(self, mine: Entry, rule: Rule) -> Contender | None:
        """Return the nearest ahead of the client's own contenders without whose going this is not granted.

        That is any that would block it alone: a predicate is monotone (see `Rule`).
        """
        queue = mine.ticket.queue
        if not mine.token:  # a cell keeps no queue
            return None
        own = (*self.waiters.waiting, *(hold.entry for hold in self.held_in(queue)))
        ahead = [one for one in own if one.ticket.queue == queue and one.token < mine.token]
        for one in sorted(ahead, key=lambda one: one.token, reverse=True):
            contender = self.waiters.standing(one)
            if contender is not None and rule.blockers((contender,)):
                return contender
        return None

    def overheld(self, now: float) -> list[HeldState]:
        """Return the grants that were held for longer than they may be without progress."""
        return [hold for hold in list(self.holds.values()) if hold.is_overheld(now)]

    def next_turn(self) -> int:
        """Return at which renewals a contender is to be looked at that is looked at once per TTL."""
        return next(self._turns)

    def due(self) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
        """Return which held contenders the next renewal is to look at, and which not."""
        per_ttl = self.protocol.renewals_per_ttl
        looked_at: list[Entry] = []
        resting: list[Entry] = []
        for hold in list(self.holds.values()):
            rests = hold.turn is not None and (hold.turn - self.renewals) % per_ttl
            (resting if rests else looked_at).append(hold.entry)
        return tuple(looked_at), tuple(resting)

    @property
    def next_due(self) -> float:
        """When the first of its grants will be held for too long; infinite if none can be."""
        return min((hold.due for hold in list(self.holds.values())), default=math.inf)

    @property
    def reason(self) -> str:
        """Why the session ended."""
        return self.ended or NOT_RENEWED

    @property
    def ended_here(self) -> bool:
        """Whether this client has ended it: out of time, say, or as it was closed."""
        return self.ended is not None and not self.gone


RELEASED = "released"
SHARED = "shared"


class HeldState:
    """An entry that was granted, until it is released or lost, whichever comes first.

    Safe from any thread without a lock: the end is one ``dict.setdefault``, and the call that
    gets its own mark back is the one that ended it.
    """

    __slots__ = (
        "_end",
        "acquired_at",
        "announced",
        "data",
        "entered",
        "entry",
        "grant",
        "guards",
        "labels",
        "mark",
        "max_hold_s",
        "on_end",
        "overheld",
        "owner",
        "session",
        "turn",
        "until",
        "version",
    )

    def __init__(
        self,
        entry: Entry,
        session: StoreSession,
        owner: object,
        acquired_at: float,
        labels: dict[str, Any],
        *,
        max_hold_s: float | None = None,
    ) -> None:
        self.entry = entry
        self.session = session
        self.owner = owner
        self.acquired_at = acquired_at
        self.labels = labels
        self.max_hold_s = max_hold_s
        self.turn: int | None = None  # None: every renewal looks at it
        self.until = math.inf if max_hold_s is None else acquired_at + max_hold_s
        self.overheld = False  # somebody saw ``until`` pass; for ever, whatever is said later
        self.mark = ""  # as the store confirmed
        self.data = entry.ticket.data  # as the store confirmed
        self.version: int | None = 0  # how often it was rewritten, by `rewrite` alone; None: nobody knows
        self.grant: Any = None
        self.announced = True  # that it was acquired is reported: so its end is to be
        self.guards = False  # the store is to compare writes with its contender
        self.entered: Callable[[], list[Any]] | None = None  # the grants of an owner that may enter it again
        self.on_end: Callable[[], None] | None = None
        self._end: dict[str, tuple[str]] = {}

    def remaining(self, now: float) -> float:
        """Seconds for which holding is proven without another renewal, and without progress."""
        if self._end or self.is_overheld(now):
            return 0.0
        return min(self.session.remaining(now), self.until - now)

    def is_overheld(self, now: float) -> bool:
        """Whether ``max_hold`` has passed without progress.

        The first call that sees it ends it for all: progress comes too late from then on.
        """
        if now >= self.until:
            self.overheld = True
        return self.overheld

    @property
    def due(self) -> float:
        """When somebody has to look whether it is held for too long; infinite if it never can be."""
        return 0.0 if self.overheld else self.until

    def progress(self, now: float) -> bool:
        """Count ``max_hold`` from now on; False if it is not held any more."""
        if self.remaining(now) <= 0:
            return False
        if self.max_hold_s is not None:
            self.until = now + self.max_hold_s
        return not self.overheld  # as another thread may have seen meanwhile

    def lose(self, reason: str) -> bool:
        """End it as lost; False if it had ended already."""
        return self._finish(self._overheld_reason if self.overheld else reason)

    def release(self, now: float, tell: Callable[[Transition], None] | None = None) -> bool:
        """End it as released; False if it had ended already, or the session no longer proves it.

        ``tell`` is called with a loss that shows only now, or that an interrupt kept from being reported.
        Where it was held for too long the keepalive loop does that, and has its contender withdrawn.
        """
        if not self._end:
            if self.is_overheld(now):
                return False
            if self.session.remaining(now) <= 0:
                self.lose(self.session.reason)
        if self._finish(RELEASED):
            return True
        if tell is not None:
            for transition in self.loss_to_report():
                tell(transition)
        return False

    def _finish(self, reason: str) -> bool:
        mark = (reason,)
        first = self._end.setdefault("end", mark) is mark
        self.settle()
        return first

    def settle(self) -> None:
        """Do what is left of its end; the second to come does it if an interrupt struck the first.

        So ``on_end`` may be called twice.
        """
        if self.session.holds.get(self.entry.ticket.id) is self:
            if self._hands_on:
                self.session.waiters.freed(self.entry)
            self.session.drop(self)
        if "told" not in self._end:
            if self.on_end is not None:
                self.on_end()
            self._end["told"] = self._end["end"]  # last: until here an interrupt has it done again

    @property
    def _hands_on(self) -> bool:
        """Whether the client's next in line may hold from here on, while the contender is deleted.

        Not where it guards writes: one that is on its way is done as long as the contender is there.
        """
        if self.guards or self._end["end"][0] != RELEASED:
            return False
        return self.session.protocol.hands_on and rule_of(self.entry.ticket.kind).hands_on

    def guard(self) -> bool:
        """Note that the store is to compare writes with its contender; False if that proves nothing any more.

        Then it was released, and the contender may be there still while the next one holds.
        """
        self.guards = True  # first, as a release ends it first
        return not self.released

    def guard_of_mode(self, mode: str) -> Guard:
        """Return what a store has to compare for a write that counts on being held in this way."""
        return Guard(self.entry, unchanged=mode == WRITER.mode and self.entry.ticket.kind == WRITER.kind)

    def turned_out_lost(self, reason: str) -> None:
        """Correct a release: the store says that it had been lost before."""
        self._end["end"] = (reason,)
        self._end.pop("told", None)
        self.settle()

    @property
    def title(self) -> str:
        """What messages call it: "lock 'x' (token 7)", "semaphore 'gpu' (id 4f2a...)"."""
        fences = all(grant.token is not None for grant in self.grants)
        number = f"token {self.entry.token}" if fences else f"id {self.entry.ticket.id}"
        return f"{titled(self.labels['recipe'], self.labels['name'])} ({number})"

    @property
    def parts(self) -> tuple[HeldState, ...]:
        """What it is made of: itself, or several."""
        return (self,)

    @property
    def grants(self) -> list[Any]:
        """The grants that users have of it."""
        if self.entered is not None:
            return self.entered()
        return [] if self.grant is None else [self.grant]

    @property
    def contender(self) -> Contender:
        """What others see of it."""
        ticket = self.entry.ticket
        kind = "W" if ticket.kind == "lock" else ticket.kind
        mark = DOWNGRADED if kind == "W" and self.mode == SHARED else self.mark
        return Contender(self.entry.ref, ticket.id, kind, self.session.id, mark)

    @property
    def rewritten(self) -> bool:
        """Whether its contender may be there with another mark than it was made with, and is held."""
        said_more = self.version != 0 or rule_of(self.entry.ticket.kind).weight is not None
        return said_more or self.contender.downgraded

    @property
    def mode(self) -> str:
        """Return "exclusive" or "shared", as its holder may count on."""
        mode: str = self.labels.get("mode", "")
        return mode

    def share(self) -> None:
        """Count it as shared from now on."""
        self.labels = {**self.labels, "mode": SHARED}

    @property
    def ended(self) -> bool:
        """Whether it was reported to have ended, one way or the other."""
        return bool(self._end)

    @property
    def released(self) -> bool:
        """Whether it was released while it was held."""
        return self._end.get("end", ("",))[0] == RELEASED

    @property
    def freed(self) -> bool:
        """Whether its contender is to go because it was released."""
        return self.released

    @property
    def reason(self) -> str | None:
        """Why it was lost; None if it was not, as far as it was reported."""
        end = self._end.get("end")
        return None if end is None or end[0] == RELEASED else end[0]

    def lost(self, now: float) -> str | None:
        """Return why it is lost, by what was reported or by the clock; None if it is not."""
        if self._end:
            return self.reason
        if self.is_overheld(now):
            seen: str | None = self._overheld_reason
        else:
            seen = self.session.reason if self.session.remaining(now) <= 0 else None
        # Once more: a client that closes meanwhile releases it first, and then ends the session.
        return self.reason if self._end else seen

    @property
    def _overheld_reason(self) -> str:
        return f"it was held for {self.max_hold_s:g} s (max_hold) without progress()"

    def transition(self, what: str, **fields: Any) -> Transition:
        """Return the record of something that happens to it: "released", "lost" ..."""
        return happened(what, self.labels, token=self.entry.token, **fields)

    def release_to_report(self, now: float) -> list[Transition]:
        """Return what is to be reported of its release: nothing if there is none, or it was returned before.

        Of all that may report it (the release, whatever follows an interrupt of that, the end of the client)
        one does.
        """
        mark = (self.entry.ref,)  # one of its own
        if not self.released or self._end.setdefault("reported", mark) is not mark:
            return []
        return [self.transition("released", held_s=now - self.acquired_at)]

    def loss_to_report(self) -> list[Transition]:
        """Return what is to be reported of its loss: nothing if there is none, or its end was reported.

        Of all that may report it (what has noticed the loss, and its release) one does.
        """
        if (reason := self.reason) is None or not self.announced:
            return []
        mark = (self.entry.ref,)  # one of its own
        lost = self.transition("lost", reason=reason)  # before: an interrupt behind the mark takes it away
        return [lost] if self._end.setdefault("reported", mark) is mark else []
