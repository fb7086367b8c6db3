"""Values of etcd, stepped by hand, and against a model of etcd to which late copies are delivered."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.operations import (
    Entry,
    Guard,
    Open,
    Read,
    Renew,
    Settle,
    Stored,
    Ticket,
    Write,
    Written,
)
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.requests import EtcdError, Post, Watch
from tests.alarms import alarm
from tests.simulation.etcd_model import EtcdServer
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, Asked, feed

LAYOUT = Layout("app")
KEY, VALUE = "~value/x", b"app/~value/x"
RECEIPT = b"~session/app/1f/~receipt/~value/x"
ID = "10000000-0000-4000-8000-000000000000"
GUARD = Entry(Ticket("x", "lock", ID), f"app/x/W-1f-{ID}", 30)
ANCHOR = b"~session/app/1f"
V, R, G, A = VALUE.decode(), RECEIPT.decode(), GUARD.ref, ANCHOR.decode()
DEAD = EtcdError(5, "etcdserver: requested lease not found")
DENIED = EtcdError(7, "etcdserver: permission denied")
CUT = StoreUnavailable("etcd://e", "cut")
FULL = StoreFull("etcd://e", "space exceeded")
TOO_LARGE = EtcdError(3, "etcdserver: request is too large")


@pytest.fixture
def etcd() -> EtcdProtocol:
    """One session, whose anchor was put at revision 3."""
    made = EtcdProtocol("etcd://e", LAYOUT, 0x1F)
    feed(made.open(Open(15), CONTEXT), {"TTL": 15}, written(3, "put"))
    return made


def written(revision: int, *ops: str) -> dict[str, Any]:
    """The reply to a transaction that was carried out, the receipt and the value if nothing else is said."""
    responses: list[Any] = [{f"response_{op}": {}} for op in ops or ("put", "put")]
    return {"header": {"revision": revision}, "succeeded": True, "responses": responses}


def at(key: bytes, modified: int, data: bytes = b"", created: int | None = None) -> dict[str, Any]:
    """The response to a read that found this."""
    return {"kvs": [codec.Kv(key, created or modified, data, 0, modified, 1)], "count": 1}


NOTHING: dict[str, Any] = {}
SETTLED = ([f"MOD {R} 0", f"MOD {A} 3"], [f"put {R}  under 31"], [f"range {R}", f"range {A}"])
"""What writes the receipt alone, where there was none."""


def refused(*found: dict[str, Any], revision: int = 50) -> dict[str, Any]:
    """The reply to a transaction whose comparison failed."""
    return ranged({"responses": [{"response_range": one} for one in found]}, revision)


def refused_first(*found: dict[str, Any]) -> dict[str, Any]:
    """The same of a transaction that compares the anchor too, which was put at revision 3."""
    return refused(*found, at(ANCHOR, 3))


def ranged(found: dict[str, Any], revision: int = 50) -> dict[str, Any]:
    """The reply to a read."""
    return {"header": {"revision": revision}, **found}


def write(etcd: EtcdProtocol, *replies: Any, again: bool = False, number: int = 1, **how: Any) -> Asked:
    asked = Write(KEY, how.pop("data", b"new"), number, **how)
    return feed(etcd.write(asked, AGAIN if again else CONTEXT), *replies)


def txn(request: Any) -> tuple[list[str], list[str], list[str]]:
    """A transaction in short: comparisons and operations, with keys, leases and receipts."""
    assert request.path == "/kv/txn"
    body = request.body
    return [_compare(c) for c in body["compare"]], _ops(body["success"]), _ops(body["failure"])


def _compare(c: Any) -> str:
    wanted = {"CREATE": "create_revision", "MOD": "mod_revision"}[c["target"]]
    above = {"EQUAL": "", "GREATER": ">"}[c["result"]]
    return f"{c['target']} {c['key'].decode()} {above}{c[wanted]}"


def _ops(ops: list[Any]) -> list[str]:
    found = []
    for entry in ops:
        ((kind, op),) = entry.items()
        said = f"{kind.split('_')[1]} {op['key'].decode()}"
        if kind == "request_put":
            said += f" {op['value'].decode()} under {op['lease']}"
        found.append(said)
    return found


# Read.


@pytest.mark.parametrize(
    ("found", "stored"),
    [
        (at(VALUE, 7, b"data"), Stored(b"data", 7)),
        (at(VALUE, 7), Stored(b"", 7)),
        (at(VALUE, 9, b"data", created=5), Stored(b"data", 9)),
        (NOTHING, Stored()),
    ],
    ids=["there", "empty", "written again", "absent"],
)
def test_a_value_is_read_with_one_request(etcd: EtcdProtocol, found: Any, stored: Stored) -> None:
    steps = feed(etcd.read(Read(KEY), CONTEXT), (ranged(found),))
    assert steps == [Batch((Post("/kv/range", codec.span(VALUE)),))]
    assert steps.result == stored


def test_a_watched_value_is_read_beside_its_watch(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.read(Read(KEY, watch=True), CONTEXT), (50, ranged(at(VALUE, 7, b"data"))))
    head = Post("/kv/range", codec.span(VALUE))
    assert steps == [Batch((Watch(VALUE, MAILBOX, changes=True, queue=KEY), head))]
    assert steps.result == Stored(b"data", 7)


def test_a_value_is_read_again_if_its_watch_began_later(etcd: EtcdProtocol) -> None:
    steps = feed(
        etcd.read(Read(KEY, watch=True), CONTEXT), (51, ranged(NOTHING)), ranged(at(VALUE, 51, b"late"), 51)
    )
    assert steps.result == Stored(b"late", 51)


@pytest.mark.parametrize(("error", "raised"), [(DENIED, StoreDenied), (CUT, StoreUnavailable)])
def test_a_read_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.read(Read(KEY), CONTEXT), (error,))


# Write.


def test_a_first_write_is_one_transaction_and_the_receipt_alone_has_a_lease(etcd: EtcdProtocol) -> None:
    steps = write(etcd, written(50))
    puts = [f"put {R} 1 under 31", f"put {V} new under 0"]
    (compare, then, otherwise), *more = map(txn, steps)
    assert (compare, then, more) == ([f"MOD {R} 0", f"MOD {A} 3"], puts, [])
    assert otherwise == [f"range {R}", f"range {A}"]
    assert steps.result == Written(done=True, stored=Stored(b"new", 50))


def test_a_later_write_compares_the_receipt_of_the_last(etcd: EtcdProtocol) -> None:
    write(etcd, written(50))
    (step,) = write(etcd, written(60), number=2)
    puts = [f"put {R} 2 under 31", f"put {V} new under 0"]
    assert txn(step) == ([f"MOD {R} 50"], puts, [f"range {R}"])


def test_a_delete_deletes_and_leaves_a_receipt(etcd: EtcdProtocol) -> None:
    steps = write(etcd, written(50, "put", "delete_range"), data=None)
    assert txn(steps[0])[1] == [f"put {R} 1 under 31", f"delete {V}"]
    assert steps.result == Written(done=True, stored=Stored())


@pytest.mark.parametrize("version", [0, 40])
def test_a_conditional_write_compares_the_version_and_reads_the_value_if_it_differs(
    etcd: EtcdProtocol, version: int
) -> None:
    steps = write(etcd, written(50), if_version=version)
    compare, _, otherwise = txn(steps[0])
    assert compare == [f"MOD {R} 0", f"MOD {V} {version}", f"MOD {A} 3"]
    assert otherwise == [f"range {R}", f"range {V}", f"range {A}"]


@pytest.mark.parametrize(
    ("found", "stored"), [(at(VALUE, 49, b"theirs"), Stored(b"theirs", 49)), (NOTHING, Stored())]
)
def test_a_lost_race_says_what_is_there_now(etcd: EtcdProtocol, found: Any, stored: Stored) -> None:
    steps = write(etcd, refused_first(NOTHING, found), if_version=40)
    assert steps.result == Written(done=False, stored=stored)
    write(etcd, written(60))
    steps = write(etcd, refused(at(RECEIPT, 60, b"1"), found, revision=61), if_version=40, number=2)
    assert steps.result == Written(done=False, stored=stored)


def test_a_guard_has_to_stand_as_it_was_created(etcd: EtcdProtocol) -> None:
    steps = write(etcd, written(50), if_version=40, guards=(Guard(GUARD), Guard(GUARD, unchanged=True)))
    compare, _, otherwise = txn(steps[0])
    assert compare == [f"MOD {R} 0", f"CREATE {G} 30", f"MOD {G} 30", f"MOD {V} 40", f"MOD {A} 3"]
    assert otherwise == [f"range {R}", f"range {G}", f"range {G}", f"range {V}", f"range {A}"]
    assert steps.result.done


@pytest.mark.parametrize(
    ("found", "unchanged", "guarded"),
    [
        (NOTHING, False, False),
        (at(GUARD.ref.encode(), 31), False, False),
        (at(GUARD.ref.encode(), 45, created=30), False, True),
        (at(GUARD.ref.encode(), 45, created=30), True, False),
        (at(GUARD.ref.encode(), 30), True, True),
    ],
    ids=["gone", "another", "rewritten", "rewritten, and must not be", "unchanged"],
)
def test_a_write_that_was_refused_says_whether_its_guard_stood(
    etcd: EtcdProtocol, found: Any, unchanged: bool, guarded: bool
) -> None:
    reply = refused_first(NOTHING, found, at(VALUE, 49, b"theirs"))
    steps = write(etcd, reply, if_version=40, guards=(Guard(GUARD, unchanged),))
    assert steps.result == Written(done=False, stored=Stored(b"theirs", 49), guarded=guarded)


def test_a_guard_that_is_gone_refuses_a_write_without_a_condition(etcd: EtcdProtocol) -> None:
    steps = write(etcd, refused_first(NOTHING, NOTHING), guards=(Guard(GUARD),))
    assert txn(steps[0])[2] == [f"range {R}", f"range {G}", f"range {A}"]
    assert steps.result == Written(done=False, guarded=False)


def test_a_write_that_finds_its_number_was_done(etcd: EtcdProtocol) -> None:
    steps = write(etcd, refused_first(at(RECEIPT, 44, b"1")), again=True)
    assert steps.result == Written(done=True)


def test_a_write_that_another_of_the_session_overtook_is_asked_with_the_new_receipt(
    etcd: EtcdProtocol,
) -> None:
    steps = write(etcd, refused_first(at(RECEIPT, 44, b"7")), written(50))
    assert [txn(step)[0] for step in steps] == [[f"MOD {R} 0", f"MOD {A} 3"], [f"MOD {R} 44"]]
    assert steps.result == Written(done=True, stored=Stored(b"new", 50))


def test_what_may_be_on_its_way_is_settled_before_a_write_is_said_not_to_be_done(etcd: EtcdProtocol) -> None:
    reply = refused_first(NOTHING, at(VALUE, 49))
    steps = write(etcd, reply, written(50, "put"), if_version=40, again=True)
    assert txn(steps[1]) == SETTLED
    assert steps.result == Written(done=False, stored=Stored(b"", 49))


def test_settling_writes_the_receipt_alone_and_compares_no_value_and_no_guard(etcd: EtcdProtocol) -> None:
    asked = Write(KEY, b"new", 1, if_version=40, guards=(Guard(GUARD),))
    steps = feed(etcd.settle(Settle(asked), CONTEXT), written(50, "put"))
    assert [txn(step) for step in steps] == [SETTLED]
    assert steps.result is False


def test_settling_finds_what_was_done(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.settle(Settle(Write(KEY, b"new", 1)), CONTEXT), refused_first(at(RECEIPT, 44, b"1")))
    assert steps.result is True


# How receipts go.


def test_the_oldest_receipts_go_a_hundred_at_a_time_if_they_are_as_they_were(
    etcd: EtcdProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The anchor is put again: a late copy of a first write compares the revision that it had."""
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 10)
    for number in range(110):
        (step,) = feed(etcd.write(Write(f"k{number}", b"", number), CONTEXT), written(50 + number))
    swept, step = write(etcd, written(170, "put", *["delete_range"] * 100), written(171))
    compare, then, otherwise = txn(swept)
    assert compare[0] == f"CREATE {A} >0"
    assert compare[1:] == [f"MOD ~session/app/1f/~receipt/k{n} {50 + n}" for n in range(100)]
    assert then == [f"put {A}  under 31", *(f"delete ~session/app/1f/~receipt/k{n}" for n in range(100))]
    assert otherwise == []
    assert txn(step)[0] == [f"MOD {R} 0", f"MOD {A} 170"]


@pytest.mark.parametrize("failed", [CUT, FULL, DENIED, refused()])
def test_receipts_that_cannot_go_are_in_nobodys_way(
    etcd: EtcdProtocol, monkeypatch: pytest.MonkeyPatch, failed: Any
) -> None:
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 0)
    for number in range(100):
        feed(etcd.write(Write(f"k{number}", b"", number), CONTEXT), written(50))
    _, step = write(etcd, failed, written(171))
    assert txn(step)[0] == [f"MOD {R} 0", f"MOD {A} 3"]


def test_a_first_write_that_finds_the_anchor_put_again_is_asked_again(etcd: EtcdProtocol) -> None:
    steps = write(etcd, refused(NOTHING, at(ANCHOR, 49)), written(50))
    assert [txn(step)[0] for step in steps] == [[f"MOD {R} 0", f"MOD {A} {n}"] for n in (3, 49)]
    assert steps.result.done


def test_what_another_thread_learns_of_the_anchor_meanwhile_ends_no_write(
    etcd: EtcdProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older refusal that it reads may bring back the revision that this one compared."""
    learn = etcd._learn

    def learn_and_forget(anchor: Any) -> None:
        known = etcd._anchored
        learn(anchor)
        etcd._anchored = known

    monkeypatch.setattr(etcd, "_learn", learn_and_forget)
    steps = write(etcd, refused(NOTHING, at(ANCHOR, 49)), written(50))
    assert steps.result.done, "it was refused for the anchor alone"


def test_a_first_write_without_an_anchor_is_a_lost_session(etcd: EtcdProtocol) -> None:
    with pytest.raises(SessionLost, match="anchor"):
        write(etcd, refused(NOTHING, NOTHING))


# What is refused, or not answered.


@pytest.mark.parametrize(
    ("error", "raised"),
    [(DEAD, SessionLost), (DENIED, StoreDenied), (TOO_LARGE, StoreRefused), (CUT, StoreUnavailable)],
)
def test_a_write_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised) as caught:
        write(etcd, error)
    assert type(caught.value) is raised


@pytest.mark.parametrize("code", [2, 10, 15])
def test_an_error_that_does_not_say_whether_it_was_done_is_no_answer(etcd: EtcdProtocol, code: int) -> None:
    error = EtcdError(code, "etcdserver: request cancelled")
    with pytest.raises(StoreUnavailable, match="request cancelled") as caught:
        write(etcd, error)
    assert caught.value.__cause__ is error
    assert not caught.value.unsent


def test_a_full_store_has_written_nothing_if_the_receipt_is_as_before(etcd: EtcdProtocol) -> None:
    write(etcd, written(50))
    asking = etcd.write(Write(KEY, b"new", 2), CONTEXT)
    assert txn(asking.send(None))[0] == [f"MOD {R} 50"]
    assert asking.throw(FULL) == Post("/kv/range", codec.span(RECEIPT))
    with pytest.raises(StoreFull) as caught:
        asking.send(ranged(at(RECEIPT, 50, b"1")))
    assert caught.value is FULL


def test_a_write_that_took_the_last_room_was_done_though_it_is_called_refused(etcd: EtcdProtocol) -> None:
    assert write(etcd, FULL, ranged(at(RECEIPT, 50, b"1"))).result == Written(done=True)


@pytest.mark.parametrize(
    "failed",
    [StoreUnavailable("etcd://e", "refused", unsent=True), DENIED, ranged(at(RECEIPT, 44, b""), revision=44)],
)
def test_a_write_that_may_have_taken_the_last_room_is_unknown_where_its_receipt_cannot_be_read(
    etcd: EtcdProtocol, failed: Any
) -> None:
    write(etcd, written(50))
    with pytest.raises(StoreUnavailable, match="space exceeded") as caught:
        write(etcd, FULL, failed, number=2)
    assert not caught.value.unsent


def test_what_a_signal_handler_raises_amid_that_read_stays_as_it_is(etcd: EtcdProtocol) -> None:
    asking = etcd.write(Write(KEY, b"new", 1), CONTEXT)
    asking.send(None)
    assert asking.throw(FULL) == Post("/kv/range", codec.span(RECEIPT))
    with pytest.raises(TimeoutError) as struck, alarm(TimeoutError, lambda: True):
        time.sleep(60)
    with pytest.raises(TimeoutError) as caught:
        asking.throw(struck.value)
    assert caught.value is struck.value


def test_a_version_that_etcd_cannot_count_to_is_compared_as_one_that_no_value_has(etcd: EtcdProtocol) -> None:
    steps = write(etcd, refused_first(NOTHING, at(VALUE, 40, b"old")), if_version=2**80)
    assert txn(steps[0])[0] == [f"MOD {R} 0", f"MOD {V} {2**63 - 1}", f"MOD {A} 3"]
    assert not steps.result.done


def test_a_full_store_is_full_for_a_write_that_another_overtook(etcd: EtcdProtocol) -> None:
    receipt = ranged(at(RECEIPT, 50, b"7"))
    with pytest.raises(StoreFull):
        write(etcd, FULL, receipt, FULL, receipt)


def test_what_was_done_is_said_by_a_store_that_has_gone_back_too(etcd: EtcdProtocol) -> None:
    """The answer says so; that the session is not to be trusted any more is for the renewal to say."""
    write(etcd, written(50))
    assert write(etcd, written(40), number=2).result == Written(done=True, stored=Stored(b"new", 40))
    with pytest.raises(SessionLost, match="gone back"):
        feed(etcd.renew(Renew((), 5.0), CONTEXT), {"result": {"TTL": 15}}, ranged({"succeeded": True}, 41))


def test_what_a_store_that_has_gone_back_refuses_was_not_done(etcd: EtcdProtocol) -> None:
    write(etcd, written(50))
    with pytest.raises(SessionLost, match="gone back"):
        write(etcd, refused(NOTHING, revision=40), number=2)


# Late copies, on a model of etcd.


class Way:
    """One session of a model, and copies of all that it has sent."""

    def __init__(self, server: EtcdServer, lease: int = 0x1F) -> None:
        self.server = server
        self.protocol = EtcdProtocol("model", LAYOUT, lease)
        self.sent: list[Post] = []
        self.do(self.protocol.open(Open(15), CONTEXT))
        self.sent.clear()

    def do(self, steps: Any, *, lost: bool = False) -> Any:
        """Carry out all of it; or the first request of it, whose reply is ``lost``."""
        reply: Any = None
        try:
            while True:
                request = steps.send(reply)
                if isinstance(request, Batch):
                    reply = tuple(self.server.handle(part.path, part.body) for part in request.parts)
                    continue
                self.sent.append(request)
                reply = self.server.handle(request.path, request.body)
                if lost:
                    steps.close()
                    return None
        except StopIteration as done:
            return done.value

    def read(self) -> Stored:
        stored: Stored = self.do(self.protocol.read(Read(KEY), CONTEXT))
        return stored

    def deliver(self, copy: Post) -> None:
        """Have a copy of a request arrive; nothing may come of it."""
        before = self.server.revision
        self.server.handle(copy.path, copy.body)
        assert self.server.revision == before


@pytest.fixture
def way() -> Way:
    return Way(EtcdServer())


@pytest.mark.parametrize("seed", range(20))
def test_every_write_counts_once_however_often_and_late_its_copies_arrive(way: Way, seed: int) -> None:
    chance = random.Random(seed)
    other = Way(way.server, 0x2E)
    for count in range(1, 60):
        one = chance.choice([way, other])
        stored = one.read()
        data = b"%d" % (int(stored.data or b"0") + 1)
        asked = Write(KEY, data, count, stored.version if chance.random() < 0.7 else None)
        again = chance.random() < 0.4
        if again:
            one.do(one.protocol.write(asked, CONTEXT), lost=True)
        result = one.do(one.protocol.write(asked, AGAIN if again else CONTEXT))
        assert result.done
        for copy in chance.sample(one.sent, min(3, len(one.sent))):
            one.deliver(copy)
        assert int(one.read().data or b"") == count
    for one in (way, other):
        for copy in one.sent:
            one.deliver(copy)


@pytest.mark.parametrize("seed", range(20))
def test_copies_do_nothing_where_receipts_have_gone(
    way: Way, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 1)
    monkeypatch.setattr("recipes.stores.etcd.protocol_values.SPENT", 3)
    chance, written, most = random.Random(seed), dict[str, bytes](), 0
    for count in range(80):
        key, data = f"~value/{chance.randrange(8)}", b"%d" % count
        asked = Write(key, data, count)
        again = chance.random() < 0.4
        if again:
            way.do(way.protocol.write(asked, CONTEXT), lost=True)
        assert way.do(way.protocol.write(asked, AGAIN if again else CONTEXT)).done
        written[key] = data
        most = max(most, sum(one.startswith(b"~session/app/1f/~receipt/") for one in way.server.keys))
        for copy in chance.sample(way.sent, min(5, len(way.sent))):
            way.deliver(copy)
    assert {key: way.do(way.protocol.read(Read(key), CONTEXT)).data for key in written} == written
    assert 3 < most < 8


def test_a_write_that_has_not_arrived_yet_never_lands_once_it_is_settled(way: Way) -> None:
    way.do(way.protocol.write(Write(KEY, b"one", 1), CONTEXT))
    asking = way.protocol.write(Write(KEY, b"two", 2), CONTEXT)
    late: Any = asking.send(None)
    asking.close()
    assert way.do(way.protocol.settle(Settle(Write(KEY, b"two", 2)), CONTEXT)) is False
    way.deliver(late)
    assert way.do(way.protocol.write(Write(KEY, b"three", 3), CONTEXT)).done
    way.deliver(late)
    assert way.read().data == b"three"


def test_settling_what_has_arrived_says_so(way: Way) -> None:
    asked = Write(KEY, b"one", 1)
    way.do(way.protocol.write(asked, CONTEXT), lost=True)
    assert way.do(way.protocol.settle(Settle(asked), CONTEXT)) is True
    assert way.read().data == b"one"


@pytest.mark.parametrize("data", [b"late", None], ids=["set", "delete"])
@pytest.mark.parametrize("written", [0, 1], ids=["first", "later"])
def test_no_write_lands_after_its_session(way: Way, data: bytes | None, written: int) -> None:
    """Not even a first one, which compares that there is no receipt."""
    Way(way.server, 0x2E)
    for number in range(written):
        way.do(way.protocol.write(Write(KEY, b"kept", number), CONTEXT))
    asking = way.protocol.write(Write(KEY, data, 7), CONTEXT)
    late: Any = asking.send(None)
    asking.close()
    way.server.revoke(0x1F)
    before = way.server.revision
    way.deliver(late)
    assert way.server.revision == before


def test_the_value_outlives_its_session_and_the_receipt_does_not(way: Way) -> None:
    way.do(way.protocol.write(Write(KEY, b"kept", 1), CONTEXT))
    assert set(way.server.keys) == {b"~session/app/1f", RECEIPT, VALUE}
    way.server.revoke(0x1F)
    assert set(way.server.keys) == {VALUE}


def test_versions_rise_over_a_delete(way: Way) -> None:
    versions = []
    for number, data in enumerate((b"a", None, b"b", b"c")):
        way.do(way.protocol.write(Write(KEY, data, number), CONTEXT))
        versions.append(way.read().version)
    assert versions[1] == 0
    assert 0 < versions[0] < versions[2] < versions[3]
    assert not way.do(way.protocol.write(Write(KEY, b"d", 9, if_version=versions[0]), CONTEXT)).done


def test_tombstones_that_are_swept_leave_the_receipts(way: Way) -> None:
    """A late copy of a first write would land else, as it compares that there is none."""
    way.do(way.protocol.write(Write(KEY, b"one", 1), CONTEXT))
    first, last = LAYOUT.tombstones("1f")
    way.server.handle("/kv/deleterange", codec.span(first, last))
    assert RECEIPT in way.server.keys
    for copy in way.sent:
        way.deliver(copy)
