"""Bugs to plant in values, counters and latches: receipts, doubts, settling, programs, guards, watches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from recipes import counter, latch, value
from recipes._contract.connection import Batch
from recipes._contract.operations import Read, Stored, Write, Written
from recipes._programs import cleaner, observing, values
from recipes._run import interpreter
from recipes._run.runtime import Runtime
from recipes.errors import OutcomeUnknown, SessionLost, StoreUnavailable
from recipes.stores import receipts
from recipes.stores.etcd import codec
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.receipts import Receipts
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import Check, Create, Get, Multi, SetData, Sync
from tests.simulation.bugs import swap
from tests.simulation.bugs_in_observing import driven

# Receipts.


def receipt_says_nothing() -> list[Any]:
    """So a write that was done is taken for one that was not, and is done again."""

    def note(self: Any, key: str, found: Any) -> Any:
        return original(self, key, replace(found, receipt=b""))

    original = Receipts.note
    return swap(Receipts, "note", note)


def receipt_says_the_last_alone() -> list[Any]:
    """Another write of the session, whose answer was lost, is forgotten."""

    def exchange(self: Any, write: Write, known: Any, *, settles: bool = False) -> Any:
        return original(self, write, replace(known, done=frozenset()), settles=settles)

    original = Receipts.exchange
    return swap(Receipts, "exchange", exchange)


def what_another_read_is_not_looked_at() -> list[Any]:
    """That a write was done is known by the answer to another of the session, and it is done again."""

    class Unread(frozenset[int]):
        def __contains__(self, number: object) -> bool:
            return False

    def known(self: Any, key: str) -> Any:
        found = original(self, key)
        return replace(found, done=Unread(found.done))

    original = Receipts.known
    return swap(Receipts, "known", known)


def refused_counts_as_done() -> list[Any]:
    def write_once(*args: Any, again: bool, **more: Any) -> Any:
        written = yield from original(*args, again=again, **more)
        return replace(written, done=True) if again else written

    original = receipts.write_once
    return _write_once(write_once)


def no_answer_is_a_refusal() -> list[Any]:
    """It is not asked again for what compares nothing, as if the first try had been refused."""

    def write_once(known: Any, write: Write, ask: Any, *, again: bool, **more: Any) -> Any:
        if again and write.if_version is None:
            return Written(done=False, stored=Stored())
        return (yield from original(known, write, ask, again=again, **more))

    original = receipts.write_once
    return _write_once(write_once)


def _write_once(write_once: Any) -> list[Any]:
    return [
        mock.patch("recipes.stores.etcd.protocol_values.write_once", write_once),
        mock.patch("recipes.stores.zookeeper.protocol_values.write_once", write_once),
    ]


def settling_only_looks() -> list[Any]:
    """What was given up is found not to be done, and lands later."""

    def settle_once(known: Any, write: Write, ask: Any) -> Any:
        yield from ()
        known.end(write)
        return write.number in known.known(write.key).done

    return [
        mock.patch("recipes.stores.receipts.settle_once", settle_once),
        mock.patch("recipes.stores.etcd.protocol_values.settle_once", settle_once),
        mock.patch("recipes.stores.zookeeper.protocol_values.settle_once", settle_once),
    ]


# Doubt, and what becomes of what was given up.


def lost_answer_is_a_no() -> list[Any]:
    """A call that was not answered says that nothing was done."""

    def in_doubt(error: Any, op: Any, call: Any) -> Any:
        unknown = original(error, op, call)
        return StoreUnavailable("model", unknown.detail) if isinstance(unknown, OutcomeUnknown) else unknown

    original = interpreter._in_doubt
    return swap(interpreter, "_in_doubt", in_doubt)


def doubt_ends_with_the_answer_to_the_last() -> list[Any]:
    """An error that is an answer to the second try says nothing about the first."""

    def write(op: Any, call: Any, session: Any, *, again: bool) -> Any:
        return (yield from original(op, call, session, again=False))

    original = interpreter._write
    return [
        *swap(interpreter, "_write", write),
        *swap(EtcdProtocol, "ended_is_no", True),
        *swap(ZooKeeperProtocol, "ended_is_no", True),
    ]


def written_again_on_the_next_session() -> list[Any]:
    def in_doubt(error: Any, op: Any, call: Any) -> Any:
        if call.session.ended is None or not isinstance(op, Write):
            return original(error, op, call)
        call.doubt = None
        return SessionLost(call.session.ended)

    original = interpreter._in_doubt
    return swap(interpreter, "_in_doubt", in_doubt)


def nothing_is_settled() -> list[Any]:
    return swap(Runtime, "settle_behind", lambda self, call: None)


def only_what_timed_out_is_settled() -> list[Any]:
    """And not what was interrupted."""

    def settle(self: Any, call: Any) -> None:
        if call.deadline.at is not None and call.deadline.at <= self.now():
            original(self, call)

    original = Runtime.settle_behind
    return swap(Runtime, "settle_behind", settle)


def cleaner_withdraws_alone() -> list[Any]:
    """It takes a write for done."""

    def clean(job: Any) -> Any:
        if job.write is not None:
            yield from ()
            return True
        return (yield from original(job))

    original = cleaner.clean
    return [mock.patch("tests.simulation.clients.clean", clean)]


# Programs.


def update_compares_nothing() -> list[Any]:
    original = values.write
    return swap(values, "write", lambda writing, data, if_version=None: original(writing, data))


def what_was_remembered_is_there() -> list[Any]:
    """An update is left undone by what was read long ago."""

    def update(writing: Any, step: Any, seen: Any = None) -> Any:
        stored = None if seen is None else seen.get(writing.key)
        if stored is not None and step(stored) is None:
            yield from ()
            return None
        return (yield from original(writing, step, seen))

    original = values.update
    return [*swap(counter, "update", update), *swap(latch, "update", update)]


def refused_update_is_done() -> list[Any]:
    """What lost a race is not done again, on what is there now."""

    def write(writing: Any, data: Any, if_version: int | None = None) -> Any:
        return replace((yield from original(writing, data, if_version)), done=True)

    original = values.write
    return swap(values, "write", write)


def deletes_whatever_is_there() -> list[Any]:
    """What was written since it was read goes too, though it has another version."""

    def delete(self: Any, version: int | None) -> Any:
        stored = yield from values.read(self._key)
        if stored.data is None or version not in (None, stored.version):
            return False
        return (yield from values.write(self._writing("deleted"), None)).done

    return swap(value._BaseValue, "_delete", delete)


def latch_counts_what_it_read_first() -> list[Any]:
    """How many are left is said as it was before others counted."""

    def count_down(self: Any, n: int) -> Any:
        before = yield from self._read()
        yield from original(self, n)
        return max(before - n, 0)

    original = latch._BaseLatch._count_down
    return swap(latch._BaseLatch, "_count_down", count_down)


def latch_opens_at_one() -> list[Any]:
    return swap(latch._BaseLatch, "_open", lambda self, stored: self._left(stored) <= 1)


# Guards.


def guards_are_not_compared() -> list[Any]:
    """A holder looks at its clock before it writes, and nothing looks when that lands."""
    return swap(values, "Write", lambda *args: Write(*args[:4]))


def etcd_guard_is_the_session() -> list[Any]:
    """That the lease lasts stands for all that was held."""
    return [mock.patch("recipes.stores.etcd.protocol_values._guards", return_value=())]


def zookeeper_guards_are_looked_up_before() -> list[Any]:
    """They are not part of the multi."""
    return _multi(lambda parts: tuple(part for part in parts if type(part) is not Check))


# The protocol of etcd.


def _etcd_body(change: Any) -> list[Any]:
    """Have the transaction of a write be another."""

    def body(self: Any, put: Any, anchored: int) -> Any:
        return change(self, put, original(self, put, anchored))

    original = EtcdProtocol._body
    return swap(EtcdProtocol, "_body", body)


def etcd_receipt_is_not_compared() -> list[Any]:
    return _etcd_body(lambda self, put, body: {**body, "compare": body["compare"][1:]})


def etcd_version_is_not_compared() -> list[Any]:
    def change(self: Any, put: Any, body: Any) -> Any:
        value = self._layout.value(put.write.key)
        return {**body, "compare": [one for one in body["compare"] if one["key"] != value]}

    return _etcd_body(change)


def etcd_receipt_outlasts_the_session() -> list[Any]:
    def put(key: bytes, data: bytes, lease: int) -> Any:
        return original(key, data, 0 if b"~receipt/" in key else lease)

    original = codec.put
    return swap(codec, "put", put)


def etcd_value_goes_with_the_session() -> list[Any]:
    def body(self: Any, put: Any, anchored: int) -> Any:
        with mock.patch("recipes.stores.etcd.protocol_values.NO_LEASE", self._lease):
            return original(self, put, anchored)

    original = EtcdProtocol._body
    return swap(EtcdProtocol, "_body", body)


def etcd_receipt_is_written_behind() -> list[Any]:
    """The value in one transaction, and the receipt in the next."""

    def exchange(self: Any, put: Any) -> Any:
        if put.settles or put.write.if_version is not None or put.write.guards:
            return (yield from original(self, put))
        yield from self._txn(then=[codec.put(self._layout.value(put.write.key), put.write.data, 0)])
        return (yield from original(self, replace(put, settles=True)))

    original = EtcdProtocol._exchange
    return swap(EtcdProtocol, "_exchange", exchange)


def etcd_versions_count_writes() -> list[Any]:
    """They begin anew when a value was deleted."""

    def stored(found: Any) -> Stored:
        return next((Stored(kv.value, kv.version) for kv in codec.keys(found)), Stored())

    return [mock.patch("recipes.stores.etcd.protocol_values._stored", stored)]


def etcd_what_comes_before_the_watch_is_missed() -> list[Any]:
    def watched(self: Any, watch: Any, post: Any) -> Any:
        *_, found = yield from self._together((post,) if watch is None else (watch, post))
        return found

    return swap(EtcdProtocol, "_watched", watched)


# The protocol of ZooKeeper.


def _multi(change: Any) -> list[Any]:
    """Have the multi of a write be another."""

    def act(step: Any) -> Any:
        if type(step) is Batch and type(step.parts[0]) is Multi:
            first: Any = step.parts[0]
            others = step.parts[1:]
            return (yield Batch((Multi(change(first.parts)), *others)))
        return (yield step)

    original: Any = ZooKeeperProtocol._exchange
    return swap(ZooKeeperProtocol, "_exchange", lambda self, put: driven(original(self, put), act))


def _of_receipt(part: Any) -> bool:
    return "/~" in part.path[len("/app/~") :]


def zookeeper_receipt_is_not_compared() -> list[Any]:
    def change(parts: Any) -> Any:
        return tuple(
            replace(part, version=-1) if type(part) is SetData and _of_receipt(part) else part
            for part in parts
        )

    return _multi(change)


def zookeeper_version_is_not_compared() -> list[Any]:
    def change(parts: Any) -> Any:
        return tuple(
            replace(part, version=-1) if type(part) is SetData and not _of_receipt(part) else part
            for part in parts
        )

    return _multi(change)


def zookeeper_refuses_what_it_does_not_know() -> list[Any]:
    """A version that this session has not seen is taken for another, though the read has found it."""
    return [mock.patch("recipes.stores.zookeeper.protocol_values._refuses", return_value=True)]


def zookeeper_receipt_outlasts_the_session() -> list[Any]:
    def change(parts: Any) -> Any:
        return tuple(replace(part, ephemeral=False) if type(part) is Create else part for part in parts)

    return _multi(change)


def zookeeper_deletes_by_empty_data() -> list[Any]:
    def change(parts: Any) -> Any:
        return tuple(
            replace(part, data=part.data or b"") if type(part) is SetData else part for part in parts
        )

    return _multi(change)


def zookeeper_reads_without_sync() -> list[Any]:
    """Of a server that lags."""

    def act(step: Any) -> Any:
        if type(step) is Batch and type(step.parts[0]) is Sync:
            return (None, *(yield Batch(step.parts[1:])))
        return (yield step)

    original: Any = ZooKeeperProtocol.read
    return swap(ZooKeeperProtocol, "read", lambda self, op, context: driven(original(self, op, context), act))


def zookeeper_watches_behind_the_read() -> list[Any]:
    """What comes in between is missed."""

    def act(step: Any) -> Any:
        if type(step) is Batch and len(step.parts) == 3 and type(step.parts[2]) is Get:
            found = yield Batch((step.parts[0], step.parts[2]))
            watching = yield step.parts[1]
            return found[0], watching, found[1]
        return (yield step)

    original: Any = ZooKeeperProtocol.read
    return swap(ZooKeeperProtocol, "read", lambda self, op, context: driven(original(self, op, context), act))


# Watching.


def reads_without_a_watch() -> list[Any]:
    return swap(observing, "Read", lambda key, watch: Read(key))


def observer_sees_what_it_saw_before() -> list[Any]:
    """What it is shown lags one change behind."""

    def look(observed: Any) -> Any:
        shown, due_s = yield from original(observed)
        before, behind[observed.queue] = behind.get(observed.queue, shown), shown
        return before, due_s

    behind: dict[str, Any] = {}
    original = observing._look
    return swap(observing, "_look", look)
