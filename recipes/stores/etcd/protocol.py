"""The etcd protocol: a session is a lease with an anchor key, a contender a key bound to it.

The order is the create revision, which is the token too. One transaction acquires: put
if the own key and its tombstone are absent, and count who else is there. Retrying it
after a lost reply is safe: the own key is found by its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from recipes._core.ops import (
    Check,
    Checked,
    Downgrade,
    End,
    Enqueue,
    Look,
    Open,
    Opened,
    Place,
    Probe,
    Renew,
    Renewal,
    Spot,
    View,
    Watch,
    Withdraw,
)
from recipes._core.order import Ahead, Contender, Order
from recipes.errors import SessionLost, StoreError, StoreFull, StoreRefused
from recipes.stores.base import Batch, Request
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import DOWNGRADED, Layout, ref_of
from recipes.stores.etcd.requests import EtcdError, Post
from recipes.stores.etcd.requests import Watch as WatchKey
from recipes.stores.protocol import Steps, StoreProtocol, Turn

__all__ = ["EtcdProtocol"]

NOT_FOUND = 5
TOMB_STANDS_S = 60.0
HELD_PER_READ = 100  # a transaction of more than 128 operations is refused by default

Json = Mapping[str, Any]


class EtcdProtocol(StoreProtocol):
    """One session with etcd.

    Args:
        label: Where the store is, for errors.
        layout: Where its keys are.
        lease: The id of the lease to ask for: chosen before the store is asked, so that
            it can be revoked if the reply is lost.
    """

    renewals_per_ttl: ClassVar[int] = 3
    renewal_lag: ClassVar[int] = 0

    def __init__(self, label: str, layout: Layout, lease: int) -> None:
        self._label = label
        self._layout = layout
        self._lease = lease
        self.session_id = f"{lease:x}"
        self._anchor = layout.anchor(self.session_id)
        self._asked_again: set[str] = set()
        self._renewals = 0
        self._tombs: dict[bytes, int] = {}  # each with the renewal after which it is of no use

    # The session.

    def open(self, op: Open, turn: Turn) -> Steps[Opened]:
        """Grant the lease, and put the anchor key that shows it to be alive."""
        asked = {"TTL": str(-int(-op.ttl_s // 1)), "ID": str(self._lease)}
        granted = yield from self._post("/lease/grant", asked)
        ttl_s = codec.number(granted.get("TTL"))
        if ttl_s <= 0:
            raise StoreRefused(self._label, "the answer grants no lease; is this an etcd?")
        yield from self._txn(then=[codec.put(self._anchor, b"", self._lease)])
        return Opened(self.session_id, float(ttl_s))

    def renew(self, op: Renew, turn: Turn) -> Steps[Renewal]:
        """Keep the lease alive, then read the anchor and all held keys, linearizably.

        An answered keepalive alone proves nothing: servers before 3.4.38 may answer for a
        lease that was revoked.
        """
        kept = yield from self._post("/lease/keepalive", {"ID": str(self._lease)})
        ttl_s = codec.number(kept.get("result", {}).get("TTL"))
        if ttl_s <= 0:
            raise SessionLost("the lease has ended on the store")
        missing: list[Place] = []
        for start in range(0, max(len(op.places), 1), HELD_PER_READ):
            places = op.places[start : start + HELD_PER_READ]
            reads = [codec.read(self._anchor), *(codec.read(_key(place)) for place in places)]
            anchor, *found = _responses((yield from self._txn(then=reads)))
            if not codec.keys(anchor):
                raise SessionLost("the session's anchor key is gone from the store")
            missing += [place for place, at in zip(places, found, strict=True) if not _stands(at, place)]
        yield from self._open_tombs(float(ttl_s))
        return Renewal(float(ttl_s), tuple(missing))

    def _open_tombs(self, ttl_s: float) -> Steps[None]:
        """Delete tombstones that have stood for so long that no create is still under way."""
        self._renewals += 1
        enough = math.ceil(max(TOMB_STANDS_S, 2 * ttl_s) / (ttl_s / self.renewals_per_ttl))
        old = [key for key, since in self._tombs.items() if self._renewals - since > enough]
        old = old[:HELD_PER_READ]
        if old:
            try:
                yield from self._txn(then=[codec.delete(key) for key in old])
            except StoreError:
                return  # the session was renewed all the same; they go another time, or with it
        for key in old:
            del self._tombs[key]

    def end(self, op: End, turn: Turn) -> Steps[None]:
        """Revoke the lease: all that was bound to it goes."""
        try:
            yield from Post("/lease/revoke", {"ID": str(self._lease)})
        except EtcdError as error:
            if error.code != NOT_FOUND:
                raise self._meant(error) from error

    # The queue.

    def enqueue(self, op: Enqueue, turn: Turn) -> Steps[View]:
        """Put the own key once, and see who else is there."""
        spot, order = op.spot, op.order
        self._note(spot, turn)
        key = self._layout.contender(spot, self.session_id)
        seen = [codec.read(*ends, limit=order.reach + 1) for ends in self._layout.ranges(spot.queue, order)]
        reply = yield from self._txn(
            [codec.compare_absent(key), codec.compare_absent(self._tombstone(spot))],
            then=[codec.put(key, b"", self._lease), *seen],
            otherwise=[codec.read(key)],
        )
        if not reply.get("succeeded"):
            return (yield from self._found_again(spot, key, order, reply))
        at = codec.revision(reply)
        mine = Place(spot, ref_of(key), at)
        parts = _responses(reply)[1:]
        total = sum(codec.number(part["response_range"].get("count")) for part in parts)
        known = [kv for part in parts for kv in codec.keys(part)]
        if len(known) < total:
            view = yield from self._read_queue(mine, order)
            others = total if spot.shared else total - 1  # a reader does not see itself
            return View(view.mine, view.ahead, view.complete, max(others, view.position), view.as_of)
        ahead = self._contenders(spot.queue, known, before=at)
        return View(mine, ahead, complete=True, position=len(ahead), as_of=at)

    def _found_again(self, spot: Spot, key: bytes, order: Order, reply: Json) -> Steps[View]:
        """See where an attempt stands whose reply was lost."""
        own = codec.keys(_responses(reply)[0])
        if not own:
            raise SessionLost("its contender was withdrawn")
        return (yield from self._read_queue(Place(spot, ref_of(key), own[0].created), order))

    def probe(self, op: Probe, turn: Turn) -> Steps[View | None]:
        """Put the own key if nobody is there who would block; one transaction where one can say so."""
        spot, order = op.spot, op.order
        self._note(spot, turn)
        if order.depth > 1:
            return (yield from self._probe_deep(op, turn))
        key = self._layout.contender(spot, self.session_id)
        ranges = self._layout.ranges(spot.queue, order)
        nobody = [codec.compare_absent(*ends) for ends in ranges]
        writers = [codec.read(*ends, limit=2) for ends in ranges] if spot.shared else []
        reply = yield from self._txn(
            [*nobody, codec.compare_absent(self._tombstone(spot)), codec.compare_absent(key)],
            then=[codec.put(key, b"", self._lease)],
            otherwise=[codec.read(key), *writers],
        )
        if reply.get("succeeded"):
            at = codec.revision(reply)
            return View(Place(spot, ref_of(key), at), (), complete=True, position=0, as_of=at)
        own, *parts = map(codec.keys, _responses(reply))
        if own:
            return (yield from self._read_queue(Place(spot, ref_of(key), own[0].created), order))
        ahead = self._contenders(spot.queue, [kv for part in parts for kv in part])
        if ahead and not order.blockers(ahead):  # all there is downgraded, as a comparison cannot see
            return (yield from self.enqueue(Enqueue(spot, order), turn))
        if turn.again:  # the first try may land yet
            yield from self.withdraw(Withdraw(spot), turn)
        return None

    def _probe_deep(self, op: Probe, turn: Turn) -> Steps[View | None]:
        """Look first where a comparison cannot count; the program withdraws if it came too late."""
        spot, order = op.spot, op.order
        reads = self._nearest(spot.queue, order, before=None)
        reply = yield from self._txn(then=reads)
        found = [kv for response in _responses(reply) for kv in codec.keys(response)]
        ahead = self._contenders(spot.queue, found)
        if not turn.again and order.blockers(ahead):
            return None
        return (yield from self.enqueue(Enqueue(spot, order), turn))

    def watch(self, op: Watch, turn: Turn) -> Steps[bool]:
        """Watch the targets; read them once if anything was written since they were seen."""
        since = yield from self._arm(op.mine, op.targets, turn)
        if since <= op.as_of:
            return True
        reply = yield from self._txn(then=[codec.read(_ref_key(target.ref)) for target in op.targets])
        pairs = zip(op.targets, _responses(reply), strict=True)
        return all(_as_seen(found, target, op.mine) for target, found in pairs)

    def look(self, op: Look, turn: Turn) -> Steps[View]:
        """Arm and read side by side; read again if the watches began later than the read."""
        watches = self._watches(op.mine, op.targets, turn)
        read = Post("/kv/txn", codec.txn(then=self._look_reads(op.mine, op.order)))
        *created, reply = yield from self._together((*watches, read))
        view = self._seen(op.mine, op.order, reply)
        if max(created, default=0) > view.as_of:
            view = yield from self._read_queue(op.mine, op.order)
        return view

    def check(self, op: Check, turn: Turn) -> Steps[Checked]:
        """Read the own key and these others at one revision."""
        if op.evidence is None:
            yield from self._arm(op.mine, op.targets, turn)
        reads = [codec.read(_key(op.mine)), *(codec.read(_ref_key(target.ref)) for target in op.targets)]
        own, *others = _responses((yield from self._txn(then=reads)))
        pairs = zip(op.targets, others, strict=True)
        present = (target.ref for target, found in pairs if _as_seen(found, target, op.mine))
        return Checked(_stands(own, op.mine), frozenset(present))

    def downgrade(self, op: Downgrade, turn: Turn) -> Steps[bool]:
        """Rewrite the own key's value, if it is the key that was granted."""
        key = _key(op.place)
        mine = [codec.compare_created(key, op.place.token)]
        reply = yield from self._txn(mine, then=[codec.put(key, DOWNGRADED, self._lease)])
        return bool(reply.get("succeeded"))

    def withdraw(self, op: Withdraw, turn: Turn) -> Steps[bool]:
        """Delete the own key; where its create may still land, leave a tombstone in its place."""
        key = self._layout.contender(op.spot, self.session_id)
        if op.place is not None and op.spot.id not in self._asked_again:
            mine = [codec.compare_created(key, op.place.token)]
            reply = yield from self._txn(mine, then=[codec.delete(key)])
            return bool(reply.get("succeeded")) or turn.again  # asked again: it was I who deleted it
        bury = codec.put(self._tombstone(op.spot), b"", self._lease)
        try:
            reply = yield from self._txn(then=[codec.delete(key), bury])
        except StoreFull:  # then no late create gets in either; what is there can still be deleted
            reply = yield from self._txn(then=[codec.delete(key)])
        else:
            self._tombs[self._tombstone(op.spot)] = self._renewals
        self._asked_again.discard(op.spot.id)
        deleted = _responses(reply)[0].get("response_delete_range", {})
        return codec.number(deleted.get("deleted")) > 0 or turn.again

    # The parts.

    def _note(self, spot: Spot, turn: Turn) -> None:
        """Note a create that was asked twice: one of the two may land late, after a release too."""
        if turn.again:
            self._asked_again.add(spot.id)

    def _arm(self, mine: Place, targets: Ahead, turn: Turn) -> Steps[int]:
        """Watch; returns the revision from which on all their events will come."""
        created = yield from self._together(self._watches(mine, targets, turn))
        return max(created, default=0)

    def _watches(self, mine: Place, targets: Ahead, turn: Turn) -> tuple[WatchKey, ...]:
        shared = mine.spot.shared
        return tuple(WatchKey(_ref_key(target.ref), turn.mailbox, changes=shared) for target in targets)

    def _read_queue(self, mine: Place, order: Order) -> Steps[View]:
        reply = yield from self._txn(then=self._look_reads(mine, order))
        return self._seen(mine, order, reply)

    def _look_reads(self, mine: Place, order: Order) -> list[Json]:
        return [codec.read(_key(mine)), *self._nearest(mine.spot.queue, order, before=mine.token)]

    def _nearest(self, queue: str, order: Order, before: int | None) -> list[Json]:
        return [
            codec.read_nearest(start, end, before=before, limit=order.reach)
            for start, end in self._layout.ranges(queue, order)
        ]

    def _seen(self, mine: Place, order: Order, reply: Json) -> View:
        own, *parts = _responses(reply)
        found = [codec.keys(part) for part in parts]
        complete = all(len(part) < order.reach for part in found)
        ahead = self._contenders(mine.spot.queue, [entry for part in found for entry in part])
        if not complete:
            ahead = ahead[: order.reach]
        place = mine if _stands(own, mine) else None
        return View(place, ahead, complete, len(ahead), codec.revision(reply))

    def _contenders(
        self, queue: str, found: list[codec.Kv], before: int | None = None
    ) -> tuple[Contender, ...]:
        """Return whom keys stand for, latest created first."""
        ahead = sorted(
            (kv.created, kv.key, kv.value) for kv in found if before is None or kv.created < before
        )
        return tuple(self._layout.parse(queue, key, value) for _, key, value in reversed(ahead))

    def _tombstone(self, spot: Spot) -> bytes:
        return self._layout.tombstone(spot.id, self.session_id)

    def _txn(self, compare: Any = (), then: Any = (), otherwise: Any = ()) -> Steps[Json]:
        return self._post("/kv/txn", codec.txn(compare, then, otherwise))

    def _post(self, path: str, body: Json) -> Steps[Json]:
        try:
            reply = yield from Post(path, body)
        except EtcdError as error:
            raise self._meant(error) from error
        return reply

    def _together(self, requests: tuple[Request[Any], ...]) -> Steps[tuple[Any, ...]]:
        replies = yield from Batch(requests)
        for reply in replies:
            if isinstance(reply, EtcdError):
                raise self._meant(reply) from reply
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _meant(self, error: EtcdError) -> SessionLost | StoreRefused:
        if error.code == NOT_FOUND:
            return SessionLost("the lease has ended on the store")
        return StoreRefused(self._label, error.message)


def _responses(reply: Json) -> list[Json]:
    found: list[Json] = reply.get("responses", [])
    return found


def _key(place: Place) -> bytes:
    return _ref_key(place.ref)


def _ref_key(ref: str) -> bytes:
    return ref.encode("utf-8", "surrogateescape")


def _stands(response: Json, place: Place) -> bool:
    """Whether the own key is there, as it was created."""
    return any(kv.created == place.token for kv in codec.keys(response))


def _as_seen(response: Json, target: Contender, mine: Place) -> bool:
    """Whether another's key is there as it was seen; one made again behind mine blocks nobody."""
    return any(
        kv.created < mine.token and (not mine.spot.shared or (kv.value == DOWNGRADED) == target.downgraded)
        for kv in codec.keys(response)
    )
