"""The protocol of SQL databases: an operation is one act, which is one transaction on the tables.

Three things are the store's own:

* A session has a lease, by the server's clock, and its contenders go with it. What acts on a queue deletes
  those whose session is over; so a snapshot says when to look again.
* Not every server notifies. Where it does not, a contender looks again after a time that grows with the
  number of those ahead of it: the next in line soon, and a thousand ask little more often than a few.
* A request may be carried out long after it was given up, as one sent in one piece is: what joins is buried
  when it is withdrawn, and a write in place compares the version.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Check,
    Checked,
    End,
    Enqueue,
    Evict,
    List,
    Listing,
    Look,
    Open,
    Opened,
    Probe,
    Queues,
    Read,
    Renew,
    Renewal,
    Rewrite,
    Settle,
    Snapshot,
    Stored,
    Ticket,
    Watch,
    Withdraw,
    Write,
    Written,
)
from recipes._contract.protocol import RequestContext, Steps, StoreProtocol
from recipes._contract.rule import Rule
from recipes.errors import StoreError, StoreUnavailable
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Exchange, Exchanged, Receipts, settle_once, write_once
from recipes.stores.sql.acts import Acts
from recipes.stores.sql.requests import Ask, Listen, Transact, Work

__all__ = ["SqlProtocol"]

DEEPEST = 16
"""So many of those ahead are watched in the step that joins; a recipe that sees more watches by itself."""
NEXT_S = 0.01
"""Unless the server notifies, the next in line looks again after so many seconds, the n-th after n times."""
LONGEST_S = 2.0
MOST_LEFT = 1000
OBSERVE_S = 0.2
"""The same for who observes a queue or a value."""
TIDY_EVERY_S, TIDY_WITHIN_S = 120.0, 5.0
"""How often a session that lives on tidies, counted by its renewals; and how long that may take."""


class SqlProtocol(StoreProtocol):
    """One session with a database.

    Args:
        acts: What it can have done.
        session_id: Chosen before the server is asked.
        deaf: Why nothing arrives though the server notifies, for the operator; empty: it may be.
    """

    hands_on: ClassVar[bool] = True
    ended_is_no: ClassVar[bool] = False
    settles_elsewhere: ClassVar[bool] = True

    def __init__(self, acts: Acts, session_id: str, deaf: str = "") -> None:
        self.session_id = session_id
        self._acts = acts
        self._ttl_s, self._deaf = 0.0, deaf
        self._armed: dict[str, frozenset[str]] = {}  # by the contender's id: what joining watched
        self._rewritten: dict[str, int] = {}  # by id: how often, as far as the server has said
        self._twice: set[str] = set()  # ids of contenders whose joining was asked again
        self._left: dict[str, None] = {}  # ids of the last that were withdrawn
        self._receipts = Receipts()
        self._alone = True  # the last to join found nobody ahead: it may be so again
        self._renewed = 0  # how often, since it has tidied
        self._more_to_tidy = self._spends = False

    # The session.

    def open(self, op: Open, context: RequestContext) -> Steps[Opened]:
        """Begin the session, and tidy a little."""
        del context
        self._ttl_s = op.ttl_s
        if self._deaf:
            self._notices.add("deaf", self._deaf)
        opening = partial(self._acts.open, ttl_us=round(op.ttl_s * 1e6))
        yield Transact(opening, session=True, channel=self._acts.channel)
        with suppress(StoreUnavailable, Expired):  # the session has begun all the same
            yield Transact(self._tidy, behind_s=TIDY_WITHIN_S)
        return Opened(self.session_id, op.ttl_s)

    def renew(self, op: Renew, context: RequestContext) -> Steps[Renewal]:
        """Renew the session's lease, see which contenders stand, and tidy a little now and then."""
        del context
        left = frozenset(self._left)  # later ones may have been withdrawn behind what this reads
        found = yield Transact(self._acts.renew, session=True)
        standing = {(queue, token) for queue, token, _ in found}
        for queue, token, one in found:
            if one in left:  # a standby that took over did not have the withdrawal
                with suppress(StoreError, Expired):  # the session is renewed all the same
                    yield self._removing(queue, one, token, bury=False)
        self._renewed += 1
        if self._more_to_tidy or self._renewed * self._ttl_s >= TIDY_EVERY_S * self.renewals_per_ttl:
            self._renewed, self._more_to_tidy = 0, False
            self._spends = not self._spends and bool(self._receipts.settled())  # in turn: one at a time
            with suppress(StoreUnavailable, Expired):
                yield Transact(self._spend if self._spends else self._tidy, behind_s=TIDY_WITHIN_S)
        known = (*op.entries, *op.waiting)  # what waits may be behind its own client, and look at nothing
        missing = (entry for entry in known if (entry.ticket.queue, entry.token) not in standing)
        return Renewal(self._ttl_s, tuple(missing))

    def _tidy(self, work: Work) -> Generator[tuple[Ask, ...], list[Any], None]:
        more = yield from self._acts.tidy(work)
        self._more_to_tidy = self._more_to_tidy or more

    def _spend(self, work: Work) -> Generator[tuple[Ask, ...], list[Any], None]:
        more = yield from self._acts.spend(work, self._receipts.asked())
        self._more_to_tidy = self._more_to_tidy or more

    def end(self, op: End, context: RequestContext) -> Steps[None]:
        """Delete all that this session has."""
        del op, context
        yield Transact(self._acts.end, session=True)

    # The queue.

    def enqueue(self, op: Enqueue, context: RequestContext) -> Steps[Snapshot]:
        """Join the queue, once, and watch what blocks."""
        blocking = op.rule.depth if op.rule.weight is None else 1  # what takes permits watches the one ahead
        arm = blocking if blocking <= DEEPEST else 0
        snapshot: Snapshot = yield self._joining(op.ticket, op.rule, context, arm=arm)
        assert snapshot.mine is not None, "a contender that has joined is in the queue"
        self._alone = not snapshot.ahead
        others = (one for one in snapshot.ahead[:arm] if one.session != self.session_id)
        self._armed[op.ticket.id] = frozenset(one.ref for one in others)
        if not op.rule.blockers(snapshot.ahead):
            return snapshot
        told = yield Listen((snapshot.mine.ref,), context.mailbox)
        return _timed(snapshot, told=told)

    def probe(self, op: Probe, context: RequestContext) -> Steps[Snapshot | None]:
        """Join, and undo that if somebody blocks."""
        snapshot: Snapshot = yield self._joining(op.ticket, op.rule, context, only_free=True)
        self._alone = snapshot.mine is not None
        if snapshot.mine is None and not context.again:  # else the earlier try may land yet
            return None
        return snapshot

    def _joining(self, ticket: Ticket, rule: Rule, context: RequestContext, **more: Any) -> Transact:
        if context.again:
            self._twice.add(ticket.id)
        quick = None if context.again or not self._alone else partial(self._acts.take, ticket=ticket)
        return Transact(partial(self._acts.join, ticket=ticket, rule=rule, **more), joins=True, quick=quick)

    def watch(self, op: Watch, context: RequestContext) -> Steps[bool]:
        """Watch; what joining has watched was notified since."""
        armed = self._armed.pop(op.mine.ticket.id, frozenset())
        refs = tuple(target.ref for target in op.targets)
        if all(ref in armed for ref in refs):
            yield Listen(refs, context.mailbox)
            return True
        _, found = yield from self._present(op, context, watch=True)
        return len(found) == len(op.targets)

    def look(self, op: Look, context: RequestContext) -> Steps[Snapshot]:
        """Watch and read in one step; a look that has nothing to watch or delete only reads."""
        armed = self._armed.pop(op.mine.ticket.id, frozenset())
        refs = tuple(target.ref for target in op.targets)
        told = yield Listen((op.mine.ref, *refs), context.mailbox, afresh=True)
        if not told or all(ref in armed for ref in refs):
            glance = partial(self._acts.glance, mine=op.mine, rule=op.rule)
            snapshot: Snapshot | None = yield Transact(glance, reads=True)
            if snapshot is not None:
                return _timed(snapshot, told=told)
        looking = partial(self._acts.look, mine=op.mine, rule=op.rule, targets=op.targets)
        snapshot = yield Transact(looking, joins=True)
        assert snapshot is not None, "a look sees something"
        return _timed(snapshot, told=told)

    def check(self, op: Check, context: RequestContext) -> Steps[Checked]:
        """Read the own contender and these others."""
        mine, found = yield from self._present(op, context, watch=op.evidence is None)
        return Checked(mine, frozenset(found))

    def _present(
        self, op: Watch | Check, context: RequestContext, *, watch: bool
    ) -> Steps[tuple[bool, list[str]]]:
        watch = watch and bool(op.targets)
        if watch:
            yield Listen(tuple(target.ref for target in op.targets), context.mailbox, afresh=True)
        looking = partial(self._acts.present, mine=op.mine, targets=op.targets, watch=watch)
        found: tuple[bool, list[str]] = yield Transact(looking, reads=not watch)
        return found

    def withdraw(self, op: Withdraw, context: RequestContext) -> Steps[bool]:
        """Remove the own contender; asked again, the first try may have done it."""
        one = op.ticket.id
        self._armed.pop(one, None)
        self._rewritten.pop(one, None)
        token = None if op.entry is None else op.entry.token
        bury = token is None or one in self._twice
        removed: bool = yield self._removing(op.ticket.queue, one, token, bury=bury)
        self._left[one] = None
        if len(self._left) > MOST_LEFT:
            self._left.pop(next(iter(self._left)), None)
        self._twice.discard(one)  # not before: asked again, it has to bury it again
        return removed or context.again

    def _removing(self, queue: str, one: str, token: int | None, *, bury: bool) -> Transact:
        removing = partial(self._acts.remove, queue=queue, one=one, token=token, bury=bury)
        return Transact(removing, quick=None if token is None or bury else removing)

    def evict(self, op: Evict, context: RequestContext) -> Steps[bool]:
        """Remove another's contender; asked again, the first try may have done it."""
        removed: bool = yield Transact(partial(self._acts.expel, queue=op.queue, token=op.token))
        return removed or context.again

    def rewrite(self, op: Rewrite, context: RequestContext) -> Steps[int | None]:
        """Write the own contender's mark and data; a copy that arrives after the next one is not done."""
        del context
        one = op.entry.ticket.id
        while True:
            version = self._rewritten.get(one, 0) if op.version is None else op.version
            writing = partial(self._acts.rewrite, entry=op.entry, mark=op.mark, data=op.data, version=version)
            found: tuple[int, bool, bool] | None = yield Transact(writing)
            if found is None:
                return None
            now, written, same = found
            self._rewritten[one] = now
            if written or (same and op.version is None):  # by an earlier try
                return now
            if op.version is not None:
                return None

    # What is looked at from outside.

    def listing(self, op: List, context: RequestContext) -> Steps[Listing]:
        """Read a queue from its head on."""
        told = True
        if op.watch:
            told = yield Listen((op.queue,), context.mailbox, afresh=True)
        found: Listing | None = None
        if not (op.watch and told):
            found = yield Transact(partial(self._acts.peek, queue=op.queue, most=op.most), reads=True)
        if found is None:
            listing = partial(self._acts.listing, queue=op.queue, most=op.most, watch=op.watch)
            found = yield Transact(listing)
        assert found is not None, "a listing shows something"
        return found if told else Listing(found.contenders, _sooner(found.due_s, OBSERVE_S))

    def queues(self, op: Queues, context: RequestContext) -> Steps[tuple[str, ...]]:
        """Read the names of queues in which anybody stands."""
        del context
        found: tuple[str, ...] = yield Transact(partial(self._acts.queues, most=op.most), reads=True)
        return found

    def read(self, op: Read, context: RequestContext) -> Steps[Stored]:
        """Read a value, and watch it if asked to."""
        told = True
        if op.watch:
            told = yield Listen((op.key,), context.mailbox, afresh=True)
        watch = op.watch and told
        stored: Stored = yield Transact(partial(self._acts.read, key=op.key, watch=watch), reads=not watch)
        return stored if told else Stored(stored.data, stored.version, OBSERVE_S)

    def write(self, op: Write, context: RequestContext) -> Steps[Written]:
        """Write with a receipt; a copy of it may arrive late."""
        return (yield from write_once(self._receipts, op, self._put, again=context.again))

    def settle(self, op: Settle, context: RequestContext) -> Steps[bool]:
        """Write the receipt alone."""
        del context
        return (yield from settle_once(self._receipts, op.write, self._put))

    def _put(self, exchange: Exchange) -> Steps[Exchanged]:
        found: Exchanged = yield Transact(partial(self._acts.put, put=Put(exchange)))
        return found


def _timed(snapshot: Snapshot, *, told: bool) -> Snapshot:
    """Return a snapshot that says when to look again."""
    if told or snapshot.mine is None:
        return snapshot
    one, again_s = snapshot, min(NEXT_S * max(1, snapshot.position), LONGEST_S)
    due_s = _sooner(one.due_s, again_s)
    return Snapshot(
        one.mine, one.ahead, one.complete, one.position, one.as_of, one.cheap, due_s, by_time=True
    )


def _sooner(due_s: float | None, other_s: float) -> float:
    return other_s if due_s is None else min(due_s, other_s)
