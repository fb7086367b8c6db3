"""The protocol of the file: a session is a row, and so is a contender.

The order is a counter that every transaction of the machine shares, and is the token.
One transaction acquires: it inserts the own row, looks at who stands ahead, and, if
somebody blocks, leaves word that this session wants to hear when he goes.

Requests of one link are carried out in the order in which they were asked, or not at
all: none lands late, so nothing needs to be buried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from recipes._contract import operations
from recipes._contract.connection import Mailbox, Request
from recipes._contract.contenders import Ahead
from recipes._contract.operations import (
    Check,
    Checked,
    End,
    Enqueue,
    Evict,
    Listing,
    Look,
    Open,
    Opened,
    Place,
    Probe,
    Queues,
    Renew,
    Renewal,
    Rewrite,
    Spot,
    View,
    Watch,
    Withdraw,
)
from recipes._contract.protocol import Steps, StoreProtocol, Turn
from recipes.errors import SessionLost
from recipes.stores.sqlite import requests
from recipes.stores.sqlite.layout import Target, contender_of, kind_of, ref_of, target_of
from recipes.stores.sqlite.requests import (
    Demote,
    Finish,
    Join,
    List,
    ListQueues,
    NoSession,
    Present,
    Remove,
    See,
    Seen,
    Start,
    Touch,
)

__all__ = ["SqliteProtocol"]

ENDED = "the session has ended on the store"


class SqliteProtocol(StoreProtocol):
    """One session with a file.

    Args:
        session_id: Chosen before the file is asked, so that the session can be ended if
            the reply is lost.
    """

    renewals_per_ttl: ClassVar[int] = 3
    renewal_lag: ClassVar[float] = 0.0

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._armed: dict[str, tuple[str, ...]] = {}  # by the id of who joined: what joining watched,
        self._known: dict[str, tuple[str, ...]] = {}  # and what the session is told of ever since

    # The session.

    def open(self, op: Open, turn: Turn) -> Steps[Opened]:
        """Insert the session's row."""
        yield from self._ask(Start(self.session_id, op.ttl_s))
        return Opened(self.session_id, op.ttl_s)

    def renew(self, op: Renew, turn: Turn) -> Steps[Renewal]:
        """Put the row's deadline off, and look after the held places."""
        places = tuple(target_of(place.ref) for place in op.places)
        touch = Touch(self.session_id, places)
        ttl_s, standing = yield from self._ask(touch)
        return Renewal(ttl_s, tuple(place for place in op.places if place.token not in standing))

    def end(self, op: End, turn: Turn) -> Steps[None]:
        """Delete the row, and all that hangs on it."""
        yield from self._ask(Finish(self.session_id))

    # The queue.

    def enqueue(self, op: Enqueue, turn: Turn) -> Steps[View]:
        """Insert the own row once, and see who else is there."""
        spot = op.spot
        kind = kind_of(spot)
        join = Join(
            self.session_id, spot.queue, kind, spot.id, op.order, turn.again, turn.mailbox, note=spot.owner
        )
        seen = yield from self._ask(join)
        self._armed[spot.id], self._known[spot.id] = seen.armed, seen.known
        return _view(spot, seen)

    def probe(self, op: Probe, turn: Turn) -> Steps[View | None]:
        """Insert the own row if nobody is there who would block."""
        spot = op.spot
        free = Join(
            self.session_id,
            spot.queue,
            kind_of(spot),
            spot.id,
            op.order,
            again=turn.again,
            only_free=True,
            note=spot.owner,
        )
        seen = yield from self._ask(free)
        return None if seen is None else _view(spot, seen)

    def watch(self, op: Watch, turn: Turn) -> Steps[bool]:
        """Watch, unless joining has done so already."""
        armed = self._armed.pop(op.mine.spot.id, ())
        if all(target.ref in armed for target in op.targets):
            return True
        present = yield from self._present(op.mine, op.targets, turn.mailbox)
        return all(target_of(target.ref)[1] in present for target in op.targets)

    def look(self, op: Look, turn: Turn) -> Steps[View]:
        """Watch and read in one transaction."""
        mine, targets = op.mine, _targets(op.targets)
        self._armed.pop(mine.spot.id, None)
        told = self._known.pop(mine.spot.id, ())
        known = all(target.ref in told for target in op.targets)
        see = See(self.session_id, mine.spot.queue, mine.token, op.order, targets, turn.mailbox, known)
        seen = yield from self._ask(see)
        return _view(mine.spot, seen)

    def check(self, op: Check, turn: Turn) -> Steps[Checked]:
        """Read the own row and these others; watch the others unless an event made me look."""
        mailbox = turn.mailbox if op.evidence is None else None
        present = yield from self._present(op.mine, op.targets, mailbox)
        others = frozenset(target.ref for target in op.targets if target_of(target.ref)[1] in present)
        return Checked(op.mine.token in present, others)

    def withdraw(self, op: Withdraw, turn: Turn) -> Steps[bool]:
        """Delete the own row; asked again, it was I who deleted it."""
        spot = op.spot
        for told in (self._armed, self._known):
            told.pop(spot.id, None)
        token = None if op.place is None else op.place.token
        removed = yield from self._ask(Remove(self.session_id, spot.queue, spot.id, token))
        return bool(removed) or turn.again

    def rewrite(self, op: Rewrite, turn: Turn) -> Steps[int | None]:
        """Mark the own row: place and token stay."""
        queue, token = target_of(op.place.ref)
        stands: bool = yield from self._ask(Demote(self.session_id, queue, token))
        return 1 if stands else None

    def evict(self, op: Evict, turn: Turn) -> Steps[bool]:
        """Delete another's row."""
        removed: bool = yield from self._ask(requests.Expel(self.session_id, *target_of(op.ref)))
        return removed or turn.again  # asked again: it was I who deleted it

    def listing(self, op: operations.List, turn: Turn) -> Steps[Listing]:
        """Read the first rows of the queue."""
        rows = yield from self._ask(List(self.session_id, op.queue, op.most))
        found = (replace(contender_of(op.queue, row[:5]), token=row[0], owner=row[5]) for row in rows)
        return Listing(tuple(found))

    def queues(self, op: Queues, turn: Turn) -> Steps[tuple[str, ...]]:
        """Read which queues have rows."""
        names: tuple[str, ...] = yield from self._ask(ListQueues(self.session_id, op.most))
        return names

    def _present(self, mine: Place, others: Ahead, mailbox: Mailbox | None) -> Steps[frozenset[int]]:
        """Ask which of these stand; to a reader it matters whether a writer has downgraded."""
        downgraded = None
        if mine.spot.minds_marks:
            downgraded = frozenset(target_of(other.ref)[1] for other in others if other.downgraded)
        own = target_of(mine.ref)
        present: frozenset[int] = yield from self._ask(
            Present(self.session_id, _targets(others), own, mailbox, downgraded)
        )
        return present

    def _ask(self, request: Request[Any]) -> Steps[Any]:
        try:
            reply = yield from request
        except NoSession as ended:
            raise SessionLost(str(ended) or ENDED) from ended
        return reply


def _targets(ahead: Ahead) -> tuple[Target, ...]:
    return tuple(target_of(contender.ref) for contender in ahead)


def _view(spot: Spot, seen: Seen) -> View:
    if seen.own is None:
        return View(None, (), complete=True, position=0)
    place = Place(spot, ref_of(spot.queue, seen.own), seen.own)
    return View(place, seen.ahead, seen.complete, seen.position)
