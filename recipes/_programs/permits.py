"""What the queue of a semaphore needs beside the one loop: what to watch, and the mark of a grant.

Several hold at once, and whichever of them goes may free the first in line. So that one watches the whole
queue, and each behind it the contender directly ahead, alone: a release wakes the first in line, which marks
itself when it holds, and the mark wakes the next, which is the first in line then.
"""

from __future__ import annotations

from dataclasses import replace

from recipes._contract.contenders import GRANTED, Ahead, Contender
from recipes._contract.operations import Check, Entry, List, Listing, Look, Program, Rewrite, Snapshot
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Event, Gone
from recipes._rules.permits import limit_of, may_hold
from recipes.errors import StoreFull

__all__ = ["another_limit", "listed", "mark", "targets", "whole", "woken"]


def whole(queue: str) -> Ahead:
    """Return what stands for the whole queue among what is watched: its events name it so."""
    return (Contender(queue),)


def targets(rule: Rule, queue: str, snapshot: Snapshot) -> Ahead:
    """Return what to watch: nothing (granted), the contender directly ahead, or the whole queue.

    While the one ahead waits, nothing that happens ahead of it can free this one: holders are the head
    of the queue. When it comes to hold it marks itself.
    """
    if not rule.blockers(snapshot.ahead):
        return ()
    if may_hold(snapshot.ahead, complete=snapshot.complete, position=snapshot.position):
        return whole(queue)
    return snapshot.ahead[:1]


def listed(rule: Rule, mine: Entry, snapshot: Snapshot) -> Program[tuple[Snapshot, Ahead]]:
    """Watch the whole queue, and read its head; returns the snapshot of it, and what is watched.

    As many are read as show whether this one holds, or the one ahead: each holder takes a permit.
    """
    queue = mine.ticket.queue
    most = max([rule.depth, *(limit_of(one) or 1 for one in snapshot.ahead[:1])]) + 1
    listing: Listing = yield from List(queue, most, watch=True, kinds_only=True)
    found = listing.contenders
    refs = [one.ref for one in found]
    if mine.ref in refs and found[refs.index(mine.ref)].token in (0, mine.token):
        ahead = found[: refs.index(mine.ref)][::-1]
        seen = Snapshot(mine, ahead, complete=True, position=len(ahead), due_s=listing.due_s)
        return seen, whole(queue)
    # Deep in the queue, or gone. If the one ahead is the same, it did not hold when that was read.
    deep = yield from Look(mine, rule, ())
    return replace(deep, position=max(deep.position, len(found))), ()


def woken(
    rule: Rule, mine: Entry, snapshot: Snapshot, armed: Ahead, event: Event | None
) -> Program[tuple[Snapshot, Ahead]]:
    """Find out what an event means; returns the new snapshot, and what is watched in it."""
    if armed == whole(mine.ticket.queue) or isinstance(event, Changed):
        return (yield from listed(rule, mine, snapshot))
    left = [one for one in snapshot.ahead if not isinstance(event, Gone) or one.ref != event.ref]
    # Also when no event came: one ahead that stopped before it marked itself may hold since.
    following = tuple(left[:1])
    return (yield from Look(mine, rule, following)), following


def mark(mine: Entry, snapshot: Snapshot, *, waited: bool) -> Program[bool]:
    """Say that this one holds; False if it is gone.

    Written in place, it proves the grant, and it wakes the next. A contender that held in the same step
    that made it needs no mark: those behind came later, and have seen it hold. But where its queue was read
    after that, another may have come in between, and have seen it wait.
    """
    if not waited and snapshot.as_of == mine.token:
        return True
    try:
        return (yield from Rewrite(mine, GRANTED, mine.ticket.data)) is not None
    except StoreFull:  # no room for the mark: those behind find out as they look again
        return (yield from Check(mine)).mine


def another_limit(rule: Rule, ahead: Ahead) -> int | None:
    """Return a limit that one ahead carries, and that is not the own one; None if there is none."""
    known = (limit_of(one) for one in ahead)
    return next((limit for limit in known if limit not in (None, rule.depth)), None)
