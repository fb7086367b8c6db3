"""The ZooKeeper protocol: contenders are ephemeral sequential children of the lock's node.

The order is the sequence number while that can be trusted, and ``czxid`` otherwise;
``czxid`` is the token. Requests of one session are answered in order, so a listing
sent behind a create shows the own node; a listing that lags can only show too many
contenders, never too few ahead.

A create that was given up needs no tombstone. It arrives before whatever its session asks on the same
connection; and on a connection that the session has left, not at all: a server closes the former one when
the session comes back to it, and the leader refuses what another server passes on for a session that has
moved (``SessionMovedException``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from recipes._contract.connection import Batch, Request
from recipes._contract.contenders import Ahead, Contender
from recipes._contract.contents import Contents, pack, unpack
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
from recipes._contract.rule import Order
from recipes._contract.wakeups import LocallyGone
from recipes.errors import SessionLost, StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.layout import (
    NO_CONTENDER,
    NO_LOCK,
    Child,
    Dated,
    Layout,
    dubious,
)
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Children,
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    Get,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)

__all__ = ["ZooKeeperProtocol"]

T = TypeVar("T")

PARENT_TRIES = 5
LISTING_TRIES = 2
AT_ONCE = 100  # listings sent together
ANY = -1
EXPIRED = "the session has expired on the store"
NO_SESSION = "bound to no session; it stands in the way until somebody deletes it"


class ZooKeeperProtocol(StoreProtocol):
    """One session with ZooKeeper.

    A server passes on to the leader every half tick whom it heard from, and dies with what it
    has not passed on. That the leader answered shows that what the server had heard half a tick
    before was passed on. No session is shorter than two ticks: so a renewal counts once another
    one was answered that was sent a quarter of the timeout after its answer, and a tenth more for
    clocks that go at different rates.

    Args:
        label: Where the store is, for errors.
        layout: Where its nodes are.
    """

    renewals_per_ttl: ClassVar[int] = 7
    renewal_lag: ClassVar[float] = 1.1 / 4

    def __init__(self, label: str, layout: Layout) -> None:
        self._label = label
        self._layout = layout
        self._session = 0
        self._timeout_s = 0.0
        self._own_watched: set[str] = set()

    # The session.

    def open(self, op: Open, turn: Turn) -> Steps[Opened]:
        """Connect; the server says which timeout it grants."""
        granted = yield from self._one(Connect(op.ttl_s))
        self._session, self._timeout_s = granted.id, granted.timeout_s
        self.session_id = f"{granted.id & (2**64 - 1):x}"
        return Opened(self.session_id, granted.timeout_s)

    def renew(self, op: Renew, turn: Turn) -> Steps[Renewal]:
        """Have the leader answer (``sync``), then read every held node behind it."""
        reads = tuple(Exists(place.ref) for place in op.places)
        _, *stats = yield from self._together((Sync("/"), *reads))
        missing = (place for place, stat in zip(op.places, stats, strict=True) if not self._own(stat, place))
        return Renewal(self._timeout_s, tuple(missing))

    def end(self, op: End, turn: Turn) -> Steps[None]:
        """Close the session, and never resume it."""
        try:
            yield from self._one(Close())
        except SessionLost:
            return

    # The queue.

    def enqueue(self, op: Enqueue, turn: Turn) -> Steps[View]:
        """Create the own node and list the queue in one round trip; once, whatever was lost.

        Whether a writer ahead has downgraded shows when it is watched.
        """
        return (yield from self._enqueue(op, turn, minding=False))

    def _enqueue(self, op: Enqueue, turn: Turn, *, minding: bool) -> Steps[View]:
        spot = op.spot
        if turn.again:
            view = yield from self._find(spot, op.order)
            if view is not None:
                return view
        path = self._layout.contender(spot)
        create = Create(path, pack(spot.queue, "", spot.owner, spot.data), ephemeral=True, sequence=True)
        listing = Children(self._layout.queue(spot.queue))
        for _ in range(PARENT_TRIES):
            created, names = yield from Batch((create, listing))
            if not isinstance(created, NoNode):
                (path, stat), names = self._answers((created, names))
                self._check_owner(stat)
                place = Place(spot, path, stat.czxid)
                return (yield from self._view(place, op.order, names, minding=minding))
            yield from self._make_parents(spot.queue)
        raise StoreUnavailable(self._label, f"the node of lock {spot.queue!r} is deleted over and over")

    def probe(self, op: Probe, turn: Turn) -> Steps[View | None]:
        """Look first: nothing is written while somebody blocks."""
        if not turn.again:
            (names,) = yield from self._together((Children(self._layout.queue(op.spot.queue)),))
            children = self._layout.children(names or ())
            self._notice(op.spot.queue, names or (), children)
            if dubious(children):
                children = yield from self._by_czxid(op.spot.queue, children)
            ahead = self._visible(op.spot.queue, op.order, children)[: op.order.reach]
            if op.order.blockers((yield from self._with_states(op.spot.queue, ahead, op.order))):
                return None
        return (yield from self._enqueue(Enqueue(op.spot, op.order), turn, minding=True))

    def watch(self, op: Watch, turn: Turn) -> Steps[bool]:
        """Get each target with a watch: it is there, or it is not, and nothing falls between."""
        found = yield from self._arm(op.targets, turn)
        pairs = zip(op.targets, found, strict=True)
        return all(_as_seen(data, target, op.mine) for target, data in pairs)

    def look(self, op: Look, turn: Turn) -> Steps[View]:
        """Arm and list in one round trip; the listing is the later of the two."""
        listing = Children(self._layout.queue(op.mine.spot.queue))
        *found, names = yield from self._together((*self._watches(op.targets, turn), listing))
        self._note_own(op.targets, found)
        return (yield from self._view(op.mine, op.order, names or ()))

    def check(self, op: Check, turn: Turn) -> Steps[Checked]:
        """Answer from the event where it is a proof; else read the own node, and these others.

        A deletion that the store tells this session of, of another session's node, was
        delivered by a session that was alive then. Where the node was the own session's, a
        dying session can tell of it as well.
        """
        own = Exists(op.mine.ref)
        if isinstance(op.evidence, LocallyGone):
            (stat,) = yield from self._together((own,))
            return Checked(self._own(stat, op.mine), frozenset())
        if op.evidence is not None and self._proves(op.targets):
            return Checked(mine=True, present=frozenset())
        _, stat, *found = yield from self._together((Sync("/"), own, *self._watches(op.targets, turn)))
        self._note_own(op.targets, found)
        pairs = zip(op.targets, found, strict=True)
        present = (target.ref for target, data in pairs if _as_seen(data, target, op.mine))
        return Checked(self._own(stat, op.mine), frozenset(present))

    def rewrite(self, op: Rewrite, turn: Turn) -> Steps[int | None]:
        """Write the own node's data, if it has that version; whatever another client wrote into it goes.

        A session is served in the order in which it asks: no write that was given up lands after a later one.
        """
        spot = op.place.spot
        value = pack(spot.queue, op.mark, spot.owner, op.data)
        (stat,) = yield from Batch((SetData(op.place.ref, value, ANY if op.version is None else op.version),))
        if isinstance(stat, NoNode | BadVersion):
            return None
        (stat,) = self._answers((stat,))
        return stat.version if self._own(stat, op.place) else None

    def withdraw(self, op: Withdraw, turn: Turn) -> Steps[bool]:
        """Delete the own node; where its name is not known, find it behind a ``sync``."""
        if op.place is not None:
            return (yield from self._delete(op.place.ref, again=turn.again))
        removed = turn.again
        _, names = yield from self._together((Sync("/"), Children(self._layout.queue(op.spot.queue))))
        for name in names or ():
            if op.spot.id in name:
                path = f"{self._layout.queue(op.spot.queue)}/{name}"
                removed = (yield from self._delete(path, again=turn.again)) or removed
        return removed

    # Queues from outside: about nobody's own contender.

    def evict(self, op: Evict, turn: Turn) -> Steps[bool]:
        """Delete a node if it is the one that was created then: no other gets its name, with its number."""
        _, stat = yield from self._together((Sync("/"), Exists(op.ref)))
        if stat is None or stat.czxid != op.token:
            return turn.again  # asked again: it was I who deleted it
        return (yield from self._delete(op.ref, again=turn.again))

    def listing(self, op: List, turn: Turn) -> Steps[Listing]:
        """List the queue, then read the nodes at its head, together; once more if one is gone in between.

        The names are watched first: whoever comes or goes later shows there, and whoever is rewritten, in
        what is read of it or by the watch on it.
        """
        listed: tuple[Contender | None, ...] = ()
        for _ in range(LISTING_TRIES):
            listed = yield from self._list(op, (turn.mailbox, op.queue) if op.watch else ())
            if None not in listed:
                break
        return Listing(tuple(contender for contender in listed if contender is not None))

    def _list(self, op: List, watching: tuple[Any, ...]) -> Steps[tuple[Contender | None, ...]]:
        """Return the contenders at the head; None for one that is gone by now.

        For kinds alone no ``sync`` is due: all that is ahead was created before the own node, of which
        this session knows.
        """
        queue, node = op.queue, self._layout.queue(op.queue)
        fresh = () if op.kinds_only else (Sync("/"),)
        *_, names = yield from self._together((*fresh, Children(node, *watching)))
        if names is None and watching:
            (stat,) = yield from self._together((Exists(node, *watching),))
            return () if stat is None else (None,)
        children = self._layout.children(names or ())
        self._notice(queue, names or (), children)
        if dubious(children):
            children = yield from self._by_czxid(queue, children)
        head = tuple(self._layout.contender_at(queue, child) for child in children[::-1][: op.most])
        if op.kinds_only:
            return head
        found = yield from self._together(tuple(Get(contender.ref, *watching) for contender in head))
        return tuple(_as_listed(queue, *pair) for pair in zip(head, found, strict=True))

    def queues(self, op: Queues, turn: Turn) -> Steps[tuple[str, ...]]:
        """List the locks' nodes, which stay when a lock is free, and each of them until enough are taken."""
        (names,) = yield from self._together((Children(self._layout.root),))
        found: list[str] = []
        waiting = sorted(name for name in names or () if not name.startswith(NO_LOCK))
        while waiting and len(found) < op.most:
            some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            listed = yield from self._together(tuple(Children(self._layout.queue(name)) for name in some))
            pairs = zip(some, listed, strict=True)
            found += [name for name, inside in pairs if self._layout.children(inside or ())]
        return tuple(found[: op.most])

    # The parts.

    def _find(self, spot: Spot, order: Order) -> Steps[View | None]:
        """Look for a node whose create was answered to nobody."""
        _, names = yield from self._together((Sync("/"), Children(self._layout.queue(spot.queue))))
        for name in names or ():
            if spot.id in name:
                path = f"{self._layout.queue(spot.queue)}/{name}"
                (stat,) = yield from self._together((Exists(path),))
                if stat is not None:
                    self._check_owner(stat)
                    return (yield from self._view(Place(spot, path, stat.czxid), order, names))
        return None

    def _view(
        self, mine: Place, order: Order, names: tuple[str, ...], *, minding: bool = True
    ) -> Steps[View]:
        own = mine.ref.rpartition("/")[2]
        children = self._layout.children(names)
        self._notice(mine.spot.queue, names, children)
        places = [place for place, child in enumerate(children) if child[1] == own]
        if not places:
            return View(None, (), complete=True, position=0)
        if dubious(children):
            dated = yield from self._by_czxid(mine.spot.queue, children)
            ahead = [child for child in dated if child[0] < mine.token]
        else:
            ahead = children[places[0] + 1 :]
        visible = self._visible(mine.spot.queue, order, ahead)
        nearest = visible[: order.reach]
        complete = len(nearest) < order.reach
        if minding:
            nearest = yield from self._with_states(mine.spot.queue, nearest, order)
        position = len(visible) if order.exclusive_only else len(ahead)
        return View(mine, nearest, complete, position)

    def _visible(self, queue: str, order: Order, ahead: list[Child]) -> Ahead:
        """Return those who count; where everybody does, no more than have to be seen."""
        most = None if order.exclusive_only else order.reach
        return order.visible(tuple(self._layout.contender_at(queue, child) for child in ahead[:most]))

    def _with_states(self, queue: str, nearest: Ahead, order: Order) -> Steps[Ahead]:
        """Read the mark of the nearest, where the rule minds it; without the nearest, if that is gone.

        Of several that exclude all others the nearest waits itself, and has no mark.
        """
        alone = len(nearest) == 1 or not order.exclusive_only
        if not (order.minds_marks and alone and order.blockers(nearest) and nearest[0].id):
            return nearest
        (found,) = yield from self._together((Get(nearest[0].ref),))
        if found is not None and nearest[0].token in (0, found[1].czxid):
            return (replace(nearest[0], mark=unpack(queue, found[0]).mark), *nearest[1:])
        return nearest[1:] if len(nearest) < order.reach else nearest  # more may stand ahead, unseen

    def _arm(self, targets: Ahead, turn: Turn) -> Steps[tuple[Any, ...]]:
        found = yield from self._together(self._watches(targets, turn))
        self._note_own(targets, found)
        return found

    def _watches(self, targets: Ahead, turn: Turn) -> tuple[Get, ...]:
        return tuple(Get(target.ref, turn.mailbox) for target in targets)

    def _note_own(self, targets: Ahead, found: Any) -> None:
        for target, data in zip(targets, found, strict=True):
            if data is not None and data[1].owner == self._session:
                self._own_watched.add(target.ref)
            elif data is not None and not data[1].owner:
                self._notices.add(target.ref, f"{target.ref} is {NO_SESSION}")

    def _proves(self, targets: Ahead) -> bool:
        return all(target.id and target.ref not in self._own_watched for target in targets)

    def _own(self, stat: Stat | None, place: Place) -> bool:
        return stat is not None and stat.owner == self._session and stat.czxid == place.token

    def _check_owner(self, stat: Stat) -> None:
        """Refuse a node that an earlier session made: it goes with that session (CURATOR-604)."""
        if stat.owner != self._session:
            raise SessionLost("its contender belongs to an earlier session")

    def _make_parents(self, queue: str) -> Steps[None]:
        """Make the nodes down to the queue's; a node above that is there need not be writable."""
        replies = yield from Batch(tuple(Create(path) for path in self._layout.ancestors(queue)))
        above = tuple(None if isinstance(reply, StoreRefused) else reply for reply in replies[:-1])
        refused = [reply for reply in replies[:-1] if isinstance(reply, StoreRefused)]
        if refused and isinstance(replies[-1], NoNode):
            raise refused[-1]  # what could not be made is missing
        there = (NodeExists, NoNode)  # no node: deleted under our hands, and made again next time
        self._answers(tuple(None if isinstance(r, there) else r for r in (*above, replies[-1])))

    def _notice(self, queue: str, names: tuple[str, ...], children: list[Child]) -> None:
        """Note who is no contender, each once, and which kinds may not wait for ours, once a lock."""
        if len(children) == len(names) and "__" not in "".join(names):
            return  # nothing odd: what is looked for below has two underscores
        node = self._layout.queue(queue)
        contenders = {name for _, name in children}
        for name in (name for name in names if "__" in name or name not in contenders):
            if (said := self._layout.stranger(name)) is not None:
                what = (name if said is NO_CONTENDER else said, node)
                self._notices.add(what, f"{node}/{name} is {said}")

    def _by_czxid(self, queue: str, children: list[Child]) -> Steps[list[Child]]:
        """Return the children by the transaction that created them, latest first."""
        node = self._layout.queue(queue)
        stats = yield from self._together(tuple(Exists(f"{node}/{name}") for _, name in children))
        there = ((stat, name) for (_, name), stat in zip(children, stats, strict=True) if stat is not None)
        return sorted((Dated((stat.czxid, name)) for stat, name in there), reverse=True)

    # Asking: requests sent together, and what their errors mean.

    def _delete(self, path: str, *, again: bool) -> Steps[bool]:
        try:
            yield from self._one(Delete(path))
        except NoNode:
            return again  # asked again: it was I who deleted it
        return True

    def _one(self, request: Request[T]) -> Steps[T]:
        try:
            reply: T = yield from request
        except (NoNode, NodeExists):
            raise
        except ZooKeeperError as error:
            raise self._meant(error) from error
        return reply

    def _together(self, requests: tuple[Request[Any], ...]) -> Steps[tuple[Any, ...]]:
        """Send requests back to back; a node that is not there is None."""
        if not requests:
            return ()
        replies = yield from Batch(requests)
        return self._answers(tuple(None if isinstance(reply, NoNode) else reply for reply in replies))

    def _answers(self, replies: tuple[Any, ...]) -> tuple[Any, ...]:
        for reply in replies:
            if isinstance(reply, ZooKeeperError):
                raise self._meant(reply) from reply
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _meant(self, error: ZooKeeperError) -> SessionLost | StoreRefused:
        if isinstance(error, SessionExpired):
            return SessionLost(EXPIRED)
        return StoreRefused(
            self._label, f"ZooKeeper error {error.code} ({str(error) or type(error).__name__})"
        )


def _as_listed(queue: str, contender: Contender, found: tuple[bytes, Stat] | None) -> Contender | None:
    """Return a contender with what its node says; None if that is gone."""
    if found is None or contender.token not in (0, found[1].czxid):
        return None
    data, stat = found
    # What other clients write says who they are, or what their user wants to be known.
    says = unpack(queue, data) if contender.id else Contents("", data.decode("utf-8", "replace"), data)
    session = f"{stat.owner & (2**64 - 1):x}"
    return replace(contender, session=session, token=stat.czxid, version=stat.version, **says._asdict())


def _as_seen(found: tuple[bytes, Stat] | None, target: Contender, mine: Place) -> bool:
    """Whether a node is there as it was seen; its mark matters to some only."""
    if found is None or target.token not in (0, found[1].czxid):
        return False
    if not mine.spot.minds_marks:
        return True
    mark = unpack(mine.spot.queue, found[0]).mark if target.id else ""  # others' data means nothing
    return mark == target.mark
