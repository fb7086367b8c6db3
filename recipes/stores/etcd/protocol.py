"""The etcd protocol: a session is a lease with an anchor key, a contender a key bound to it.

The order is the create revision, which is the token too. One transaction acquires: put
if the own key and its tombstone are absent, and count who else is there. Retrying it
after a lost reply is safe: the own key is found by its name.

A create that was given up may arrive at any later time: kernels and proxies go on delivering what was
written to a connection, after its caller has left, and no time limit is safe. So it is refused on
arrival, by one of two things that only this session writes and that end with it:

- A *tombstone* in place of a contender that was withdrawn while a create of it had not been answered.
- The *anchor*: every create compares the revision at which the anchor was last put. When tombstones
  have become many, the withdrawal that finds them so puts the anchor again and deletes them all, in one
  transaction: from then on every create that was sent before fails its comparison. One that is still
  wanted is asked again with the new revision, which the refusal bears.

So a session has about a hundred tombstones at most, however many calls are given up, and
none is ever deleted while the create that it keeps out could still land.

What is expected is *compared*, and read only if the comparison fails; queues are read by
range calls. A transaction that only reads makes etcd 3.5.0 to 3.5.4 panic when its caller's
connection closes in that moment (etcd issue 14110), so none here does in the normal case. Each
of them names a read in some branch: one that names none is answered without asking the majority.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from recipes._contract.contenders import Ahead, Contender
from recipes._contract.contents import pack
from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Check,
    Checked,
    End,
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
    StoreOp,
    Ticket,
    Watch,
    Withdraw,
)
from recipes._contract.protocol import RequestContext, Steps
from recipes._contract.rule import Rule
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import Layout, ref_key, ref_of
from recipes.stores.etcd.protocol_asking import NO_ANCHOR, NOT_FOUND, compare_stands, key_of, stands
from recipes.stores.etcd.protocol_values import ValuesProtocol
from recipes.stores.etcd.requests import EtcdError, Post
from recipes.stores.etcd.requests import Watch as WatchKey

__all__ = ["EtcdProtocol", "key_of", "stands"]

T = TypeVar("T")
Armed = tuple[int, StoreUnavailable | None]
"""From which revision on all events will come; or 0, and why none will."""
Json = Mapping[str, Any]

HELD_PER_READ = 100  # a transaction of more than 128 operations is refused by default
READ_WHOLE = 16  # a queue of so many is read by the transaction that joins it: cheaper than a call


class EtcdProtocol(ValuesProtocol):
    """One session with etcd.

    Args:
        label: Where the store is, for errors.
        layout: Where its keys are.
        lease: The id of the lease to ask for: chosen before the store is asked, so that
            it can be revoked if the reply is lost.
        named: Whether there is a user to log in as.

    Attributes:
        sorted_soon: A queue of so many is sorted in less time than an empty call takes.
        most_tombstones: How many there may be before they are swept, which has the creates that are under
            way at that moment asked again.
    """

    sorted_soon = 100
    most_tombstones = 100
    renewals_per_ttl: ClassVar[int] = 3
    renewal_lag: ClassVar[float] = 0.0
    renews_on_a_beat: ClassVar[bool] = True
    hands_on: ClassVar[bool] = True

    def __init__(self, label: str, layout: Layout, lease: int, *, named: bool = False) -> None:
        super().__init__(label, layout, lease, named=named)
        self._in_doubt: set[str] = set()  # contenders with a create that was not answered
        self._denied: set[str] = set()  # those of them that etcd has refused to make
        self._grants: int | None = None  # how often a lease was asked for, of a session that was begun here
        self._tombstones = 0  # since the anchor was put last; threads may count one too few

    def start(self, op: StoreOp[T], context: RequestContext) -> Steps[Any]:
        """Return the generator that carries out ``op``; what lets go is asked ahead of what asks for more."""
        steps = super().start(op, context)
        return _freeing(steps) if isinstance(op, Withdraw | Rewrite) else steps

    # The session.

    def open(self, op: Open, context: RequestContext) -> Steps[Opened]:
        """Grant the lease, and put the anchor key that shows it to be alive."""
        self._grants = self._grants or 0
        yield from self._asking.log_in()
        self._grants += 1
        asked = {"TTL": -int(-op.ttl_s // 1), "ID": self._lease}
        granted = yield from self._post("/lease/grant", asked)
        ttl_s = codec.number(granted.get("TTL"))
        if ttl_s <= 0:
            raise StoreRefused(self._label, "the answer grants no lease; is this an etcd?")
        put = yield from self._txn(then=[codec.put(self._anchor, b"", self._lease)])
        self._anchored = codec.revision(put)
        return Opened(self.session_id, float(ttl_s))

    def renew(self, op: Renew, context: RequestContext) -> Steps[Renewal]:
        """Keep the lease alive, then read the anchor and all held keys, linearizably.

        An answered keepalive alone proves nothing: servers before 3.4.38 may answer for a
        lease that was revoked.
        """
        kept = yield from self._post("/lease/keepalive", {"ID": self._lease}, urgent=True)
        ttl_s = codec.number(kept.get("result", {}).get("TTL"))
        if ttl_s <= 0:
            raise SessionLost("the lease has ended on the store")
        missing: list[Entry] = []
        for start in range(0, max(len(op.entries), 1), HELD_PER_READ):
            missing += yield from self._missing(op.entries[start : start + HELD_PER_READ])
        return Renewal(float(ttl_s), tuple(missing))

    def _missing(self, entries: tuple[Entry, ...]) -> Steps[list[Entry]]:
        """Return the entries that are not there any more, while the session does."""
        expected = [*codec.compare_present(self._anchor), *(compare_stands(entry) for entry in entries)]
        reads = [codec.read(self._anchor), *(codec.read(key_of(entry)) for entry in entries)]
        reply = yield from self._txn(expected, otherwise=reads, urgent=True)
        if reply.get("succeeded"):
            return []
        anchor, *found = codec.reads(reply)
        if not codec.keys(anchor):
            raise SessionLost(NO_ANCHOR)
        return [entry for entry, at in zip(entries, found, strict=True) if not stands(at, entry)]

    def end(self, op: End, context: RequestContext) -> Steps[None]:
        """Revoke the lease: all that was bound to it goes."""
        if self._grants == 0:
            return  # etcd from 3.5.28 and 3.6.9 on would ask for a login, which was refused a moment ago
        try:
            yield from self._asking.ask(Post("/lease/revoke", {"ID": self._lease}, urgent=True))
        except EtcdError as error:
            if error.code != NOT_FOUND:
                raise self._meant(error) from error

    # The queue.

    def enqueue(self, op: Enqueue, context: RequestContext) -> Steps[Snapshot]:
        """Put the own key once, and see who else is there."""
        ticket, rule = op.ticket, op.rule
        key = self._layout.contender(ticket, self.session_id)
        most = max(rule.reach + 1, READ_WHOLE)
        seen = [codec.read(*ends, limit=most) for ends in self._layout.ranges(ticket.queue, rule)]
        reply = yield from self._create(ticket, key, context, seen=seen)
        if not reply.get("succeeded"):
            return (yield from self._found_again(ticket, key, rule, reply))
        at = codec.revision(reply)
        mine = Entry(ticket, ref_of(key), at)
        parts = codec.reads(reply)
        total = sum(codec.number(part.get("count")) for part in parts)
        known = [kv for part in parts for kv in codec.keys(part)]
        if len(known) < total:
            snapshot = yield from self._read_ahead(mine, rule)
            others = total if rule.exclusive_only else total - 1  # a reader does not see itself
            return replace(snapshot, position=max(others, snapshot.position))
        known = [kv for kv in known if kv.created < at]
        ahead = self._contenders(ticket.queue, known, rule.reach)
        return Snapshot(mine, ahead, len(known) <= rule.reach, len(known), at, self._cheap(rule, parts))

    def _found_again(self, ticket: Ticket, key: bytes, rule: Rule, reply: Json) -> Steps[Snapshot]:
        """See where an attempt stands whose reply was lost."""
        own = codec.keys(codec.reads(reply)[0])
        if not own:
            raise SessionLost("its contender was withdrawn")
        return (yield from self._read_queue(Entry(ticket, ref_of(key), own[0].created), rule))

    def probe(self, op: Probe, context: RequestContext) -> Steps[Snapshot | None]:
        """Put the own key if nobody is there who would block; one transaction where one can say so.

        It deletes nothing itself: a withdrawal that is not answered may land late, as a create may, and
        a probe that is asked again puts the same key.
        """
        ticket, rule = op.ticket, op.rule
        if rule.depth > 1:
            return (yield from self._probe_deep(op, context))
        key = self._layout.contender(ticket, self.session_id)
        ranges = self._layout.ranges(ticket.queue, rule)
        nobody = [codec.compare_absent(*ends) for ends in ranges]
        writers = [codec.read(*ends, limit=2) for ends in ranges] if rule.minds_marks else []
        reply = yield from self._create(ticket, key, context, nobody=nobody, otherwise=writers)
        if reply.get("succeeded"):
            at = codec.revision(reply)
            return Snapshot(Entry(ticket, ref_of(key), at), (), complete=True, position=0, as_of=at)
        own, _anchor, *parts = map(codec.keys, codec.reads(reply))
        if own:
            return (yield from self._read_queue(Entry(ticket, ref_of(key), own[0].created), rule))
        ahead = self._contenders(ticket.queue, [kv for part in parts for kv in part])
        if ahead and not rule.blockers(ahead):  # all there is downgraded, as a comparison cannot see
            return (yield from self.enqueue(Enqueue(ticket, rule), context))
        if ticket.id in self._in_doubt:  # an earlier try may land yet, so the program withdraws
            return Snapshot(None, ahead, complete=True, position=len(ahead))
        return None

    def _probe_deep(self, op: Probe, context: RequestContext) -> Steps[Snapshot | None]:
        """Look first where a comparison cannot count; the program withdraws if it came too late."""
        ticket, rule = op.ticket, op.rule
        try:
            parts = yield from self._together(self._nearest(ticket.queue, rule, before=None))
        except StoreDenied:
            if not context.again and ticket.id not in self._in_doubt:
                self._in_doubt.add(ticket.id)
                self._denied.add(ticket.id)
            raise
        ahead = self._contenders(ticket.queue, [kv for part in parts for kv in codec.keys(part)])
        if not context.again and rule.blockers(ahead):
            return None
        return (yield from self.enqueue(Enqueue(ticket, rule), context))

    def watch(self, op: Watch, context: RequestContext) -> Steps[bool]:
        """Watch the targets; compare them once if anything was written since they were seen.

        Where they cannot be watched they are compared all the same, each time: no waiter depends on watches.
        """
        since, deaf = yield from self._arm(op.mine, op.targets, context)
        if deaf is None and since <= op.as_of:
            return True
        expected = [compare for target in op.targets for compare in _compare_seen(target, op.mine)]
        reads = [codec.read(ref_key(target.ref)) for target in op.targets]
        reply = yield from self._although(deaf, self._txn(expected, otherwise=reads))
        as_seen = bool(reply.get("succeeded"))
        if not as_seen:
            pairs = zip(op.targets, codec.reads(reply), strict=True)
            as_seen = all(_as_seen(found, target, op.mine) for target, found in pairs)
        elif deaf is None:
            yield from self._arm_doubtful(op.mine, op.targets, context, since, codec.revision(reply))
        if as_seen and deaf is not None:
            raise deaf
        return as_seen

    def look(self, op: Look, context: RequestContext) -> Steps[Snapshot]:
        """Arm and read side by side; read again if the watches began later than the read."""
        watches = self._watches(op.mine, op.targets, context)
        replies = yield from self._together((*watches, *self._look_reads(op.mine, op.rule)), deaf=True)
        since, deaf = _armed(replies[: len(watches)])
        snapshot = yield from self._although(deaf, self._with_own(op.mine, op.rule, replies[len(watches) :]))
        if deaf is not None:
            if snapshot.mine is None or not op.rule.blockers(snapshot.ahead):
                return snapshot  # nobody is ahead, so there is nothing to watch
            raise deaf
        if since > snapshot.as_of:
            snapshot = yield from self._read_queue(op.mine, op.rule)
        there = tuple(target for target in op.targets if target in snapshot.ahead)
        yield from self._arm_doubtful(op.mine, there, context, since, snapshot.as_of)
        return snapshot

    def check(self, op: Check, context: RequestContext) -> Steps[Checked]:
        """Find the own key standing, and these others gone (after an event) or as seen; at one revision."""
        since, deaf = 0, None
        if op.evidence is None:
            since, deaf = yield from self._arm(op.mine, op.targets, context)
            others = [compare for target in op.targets for compare in _compare_seen(target, op.mine)]
        else:
            others = [codec.compare_absent(ref_key(target.ref)) for target in op.targets]
        reads = [codec.read(key_of(op.mine)), *(codec.read(ref_key(target.ref)) for target in op.targets)]
        reply = yield from self._although(
            deaf, self._txn([compare_stands(op.mine), *others], otherwise=reads)
        )
        if reply.get("succeeded"):
            if op.evidence is not None:
                return Checked(mine=True, present=frozenset())
            if deaf is not None:
                raise deaf
            yield from self._arm_doubtful(op.mine, op.targets, context, since, codec.revision(reply))
            return Checked(mine=True, present=frozenset(target.ref for target in op.targets))
        own, *found = codec.reads(reply)
        pairs = zip(op.targets, found, strict=True)
        present = frozenset(target.ref for target, at in pairs if _as_seen(at, target, op.mine))
        if deaf is not None and stands(own, op.mine) and len(present) == len(op.targets):
            raise deaf
        return Checked(stands(own, op.mine), present)

    def rewrite(self, op: Rewrite, context: RequestContext) -> Steps[int | None]:
        """Rewrite the own key's value, if it is the key that was created and was put as often as expected."""
        key, ticket = key_of(op.entry), op.entry.ticket
        expected = [compare_stands(op.entry)]
        if op.version is not None:
            expected.append(codec.compare_version(key, op.version + 1))
        value = pack(ticket.queue, op.mark, ticket.owner, op.data)
        reply = yield from self._txn(expected, then=[codec.put_again(key, value, self._lease)])
        if not reply.get("succeeded"):
            return None
        return codec.number(reply["responses"][0]["response_put"]["prev_kv"].version)

    def withdraw(self, op: Withdraw, context: RequestContext) -> Steps[bool]:
        """Delete the own key, which nobody else ever makes; see to it that no create of it lands later.

        A plain delete costs the server an eighth less of a whole cycle than one in a transaction that
        compares (30 of 270 us), and is served beyond a quota as well.
        """
        key = self._layout.contender(op.ticket, self.session_id)
        if op.ticket.id in self._in_doubt:
            if op.ticket.id in self._denied:
                self._in_doubt.discard(op.ticket.id)
                self._denied.discard(op.ticket.id)
                return False
            return (yield from self._bury(op.ticket, key)) or context.again
        return (yield from self._delete(key)) or context.again  # asked again: it was I who deleted it

    def _bury(self, ticket: Ticket, key: bytes) -> Steps[bool]:
        """Delete the own key and leave a tombstone; or sweep them all, where they have become many."""
        sweeps = self._tombstones >= self.most_tombstones
        if sweeps:
            tombstones = codec.delete(*self._layout.tombstones(self.session_id))
            ends = [codec.put(self._anchor, b"", self._lease), tombstones]
        else:
            ends = [codec.put(self._layout.tombstone(ticket.id, self.session_id), b"", self._lease)]
        stands = codec.compare_present(self._anchor)
        try:
            reply = yield from self._txn(stands, then=[codec.delete(key), *ends])
        except (
            StoreFull
        ):  # nothing can be put, and a create may land once there is room: ask again until then
            yield from self._delete(key)
            raise
        if not reply.get("succeeded"):
            raise SessionLost(NO_ANCHOR)
        if sweeps:
            self._anchored = max(self._anchored, codec.revision(reply))
        self._tombstones = 0 if sweeps else self._tombstones + 1
        self._in_doubt.discard(ticket.id)
        return codec.number(reply["responses"][0]["response_delete_range"].get("deleted")) > 0

    def _delete(self, key: bytes) -> Steps[bool]:
        """Delete the own key alone; returns whether it was there."""
        reply = yield from self._post("/kv/deleterange", codec.span(key))
        return codec.number(reply.get("deleted")) > 0

    # Queues from outside: about nobody's own contender.

    def evict(self, op: Evict, context: RequestContext) -> Steps[bool]:
        """Delete a key if it is the one that was created then."""
        key = ref_key(op.ref)
        try:
            reply = yield from self._txn([codec.compare_created(key, op.token)], then=[codec.delete(key)])
        except StoreFull:  # no transaction is served; a plain deletion is
            found = codec.keys((yield from self._post("/kv/range", codec.span(key))))
            there = bool(found) and found[0].created == op.token
            if there and not self._layout.parse(op.queue, found[0]).id:
                raise  # of another client, which may make a key of that name again
            return (there and (yield from self._delete(key))) or context.again
        return bool(reply.get("succeeded")) or context.again  # asked again: it was I who deleted it

    def listing(self, op: List, context: RequestContext) -> Steps[Listing]:
        """Read the first created keys of the queue; read again if its watch began later than the read."""
        start, end = self._layout.whole(op.queue)
        head = Post("/kv/range", codec.oldest(start, end, op.most))
        watch = WatchKey(start, context.mailbox, changes=True, end=end, queue=op.queue)
        found = yield from self._watched(watch if op.watch else None, head)
        return Listing(tuple(self._layout.listed(op.queue, kv) for kv in codec.keys(found)))

    def queues(self, op: Queues, context: RequestContext) -> Steps[tuple[str, ...]]:
        """Read one key of each queue: the first there is, then the first behind that queue."""
        names: list[str] = []
        start, end = self._layout.locks
        while len(names) < op.most:
            found = codec.keys((yield from self._post("/kv/range", codec.span(start, end, 1))))
            if not found:
                break
            name = self._layout.name_of(found[0].key)
            if name is not None:
                names.append(name)
            start = self._layout.behind(found[0].key)
        return tuple(names)

    # The parts.

    def _create(
        self,
        ticket: Ticket,
        key: bytes,
        context: RequestContext,
        *,
        nobody: Sequence[Json] = (),
        seen: Sequence[Json] = (),
        otherwise: Sequence[Json] = (),
    ) -> Steps[Json]:
        """Put the own key unless it, its tombstone or others are there, or the anchor was put again.

        The reply to a refusal has the own key, the anchor, and ``otherwise``. The contender is in doubt
        from before the store is asked, until it has answered all that was asked.
        """
        doubted = ticket.id in self._in_doubt
        if doubted and ticket.id in self._denied:
            self._denied.discard(ticket.id)
            doubted = False
        self._in_doubt.add(ticket.id)
        absent = [*nobody, codec.compare_absent(key), codec.compare_absent(self._tombstone(ticket))]
        put = codec.put(key, pack(ticket.queue, "", ticket.owner, ticket.data), self._lease)
        reads = [codec.read(key), codec.read(self._anchor), *otherwise]
        while True:
            known = self._anchored
            compare = [*absent, codec.compare_modified(self._anchor, known)]
            try:
                reply = yield from self._txn(compare, then=[put, *seen], otherwise=reads)
            except StoreFull:
                reply = yield from self._own_alone(key)  # what took the last room is refused, and put
                if not doubted:
                    self._in_doubt.discard(ticket.id)
                if not codec.keys(codec.reads(reply)[0]):
                    raise
                return reply
            except StoreDenied:  # etcd has refused it, all of it; to withdraw it would be denied as well
                if not doubted and not context.again:
                    self._denied.add(ticket.id)
                raise
            if reply.get("succeeded"):
                break
            own, anchor, *_ = map(codec.keys, codec.reads(reply))
            self._learn(anchor)
            if own or anchor[0].modified == known:
                break
        if not doubted:
            self._in_doubt.discard(ticket.id)
        return reply

    def _own_alone(self, key: bytes) -> Steps[Json]:
        """Read the own key where no transaction is served; returns it as the refusal of a create does."""
        own = yield from self._post("/kv/range", codec.span(key))
        return {"responses": [{"response_range": own}, {"response_range": {}}]}

    def _arm(self, mine: Entry, targets: Ahead, context: RequestContext) -> Steps[Armed]:
        """Watch; returns the revision from which on all their events will come, or why none will."""
        return _armed((yield from self._together(self._watches(mine, targets, context), deaf=True)))

    def _although(self, deaf: StoreUnavailable | None, steps: Steps[T]) -> Steps[T]:
        """Read on without watches; if the time is over amid that, it is known why they could not be made."""
        try:
            return (yield from steps)
        except Expired as expired:
            if deaf is not None:
                raise expired from deaf
            raise

    def _arm_doubtful(
        self, mine: Entry, targets: Ahead, context: RequestContext, since: int, seen_at: int
    ) -> Steps[None]:
        """Watch a second time what a first watch, created at ``since``, may tell up to 100 ms late.

        etcd begins a watch behind the revision that it read a moment before, outside of its lock
        (``server/etcdserver/api/v3rpc/watch.go``). If a write comes in between, the watch begins in the past,
        and is served when such watches are, every 100 ms. It was so for 1 of 100 where three clients write
        all the time. No answer says so; that nothing was written until the targets were seen rules it out,
        nearly always. If the second watch fails, the first is enough: what ends that one notifies by itself.
        """
        if since < seen_at:
            try:
                yield from self._together(self._watches(mine, targets, context, again=True))
            except StoreUnavailable:
                pass

    def _watches(
        self, mine: Entry, targets: Ahead, context: RequestContext, *, again: bool = False
    ) -> tuple[WatchKey, ...]:
        box, shared = context.mailbox, mine.ticket.minds_marks
        return tuple(WatchKey(ref_key(one.ref), box, changes=shared, again=again) for one in targets)

    def _read_queue(self, mine: Entry, rule: Rule) -> Steps[Snapshot]:
        replies = yield from self._together(self._look_reads(mine, rule))
        return (yield from self._with_own(mine, rule, replies))

    def _read_ahead(self, mine: Entry, rule: Rule) -> Steps[Snapshot]:
        """Read the queue behind the own put, and the own key too if it would grant."""
        if not rule.exclusive_only:
            return (yield from self._read_queue(mine, rule))
        parts = yield from self._together(self._nearest(mine.ticket.queue, rule, before=mine.token))
        snapshot = self._seen(mine, rule, parts)
        if rule.blockers(snapshot.ahead):
            return snapshot
        return (yield from self._read_queue(mine, rule))

    def _look_reads(self, mine: Entry, rule: Rule) -> tuple[Post, ...]:
        """Read the contenders ahead, and the own key: in the same range, or after it (unchanged)."""
        if not rule.exclusive_only:
            return self._nearest(mine.ticket.queue, rule, before=mine.token + 1, more=1)
        own = Post("/kv/range", codec.span(key_of(mine)))
        return (*self._nearest(mine.ticket.queue, rule, before=mine.token), own)

    def _nearest(self, queue: str, rule: Rule, before: int | None, more: int = 0) -> tuple[Post, ...]:
        return tuple(
            Post("/kv/range", codec.nearest(start, end, before=before, limit=rule.reach + more))
            for start, end in self._layout.ranges(queue, rule)
        )

    def _with_own(self, mine: Entry, rule: Rule, replies: tuple[Any, ...]) -> Steps[Snapshot]:
        """Return what `_look_reads` found; calls sent together may have been carried out in any order."""
        *parts, own = replies
        if not rule.exclusive_only:
            parts = [own]
        elif codec.revision(own) < max(map(codec.revision, parts)):
            own = yield from self._post("/kv/range", codec.span(key_of(mine)))
        snapshot = self._seen(mine, rule, parts)
        return snapshot if stands(own, mine) else replace(snapshot, mine=None)

    def _seen(self, mine: Entry, rule: Rule, parts: Sequence[Json]) -> Snapshot:
        """Return what ranges that were sorted show, the own key among them or not."""
        found = [[kv for kv in codec.keys(part) if kv.created < mine.token] for part in parts]
        complete = all(len(part) < rule.reach for part in found)
        ahead = self._contenders(mine.ticket.queue, [kv for part in found for kv in part])
        if not complete:
            ahead = ahead[: rule.reach]
        as_of = min(map(codec.revision, parts))
        return Snapshot(mine, ahead, complete, len(ahead), as_of, self._cheap(rule, parts))

    def _contenders(self, queue: str, found: list[codec.Kv], most: int | None = None) -> Ahead:
        """Return whom keys stand for, the latest created first and so many at most."""
        found = sorted(found, key=lambda kv: (kv.created, kv.key), reverse=True)[:most]
        for kv in found:
            if (said := self._layout.foreign(queue, kv.key, kv.lease)) is not None:
                self._notices.add(kv.key, f"{ref_of(kv.key)} is {said}")
        return tuple(self._layout.parse(queue, kv) for kv in found)

    def _tombstone(self, ticket: Ticket) -> bytes:
        return self._layout.tombstone(ticket.id, self.session_id)

    def _cheap(self, rule: Rule, parts: Sequence[Json]) -> bool:
        """Whether one range, and a short one, shows the own key and the contenders ahead."""
        return not rule.exclusive_only and codec.number(parts[0].get("count")) <= self.sorted_soon


def _armed(created: Sequence[Any]) -> Armed:
    """Return what the replies to watches say."""
    deaf = next((one for one in created if isinstance(one, StoreUnavailable)), None)
    return (max(created, default=0), None) if deaf is None else (0, deaf)


def _compare_seen(target: Contender, mine: Entry) -> list[Json]:
    """Return the comparisons that say what `_as_seen` does."""
    key = ref_key(target.ref)
    there = codec.compare_present(key, before=mine.token)
    if not mine.ticket.minds_marks:
        return there
    return [*there, codec.compare_version(key, target.version + 1)]


def _as_seen(response: Json, target: Contender, mine: Entry) -> bool:
    """Whether another's key is there as it was seen; one made again behind mine blocks nobody."""
    return any(
        kv.created < mine.token and (not mine.ticket.minds_marks or kv.version - 1 == target.version)
        for kv in codec.keys(response)
    )


def _frees(post: Post) -> Post:
    return Post(post.path, post.body, post.urgent, frees=True)


def _freeing(steps: Steps[T]) -> Steps[T]:
    """Carry out ``steps``, and say of every call that it frees."""
    try:
        request = next(steps)
        while True:
            try:
                reply = yield _frees(request) if isinstance(request, Post) else request
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                request = steps.throw(error)
            else:
                request = steps.send(reply)
    except StopIteration as stop:
        done: T = stop.value
        return done
