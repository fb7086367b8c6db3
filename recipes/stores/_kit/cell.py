"""The protocol of cell stores: those that keep one holder of a name, and no queue.

All that such a store can do is to compare and set one cell for each lock: take it if it is free, look at
it, keep it for longer, and drop it. So a contender that waits is nowhere on the store: it takes again, by
time or when the store says that the cell changed, and whichever comes first gets it. What follows from that:

* A snapshot is never complete, and no event is a proof: waking up is to take again.
* The session is the client's alone. Each cell has a lease of its own, and a renewal names all that this
  session has, or may have: also one whose take is on its way. So what the session's clock counts holds for
  each of them.
* A take that was answered by nobody may land later, for nobody: then it ends with its lease. Once it is
  given up, the next renewals drop it again.
* Nor does the store know that a session has ended: a take that lands after that is dropped by its own call.

A store supplies the five acts (`Open` and those below) as one step each, as `Command` carries them to its
connection; or a protocol of its own overrides `act`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Never

from recipes._contract.contenders import Ahead, Contender
from recipes._contract.operations import (
    Check,
    Checked,
    End,
    Enqueue,
    Entry,
    List,
    Listing,
    Look,
    Op,
    Open,
    Opened,
    Probe,
    Renew,
    Renewal,
    Snapshot,
    Ticket,
    Watch,
    Withdraw,
)
from recipes._contract.protocol import RequestContext, Steps, StoreProtocol
from recipes._record import record
from recipes.errors import SessionLost, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores._kit.queue import Command

__all__ = [
    "LONGEST_POLL_S",
    "Cell",
    "CellProtocol",
    "Claim",
    "Drop",
    "Keep",
    "Peek",
    "Take",
    "shown",
    "value_of",
]

LONGEST_POLL_S = 0.2
SHORTEST_POLL_S = 0.01
SLOWER = 1.5
MOST_SLOWED = 20  # a float has its limits
SOON_S = 0.001
ENDED = "the session has ended on the store"

Claim = tuple[str, str]
"""A cell, by the encoded name of its lock, and the value by which it is somebody's."""


@record
class Cell:
    """What a cell is, when it was asked for.

    Attributes:
        value: What it holds: that of `value_of`, or what another program wrote; empty: it is free.
        token: The fencing token of the take that wrote it; 0 where the store does not say.
        left_s: Seconds until it is free by itself; None where the store does not say.
    """

    value: str = ""
    token: int = 0
    left_s: float | None = None


@record
class Take(Op[Cell]):
    """Take a cell unless somebody else has it; the reply is what it is after that.

    If it has this value already, the lease begins anew: the reply to the take that wrote it was lost. The
    token is larger than that of any take that was answered before this one was asked.

    Where the store can notify, the first change after a reply that shows another value is posted to the
    command's mailbox as ``Changed(cell)``, once.
    """

    cell: str
    value: str
    ttl_s: float


@record
class Peek(Op[Cell]):
    """Look at a cell; linearizable. It notifies as `Take` does, where it is not free.

    ``surely``: what is not known is ``StoreUnavailable``; else it may be what seems most likely.
    """

    cell: str
    surely: bool = False


@record
class Keep(Op[tuple[bool, ...]]):
    """Begin the leases of these cells anew, as far as each has its value; whether it has, for each.

    The answer is the store's word, no guess: what is not known is ``StoreUnavailable``. Without any claim
    it asks for a sign of life.
    """

    claims: tuple[Claim, ...]
    ttl_s: float


@record
class Drop(Op[tuple[bool, ...]]):
    """Free these cells, as far as each has its value; whether it had, for each.

    ``of_session``: It is part of a renewal.
    """

    claims: tuple[Claim, ...]
    of_session: bool = False


def value_of(session: str, one: str) -> str:
    """Return the value by which a cell is that of a contender."""
    return f"{session}/{one}"


class CellProtocol(StoreProtocol):
    """One session with a cell store.

    Args:
        session_id: Chosen by the client; the store knows of no sessions.
        jitter: Returns a number from 0 to 1, another each time, to spread those that poll.
        longest_poll_s: How long to wait at most until the next look at a cell that is not free. None: the
            store notifies, and only the end of a lease is looked for.
    """

    ended_is_no: ClassVar[bool] = False

    def __init__(
        self, session_id: str, jitter: Callable[[], float], *, longest_poll_s: float | None = LONGEST_POLL_S
    ) -> None:
        self.session_id = session_id
        self._jitter = jitter
        self._longest_poll_s = longest_poll_s
        self._ttl_s = 0.0
        self._tokens: dict[str, int] = {}  # by the contender's id: what it has taken
        self._cells: dict[str, str] = {}  # by id: the cell that it has, or may have
        self._doubted: set[str] = set()  # ids of which a take was not answered, or not yet
        self._unkept: set[str] = set()  # ids of those whose takes were under way as their renewal was refused
        self._looks: dict[str, int] = {}  # by id: how often a waiting one has looked
        self._given_up: dict[str, tuple[Claim, int]] = {}  # by id: what to drop with so many renewals more
        self._ended = False

    def act(self, op: Op[Any], context: RequestContext) -> Steps[Any]:
        """Have the store carry out `Open`, or one of the acts above."""
        return (yield Command(op, self.session_id, context.mailbox, context.again))

    # The session.

    def open(self, op: Open, context: RequestContext) -> Steps[Opened]:
        """Start a session, which nobody but this client knows of."""
        opened: Opened = yield from self.act(op, context)
        self._ttl_s = opened.ttl_s
        return opened

    def renew(self, op: Renew, context: RequestContext) -> Steps[Renewal]:
        """Begin the leases of all cells anew that this session has or may have."""
        taken, named = self._tokens.copy(), self._cells.copy()
        unkept: set[str] = set()
        try:
            kept = yield from self._kept(named, context)
        except StoreRefused:
            # It may be for what is only being taken, and is refused as well; if it is not, it is taken again:
            # the session counts from a renewal that does not name it.
            unkept = named.keys() - taken.keys()
            self._unkept = unkept | self._unkept
            if not unkept or any(one in self._tokens for one in unkept):
                raise
            named = {one: cell for one, cell in named.items() if one in taken}
            kept = yield from self._kept(named, context)
        self._unkept = unkept
        yield from self._drop_again(context)
        lost = {one for one, stands in zip(named, kept, strict=True) if one in taken and not stands}
        entries = (*op.entries, *op.waiting, *op.resting)
        return Renewal(self._ttl_s, tuple(entry for entry in entries if entry.ticket.id in lost))

    def _kept(self, named: dict[str, str], context: RequestContext) -> Steps[tuple[bool, ...]]:
        claims = tuple((cell, self._value(one)) for one, cell in named.items())
        kept: tuple[bool, ...] = yield from self.act(Keep(claims, self._ttl_s), context)
        return kept

    def end(self, op: End, context: RequestContext) -> Steps[None]:
        """Drop all that this session has or may have."""
        del op
        self._ended = True
        claims = [(cell, self._value(one)) for one, cell in self._cells.copy().items()]
        claims += [claim for claim, _ in self._given_up.copy().values()]
        if claims:
            # Behind what is under way, in case that is taking one of them.
            yield from self.act(Drop(tuple(claims)), context)

    def _drop_again(self, context: RequestContext) -> Steps[None]:
        """Drop what may have landed since it was given up; the renewal counts in any case."""
        given_up = self._given_up.copy()
        if not given_up:
            return
        try:
            claims = tuple(claim for claim, _ in given_up.values())
            yield from self.act(Drop(claims, of_session=True), context)
        except StoreUnavailable:
            return
        except StoreRefused:  # for one of them, which would be refused each time: all have their end
            pass
        for one, (claim, left) in given_up.items():
            if left > 1:
                self._given_up[one] = claim, left - 1
            else:
                self._given_up.pop(one, None)

    # The cell as a queue of one.

    def enqueue(self, op: Enqueue, context: RequestContext) -> Steps[Snapshot]:
        """Take the cell, or wait from here on."""
        return (yield from self._taken(op.ticket, context))

    def probe(self, op: Probe, context: RequestContext) -> Steps[Snapshot | None]:
        """Take the cell if it is free."""
        snapshot = yield from self._taken(op.ticket, context)
        if not snapshot.ahead:
            return snapshot
        if op.ticket.id in self._doubted:
            return Snapshot(None, (), complete=True, position=0)
        self._looks.pop(op.ticket.id, None)
        return None

    def look(self, op: Look, context: RequestContext) -> Steps[Snapshot]:
        """Take it again: one that waits is on no queue that could be read."""
        return (yield from self._taken(op.mine.ticket, context))

    def watch(self, op: Watch, context: RequestContext) -> Steps[bool]:
        """Do nothing: the take that showed the holder watches it, where the store can notify."""
        del op, context
        yield from ()
        return True

    def check(self, op: Check, context: RequestContext) -> Steps[Checked]:
        """Look whose the cell is; one that waits stands for as long as it asks."""
        mine = op.mine
        cell: Cell = yield from self.act(Peek(mine.ticket.queue, surely=True), context)
        holder = shown(mine.ticket.queue, cell)
        there = mine.token == 0 or cell.value == self._value(mine.ticket.id)
        present = (target.ref for target in op.targets if any(one.id == target.id for one in holder))
        return Checked(there, frozenset(present))

    def withdraw(self, op: Withdraw, context: RequestContext) -> Steps[bool]:
        """Drop the cell, if it is or may come to be that of this contender; else it stands nowhere."""
        one = op.ticket.id
        if one in self._cells:
            claim = op.ticket.queue, self._value(one)
            (dropped,) = yield from self.act(Drop((claim,)), context)
            if one in self._doubted:
                self._given_up[one] = claim, self.renewals_per_ttl
        else:
            dropped = True
        for known in (self._tokens, self._cells, self._looks):
            known.pop(one, None)
        self._doubted.discard(one)
        return dropped or context.again

    def listing(self, op: List, context: RequestContext) -> Steps[Listing]:
        """Look at the holder."""
        cell: Cell = yield from self.act(Peek(op.queue), context)
        return Listing(shown(op.queue, cell), self._due_s(cell, MOST_SLOWED) if op.watch else None)

    def _taken(self, ticket: Ticket, context: RequestContext) -> Steps[Snapshot]:
        one, value = ticket.id, self._value(ticket.id)
        doubted = one in self._doubted
        # Before it is asked: a renewal that overtakes it names it too, and so does what gives it up.
        self._cells[one] = ticket.queue
        self._doubted.add(one)
        cell: Cell
        try:
            cell = yield from self.act(Take(ticket.queue, value, self._ttl_s), context)
        except (StoreRefused, StoreFull) as error:
            if not doubted:
                self._doubted.discard(one)
            elif isinstance(error, StoreFull):  # an earlier try may stand, and can be kept and dropped
                raise
            else:
                self._given_up[one] = (ticket.queue, value), self.renewals_per_ttl
            self._cells.pop(one, None)  # else renewals would name it, and be refused as well
            raise
        if not doubted:
            self._doubted.discard(one)
        if cell.value == value and self._ended:  # what the end dropped, it may have dropped too early
            yield from self.act(Drop(((ticket.queue, value),)), context)
            raise SessionLost(ENDED)
        if cell.value == value:
            self._tokens[one] = cell.token
            if one in self._unkept:
                self._unkept.discard(one)
                self._doubted.add(one)  # should that be refused, this one is to be dropped
                return (yield from self._taken(ticket, context))
            return Snapshot(
                Entry(ticket, ticket.queue, cell.token), (), complete=False, position=0, cheap=True
            )
        self._tokens.pop(one, None)
        if not doubted:
            self._cells.pop(one, None)
        looks = self._looks[one] = self._looks.get(one, 0) + 1
        ahead, mine = shown(ticket.queue, cell), Entry(ticket, ticket.queue, 0)
        due_s, by_time = self._due_s(cell, looks), self._longest_poll_s is not None
        return Snapshot(mine, ahead, complete=False, position=1, cheap=True, due_s=due_s, by_time=by_time)

    def _value(self, one: str) -> str:
        return value_of(self.session_id, one)

    def _due_s(self, cell: Cell, looks: int) -> float | None:
        """Return when to look again: when it is free by itself, or before that where it is polled."""
        pauses = [] if cell.left_s is None else [cell.left_s]
        if self._longest_poll_s is not None:
            pause_s = min(SHORTEST_POLL_S * SLOWER ** min(looks, MOST_SLOWED), self._longest_poll_s)
            pauses.append(pause_s * (1 + self._jitter()) / 2)
        return max(min(pauses), SOON_S) if pauses else None

    # What has no place in a cell: the recipes that ask for it are refused as they are made.

    def _unknown(self, op: Op[Any], context: RequestContext) -> Never:
        raise AssertionError(
            f"{type(op).__name__} should have been refused: this store keeps one holder only"
        )

    rewrite = evict = queues = read = write = settle = _unknown


def shown(queue: str, cell: Cell) -> Ahead:
    """Return the holder of a cell, as a contender; its reference is the cell."""
    if not cell.value:
        return ()
    session, slash, one = cell.value.rpartition("/")
    if not (slash and session and one):
        session, one = "", ""  # another program's
    return (Contender(queue, one, session=session, token=cell.token),)
