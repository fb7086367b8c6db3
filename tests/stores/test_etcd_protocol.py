from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.contenders import Contender
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
    Ticket,
    Watch,
    Withdraw,
)
from recipes._contract.protocol import RequestContext
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Disturbed, Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.readwrite import SHARED
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.requests import EtcdError, Post
from recipes.stores.etcd.requests import Watch as WatchKey
from tests.rules.test_rules import permits
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, Asked, Box, feed

LEASE = 0x1F
ID, OTHER, THIRD = (f"{n}0000000-0000-4000-8000-000000000000" for n in "123")
TICKET = Ticket("x", "lock", ID)
KEY = f"app/x/W-1f-{ID}".encode()
TOMBSTONE = f"~session/app/1f/{ID}".encode()
ANCHOR = b"~session/app/1f"
MINE = Entry(TICKET, KEY.decode(), 50)
READS = Ticket("x", "R", ID, minds_marks=True)
READER = Entry(READS, f"app/x/R-1f-{ID}", 50)
DEAD = EtcdError(5, "etcdserver: requested lease not found")
DENIED = EtcdError(7, "etcdserver: permission denied")
CUT = StoreUnavailable("etcd://e", "cut")
FULL = StoreFull("etcd://e", "space exceeded")
TOO_MANY = EtcdError(3, "etcdserver: too many operations in txn request")
EVERY_ERROR = [(DEAD, SessionLost), (DENIED, StoreDenied), (TOO_MANY, StoreRefused), (CUT, StoreUnavailable)]


@pytest.fixture
def etcd() -> EtcdProtocol:
    """One session, whose anchor was put at revision 3."""
    made = EtcdProtocol("etcd://e", Layout("app"), LEASE)
    feed(made.open(Open(15), CONTEXT), {"TTL": 15}, put(revision=3))
    return made


def other(number: str = OTHER, kind: str = "W", lease: str = "2e") -> bytes:
    return f"app/x/{kind}-{lease}-{number}".encode()


def key_name(ticket: Ticket) -> str:
    return f"app/x/{'R' if ticket.kind == 'R' else 'W'}-1f-{ticket.id}"


def contender(key: bytes) -> Contender:
    return Layout("app").parse("x", codec.Kv(key, 30, b"", 46, 30, 1))


def found(*keys: tuple[bytes, int], count: int | None = None) -> dict[str, Any]:
    """The response to one read."""
    kvs = [codec.Kv(key, at, b"", 0, at, 1) for key, at in keys]
    return {"response_range": {"kvs": kvs, "count": len(keys) if count is None else count}}


def downgraded(response: dict[str, Any]) -> dict[str, Any]:
    """The response to one read of keys whose owners let readers in beside them."""
    range_ = response["response_range"]
    range_["kvs"] = [kv._replace(value=b'downgraded\n{"owner":"me"}', version=2) for kv in range_["kvs"]]
    return response


def ranged(response: dict[str, Any], revision: int = 50) -> dict[str, Any]:
    """The reply to a range call."""
    return {"header": {"revision": revision}, **response["response_range"]}


def seen(*keys: tuple[bytes, int], revision: int = 50, count: int | None = None) -> tuple[Any, ...]:
    """The reply to a look at the queue: one range, the own key in it."""
    return (ranged(found(*keys, count=count), revision),)


def looked(own: Any, *ahead: Any, revision: int = 50) -> tuple[Any, ...]:
    """The replies to a reader's look at the queue: who is ahead, then the own key, a little later."""
    return (*(ranged(part, revision) for part in ahead), ranged(own, revision + 3))


AS_EXPECTED = {"header": {"revision": 50}, "succeeded": True}


def answer(*responses: Any, revision: int = 50, succeeded: bool = False) -> dict[str, Any]:
    """The reply to a transaction; as the gateway has it, what is false is left out."""
    reply = {"header": {"revision": revision}, "responses": list(responses)}
    return {**reply, "succeeded": True} if succeeded else reply


def put(*responses: Any, revision: int = 50) -> dict[str, Any]:
    return answer({"response_put": {}}, *responses, revision=revision, succeeded=True)


def refused(own: Any, *others: Any, revision: int = 50, anchored: int = 3) -> dict[str, Any]:
    """The reply to a create that was not carried out."""
    return answer(own, found((ANCHOR, anchored)), *others, revision=revision)


def txn(request: Any) -> tuple[list[str], list[str], list[str]]:
    """A transaction in short: kinds of comparisons and operations, with keys."""
    assert isinstance(request, Post)
    assert request.path == "/kv/txn"
    body = request.body
    return [_compare(c) for c in body["compare"]], _ops(body["success"]), _ops(body["failure"])


def _compare(c: Any) -> str:
    sign = {"EQUAL": "", "GREATER": ">", "LESS": "<"}[c["result"]]
    wanted = {"CREATE": "create_revision", "MOD": "mod_revision", "VERSION": "version"}[c["target"]]
    return f"{c['target']} {_key(c)} {sign}{c[wanted]}"


def _ops(ops: list[Any]) -> list[str]:
    return [f"{kind.split('_')[1]} {_key(op)}" for entry in ops for kind, op in entry.items()]


def _key(op: Any) -> str:
    end = f"..{op['range_end'].decode()}" if "range_end" in op else ""
    return op["key"].decode() + end


K, T, A = KEY.decode(), TOMBSTONE.decode(), ANCHOR.decode()


DELETED = {"response_delete_range": {"deleted": 1}}
NOT_DELETED: dict[str, Any] = {"response_delete_range": {}}
GONE: dict[str, Any] = {"header": {"revision": 50}}
"""The reply to a delete that found nothing."""
BURIED = answer(NOT_DELETED, {"response_put": {}}, succeeded=True)
BURIES = ([f"CREATE {A} >0"], [f"delete {K}", f"put {T}"], [])
"""A withdrawal that leaves a tombstone, and what is answered."""


# The session.


@pytest.mark.parametrize(("ttl_s", "asked"), [(15, 15), (2.0, 2), (2.1, 3)])
def test_open_grants_the_lease_and_puts_the_anchor(etcd: EtcdProtocol, ttl_s: float, asked: Any) -> None:
    steps = feed(etcd.open(Open(ttl_s), CONTEXT), {"TTL": 15}, put())
    assert steps[0] == Post("/lease/grant", {"TTL": asked, "ID": 31})
    assert txn(steps[1]) == ([], ["put ~session/app/1f"], [])
    assert steps[1].body["success"][0]["request_put"]["lease"] == 31
    assert steps.result == Opened("1f", 15.0)
    assert etcd.session_id == "1f"


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_open_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.open(Open(15), CONTEXT), error)
    with pytest.raises(raised):
        feed(etcd.open(Open(15), CONTEXT), {"TTL": 15}, error)


@pytest.mark.parametrize("granted", [{}, {"TTL": 0}, {"TTL": -1}])
def test_a_lease_of_no_length_is_none(etcd: EtcdProtocol, granted: Any) -> None:
    """Something answers that is no etcd; a session of it would be lost at once, for ever."""
    with pytest.raises(StoreRefused, match="is this an etcd"):
        feed(etcd.open(Open(15), CONTEXT), granted)


def test_a_refusal_says_where_and_why(etcd: EtcdProtocol) -> None:
    with pytest.raises(StoreDenied, match="etcd://e denied access: etcdserver: permission denied") as raised:
        feed(etcd.open(Open(15), CONTEXT), DENIED)
    assert raised.value.__cause__ is DENIED


def test_renew_is_a_keepalive_and_a_linearizable_read(etcd: EtcdProtocol) -> None:
    steps = feed(
        etcd.renew(Renew((MINE,), 5.0), CONTEXT),
        {"result": {"TTL": 15}},
        AS_EXPECTED,
    )
    assert steps[0] == Post("/lease/keepalive", {"ID": 31})
    assert txn(steps[1]) == (
        ["CREATE ~session/app/1f >0", f"CREATE {K} 50"],
        [],  # a read that is made as well as named can make etcd 3.5.1 panic
        ["range ~session/app/1f", f"range {K}"],  # without one the majority is not asked
    )
    assert "serializable" not in str(steps[1].body)
    assert steps[0].urgent
    assert steps[1].urgent
    assert steps.result == Renewal(15.0, ())


def test_renew_without_grants_reads_the_anchor(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.renew(Renew((), 5.0), CONTEXT), {"result": {"TTL": 15}}, AS_EXPECTED)
    assert txn(steps[1])[2] == ["range ~session/app/1f"]


@pytest.mark.parametrize("kept", [{"result": {}}, {}, {"result": {"TTL": 0}}, {"result": {"TTL": -1}}])
def test_renew_of_a_dead_lease(etcd: EtcdProtocol, kept: Any) -> None:
    with pytest.raises(SessionLost, match="the lease has ended"):
        feed(etcd.renew(Renew((), 5.0), CONTEXT), kept)


def test_renew_without_the_anchor_is_no_renewal(etcd: EtcdProtocol) -> None:
    """Servers before 3.4.38 may answer a keepalive for a lease that was revoked."""
    with pytest.raises(SessionLost, match="anchor"):
        feed(
            etcd.renew(Renew((MINE,), 5.0), CONTEXT),
            {"result": {"TTL": 15}},
            answer(found(), found((KEY, 50))),
        )


@pytest.mark.parametrize("own", [found(), found((KEY, 51))], ids=["deleted", "made again"])
def test_renew_reports_what_is_missing(etcd: EtcdProtocol, own: Any) -> None:
    steps = feed(
        etcd.renew(Renew((MINE,), 5.0), CONTEXT), {"result": {"TTL": 15}}, answer(found((ANCHOR, 3)), own)
    )
    assert steps.result == Renewal(15.0, (MINE,))


def test_renew_reads_a_hundred_at_a_time(etcd: EtcdProtocol) -> None:
    entries = tuple(Entry(TICKET, f"app/x/{n}", n) for n in range(1, 206))
    steps = feed(etcd.renew(Renew(entries, 5.0), CONTEXT), {"result": {"TTL": 15}}, *[AS_EXPECTED] * 3)
    assert [len(step.body["compare"]) for step in steps[1:]] == [101, 101, 6]
    assert steps.result.missing == ()


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_renew_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.renew(Renew((), 5.0), CONTEXT), error)
    with pytest.raises(raised):
        feed(etcd.renew(Renew((), 5.0), CONTEXT), {"result": {"TTL": 15}}, error)


def test_end_revokes_the_lease(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.end(End(), CONTEXT), {})
    assert steps == [Post("/lease/revoke", {"ID": 31})]
    assert steps[0].urgent
    assert feed(etcd.end(End(), CONTEXT), DEAD).result is None, "it has ended already"
    with pytest.raises(StoreRefused):
        feed(etcd.end(End(), CONTEXT), DENIED)
    with pytest.raises(StoreUnavailable):
        feed(etcd.end(End(), CONTEXT), CUT)


# Enqueue.


def enqueue(
    etcd: EtcdProtocol, *replies: Any, context: Any = CONTEXT, rule: Rule = EXCLUSIVE, ticket: Ticket = TICKET
) -> Asked:
    return feed(etcd.enqueue(Enqueue(ticket, rule), context), *replies)


def test_enqueue_alone_is_one_round_trip(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, put(found((KEY, 50))))
    absent = [f"CREATE {K} 0", f"CREATE {T} 0", f"MOD {A} 3"]
    assert txn(steps[0]) == (absent, [f"put {K}", "range app/x/..app/x/~"], [f"range {K}", f"range {A}"])
    assert steps[0].body["success"][1]["request_range"]["limit"] == 16
    assert steps.result == Snapshot(MINE, (), complete=True, position=0, as_of=50, cheap=True)


def test_enqueue_sees_a_short_queue_at_once(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, put(found((KEY, 50), (other(), 40), (other(THIRD), 30))))
    assert steps.result.ahead == (contender(other()), contender(other(THIRD))), "nearest first"
    assert steps.result.position == 2
    assert steps.result.complete


def test_enqueue_shows_the_nearest_of_a_queue_that_it_sees(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, put(found((KEY, 50), (other(), 40), (other(THIRD), 30), (b"app/x/2e", 20))))
    assert steps.result.ahead == (contender(other()), contender(other(THIRD)))
    assert (steps.result.complete, steps.result.position) == (False, 3)


def test_enqueue_does_not_count_who_came_later(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, put(found((KEY, 50), (other(), 60))))
    assert (steps.result.ahead, steps.result.position) == ((), 0)


def test_enqueue_into_a_long_queue_reads_the_nearest(etcd: EtcdProtocol) -> None:
    some = found((other(), 10), (other(THIRD), 20), (KEY, 50), count=900)
    nearest = seen((KEY, 50), (other(THIRD), 49), (other(), 48), revision=55, count=900)
    steps = enqueue(etcd, put(some), nearest)
    body = codec.nearest(b"app/x/", b"app/x/~", before=51, limit=3)
    assert steps[1] == Batch((Post("/kv/range", body),)), "the own key in the same range"
    snapshot = steps.result
    assert snapshot.ahead == (contender(other(THIRD)), contender(other()))
    assert (snapshot.complete, snapshot.position, snapshot.as_of, snapshot.cheap) == (False, 899, 55, False)


@pytest.mark.parametrize(("count", "cheap"), [(17, True), (100, True), (101, False)])
def test_a_long_queue_is_dear_to_look_at(etcd: EtcdProtocol, count: int, cheap: Any) -> None:
    nearest = seen((KEY, 50), (other(THIRD), 49), (other(), 48), revision=55, count=count)
    assert enqueue(etcd, put(found(count=count)), nearest).result.cheap is cheap


def test_enqueue_as_a_reader_sees_writers(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, put(found((other(THIRD), 30)), found()), rule=SHARED, ticket=READS)
    compare, then, _ = txn(steps[0])
    assert compare[0] == f"CREATE app/x/R-1f-{ID} 0"
    assert then[1:] == ["range app/x/..app/x/R-", "range app/x/R...app/x/~"], "around the readers"
    assert steps.result.ahead == (contender(other(THIRD)),)
    assert steps.result.position == 1


def test_enqueue_as_a_reader_behind_many_writers_reads_the_nearest(etcd: EtcdProtocol) -> None:
    ticket = READS
    some = found((other(), 10), (other(THIRD), 20), count=7)
    look = (ranged(found((other(), 49), (other(THIRD), 48)), 55), ranged(found(), 56))
    steps = enqueue(etcd, put(some, found()), look, rule=SHARED, ticket=ticket)
    assert steps.result.ahead == (contender(other()), contender(other(THIRD)))
    assert (steps.result.complete, steps.result.position) == (False, 7)


def test_enqueue_as_a_reader_before_many_writers_reads_the_own_key_too(etcd: EtcdProtocol) -> None:
    """It would be granted; so the look has to be one that proves it."""
    ticket = READS
    none = (ranged(found(), 55), ranged(found(), 55))
    own = ranged(found((f"app/x/R-1f-{ID}".encode(), 50)), 56)
    steps = enqueue(etcd, put(found(count=17), found()), none, (*none, own), rule=SHARED, ticket=ticket)
    assert (steps.result.ahead, steps.result.position) == ((), 17)


def test_enqueue_as_a_reader_sees_that_a_writer_downgraded(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, put(downgraded(found((other(), 30))), found()), rule=SHARED, ticket=READS)
    (writer,) = steps.result.ahead
    assert writer.downgraded
    assert SHARED.blockers(steps.result.ahead) == ()
    assert EXCLUSIVE.blockers(steps.result.ahead) == (writer,)


def test_enqueue_behind_foreign_keys(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, put(found((KEY, 50), (b"app/x/694d8c", 40), (b"app/x/\xff", 45))))
    assert [c.ref for c in steps.result.ahead] == ["app/x/\udcff", "app/x/694d8c"]
    assert all(c.kind == "W" and not c.id for c in steps.result.ahead)


def test_enqueue_again_finds_the_own_key(etcd: EtcdProtocol) -> None:
    steps = enqueue(
        etcd,
        refused(found((KEY, 47)), revision=60),
        seen((KEY, 47), (other(), 40), revision=61),
        context=AGAIN,
    )
    entry = Entry(TICKET, K, 47)
    assert steps.result == Snapshot(
        entry, (contender(other()),), complete=True, position=1, as_of=61, cheap=True
    )
    assert steps[1].parts[0].body["max_create_revision"] == 47


def test_enqueue_again_finds_it_and_then_not_any_more(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, refused(found((KEY, 47))), seen(), context=AGAIN)
    assert steps.result.mine is None


def test_enqueue_of_a_withdrawn_attempt(etcd: EtcdProtocol) -> None:
    with pytest.raises(SessionLost, match="withdrawn"):
        enqueue(etcd, refused(found()), context=AGAIN)


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_enqueue_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        enqueue(etcd, error)


# Probe.


def probe(
    etcd: EtcdProtocol, *replies: Any, context: Any = CONTEXT, rule: Rule = EXCLUSIVE, ticket: Ticket = TICKET
) -> Asked:
    return feed(etcd.probe(Probe(ticket, rule), context), *replies)


def test_probe_takes_what_is_free_in_one_round_trip(etcd: EtcdProtocol) -> None:
    steps = probe(etcd, put(revision=50))
    assert txn(steps[0]) == (
        ["CREATE app/x/..app/x/~ 0", f"CREATE {K} 0", f"CREATE {T} 0", f"MOD {A} 3"],
        [f"put {K}"],
        [f"range {K}", f"range {A}"],
    )
    assert steps.result == Snapshot(MINE, (), complete=True, position=0, as_of=50)


def test_probe_writes_nothing_when_it_is_held(etcd: EtcdProtocol) -> None:
    steps = probe(etcd, refused(found()))
    assert (len(steps), steps.result) == (1, None)


def test_probe_as_a_reader_compares_around_the_readers(etcd: EtcdProtocol) -> None:
    steps = probe(etcd, put(), rule=SHARED, ticket=READS)
    compare = txn(steps[0])[0]
    assert compare[:2] == ["CREATE app/x/..app/x/R- 0", "CREATE app/x/R...app/x/~ 0"]
    assert txn(steps[0])[2][2:] == ["range app/x/..app/x/R-", "range app/x/R...app/x/~"]


def test_probe_as_a_reader_joins_a_writer_that_downgraded(etcd: EtcdProtocol) -> None:
    writer = downgraded(found((other(), 30)))
    ticket, own = READS, f"app/x/R-1f-{ID}"
    steps = probe(etcd, refused(found(), writer, found()), put(writer, found()), rule=SHARED, ticket=ticket)
    assert steps.result.mine == Entry(ticket, own, 50)
    assert SHARED.blockers(steps.result.ahead) == ()


@pytest.mark.parametrize("writers", [[(OTHER, 30)], [(OTHER, 30), (THIRD, 40)]])
def test_probe_as_a_reader_behind_a_writer_that_did_not(etcd: EtcdProtocol, writers: Any) -> None:
    there = found(*((other(number), at) for number, at in writers))
    steps = probe(etcd, refused(found(), there, found()), rule=SHARED, ticket=READS)
    assert (len(steps), steps.result) == (1, None)


def test_probe_again_finds_the_own_key(etcd: EtcdProtocol) -> None:
    look = seen((KEY, 47), revision=61)
    steps = probe(etcd, refused(found((KEY, 47))), look, context=AGAIN)
    assert steps.result == Snapshot(Entry(TICKET, K, 47), (), complete=True, position=0, as_of=61, cheap=True)


@pytest.mark.parametrize(
    ("rule", "ticket", "others", "ahead"),
    [
        (EXCLUSIVE, TICKET, (), ()),
        (SHARED, READS, (found((other(), 30)), found()), (contender(other()),)),
    ],
    ids=["lock", "reader"],
)
def test_probe_again_without_an_own_key_has_the_program_withdraw(
    etcd: EtcdProtocol, rule: Rule, ticket: Ticket, others: Any, ahead: Any
) -> None:
    """Held now, and the first try may land yet. A bury sent here could land on the next try's grant."""
    with pytest.raises(StoreUnavailable):
        probe(etcd, CUT, rule=rule, ticket=ticket)
    for _ in range(2):
        steps = probe(etcd, refused(found(), *others), context=AGAIN, rule=rule, ticket=ticket)
        assert [txn(step)[1] for step in steps] == [[f"put {key_name(ticket)}"]]
        assert steps.result == Snapshot(None, ahead, complete=True, position=len(ahead))
    buried = feed(etcd.withdraw(Withdraw(ticket), CONTEXT), BURIED)
    assert txn(buried[0])[1] == [f"delete {key_name(ticket)}", f"put {T}"]
    assert probe(etcd, refused(found(), *others), context=AGAIN, rule=rule, ticket=ticket).result is None


def test_probe_again_of_what_was_never_asked_leaves_no_tombstone(etcd: EtcdProtocol) -> None:
    assert probe(etcd, refused(found()), context=AGAIN).result is None


def test_probe_deep_counts_first(etcd: EtcdProtocol) -> None:
    two = permits(2)
    steps = probe(etcd, (ranged(found((other(), 40))),), put(found((KEY, 50), (other(), 40))), rule=two)
    body = codec.nearest(b"app/x/", b"app/x/~", before=None, limit=3)
    assert steps[0] == Batch((Post("/kv/range", body),))
    assert steps.result.ahead == (contender(other()),)
    steps = probe(etcd, (ranged(found((other(), 40), (other(THIRD), 30))),), rule=two)
    assert (len(steps), steps.result) == (1, None)


def test_probe_deep_again_joins_whatever_it_sees(etcd: EtcdProtocol) -> None:
    there = (ranged(found((other(), 40), (other(THIRD), 30))),)
    steps = probe(etcd, there, refused(found((KEY, 20))), seen((KEY, 20)), rule=permits(2), context=AGAIN)
    assert steps.result.mine == Entry(TICKET, K, 20)


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_probe_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        probe(etcd, error)
    with pytest.raises(raised):
        probe(etcd, (error,), rule=permits(2))


# Watch, look, check.

TARGETS = (contender(other()), contender(b"app/x/\xff"))


def watches() -> tuple[WatchKey, ...]:
    return (WatchKey(other(), MAILBOX), WatchKey(b"app/x/\xff", MAILBOX))


def test_watch_that_began_in_time_needs_no_reading(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.watch(Watch(MINE, TARGETS, as_of=55), CONTEXT), (54, 55))
    assert steps == [Batch(watches())]
    assert steps.result is True


def test_watch_that_began_later_compares_the_targets(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.watch(Watch(MINE, TARGETS[:1], as_of=55), CONTEXT), (56,), AS_EXPECTED)
    key = other().decode()
    assert txn(steps[1]) == ([f"CREATE {key} >0", f"CREATE {key} <50"], [], [f"range {key}"])
    assert steps.result is True
    steps = feed(etcd.watch(Watch(READER, TARGETS[:1], as_of=55), CONTEXT), (56,), AS_EXPECTED)
    assert txn(steps[1])[0][2:] == [f"VERSION {key} 1"]


@pytest.mark.parametrize(("since", "second"), [(56, 1), (57, 0)], ids=["perhaps", "surely not"])
def test_what_may_have_begun_in_the_past_is_watched_a_second_time(
    etcd: EtcdProtocol, since: int, second: int
) -> None:
    """As a watch does if a write comes in while etcd begins it; not if nothing was written until the look."""
    targets, compared = TARGETS[:1], {**AS_EXPECTED, "header": {"revision": 57}}
    armed, again = Batch(watches()[:1]), Batch((replace(watches()[0], again=True),))
    more = ((58,),) * second
    steps = feed(etcd.watch(Watch(MINE, targets, as_of=55), CONTEXT), (since,), compared, *more)
    assert (steps[0], steps[2:]) == (armed, [again] * second)
    assert steps.result is True
    steps = feed(etcd.check(Check(MINE, targets), CONTEXT), (since,), compared, *more)
    assert (steps[0], steps[2:]) == (armed, [again] * second)
    assert steps.result == Checked(True, frozenset({targets[0].ref}))


def test_a_second_watch_that_fails_leaves_what_the_first_one_is_enough_for(etcd: EtcdProtocol) -> None:
    compared = {**AS_EXPECTED, "header": {"revision": 57}}
    broken = (StoreUnavailable("h:1", "the stream broke"),)
    assert (
        feed(etcd.watch(Watch(MINE, TARGETS[:1], as_of=55), CONTEXT), (56,), compared, broken).result is True
    )


def test_what_has_gone_is_not_watched_a_second_time(etcd: EtcdProtocol) -> None:
    compared = {**AS_EXPECTED, "header": {"revision": 57}}
    assert len(feed(etcd.check(Check(MINE, TARGETS[:1], Gone("x")), CONTEXT), compared)) == 1
    gone = answer(found((KEY, 50)), found(), revision=57)
    assert len(feed(etcd.check(Check(MINE, TARGETS[:1]), CONTEXT), (56,), gone)) == 2
    gone = answer(found(), revision=57)
    assert len(feed(etcd.watch(Watch(MINE, TARGETS[:1], as_of=55), CONTEXT), (56,), gone)) == 2


def test_a_look_arms_a_second_time_only_what_is_there(etcd: EtcdProtocol) -> None:
    look, reply = Look(MINE, EXCLUSIVE, TARGETS), seen((KEY, 50), (other(), 40), revision=60)
    steps = feed(etcd.look(look, CONTEXT), (58, 59, *reply), (61,))
    assert steps[1] == Batch((replace(watches()[0], again=True),))
    early, later = seen((KEY, 50), (other(), 40), revision=60), seen((KEY, 50), (other(), 40), revision=63)
    steps = feed(etcd.look(look, CONTEXT), (59, 61, *early), later, (64,))
    assert steps[2] == Batch((replace(watches()[0], again=True),))


@pytest.mark.parametrize(
    ("second", "there"),
    [(found((b"app/x/\xff", 30)), True), (found(), False), (found((b"app/x/\xff", 58)), False)],
    ids=["there", "gone", "made again behind me"],
)
def test_watch_reads_targets_that_are_not_as_expected(etcd: EtcdProtocol, second: Any, there: Any) -> None:
    reply = answer(found((other(), 40)), second)
    steps = feed(etcd.watch(Watch(MINE, TARGETS, as_of=55), CONTEXT), (54, 56), reply)
    assert len(steps) == 2
    assert steps.result is there


def compared_if(error: Any) -> list[Any]:
    """The reply to the comparison that follows where something could not be watched: all is as it was."""
    return [AS_EXPECTED] if error is CUT else []


def test_who_cannot_watch_compares_all_the_same(etcd: EtcdProtocol) -> None:
    """Else one that has become the first would never know, while a watch cannot be made."""
    watch = Watch(MINE, TARGETS, as_of=55)
    steps = feed(etcd.watch(watch, CONTEXT), (54, CUT), answer(found((other(), 40)), found()))
    assert steps.result is False, "and the program looks"
    as_seen = answer(found((other(), 40)), found((b"app/x/\xff", 30)))
    with pytest.raises(StoreUnavailable):
        feed(etcd.watch(watch, CONTEXT), (54, CUT), as_seen)
    with pytest.raises(StoreUnavailable):
        feed(etcd.watch(watch, CONTEXT), CUT)
    with pytest.raises(Expired) as late:
        feed(etcd.watch(watch, CONTEXT), (54, CUT), Expired())
    assert late.value.__cause__ is CUT, "what is known of the store as the time is over"
    with pytest.raises(Expired) as late:
        feed(etcd.watch(watch, CONTEXT), (54, 99), Expired())
    assert late.value.__cause__ is None


def test_who_cannot_watch_as_it_checks_says_what_is_not_as_it_was(etcd: EtcdProtocol) -> None:
    check = Check(MINE, TARGETS[:1])
    here, gone = found((KEY, 50)), found()
    assert feed(etcd.check(check, CONTEXT), (CUT,), answer(here, gone)).result == Checked(True, frozenset())
    there = frozenset({other().decode()})
    assert feed(etcd.check(check, CONTEXT), (CUT,), answer(gone, found((other(), 40)))).result == Checked(
        False, there
    )
    for as_it_was in (AS_EXPECTED, answer(here, found((other(), 40)))):
        with pytest.raises(StoreUnavailable):
            feed(etcd.check(check, CONTEXT), (CUT,), as_it_was)


@pytest.mark.parametrize("own", [(), ((KEY, 50),)], ids=["gone", "alone"])
def test_who_cannot_watch_as_it_looks_sees_that_nobody_is_ahead(etcd: EtcdProtocol, own: Any) -> None:
    look = Look(MINE, EXCLUSIVE, TARGETS)
    steps = feed(etcd.look(look, CONTEXT), (59, CUT, *seen(*own, revision=61)))
    assert (steps.result.mine, steps.result.ahead) == (MINE if own else None, ())
    with pytest.raises(StoreUnavailable):
        feed(etcd.look(look, CONTEXT), (59, CUT, *seen((KEY, 50), (other(), 40), revision=61)))
    with pytest.raises(StoreUnavailable):
        feed(etcd.look(look, CONTEXT), CUT)


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_watch_fails_in_part(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.watch(Watch(MINE, TARGETS, as_of=55), CONTEXT), (54, error), *compared_if(error))
    with pytest.raises(raised):
        feed(etcd.watch(Watch(MINE, TARGETS, as_of=55), CONTEXT), (54, 99), error)


def test_look_arms_and_reads_side_by_side(etcd: EtcdProtocol) -> None:
    reply = seen((KEY, 50), (other(), 40), revision=60)
    steps = feed(etcd.look(Look(MINE, EXCLUSIVE, TARGETS), CONTEXT), (59, 60, *reply))
    look = Post("/kv/range", codec.nearest(b"app/x/", b"app/x/~", before=51, limit=3))
    assert steps[0] == Batch((*watches(), look)), "the own key in the same range"
    ahead = (contender(other()),)
    assert steps.result == Snapshot(MINE, ahead, complete=True, position=1, as_of=60, cheap=True)


def test_look_reads_again_if_a_watch_began_after_the_read(etcd: EtcdProtocol) -> None:
    early = seen((KEY, 50), (other(), 40), revision=60)
    later = seen((KEY, 50), revision=63)
    steps = feed(etcd.look(Look(MINE, EXCLUSIVE, TARGETS), CONTEXT), (59, 61, *early), later)
    assert steps.result == Snapshot(MINE, (), complete=True, position=0, as_of=63, cheap=True)


def test_look_shows_no_more_than_so_many(etcd: EtcdProtocol) -> None:
    reply = seen((KEY, 50), (other(), 40), (other(THIRD), 30), count=7)
    snapshot = feed(etcd.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), reply).result
    assert snapshot.ahead == (contender(other()), contender(other(THIRD)))
    assert not snapshot.complete


def test_a_readers_look_reads_the_own_key_again_if_that_was_read_first(etcd: EtcdProtocol) -> None:
    """Calls sent together may be carried out in any order; only what stands later stood all the while."""
    none, own = ranged(found(), 60), found((READER.ref.encode(), 50))
    look = Look(READER, SHARED, ())
    steps = feed(etcd.look(look, CONTEXT), (none, none, ranged(own, 59)), ranged(own, 61))
    assert steps[1] == Post("/kv/range", codec.span(READER.ref.encode()))
    assert steps.result.mine == READER
    assert not steps.result.cheap, "it takes three calls"
    none, late = ranged(found(), 65), ranged(found(), 66)
    assert feed(etcd.look(look, CONTEXT), (none, none, ranged(own, 64)), late).result.mine is None


def test_a_view_is_as_old_as_its_oldest_part(etcd: EtcdProtocol) -> None:
    own = found((READER.ref.encode(), 50))
    replies = (ranged(found(), 62), ranged(found((other(), 40)), 60), ranged(own, 62))
    assert feed(etcd.look(Look(READER, SHARED, ()), CONTEXT), replies).result.as_of == 60


@pytest.mark.parametrize("at", [50, 54, 55])
def test_a_readers_look_reads_the_own_key_after_all_that_is_ahead(etcd: EtcdProtocol, at: int) -> None:
    """Else it may have gone in between, and with it a blocker that went later: two may be granted."""
    mine = READER.ref.encode()
    low, high = ranged(found(), 50), ranged(found(), 55)
    looked_at = (low, high, ranged(found((mine, 50)), at))
    gone = () if at == 55 else (ranged(found(), 56),)
    steps = feed(etcd.look(Look(READER, SHARED, ()), CONTEXT), looked_at, *gone)
    assert (steps.result.mine is None) == (at < 55)
    assert len(steps) == (1 if at == 55 else 2)


def test_look_without_targets(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), seen((KEY, 50)))
    assert len(steps[0].parts) == 1
    assert steps.result.ahead == ()


@pytest.mark.parametrize("own", [(), ((KEY, 77),)], ids=["deleted", "made again"])
def test_look_without_the_own_key(etcd: EtcdProtocol, own: Any) -> None:
    steps = feed(etcd.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), seen(*own))
    assert steps.result.mine is None


def test_look_as_a_reader_takes_the_nearest_of_both_ranges(etcd: EtcdProtocol) -> None:
    ticket = READS
    mine = Entry(ticket, f"app/x/R-1f-{ID}", 50)
    low = found((b"app/x/1", 10), (b"app/x/2", 9))
    high = found((b"app/x/W3", 30))
    own = found((mine.ref.encode(), 50))
    steps = feed(etcd.look(Look(mine, SHARED, ()), CONTEXT), looked(own, low, high))
    assert [c.ref for c in steps.result.ahead] == ["app/x/W3", "app/x/1"], (
        "only so many are known to be nearest"
    )
    assert not steps.result.complete


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_look_fails_in_part(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.look(Look(MINE, EXCLUSIVE, TARGETS), CONTEXT), (59, error, error))
    reply = seen((KEY, 50), revision=60)
    with pytest.raises(raised):
        feed(etcd.look(Look(MINE, EXCLUSIVE, TARGETS), CONTEXT), (59, 64, *reply), (error,))


def test_check_with_evidence_compares_at_one_revision(etcd: EtcdProtocol) -> None:
    key = other().decode()
    steps = feed(etcd.check(Check(MINE, TARGETS[:1], Gone("x")), CONTEXT), AS_EXPECTED)
    assert txn(steps[0]) == ([f"CREATE {K} 50", f"CREATE {key} 0"], [], [f"range {K}", f"range {key}"])
    assert steps.result == Checked(True, frozenset())
    late = answer(found((KEY, 50)), found((other(), 40)))
    steps = feed(etcd.check(Check(MINE, TARGETS[:1], Gone("x")), CONTEXT), late)
    assert steps.result == Checked(True, frozenset({key})), "an event that was wrong"


def test_check_without_evidence_expects_all_as_it_was(etcd: EtcdProtocol) -> None:
    key = other().decode()
    steps = feed(etcd.check(Check(MINE, TARGETS[:1]), CONTEXT), (50,), AS_EXPECTED)
    assert txn(steps[1])[0] == [f"CREATE {K} 50", f"CREATE {key} >0", f"CREATE {key} <50"]
    assert steps.result == Checked(True, frozenset({key}))


def test_check_without_evidence_arms_again(etcd: EtcdProtocol) -> None:
    reply = answer(found((KEY, 50)), found((other(), 40)), found((b"app/x/\xff", 51)))
    steps = feed(etcd.check(Check(MINE, TARGETS), CONTEXT), (1, 1), reply)
    assert steps[0] == Batch(watches())
    assert steps.result == Checked(True, frozenset({other().decode()})), "one made again blocks nobody"


def test_check_of_the_own_key_alone(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.check(Check(MINE), CONTEXT), answer(found((KEY, 49))))
    assert steps.result == Checked(False, frozenset())


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_check_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.check(Check(MINE, (), Gone("x")), CONTEXT), error)


# Withdraw.


def unanswered(etcd: EtcdProtocol, how: str = "enqueue", ticket: Ticket = TICKET) -> None:
    """Ask for a create, and get no answer."""
    asked = enqueue if how == "enqueue" else probe
    rule, seen_before = (permits(2), [(ranged(found()),)]) if how == "probe deep" else (EXCLUSIVE, [])
    with pytest.raises(StoreUnavailable):
        asked(etcd, *seen_before, CUT, rule=rule, ticket=ticket)


def bury(etcd: EtcdProtocol, ticket: Ticket, *replies: Any) -> Asked:
    """Withdraw what was asked for, and not answered."""
    unanswered(etcd, ticket=ticket)
    return feed(etcd.withdraw(Withdraw(ticket), CONTEXT), *(replies or (BURIED,)))


HOW = ["enqueue", "probe", "probe deep"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("response", "removed"), [(DELETED, True), (NOT_DELETED, False)])
def test_withdraw_of_what_may_still_land_leaves_a_tombstone(
    etcd: EtcdProtocol, how: str, response: Any, removed: Any
) -> None:
    unanswered(etcd, how)
    steps = feed(
        etcd.withdraw(Withdraw(TICKET), CONTEXT), answer(response, {"response_put": {}}, succeeded=True)
    )
    assert txn(steps[0]) == BURIES
    assert steps[0].body["success"][1]["request_put"]["lease"] == 31, "gone with the session"
    assert steps.result is removed


@pytest.mark.parametrize("how", HOW)
def test_a_call_that_leaves_while_its_create_is_under_way_leaves_a_tombstone(
    etcd: EtcdProtocol, how: str
) -> None:
    if how == "enqueue":
        asking: Any = etcd.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT)
    else:
        asking = etcd.probe(Probe(TICKET, permits(2) if how == "probe deep" else EXCLUSIVE), CONTEXT)
    asking.send(None)
    if how == "probe deep":
        asking.send((ranged(found()),))
    asking.close()
    assert txn(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)[0]) == BURIES


@pytest.mark.parametrize("how", HOW)
def test_what_was_asked_twice_is_withdrawn_with_a_tombstone(etcd: EtcdProtocol, how: str) -> None:
    """Granted by the second try; the first may land after the release, and nobody would own it."""
    unanswered(etcd, how)
    if how == "enqueue":
        enqueue(etcd, put(found((KEY, 50))), context=AGAIN)
    elif how == "probe":
        probe(etcd, put(), context=AGAIN)
    else:
        probe(etcd, (ranged(found()),), put(found((KEY, 50))), context=AGAIN, rule=permits(2))
    with pytest.raises(StoreUnavailable):
        feed(etcd.withdraw(Withdraw(TICKET, MINE), CONTEXT), CUT)
    steps = feed(
        etcd.withdraw(Withdraw(TICKET, MINE), AGAIN), answer(DELETED, {"response_put": {}}, succeeded=True)
    )
    assert txn(steps[0]) == BURIES
    assert steps.result is True
    steps = feed(etcd.withdraw(Withdraw(TICKET, MINE), CONTEXT), GONE)
    assert steps == [Post("/kv/deleterange", codec.span(KEY))], "and it is settled"


@pytest.mark.parametrize("entry", [MINE, None], ids=["granted", "interrupted behind the create"])
def test_withdraw_of_what_was_answered_leaves_nothing(etcd: EtcdProtocol, entry: Entry | None) -> None:
    enqueue(etcd, put(found((KEY, 50))))
    steps = feed(etcd.withdraw(Withdraw(TICKET, entry), CONTEXT), {**GONE, "deleted": 1})
    assert steps == [Post("/kv/deleterange", codec.span(KEY))]
    assert steps.result is True
    assert feed(etcd.withdraw(Withdraw(TICKET, entry), CONTEXT), GONE).result is False
    assert feed(etcd.withdraw(Withdraw(TICKET, entry), AGAIN), GONE).result is True, "it was I who deleted it"


@pytest.mark.parametrize("error", [StoreRefused("etcd://e", "what?"), DEAD, KeyboardInterrupt()])
def test_an_error_that_nobody_knows_is_no_answer(etcd: EtcdProtocol, error: Any) -> None:
    """A proxy may say anything, and pass the request on all the same."""
    with pytest.raises((StoreRefused, SessionLost, KeyboardInterrupt)):
        enqueue(etcd, error)
    assert txn(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)[0]) == BURIES


# Tombstones, and the anchor.


def test_tombstones_stay_for_the_session_and_are_swept_when_they_are_many(etcd: EtcdProtocol) -> None:
    for number in range(100):
        assert txn(bury(etcd, Ticket("x", "lock", f"old-{number}"))[0])[1][1].startswith(
            "put ~session/app/1f/"
        )
        feed(etcd.renew(Renew((), 5.0), CONTEXT), {"result": {"TTL": 2}}, AS_EXPECTED)  # no time ends them
    swept = answer(DELETED, {"response_put": {}}, {"response_delete_range": {"deleted": 100}})
    steps = bury(etcd, TICKET, {**swept, "header": {"revision": 70}, "succeeded": True})
    all_of_them = "delete ~session/app/1f/..~session/app/1f/~"
    assert txn(steps[0]) == ([f"CREATE {A} >0"], [f"delete {K}", f"put {A}", all_of_them], [])
    assert steps[0].body["success"][1]["request_put"]["lease"] == 31
    assert steps.result is True
    assert txn(enqueue(etcd, put(found((KEY, 75)), revision=75))[0])[0][-1] == f"MOD {A} 70"
    again = answer(NOT_DELETED, {"response_put": {}}, revision=80, succeeded=True)
    assert txn(bury(etcd, TICKET, again)[0]) == BURIES, "anew"


@pytest.mark.parametrize("how", ["enqueue", "probe"])
def test_a_create_that_a_sweep_refuses_is_asked_again(etcd: EtcdProtocol, how: str) -> None:
    asked = enqueue if how == "enqueue" else probe
    done = put(found((KEY, 81))) if how == "enqueue" else put()
    steps = asked(etcd, refused(found(), anchored=70), refused(found(), anchored=80), done)
    assert [txn(step)[0][-1] for step in steps] == [f"MOD {A} {at}" for at in (3, 70, 80)]
    assert steps.result.mine == MINE
    assert feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), GONE) == [Post("/kv/deleterange", codec.span(KEY))]


def test_a_create_that_has_landed_is_found_behind_a_sweep_too(etcd: EtcdProtocol) -> None:
    steps = enqueue(etcd, refused(found((KEY, 47)), anchored=70), seen((KEY, 47)), context=AGAIN)
    assert steps.result.mine == Entry(TICKET, K, 47)
    assert txn(probe(etcd, put())[0])[0][-1] == f"MOD {A} 70"


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"header": {"revision": 50}},
        answer(found(), found((ANCHOR, 3)), revision=0),
        answer(found()),
        answer(found(), {"response_put": {}}),
        put(found((KEY, 50)), revision=0),
        put(),
        put({}),
    ],
)
def test_a_reply_that_is_not_whole_is_none(etcd: EtcdProtocol, reply: Any) -> None:
    """Else a queue of which nothing was said would be empty."""
    with pytest.raises(StoreUnavailable, match="no whole reply of etcd"):
        enqueue(etcd, reply)
    assert txn(bury(etcd, TICKET)[0]) == BURIES, "it may have landed"


@pytest.mark.parametrize("reply", [{}, {"header": {}}])
def test_a_reply_of_no_revision_is_none(etcd: EtcdProtocol, reply: Any) -> None:
    for steps in (etcd.withdraw(Withdraw(TICKET), CONTEXT), etcd.queues(Queues(5), CONTEXT)):
        with pytest.raises(StoreUnavailable, match="no whole reply of etcd"):
            feed(steps, reply)
    with pytest.raises(StoreUnavailable, match="no whole reply of etcd"):
        feed(etcd.listing(List("x", 5), CONTEXT), (reply,))


@pytest.mark.parametrize("how", ["enqueue", "probe", "bury"])
def test_without_its_anchor_a_session_has_ended(etcd: EtcdProtocol, how: str) -> None:
    steps: Any = etcd.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT)
    if how == "probe":
        steps = etcd.probe(Probe(TICKET, EXCLUSIVE), CONTEXT)
    elif how == "bury":
        unanswered(etcd)
        steps = etcd.withdraw(Withdraw(TICKET), CONTEXT)
    with pytest.raises(SessionLost, match="anchor"):
        feed(steps, answer() if how == "bury" else answer(found(), found()))


@pytest.mark.parametrize("swept", [False, True])
def test_a_withdrawal_without_an_answer_is_asked_again(etcd: EtcdProtocol, swept: bool) -> None:
    etcd.most_tombstones = 0 if swept else 100
    with pytest.raises(StoreUnavailable):
        bury(etcd, TICKET, CUT)
    done = answer(NOT_DELETED, {"response_put": {}}, *[NOT_DELETED] * swept, succeeded=True)
    steps = feed(etcd.withdraw(Withdraw(TICKET), AGAIN), done)
    assert txn(steps[0])[1][:2] == [f"delete {K}", f"put {A if swept else T}"]
    assert steps.result is True, "it may have been I who deleted it"


@pytest.mark.parametrize("reply", [{**GONE, "deleted": 1}, GONE])
def test_a_full_store_has_no_room_for_a_tombstone(etcd: EtcdProtocol, reply: Any) -> None:
    """What is there must not stay; and what lands once there is room is withdrawn again."""
    unanswered(etcd)
    asking = etcd.withdraw(Withdraw(TICKET), CONTEXT)
    assert txn(asking.send(None)) == BURIES
    assert asking.throw(FULL) == Post("/kv/deleterange", codec.span(KEY))
    with pytest.raises(StoreFull):
        asking.send(reply)
    assert txn(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)[0]) == BURIES


def test_what_a_full_store_refused_is_in_no_doubt(etcd: EtcdProtocol) -> None:
    """Else what failed at once would be withdrawn again and again, until there is room."""
    with pytest.raises(StoreFull):
        enqueue(etcd, FULL, ranged(found()))
    assert len(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), GONE)) == 1
    unanswered(etcd)
    with pytest.raises(StoreFull):
        enqueue(etcd, FULL, ranged(found()), context=AGAIN)
    assert txn(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)[0]) == BURIES, "the first may land"


def test_what_etcd_denied_leaves_nothing_to_withdraw(etcd: EtcdProtocol) -> None:
    """Else each would be withdrawn, and that denied, once a second for as long as the session lasts."""
    with pytest.raises(StoreDenied):
        enqueue(etcd, DENIED)
    assert feed(etcd.withdraw(Withdraw(TICKET), CONTEXT)).result is False
    unanswered(etcd)
    with pytest.raises(StoreDenied):
        enqueue(etcd, DENIED, context=AGAIN)
    assert txn(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)[0]) == BURIES, "the first may land"
    assert not etcd._denied | etcd._in_doubt


def test_what_is_denied_as_it_is_asked_again_may_stand(etcd: EtcdProtocol) -> None:
    """The put may have been answered, and what was read behind it not."""
    with pytest.raises(StoreUnavailable):
        enqueue(etcd, put(found((other(), 10), count=900)), CUT)
    with pytest.raises(StoreDenied):
        enqueue(etcd, DENIED, context=AGAIN)
    assert len(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)) == 1


def test_what_etcd_denied_as_it_was_counted_leaves_nothing_to_withdraw(etcd: EtcdProtocol) -> None:
    two = permits(2)
    with pytest.raises(StoreDenied):
        probe(etcd, (DENIED,), rule=two)
    assert feed(etcd.withdraw(Withdraw(TICKET), CONTEXT)) == []
    unanswered(etcd)
    with pytest.raises(StoreDenied):
        probe(etcd, (DENIED,), rule=two, context=AGAIN)
    assert txn(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)[0]) == BURIES, "the first may land"
    assert not etcd._denied | etcd._in_doubt


def test_what_was_denied_and_stands_in_the_end_is_withdrawn(etcd: EtcdProtocol) -> None:
    with pytest.raises(StoreDenied):
        enqueue(etcd, DENIED)
    assert enqueue(etcd, put(found((KEY, 50)))).result.mine == MINE
    assert len(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), GONE)) == 1
    assert not etcd._denied | etcd._in_doubt


@pytest.mark.parametrize("how", ["enqueue", "probe"])
def test_a_contender_that_took_the_last_room_stands_though_it_was_refused(
    etcd: EtcdProtocol, how: str
) -> None:
    """A member that finds no room as it applies a transaction does apply it, and says that it is full."""
    asked = enqueue if how == "enqueue" else probe
    steps = asked(etcd, FULL, ranged(found((KEY, 50))), seen((KEY, 50), (other(), 40)))
    assert steps[1] == Post("/kv/range", codec.span(KEY))
    assert (steps.result.mine, steps.result.position) == (MINE, 1)
    assert len(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), GONE)) == 1, "it is in no doubt"


def test_whether_a_contender_took_the_last_room_stays_in_doubt_without_an_answer(etcd: EtcdProtocol) -> None:
    with pytest.raises(StoreUnavailable):
        enqueue(etcd, FULL, CUT)
    assert txn(feed(etcd.withdraw(Withdraw(TICKET), CONTEXT), BURIED)[0]) == BURIES


@pytest.mark.parametrize("stands", [True, False])
def test_a_full_store_is_read_without_a_transaction_the_own_key_last(
    etcd: EtcdProtocol, stands: bool
) -> None:
    own, blocker = ranged(found((KEY, 50)) if stands else found()), ranged(found((other(), 40)))
    steps = feed(etcd.check(Check(MINE, TARGETS[:1], Gone("x")), CONTEXT), FULL, (blocker,), own)
    first, last = (Post("/kv/range", codec.span(key)) for key in (other(), KEY))
    assert steps[1:] == [Batch((first,)), last]
    assert steps.result == Checked(stands, frozenset((other().decode(),)))


def test_a_session_is_renewed_on_a_full_store(etcd: EtcdProtocol) -> None:
    anchor, held = ranged(found((ANCHOR, 3))), ranged(found((KEY, 50)))
    kept = {"result": {"TTL": 15}}
    assert feed(etcd.renew(Renew((MINE,), 5.0), CONTEXT), kept, FULL, (held,), anchor).result == Renewal(15.0)


def test_a_renewal_of_many_on_a_full_store_reads_them_together(etcd: EtcdProtocol) -> None:
    entries = tuple(Entry(TICKET, f"app/x/{n}", n) for n in range(1, 101))
    keys = tuple(ranged(found((entry.ref.encode(), entry.token))) for entry in entries[:-1])
    steps = feed(
        etcd.renew(Renew(entries, 5.0), CONTEXT),
        {"result": {"TTL": 15}},
        FULL,
        (*keys, ranged(found())),
        ranged(found((ANCHOR, 3))),
    )
    assert len(steps[2].parts) == 100
    assert all(part.urgent for part in (*steps[2].parts, steps[3]))
    assert steps.result == Renewal(15.0, entries[-1:])


@pytest.mark.parametrize(
    ("op", "frees"),
    [
        (Withdraw(TICKET, MINE), True),
        (Withdraw(TICKET), True),
        (Rewrite(MINE, "downgraded"), True),
        (Enqueue(TICKET, EXCLUSIVE), False),
        (Probe(TICKET, EXCLUSIVE), False),
    ],
)
def test_what_lets_go_says_so(etcd: EtcdProtocol, op: Any, frees: bool) -> None:
    assert next(etcd.start(op, CONTEXT)).frees is frees


def test_what_lets_go_is_interrupted_as_anything_else(etcd: EtcdProtocol) -> None:
    steps = etcd.start(Withdraw(TICKET, MINE), CONTEXT)
    assert feed(steps, {**GONE, "deleted": 1}).result is True
    steps = etcd.start(Withdraw(TICKET, MINE), CONTEXT)
    next(steps)
    steps.close()
    with pytest.raises(StoreUnavailable):
        feed(etcd.start(Withdraw(TICKET, MINE), CONTEXT), CUT)


def test_what_is_to_be_written_is_refused_by_a_full_store(etcd: EtcdProtocol) -> None:
    with pytest.raises(StoreFull):
        feed(etcd.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), FULL, ranged(found()))


@pytest.mark.parametrize("batch", [False, True])
def test_a_store_that_has_gone_back_ends_the_session(etcd: EtcdProtocol, batch: bool) -> None:
    feed(etcd.check(Check(MINE, (), Gone("x")), CONTEXT), {"header": {"revision": 70}, "succeeded": True})
    steps: Any = etcd.check(Check(MINE, (), Gone("x")), CONTEXT)
    replies: Any = {"header": {"revision": 69}, "succeeded": True}
    if batch:
        steps = etcd.look(Look(MINE, EXCLUSIVE, ()), CONTEXT)
        replies = seen((KEY, 50), revision=60)
    with pytest.raises(SessionLost, match="restored from a backup"):
        feed(steps, replies)


def test_answers_that_overtake_each_other_are_no_going_back(etcd: EtcdProtocol) -> None:
    slow = etcd.check(Check(MINE, (), Gone("x")), CONTEXT)
    slow.send(None)
    feed(etcd.check(Check(MINE, (), Gone("x")), CONTEXT), {"header": {"revision": 70}, "succeeded": True})
    with pytest.raises(StopIteration) as over:
        slow.send({"header": {"revision": 69}, "succeeded": True})
    assert over.value.value.mine


def test_who_never_goes_or_is_of_no_known_kind_is_told_once(etcd: EtcdProtocol) -> None:
    names = {b"app/x/W-2e-" + OTHER.encode(): 0, b"app/x/2e": 46, b"app/x/no layout": 46}
    ahead = ranged(found(*((key, 40) for key in names)))
    pairs = zip(ahead["kvs"], names.values(), strict=True)
    ahead["kvs"] = [kv._replace(lease=lease) for kv, lease in pairs]
    for expected in (2, 0):
        feed(etcd.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), (ahead,))
        told = etcd.noticed()
        assert len(told) == expected
        etcd._latest = 0
        if told:
            assert told[0] == "app/x/no layout is no contender of any known kind; it is waited for"
            assert told[1].startswith(f"app/x/W-2e-{OTHER} is bound to no lease")


@pytest.mark.parametrize("entry", [MINE, None])
@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_withdraw_fails(etcd: EtcdProtocol, error: Any, raised: Any, entry: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.withdraw(Withdraw(TICKET, entry), CONTEXT), error)


def test_start_leads_to_every_operation(etcd: EtcdProtocol) -> None:
    assert feed(etcd.start(Withdraw(TICKET, MINE), CONTEXT), answer()).result is False


# Rewrite.


def rewritten(before: int = 1) -> dict[str, Any]:
    """The reply to a put that shows the key as it was before."""
    return answer({"response_put": {"prev_kv": codec.Kv(b"k", 1, b"", 0, 1, before)}}, succeeded=True)


def written(steps: Asked) -> dict[str, Any]:
    """What a transaction puts; its value as it is."""
    return dict(steps[0].body["success"][0]["request_put"])


def test_rewrite_puts_the_key_that_was_granted_again(etcd: EtcdProtocol) -> None:
    steps = feed(etcd.rewrite(Rewrite(MINE, "downgraded"), CONTEXT), rewritten())
    assert txn(steps[0]) == ([f"CREATE {K} 50"], [f"put {K}"], [])
    put_again = {"key": KEY, "value": b"downgraded\n", "lease": 31, "prev_kv": True}
    assert written(steps) == put_again
    assert steps.result == 1
    assert feed(etcd.rewrite(Rewrite(MINE, "downgraded"), AGAIN), rewritten(7)).result == 7
    assert feed(etcd.rewrite(Rewrite(MINE, "downgraded"), AGAIN), answer()).result is None


def test_rewrite_compares_the_version_it_is_given(etcd: EtcdProtocol) -> None:
    for version in (0, 3):
        steps = feed(etcd.rewrite(Rewrite(MINE, "", version=version), CONTEXT), rewritten(version + 1))
        assert txn(steps[0])[0] == [f"CREATE {K} 50", f"VERSION {K} {version + 1}"]
        assert steps.result == version + 1
    assert feed(etcd.rewrite(Rewrite(MINE, "", version=3), CONTEXT), answer()).result is None


@pytest.mark.parametrize(
    ("queue", "value"),
    [
        ("x", b'ready\n{"owner":"me"}'),
        ("~group/x", b'ready\n{"owner":"me"}\n10.0.0.1\n\0\xff'),
        ("~election/x", b"10.0.0.1\n\0\xff"),
    ],
)
def test_rewrite_writes_as_the_recipe_of_the_queue_does(etcd: EtcdProtocol, queue: str, value: bytes) -> None:
    entry = Entry(Ticket(queue, "W", ID, '{"owner":"me"}'), f"app/{queue}/W-1f-{ID}", 50)
    steps = feed(etcd.rewrite(Rewrite(entry, "ready", b"10.0.0.1\n\0\xff"), CONTEXT), rewritten())
    assert written(steps)["value"] == value
    joined = enqueue(etcd, put(found((entry.ref.encode(), 50))), ticket=entry.ticket)
    assert joined[0].body["success"][0]["request_put"]["key"] == entry.ref.encode()


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_rewrite_fails(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(etcd.rewrite(Rewrite(MINE, ""), CONTEXT), error)


def test_a_full_store_refuses_a_rewrite(etcd: EtcdProtocol) -> None:
    with pytest.raises(StoreFull):
        feed(etcd.rewrite(Rewrite(MINE, ""), CONTEXT), FULL)


def test_one_that_minds_marks_is_notified_of_a_rewrite_and_others_are_not(etcd: EtcdProtocol) -> None:
    target = contender(other())
    for mine, changes in ((READER, True), (MINE, False)):
        steps = feed(etcd.watch(Watch(mine, (target,), 40), CONTEXT), (40,))
        assert steps[0].parts[0].changes is changes


@pytest.mark.parametrize(("mine", "stands"), [(READER, False), (MINE, True)])
def test_a_writer_that_downgraded_is_not_as_a_reader_saw_it(
    etcd: EtcdProtocol, mine: Entry, stands: bool
) -> None:
    target, now = contender(other()), downgraded(found((other(), 30)))
    assert feed(etcd.watch(Watch(mine, (target,), 40), CONTEXT), (41,), answer(now)).result is stands
    own = (mine.ref.encode(), 50)
    checked = feed(etcd.check(Check(mine, (target,)), CONTEXT), (41,), answer(found(own), now)).result
    assert (checked.mine, bool(checked.present)) == (True, stands)


def test_one_that_was_rewritten_before_is_compared_as_it_was_seen(etcd: EtcdProtocol) -> None:
    """By how often it was: a value has its owner beside the mark, and may be that of any other client."""
    steps = enqueue(etcd, put(downgraded(found((other(), 30))), found()), rule=SHARED, ticket=READS)
    (target,) = steps.result.ahead
    assert (target.mark, target.version) == ("downgraded", 1)
    steps = feed(etcd.check(Check(READER, (target,)), CONTEXT), (50,), AS_EXPECTED)
    key = target.ref
    versions = [f"CREATE {key} >0", f"CREATE {key} <50", f"VERSION {key} 2"]
    assert txn(steps[1])[0] == [f"CREATE {READER.ref} 50", *versions]
    assert steps.result == Checked(True, frozenset({key}))
    again = answer(found((READER.ref.encode(), 50)), downgraded(found((other(), 30))))
    assert feed(etcd.check(Check(READER, (target,)), CONTEXT), (1,), again).result.present == {key}


# Looking from outside.


def listed(*found: tuple[bytes, int, bytes], revision: int = 90) -> dict[str, Any]:
    """The reply to a range."""
    kvs = [codec.Kv(key, at, value, 0, at, at) for key, at, value in found]
    return {"header": {"revision": revision}, "kvs": kvs, "count": len(kvs)}


def test_a_list_reads_the_head_of_the_queue(etcd: EtcdProtocol) -> None:
    mine = Contender(K, ID, "W", "1f", "downgraded", 5, '{"owner":"me"}', version=4)
    rows = [(KEY, 5, b'downgraded\n{"owner":"me"}'), (other(kind="R"), 7, b""), (b"app/x/1f2e", 9, b"\xffgo")]
    asked = feed(etcd.listing(List("x", 3), CONTEXT), (listed(*rows),))
    assert asked == [Batch((Post("/kv/range", codec.oldest(b"app/x/", b"app/x/~", 3)),))]
    reader = Contender(other(kind="R").decode(), OTHER, "R", "2e", token=7, version=6)
    foreign = Contender("app/x/1f2e", token=9, owner="\ufffdgo", data=b"\xffgo", version=8)
    assert asked.result == Listing((mine, reader, foreign))


def test_a_list_of_another_recipe_shows_data_and_kinds_with_numbers(etcd: EtcdProtocol) -> None:
    key = f"app/~semaphore/x/S2.10-1f-{ID}"
    value = b"granted\n{}\ndowngraded\n\0"
    asked = feed(etcd.listing(List("~semaphore/x", 3), CONTEXT), (listed((key.encode(), 1, value)),))
    (one,) = asked.result.contenders
    assert one == Contender(key, ID, "S2.10", "1f", "granted", 1, "{}", b"downgraded\n\0")


@pytest.mark.parametrize(
    ("value", "mark", "owner"),
    [
        (b"", "", ""),
        (b'{"owner":"me"}', "", '{"owner":"me"}'),
        (b"downgraded", "downgraded", ""),
        (b'downgraded{"owner":"me"}', "downgraded", '{"owner":"me"}'),
    ],
)
def test_what_earlier_versions_stored_is_read(
    etcd: EtcdProtocol, value: bytes, mark: str, owner: str
) -> None:
    row = listed((other(), 30, value), revision=50)
    (one,) = feed(etcd.listing(List("x", 3), CONTEXT), (row,)).result.contenders
    assert (one.mark, one.owner, one.data) == (mark, owner, b"")
    (ahead,) = enqueue(etcd, put({"response_range": row}, found()), rule=SHARED, ticket=READS).result.ahead
    assert ahead.mark == mark
    assert (SHARED.blockers((ahead,)) == ()) is bool(mark)


def test_earlier_versions_read_what_is_stored(etcd: EtcdProtocol) -> None:
    """They look for ``downgraded`` in front, and take what is behind it for JSON."""
    mine = replace(MINE, ticket=replace(TICKET, owner='{"owner":"me"}'))
    joined = enqueue(etcd, put(found((KEY, 50))), ticket=mine.ticket)
    assert json.loads(written(joined)["value"]) == {"owner": "me"}
    value = written(feed(etcd.rewrite(Rewrite(mine, "downgraded"), CONTEXT), rewritten()))["value"]
    assert value.startswith(b"downgraded")
    assert json.loads(value.removeprefix(b"downgraded")) == {"owner": "me"}


HEAD = codec.oldest(b"app/x/", b"app/x/~", 3)
WATCHES_QUEUE = WatchKey(b"app/x/", MAILBOX, changes=True, end=b"app/x/~", queue="x")


@pytest.mark.parametrize("since", [89, 90])
def test_a_list_with_a_watch_arms_and_reads_side_by_side(etcd: EtcdProtocol, since: int) -> None:
    steps = feed(etcd.listing(List("x", 3, watch=True), CONTEXT), (since, listed((KEY, 5, b""))))
    assert steps == [Batch((WATCHES_QUEUE, Post("/kv/range", HEAD)))]
    assert [one.id for one in steps.result.contenders] == [ID]


def test_a_list_is_read_again_if_its_watch_began_later(etcd: EtcdProtocol) -> None:
    """Else what came in between would be neither shown nor notified."""
    steps = feed(
        etcd.listing(List("x", 3, watch=True), CONTEXT), (91, listed((KEY, 5, b""))), listed(revision=91)
    )
    assert steps[1:] == [Post("/kv/range", HEAD)]
    assert steps.result == Listing(())


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_a_list_fails_in_part(etcd: EtcdProtocol, error: Any, raised: Any) -> None:
    lost = [] if error is CUT else [[(error, listed())]]
    for replies in (*lost, [(error,)], [(5, error)], [(91, listed()), error]):
        with pytest.raises(raised):
            feed(etcd.listing(List("x", 3, watch=len(replies[0]) > 1), CONTEXT), *replies)


def test_a_list_that_cannot_be_watched_is_read_and_disturbed(etcd: EtcdProtocol) -> None:
    """So what observes it reads it again after a pause, and in the end watches it."""
    box = Box()
    asked = List("x", 3, watch=True)
    steps = feed(etcd.listing(asked, RequestContext(box)), (CUT, listed((KEY, 5, b""))))
    assert [one.id for one in steps.result.contenders] == [ID]
    assert box.events == [Disturbed()]


def test_an_eviction_is_guarded_by_the_token(etcd: EtcdProtocol) -> None:
    op = Evict("x", "app/x/1f2e", 9)
    asked = feed(etcd.evict(op, CONTEXT), answer(DELETED, succeeded=True))
    (post,) = asked
    assert post.body == codec.txn(
        [codec.compare_created(b"app/x/1f2e", 9)], then=[codec.delete(b"app/x/1f2e")]
    )
    assert asked.result is True
    assert feed(etcd.evict(op, CONTEXT), GONE).result is False
    assert feed(etcd.evict(op, AGAIN), GONE).result is True


@pytest.mark.parametrize("context", [CONTEXT, AGAIN])
def test_an_eviction_from_a_full_store_takes_no_transaction(etcd: EtcdProtocol, context: Any) -> None:
    op = Evict("x", KEY.decode(), 50)
    there, another = ranged(found((KEY, 50))), ranged(found((KEY, 51)))
    steps = feed(etcd.evict(op, context), FULL, there, {**GONE, "deleted": 1})
    assert steps[1:] == [Post("/kv/range", codec.span(KEY)), Post("/kv/deleterange", codec.span(KEY))]
    assert steps.result is True
    for missing in (another, ranged(found())):
        assert feed(etcd.evict(op, context), FULL, missing).result is context.again
    foreign = b"app/x/1f2e"  # whose name its client may use again
    with pytest.raises(StoreFull):
        feed(etcd.evict(Evict("x", "app/x/1f2e", 9), context), FULL, ranged(found((foreign, 9))))


def test_queues_are_found_one_key_each(etcd: EtcdProtocol) -> None:
    replies = [listed((key, 5, b"")) for key in (b"app/", b"app/a b/c", KEY, b"app/y/1f")]
    asked = feed(etcd.queues(Queues(5), CONTEXT), *replies, listed())
    assert asked.result == ("x", "y")
    starts = [post.body["key"] for post in asked]
    assert starts == [b"app/", b"app/\0", b"app/a b0", b"app/x0", b"app/y0"]
    assert {post.body["range_end"] for post in asked} == {b"app/~"}
    assert feed(etcd.queues(Queues(1), CONTEXT), listed((KEY, 5, b""))).result == ("x",)
