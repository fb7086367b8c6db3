"""Values of etcd: keys that outlive every session, and a receipt of each session that wrote one.

A write is one transaction, with the receipt as `recipes.stores.receipts` says. The receipt is bound to the
lease: it goes with the session, and with the lease every write that is still on its way is refused, for
each puts the receipt. The value is bound to no lease. Versions are mod revisions, which rise over deletes.

A session keeps about a thousand receipts. A first write of a value, which compares that there is no receipt,
compares the anchor too: what deletes receipts puts that again. So no late copy of a first write is done where
a receipt has gone; and one that is under way at that moment is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from recipes._contract.operations import Guard, Read, Settle, Stored, Write, Written
from recipes._contract.protocol import RequestContext, Steps
from recipes._signals import of_a_handler
from recipes.errors import SessionLost, StoreError, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol_asking import (
    NO_ANCHOR,
    AskingProtocol,
    Json,
    compare_stands,
    key_of,
    stands,
)
from recipes.stores.etcd.requests import EtcdError, Post
from recipes.stores.etcd.requests import Watch as WatchKey
from recipes.stores.receipts import Exchange, Exchanged, Receipts, settle_once, write_once

__all__ = ["ValuesProtocol"]

NO_LEASE = 0
SPENT = 100
"""So many receipts are deleted at once: etcd takes 128 comparisons, and 128 operations, in a transaction."""
LAST_REVISION = 2**63 - 1
MAY_BE_DONE = (2, 10, 15)
"""Statuses (unknown, aborted, data loss) that do not say whether it was carried out, or will be."""


class ValuesProtocol(AskingProtocol):
    """The part of `EtcdProtocol` that reads and writes values; the arguments are the same."""

    settles_elsewhere: ClassVar[bool] = True

    def __init__(self, label: str, layout: Layout, lease: int, *, named: bool = False) -> None:
        super().__init__(label, layout, lease, named=named)
        self._receipts = Receipts()

    def read(self, op: Read, context: RequestContext) -> Steps[Stored]:
        """Read one key, and watch it side by side."""
        key = self._layout.value(op.key)
        watch = WatchKey(key, context.mailbox, changes=True, queue=op.key)
        found = yield from self._watched(watch if op.watch else None, Post("/kv/range", codec.span(key)))
        return _stored(found)

    def write(self, op: Write, context: RequestContext) -> Steps[Written]:
        """Write with a receipt; a copy of it may arrive late."""
        if not context.again:
            yield from self._spend()
        return (yield from write_once(self._receipts, op, self._exchange, again=context.again))

    def settle(self, op: Settle, context: RequestContext) -> Steps[bool]:
        """Write the receipt alone."""
        return (yield from settle_once(self._receipts, op.write, self._exchange))

    def _spend(self) -> Steps[None]:
        """Delete the oldest receipts, many at a time."""
        surplus = self._receipts.surplus(SPENT)
        if not surplus:
            return
        receipts = {self._layout.receipt(key, self.session_id): at for key, at in surplus}
        as_known = (codec.compare_modified(receipt, at) for receipt, at in receipts.items())
        compare = [*codec.compare_present(self._anchor), *as_known]
        then = [codec.put(self._anchor, b"", self._lease), *map(codec.delete, receipts)]
        with suppress(StoreError):  # they stay
            reply = yield from self._txn(compare, then=then)
            if reply.get("succeeded"):
                self._anchored = max(self._anchored, codec.revision(reply))

    def _exchange(self, put: Exchange) -> Steps[Exchanged]:
        """Write the value with its receipt, or read why not: one transaction."""
        while True:
            found = yield from self._try(put, self._anchored)
            if found is not None:
                return found

    def _try(self, put: Exchange, anchored: int) -> Steps[Exchanged | None]:
        """Ask once; None: the anchor was put again meanwhile, and that is why it was refused."""
        known = self._latest
        try:
            reply = yield from self._reply(Post("/kv/txn", self._body(put, anchored)))
        except StoreFull as full:
            return (yield from self._refused_for_room(put, full))
        except StoreRefused as refused:
            if isinstance(refused.__cause__, EtcdError) and refused.__cause__.code in MAY_BE_DONE:
                raise StoreUnavailable(self._label, refused.detail) from refused.__cause__
            raise
        done = bool(reply.get("succeeded"))
        self._take(reply, 0 if done else known)  # that a store has gone back is for the renewal to find out
        if done:
            at = codec.revision(reply)
            return Exchanged(True, at, put.receipt, None if put.settles else _written(put.write, at))
        receipt, *others = codec.reads(reply)
        if not put.expected:
            anchor = codec.keys(others.pop())
            self._learn(anchor)
            if anchor[0].modified != anchored:  # what this reply says: other threads learn, too
                return None
        guards = zip(_guards(put), others, strict=False)
        stored = _stored(others[-1]) if _minds_value(put) else None
        guarded = all(_guards_on(at, guard) for guard, at in guards)
        return Exchanged(False, *_receipt(receipt), stored, guarded)

    def _learn(self, anchor: Sequence[codec.Kv]) -> None:
        """Note when the anchor was put last."""
        if not anchor:
            raise SessionLost(NO_ANCHOR)
        self._anchored = anchor[0].modified

    def _body(self, put: Exchange, anchored: int) -> Json:
        """Return the transaction; each path of it puts or reads the receipt first."""
        write = put.write
        value, receipt = self._layout.value(write.key), self._receipt_of(write)
        compare = [codec.compare_modified(receipt, put.expected), *map(_compare_guard, _guards(put))]
        then = [codec.put(receipt, put.receipt, self._lease)]
        otherwise = [codec.read(receipt), *(codec.read(key_of(guard.entry)) for guard in _guards(put))]
        if _minds_value(put):
            assert write.if_version is not None
            compare.append(codec.compare_modified(value, min(write.if_version, LAST_REVISION)))
            otherwise.append(codec.read(value))
        if not put.expected:
            compare.append(codec.compare_modified(self._anchor, anchored))
            otherwise.append(codec.read(self._anchor))
        if not put.settles:
            then.append(codec.delete(value) if write.data is None else codec.put(value, write.data, NO_LEASE))
        return codec.txn(compare, then, otherwise)

    def _refused_for_room(self, put: Exchange, full: StoreFull) -> Steps[Exchanged]:
        """Look whether it was done all the same.

        A member that finds the last room gone as it applies a transaction does apply it, and says no space.
        """
        try:
            found = yield from self._post("/kv/range", codec.span(self._receipt_of(put.write)))
        except Exception as failed:  # whatever it says of this request, the transaction may have been done
            if of_a_handler(failed):
                raise
            raise StoreUnavailable(self._label, full.detail) from failed
        version, receipt = _receipt(found)
        if version == put.expected:
            raise full
        return Exchanged(False, version, receipt)

    def _receipt_of(self, write: Write) -> bytes:
        return self._layout.receipt(write.key, self.session_id)


def _guards(put: Exchange) -> tuple[Guard, ...]:
    return () if put.settles else put.write.guards


def _compare_guard(guard: Guard) -> Json:
    """Return the comparison that says what `_guards_on` does."""
    if guard.unchanged:  # what was last put as it was created
        return codec.compare_modified(key_of(guard.entry), guard.entry.token)
    return compare_stands(guard.entry)


def _guards_on(response: Json, guard: Guard) -> bool:
    """Whether a guard is there as it has to be."""
    if guard.unchanged and any(kv.modified != guard.entry.token for kv in codec.keys(response)):
        return False
    return stands(response, guard.entry)


def _minds_value(put: Exchange) -> bool:
    return not put.settles and put.write.if_version is not None


def _written(write: Write, at: int) -> Stored:
    return Stored() if write.data is None else Stored(write.data, at)


def _stored(found: Json) -> Stored:
    """Return the value that the reply to a read has."""
    return next((Stored(kv.value, kv.modified) for kv in codec.keys(found)), Stored())


def _receipt(found: Json) -> tuple[int, bytes]:
    """Return the version of the receipt that the reply to a read has, and what it says."""
    return next(((kv.modified, kv.value) for kv in codec.keys(found)), (0, b""))
