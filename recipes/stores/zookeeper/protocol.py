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
from typing import Any, ClassVar

from recipes._contract.connection import Batch
from recipes._contract.contenders import Ahead, Contender
from recipes._contract.contents import Contents, pack, unpack
from recipes._contract.operations import (
    Check,
    Checked,
    Enqueue,
    Entry,
    Evict,
    List,
    Listing,
    Look,
    Open,
    Opened,
    Probe,
    Queues,
    Renew,
    Renewal,
    Rewrite,
    Snapshot,
    Ticket,
    Watch,
    Withdraw,
)
from recipes._contract.protocol import RequestContext, Steps
from recipes._contract.rule import Rule
from recipes._contract.wakeups import LocallyGone
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.layout import (
    NO_CONTENDER,
    NO_LOCK,
    Child,
    Dated,
    Layout,
    dubious,
)
from recipes.stores.zookeeper.protocol_asking import ANOTHERS, ANY, MOST_LISTED
from recipes.stores.zookeeper.protocol_values import Values
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    NoNode,
    SetData,
    Stat,
    Sync,
)

__all__ = ["ZooKeeperProtocol"]

BESIDE = 14
"""So many bytes the end of a session has for a contender beside its path: for its number, and the length."""
PARENT_TRIES = 5
AT_ONCE = 100  # listings sent together
MOST_OWN = 10_000
"""Of so many of its own contenders a session remembers that it watched them, and of as many before."""
NO_SESSION = "bound to no session; it stands in the way until somebody deletes it"


class ZooKeeperProtocol(Values):
    """One session with ZooKeeper.

    A server passes on to the leader every half tick which sessions have sent requests, and what
    it has not passed on is lost with it. That the leader answered shows that what the server had
    received half a tick before was passed on. No session is shorter than two ticks: so a renewal counts
    once another one was answered that was sent a quarter of the timeout after its answer, and a tenth
    more for clocks that go at different rates.

    Args:
        label: Where the store is, for errors.
        layout: Where its nodes are.
    """

    renewals_per_ttl: ClassVar[int] = 7
    renewal_lag: ClassVar[float] = 1.1 / 4
    hands_on: ClassVar[bool] = True

    def __init__(self, label: str, layout: Layout) -> None:
        super().__init__(label, layout)
        self._session = 0
        self._timeout_s = 0.0
        self._own_watched: set[str] = set()
        self._own_before: set[str] = set()  # those watched before these became many
        self._unmade: set[str] = set()  # contenders that were refused before a node was made, until withdrawn

    # The session.

    def open(self, op: Open, context: RequestContext) -> Steps[Opened]:
        """Connect; the server says which timeout it grants."""
        granted = yield from self._connected(op.ttl_s)
        self._session, self._timeout_s = granted.id, granted.timeout_s
        return Opened(self.session_id, granted.timeout_s)

    def renew(self, op: Renew, context: RequestContext) -> Steps[Renewal]:
        """Have the leader answer (``sync``), then read every held node behind it."""
        reads = tuple(Exists(entry.ref) for entry in op.entries)
        _, *stats = yield from self._together((Sync("/"), *reads))
        missing = (entry for entry, stat in zip(op.entries, stats, strict=True) if not self._own(stat, entry))
        return Renewal(self._timeout_s, tuple(missing))

    # The queue.

    def enqueue(self, op: Enqueue, context: RequestContext) -> Steps[Snapshot]:
        """Create the own node and list the queue in one round trip; once, whatever was lost.

        Whether a writer ahead has downgraded shows when it is watched.
        """
        return self._enqueue(op, context, minding=False)

    def _enqueue(self, op: Enqueue, context: RequestContext, *, minding: bool) -> Steps[Snapshot]:
        ticket = op.ticket
        if context.again:
            snapshot = yield from self._find(ticket, op.rule)
            if snapshot is not None:
                return snapshot
        path = self._layout.contender(ticket)
        if self._listed > MOST_LISTED:
            self._check_room(ticket, context)
        # Before it is asked: many may be at once.
        self._sizes[ticket.id] = size = len(path) + BESIDE
        self._listed += size
        create = Create(
            path, pack(ticket.queue, "", ticket.owner, ticket.data), ephemeral=True, sequence=True
        )
        listing = Children(self._layout.queue(ticket.queue))
        for _ in range(PARENT_TRIES):
            if self._unmade:
                self._unmade.discard(ticket.id)
            created, names = yield from Batch((create, listing))
            if not isinstance(created, Exception):
                if not created[0].startswith(path):
                    raise StoreUnavailable(self._label, ANOTHERS.format(created[0]))
                try:
                    if isinstance(names, StoreRefused):  # nobody who may not list could find it
                        yield from self._delete(created[0], again=True)
                        self._note_unmade(ticket, context)
                    (path, stat), names = self._answers((created, names))
                    self._check_owner(stat)
                    entry = Entry(ticket, path, stat.czxid)
                    return (yield from self._snapshot(entry, op.rule, names, minding=minding))
                except StoreUnavailable as error:
                    error.unsent = False  # whatever could not be sent: a node was made before
                    raise
            if isinstance(created, (NoNode, StoreRefused)):
                self._note_unmade(ticket, context)
            if not isinstance(created, NoNode):
                self._answers((created, names))
            yield from self._make(self._layout.ancestors(ticket.queue))
        raise StoreUnavailable(self._label, f"the node of lock {ticket.queue!r} is deleted over and over")

    def _check_room(self, ticket: Ticket, context: RequestContext) -> None:
        """Raise `StoreFull` if the others of this session leave no room for one more."""
        try:
            self._count_listed(size for one, size in self._sizes.copy().items() if one != ticket.id)
        except StoreFull:
            self._note_unmade(ticket, context)
            raise

    def _note_unmade(self, ticket: Ticket, context: RequestContext) -> None:
        """Note that a contender does not stand; asked again, an earlier try may have made it."""
        if not context.again:
            self._unmade.add(ticket.id)

    def probe(self, op: Probe, context: RequestContext) -> Steps[Snapshot | None]:
        """Look first: nothing is written while somebody blocks."""
        if not context.again:
            try:
                blocked = yield from self._blocked(op)
            except StoreRefused:
                self._note_unmade(op.ticket, context)
                raise
            if blocked:
                return None
        return (yield from self._enqueue(Enqueue(op.ticket, op.rule), context, minding=True))

    def _blocked(self, op: Probe) -> Steps[bool]:
        """Return whether anybody would stand in the way."""
        (names,) = yield from self._together((Children(self._layout.queue(op.ticket.queue)),))
        children = self._layout.children(names or ())
        self._notice(op.ticket.queue, names or (), children)
        if dubious(children):
            children = yield from self._by_czxid(op.ticket.queue, children)
        ahead = self._visible(op.ticket.queue, op.rule, children)[: op.rule.reach]
        return bool(op.rule.blockers((yield from self._with_states(op.ticket.queue, ahead, op.rule))))

    def watch(self, op: Watch, context: RequestContext) -> Steps[bool]:
        """Get each target with a watch: it is there, or it is not, and nothing falls between."""
        found = yield from self._arm(op.targets, context)
        pairs = zip(op.targets, found, strict=True)
        return all(_as_seen(data, target, op.mine) for target, data in pairs)

    def look(self, op: Look, context: RequestContext) -> Steps[Snapshot]:
        """Arm and list in one round trip; the listing is the later of the two."""
        listing = Children(self._layout.queue(op.mine.ticket.queue))
        *found, names = yield from self._together((*self._watches(op.targets, context), listing))
        self._note_own(op.targets, found)
        return (yield from self._snapshot(op.mine, op.rule, names or ()))

    def check(self, op: Check, context: RequestContext) -> Steps[Checked]:
        """Answer from the event where it is a proof; else read the own node, and these others.

        A deletion that the store tells this session of, of another session's node, was
        delivered by a session that was alive then. Where the node was the own session's, a
        dying session can report it as well.
        """
        own = Exists(op.mine.ref)
        if isinstance(op.evidence, LocallyGone):
            (stat,) = yield from self._together((own,))
            return Checked(self._own(stat, op.mine), frozenset())
        if op.evidence is not None and self._proves(op.targets):
            return Checked(mine=True, present=frozenset())
        _, stat, *found = yield from self._together((Sync("/"), own, *self._watches(op.targets, context)))
        self._note_own(op.targets, found)
        pairs = zip(op.targets, found, strict=True)
        present = (target.ref for target, data in pairs if _as_seen(data, target, op.mine))
        return Checked(self._own(stat, op.mine), frozenset(present))

    def rewrite(self, op: Rewrite, context: RequestContext) -> Steps[int | None]:
        """Write the own node's data, if it has that version; whatever another client wrote into it goes.

        A session is served in the order in which it asks: no write that was given up lands after a later one.
        """
        ticket = op.entry.ticket
        value = pack(ticket.queue, op.mark, ticket.owner, op.data)
        (stat,) = yield from Batch((SetData(op.entry.ref, value, ANY if op.version is None else op.version),))
        if isinstance(stat, NoNode | BadVersion):
            return None
        (stat,) = self._answers((stat,))
        return stat.version if self._own(stat, op.entry) else None

    def withdraw(self, op: Withdraw, context: RequestContext) -> Steps[bool]:
        """Delete the own node; where its name is not known, find it behind a ``sync``."""
        if op.entry is not None:
            removed = yield from self._delete(op.entry.ref, again=context.again)
        elif op.ticket.id in self._unmade:  # to look for it would be refused as well, again and again
            self._unmade.discard(op.ticket.id)
            removed = False
        else:
            removed = yield from self._delete_found(op.ticket, again=context.again)
        self._sizes.pop(op.ticket.id, None)
        return removed

    # Queues from outside: about nobody's own contender.

    def evict(self, op: Evict, context: RequestContext) -> Steps[bool]:
        """Delete a node if it is the one that was created then: no other gets its name, with its number."""
        _, stat = yield from self._together((Sync("/"), Exists(op.ref)))
        if stat is None or stat.czxid != op.token:
            return context.again  # asked again: it was I who deleted it
        return (yield from self._delete(op.ref, again=context.again))

    def listing(self, op: List, context: RequestContext) -> Steps[Listing]:
        """List the queue, then read the nodes at its head, together; again while one is gone in between.

        So there was a moment at which all that is shown stood at the head. The names are watched first: what
        comes or goes later shows there, and what is rewritten, in what is read of it or by the watch on it.
        """
        read: dict[str, Contender | None] = {}
        while True:
            head = yield from self._list(op, (context.mailbox, op.queue) if op.watch else (), read)
            if None not in head:
                return Listing(tuple(contender for contender in head if contender is not None))

    def _list(
        self, op: List, watching: tuple[Any, ...], read: dict[str, Contender | None]
    ) -> Steps[tuple[Contender | None, ...]]:
        """Return the contenders at the head; None for one that is gone by now.

        For kinds alone no ``sync`` is due: all that is ahead was created before the own node, of which
        this session knows.

        Args:
            op: What to list.
            watching: With what; nothing: without a watch.
            read: What was read of nodes before, which is not read again.
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
            dated = yield from self._by_czxid(queue, children)
            if len(dated) < len(children) and not op.kinds_only:
                return (None,)
            children = dated
        head = tuple(self._layout.contender_at(queue, child) for child in children[::-1][: op.most])
        if op.kinds_only:
            return head
        unread = tuple(one for one in head if not _is_read(one, read.get(one.ref)))
        found = yield from self._together(tuple(Get(one.ref, *watching) for one in unread))
        read.update((one.ref, _as_listed(queue, one, said)) for one, said in zip(unread, found, strict=True))
        return tuple(read[one.ref] for one in head)

    def queues(self, op: Queues, context: RequestContext) -> Steps[tuple[str, ...]]:
        """List the locks' nodes, which stay when a lock is free, and each of them until enough are taken."""
        (names,) = yield from self._together((Children(self._layout.root),))
        found: list[str] = []
        waiting = sorted(name for name in names or () if not name.startswith(NO_LOCK))
        while waiting and len(found) < op.most:
            some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            replies = yield from Batch(tuple(Children(self._layout.queue(name)) for name in some))
            hidden = (NoNode, StoreDenied)  # deleted meanwhile; or of somebody else, who keeps it closed
            listed = self._answers(tuple(() if isinstance(one, hidden) else one for one in replies))
            pairs = zip(some, listed, strict=True)
            found += [name for name, inside in pairs if self._layout.children(inside)]
        return tuple(found[: op.most])

    # The parts.

    def _find(self, ticket: Ticket, rule: Rule) -> Steps[Snapshot | None]:
        """Look for a node whose create was answered to nobody."""
        _, names = yield from self._together((Sync("/"), Children(self._layout.queue(ticket.queue))))
        for name in names or ():
            if ticket.id in name:
                path = f"{self._layout.queue(ticket.queue)}/{name}"
                (stat,) = yield from self._together((Exists(path),))
                if stat is not None:
                    self._check_owner(stat)
                    return (yield from self._snapshot(Entry(ticket, path, stat.czxid), rule, names))
        return None

    def _snapshot(
        self, mine: Entry, rule: Rule, names: tuple[str, ...], *, minding: bool = True
    ) -> Steps[Snapshot]:
        own = mine.ref.rpartition("/")[2]
        children = self._layout.children(names)
        self._notice(mine.ticket.queue, names, children)
        entries = [entry for entry, child in enumerate(children) if child[1] == own]
        if not entries:
            return Snapshot(None, (), complete=True, position=0)
        if dubious(children):
            dated = yield from self._by_czxid(mine.ticket.queue, children)
            ahead = [child for child in dated if child[0] < mine.token]
        else:
            ahead = children[entries[0] + 1 :]
        visible = self._visible(mine.ticket.queue, rule, ahead)
        nearest = visible[: rule.reach]
        complete = len(nearest) < rule.reach
        if minding:
            nearest = yield from self._with_states(mine.ticket.queue, nearest, rule)
        position = len(visible) if rule.exclusive_only else len(ahead)
        return Snapshot(mine, nearest, complete, position)

    def _visible(self, queue: str, rule: Rule, ahead: list[Child]) -> Ahead:
        """Return those who count; where everybody does, no more than have to be seen."""
        most = None if rule.exclusive_only else rule.reach
        return rule.visible(tuple(self._layout.contender_at(queue, child) for child in ahead[:most]))

    def _with_states(self, queue: str, nearest: Ahead, rule: Rule) -> Steps[Ahead]:
        """Read the mark of the nearest, where the rule minds it; without the nearest, if that is gone.

        Of several that exclude all others the nearest waits itself, and has no mark.
        """
        alone = len(nearest) == 1 or not rule.exclusive_only
        if not (rule.minds_marks and alone and rule.blockers(nearest) and nearest[0].id):
            return nearest
        (found,) = yield from self._together((Get(nearest[0].ref),))
        if found is not None and nearest[0].token in (0, found[1].czxid):
            return (replace(nearest[0], mark=unpack(queue, found[0] or b"").mark), *nearest[1:])
        return nearest[1:] if len(nearest) < rule.reach else nearest  # more may be ahead, unseen

    def _arm(self, targets: Ahead, context: RequestContext) -> Steps[tuple[Any, ...]]:
        found = yield from self._together(self._watches(targets, context))
        self._note_own(targets, found)
        return found

    def _watches(self, targets: Ahead, context: RequestContext) -> tuple[Get, ...]:
        return tuple(Get(target.ref, context.mailbox) for target in targets)

    def _note_own(self, targets: Ahead, found: Any) -> None:
        for target, data in zip(targets, found, strict=True):
            if data is not None and data[1].owner == self._session:
                if len(self._own_watched) >= MOST_OWN:  # what stands is noted at each look
                    self._own_before, self._own_watched = self._own_watched, set()
                self._own_watched.add(target.ref)
            elif data is not None and not data[1].owner:
                self._notices.add(target.ref, f"{target.ref} is {NO_SESSION}")

    def _proves(self, targets: Ahead) -> bool:
        own = self._own_before, self._own_watched
        return all(target.id and not any(target.ref in some for some in own) for target in targets)

    def _own(self, stat: Stat | None, entry: Entry) -> bool:
        return stat is not None and stat.owner == self._session and stat.czxid == entry.token

    def _check_owner(self, stat: Stat) -> None:
        """Refuse a node that an earlier session made: it goes with that session (CURATOR-604)."""
        if stat.owner != self._session:
            raise SessionLost("its contender belongs to an earlier session")

    def _notice(self, queue: str, names: tuple[str, ...], children: list[Child]) -> None:
        """Note what is no contender, each once, and which kinds may not wait for ours, once a lock."""
        if len(children) == len(names) and "__" not in "".join(names):
            return  # nothing odd: what is looked for below has two underscores
        node = self._layout.queue(queue)
        contenders = {name for _, name in children}
        for name in (name for name in names if "__" in name or name not in contenders):
            if (said := self._layout.foreign(name)) is not None:
                what = (name if said is NO_CONTENDER else said, node)
                self._notices.add(what, f"{node}/{name} is {said}")

    def _by_czxid(self, queue: str, children: list[Child]) -> Steps[list[Child]]:
        """Return the children by the transaction that created them, latest first."""
        node = self._layout.queue(queue)
        stats = yield from self._together(tuple(Exists(f"{node}/{name}") for _, name in children))
        there = ((stat, name) for (_, name), stat in zip(children, stats, strict=True) if stat is not None)
        return sorted((Dated((stat.czxid, name)) for stat, name in there), reverse=True)

    def _delete_found(self, ticket: Ticket, *, again: bool) -> Steps[bool]:
        removed = again
        _, names = yield from self._together((Sync("/"), Children(self._layout.queue(ticket.queue))))
        for name in names or ():
            if ticket.id in name:
                path = f"{self._layout.queue(ticket.queue)}/{name}"
                removed = (yield from self._delete(path, again=again)) or removed
        return removed

    def _delete(self, path: str, *, again: bool) -> Steps[bool]:
        try:
            yield from self._one(Delete(path))
        except NoNode:
            return again  # asked again: it was I who deleted it
        return True


def _is_read(contender: Contender, read: Contender | None) -> bool:
    """Whether this was read of the contender, and of no other of its name."""
    return read is not None and contender.token in (0, read.token)


def _as_listed(queue: str, contender: Contender, found: tuple[bytes | None, Stat] | None) -> Contender | None:
    """Return a contender with what its node says; None if that is gone."""
    if found is None or contender.token not in (0, found[1].czxid):
        return None
    data, stat = found[0] or b"", found[1]
    # What other clients write says who they are, or what their user wants to be known.
    says = unpack(queue, data) if contender.id else Contents("", data.decode("utf-8", "replace"), data)
    session = f"{stat.owner & (2**64 - 1):x}"
    return replace(contender, session=session, token=stat.czxid, version=stat.version, **says._asdict())


def _as_seen(found: tuple[bytes | None, Stat] | None, target: Contender, mine: Entry) -> bool:
    """Whether a node is there as it was seen; its mark matters to some only."""
    if found is None or target.token not in (0, found[1].czxid):
        return False
    if not mine.ticket.minds_marks:
        return True
    mark = unpack(mine.ticket.queue, found[0] or b"").mark if target.id else ""  # others' data means nothing
    return mark == target.mark
