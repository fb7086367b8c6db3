"""The programs of a barrier: to cross it with all others of a generation, and to leave after them.

A party is a contender that says of which generation it is, and the barrier's record says what became of each
generation (`recipes._rules.barrier`). The record is written with the version that was read, so that of all
that decide a generation one does. Whatever interrupts a party, its contender goes, and those that saw it
break the generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Enqueue,
    Entry,
    List,
    Listing,
    Program,
    Read,
    Rewrite,
    Stored,
    Ticket,
    Withdraw,
    Write,
)
from recipes._programs.hold import CLOSED, REMOVED
from recipes._programs.queueing import _unanswered, calm, due_at
from recipes._programs.steps import Abandon, Attach, Emit, Now, Wait
from recipes._record import record
from recipes._rules import barrier as rules
from recipes._rules.barrier import (
    LEAVING,
    PARTY,
    PASSED,
    Behind,
    Decides,
    GivenUp,
    Missing,
    Named,
    Record,
)
from recipes._rules.exclusive import EVERYBODY
from recipes.errors import (
    BarrierBroken,
    BarrierMismatch,
    ClientClosed,
    OutcomeUnknown,
    SessionLost,
    StoreError,
    StoreRefused,
)
from recipes.events import happened, titled

__all__ = ["Party", "Place", "cross", "leave"]

MOST = EVERYBODY.depth
WORDS = {
    rules.TIMED_OUT: "a party's time was over before all had come",
    rules.GONE: "a party that waited has gone",
}
NO_RECORD = "its record was removed from the store"


@dataclass(slots=True)
class Party:
    """One call at a barrier.

    Attributes:
        queue: The encoded name, of the record and of the queue.
        parties: How many pass together.
        labels: The fields that all events of this call have.
        new_id: Makes the id of its contender.
        number: Makes the number of a write.
        left: Returns what this client gave up here, and does not know to be gone.
        owner: Makes what its contender says of its maker.
        timeout_s: What the caller allowed; None: any time.
        until: When that is over.
        began_at: When the call began.
        generation: The one that it says it is of.
    """

    queue: str
    parties: int
    labels: dict[str, Any]
    new_id: Callable[[], str]
    number: Callable[[], int]
    left: Callable[[], GivenUp] = GivenUp
    owner: Callable[[], str] = str
    timeout_s: float | None = None
    until: float | None = None
    began_at: float = 0.0
    generation: int = 0

    def begin(self) -> Program[None]:
        """Count the time from now on."""
        self.began_at = yield from Now()
        self.until = None if self.timeout_s is None else self.began_at + self.timeout_s

    def is_over(self) -> Program[bool]:
        """Whether the time is over."""
        now = yield from Now()
        return self.until is not None and now >= self.until

    @property
    def _name(self) -> str:
        return str(self.labels["name"])

    @property
    def _title(self) -> str:
        return titled("barrier", self._name)

    def record_of(self, stored: Stored) -> Record | None:
        """Return what the barrier's value says; None: there is none."""
        try:
            return None if stored.data is None else rules.unpack(stored.data)
        except ValueError:
            detail = f"the value of {self._title} is not the record of one: {stored.data!r:.80}"
            raise StoreRefused(str(self.labels["store"]), detail) from None

    def write(self, record: Record, stored: Stored) -> Program[bool]:
        """Replace the value that was read; whether it was still there."""
        written = yield from Write(self.queue, rules.pack(record), self.number(), stored.version)
        return written.done

    def mismatch(self, record: Record) -> BarrierMismatch:
        """Return the error where others name another number of parties."""
        return BarrierMismatch(self._name, self.parties, record.parties)

    def broken(self, reason: str) -> BarrierBroken:
        """Return the error where a generation does not pass."""
        return BarrierBroken(self._name, self.generation, reason)

    def tell(self, what: str, **fields: Any) -> Program[None]:
        """Report how the call ends."""
        now = yield from Now()
        yield from Emit(happened(what, self.labels, waited_s=now - self.began_at, **fields))


@record
class Place:
    """Where a party passed.

    Attributes:
        index: How many of its generation came before.
        generation: Which one that is.
        ids: All that passed with it.
        entry: Where it stands on; None: it does not.
        version: How often its contender was rewritten; None: that is not known.
    """

    index: int
    generation: int
    ids: tuple[str, ...]
    entry: Entry | None
    version: int | None = None


def cross(party: Party, *, stays: bool = False) -> Program[Place]:
    """Wait until all have come, and pass with them; a party that ``stays`` is inside until it leaves."""
    yield from party.begin()
    yield from _come(party)
    data = b"%d" % party.generation
    ticket = Ticket(party.queue, PARTY.kind, party.new_id(), party.owner(), data)
    try:
        place = yield from _gather(party, ticket, stays=stays)
        yield from party.tell("passed", position=place.index)
    except GeneratorExit:
        raise
    except BarrierBroken as broken:
        yield from party.tell("broken", reason=broken.reason)
        raise
    except Expired as expired:
        yield from Abandon(ticket)
        yield from party.tell("broken", reason="no answer from the store")
        raise _unanswered(expired) from None
    except BaseException as error:
        yield from Abandon(ticket)
        yield from party.tell("broken", reason=type(error).__name__)
        raise
    return place


def leave(party: Party, place: Place) -> Program[None]:
    """Wait until all that entered with this party and stand still want to leave; it has left in any case."""
    mine = place.entry
    assert mine is not None, "it stands inside"
    party.generation = place.generation
    yield from party.begin()
    try:
        others = yield from _others_leave(party, mine, place)
        yield from _withdraw(mine.ticket, mine)
    except GeneratorExit:
        raise
    except (SessionLost, ClientClosed) as lost:
        yield from Abandon(mine.ticket)
        why = lost.reason if isinstance(lost, SessionLost) else CLOSED
        broken = party.broken(f"this party was not inside any more: {why}")
    except Expired as expired:
        yield from Abandon(mine.ticket)
        raise _unanswered(expired) from None
    except BaseException:
        yield from Abandon(mine.ticket)
        raise
    else:
        if others == 0:
            return
        broken = party.broken(f"{others} that entered were still inside when the time was over")
    yield from party.tell("broken", reason=broken.reason)
    raise broken


def _come(party: Party) -> Program[None]:
    """Find the generation that gathers; nothing of this party is there yet."""
    while True:
        try:
            yield from Attach()
            stored = yield from Read(party.queue)
            record, left = party.record_of(stored), party.left()
            if record is None or record.parties != party.parties or left.ids:
                listing: Listing = yield from List(party.queue, MOST)
                fit = rules.come(record, party.parties, listing.contenders, left)
                if fit is None:
                    assert record is not None, "a number of parties was read"
                    raise party.mismatch(record)
                if fit != record and not (yield from party.write(fit, stored)):
                    continue
                record = fit
            party.generation = record.generation
        except (SessionLost, OutcomeUnknown):
            continue
        except Expired as expired:
            raise _unanswered(expired) from None
        return


def _gather(party: Party, ticket: Ticket, *, stays: bool) -> Program[Place]:
    """Stand until it is decided; whatever is raised, nothing stands any more, or it is to be abandoned."""
    try:
        mine, found, version = yield from _stand(party, ticket)
    except (SessionLost, OutcomeUnknown) as lost:
        yield from Abandon(ticket)
        mine, version = None, None
        found = yield from _look_back(party, ticket.id, lost)
        if stays:
            raise party.broken(f"it does not stand inside: {_why(lost)}") from None
    outcome = found.outcome
    if mine is not None and not (stays and outcome.word == PASSED):
        yield from _withdraw(ticket, mine)
        mine, version = None, None
    if outcome.word != PASSED:
        raise party.broken(WORDS.get(outcome.word, outcome.word))
    return Place(found.index, outcome.generation, outcome.ids, mine, version)


def _stand(party: Party, ticket: Ticket) -> Program[tuple[Entry, Named, int | None]]:
    """Join, and wait until it is decided for this party: read and list, in this order, after each event."""
    snapshot = yield from Enqueue(ticket, PARTY)
    mine = snapshot.mine
    if mine is None:
        raise SessionLost(REMOVED)
    seen: frozenset[str] = frozenset()
    disturbed = 0
    while True:
        stored: Stored = yield from Read(party.queue, watch=True)
        gathers = party.record_of(stored)
        if gathers is None:
            raise SessionLost(NO_RECORD)
        listing: Listing = yield from List(party.queue, MOST, watch=True)
        over = yield from party.is_over()
        step = rules.decide(gathers, listing.contenders, ticket.id, seen, over=over)
        if isinstance(step, Decides):
            written = yield from party.write(step.record, stored)
            found = rules.named(step.record, ticket.id)
            if not written or found is None:  # another was quicker, or it is decided without this party
                continue
            step = found
        own = rules.standing(listing.contenders, ticket.id)
        if isinstance(step, Named):
            return mine, step, None if own is None else own.version
        if isinstance(step, Missing) or own is None:
            raise SessionLost(REMOVED)
        if isinstance(step, Behind):
            seen = frozenset()
            yield from _follow(party, mine, gathers, own.version)
            continue
        seen |= step.ids
        disturbed = yield from _wait(party, stored.due_s, listing.due_s, disturbed)


def _follow(party: Party, mine: Entry, gathers: Record, version: int) -> Program[None]:
    """Go over to the generation that gathers now, as the last was decided without this party.

    Whether it is written shows as it is listed next. It compares how often the contender was rewritten, as
    in `recipes._programs.rewriting`: a copy that comes late lands behind nothing that was written since.
    """
    if gathers.parties != party.parties:
        raise party.mismatch(gathers)
    party.generation = gathers.generation
    yield from Rewrite(mine, "", b"%d" % gathers.generation, version)


def _look_back(party: Party, me: str, lost: SessionLost | OutcomeUnknown) -> Program[Named]:
    """Find out what became of a generation though the own contender is gone; break it if it gathers still.

    A contender that is gone for this client may stand on the store for a while, and would be counted.
    """
    while True:
        try:
            yield from Attach()
            stored: Stored = yield from Read(party.queue)
            gathers = party.record_of(stored)
            found = None if gathers is None else rules.named(gathers, me)
            if found is not None:
                return found
            if gathers is None or gathers.generation != party.generation:
                raise party.broken(f"{_why(lost)}; it is not known whether the others passed")
            listing: Listing = yield from List(party.queue, MOST)
            if (yield from party.write(rules.give_up(gathers, listing.contenders), stored)):
                raise party.broken(_why(lost))
        except (SessionLost, OutcomeUnknown):
            continue


def _others_leave(party: Party, mine: Entry, place: Place) -> Program[int]:
    """Wait until none of those that entered is inside; returns how many are when the time is over."""
    version, said = place.version, False
    disturbed = 0
    while True:
        if version is not None:  # also where an answer was lost, and it is written: it does no harm
            said |= (yield from Rewrite(mine, LEAVING, mine.ticket.data, version)) is not None
        listing: Listing = yield from List(party.queue, MOST, watch=True)
        own = rules.standing(listing.contenders, mine.ticket.id)
        if own is None and not said:
            raise SessionLost(REMOVED)
        version = None if own is None or own.mark == LEAVING else own.version
        if version is not None:
            continue
        said = True
        others = rules.inside(place.ids, listing.contenders)
        over = yield from party.is_over()
        if over or not others:
            return others
        disturbed = yield from _wait(party, None, listing.due_s, disturbed)


def _wait(party: Party, record_due_s: float | None, list_due_s: float | None, disturbed: int) -> Program[int]:
    """Wait for an event, until the time is over, or until the next look is due."""
    dues = [due_s for due_s in (record_due_s, list_due_s) if due_s is not None]
    due = yield from due_at(min(dues, default=None))
    ends = [at for at in (due, party.until) if at is not None]
    event = yield from Wait(due_at=min(ends, default=None))
    return (yield from calm(event, disturbed))


def _withdraw(ticket: Ticket, mine: Entry) -> Program[None]:
    """Leave the queue; it is decided, so whatever comes of that is no concern of the caller."""
    try:
        yield from Withdraw(ticket, mine)
    except SessionLost:
        pass
    except (StoreError, Expired):
        yield from Abandon(ticket)


def _why(lost: SessionLost | OutcomeUnknown) -> str:
    return lost.reason if isinstance(lost, SessionLost) else lost.detail
