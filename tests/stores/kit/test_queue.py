"""The protocol of queue stores: the operation is the request."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._contract.contenders import Contender
from recipes._contract.operations import (
    Check,
    Checked,
    End,
    Enqueue,
    Entry,
    Evict,
    Guard,
    List,
    Listing,
    Look,
    Open,
    Opened,
    Probe,
    Queues,
    Read,
    Renew,
    Renewal,
    Rewrite,
    Settle,
    Snapshot,
    Stored,
    Ticket,
    Watch,
    Withdraw,
    Write,
    Written,
)
from recipes._contract.protocol import RequestContext
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost
from recipes.stores._kit.queue import (
    Command,
    Put,
    QueueProtocol,
    is_queue,
    kind_of,
    ref_of,
    target_of,
    watched_on_joining,
)
from recipes.stores.receipts import Exchange, Exchanged
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, feed

TICKET = Ticket("x", "lock", "id-1")
MINE = Entry(TICKET, "x/7", 7)
NEAR = Contender("x/6", "id-2", "W", "third")
AHEAD = Contender("x/5", "id-0", "W", "other")
VIEW = Snapshot(MINE, (NEAR, AHEAD), complete=True, position=2)


@pytest.fixture
def store() -> QueueProtocol:
    return QueueProtocol("s1")


def command(op: Any, context: RequestContext = CONTEXT, *, promised: bool = False) -> Command:
    return Command(op, "s1", MAILBOX, context.again, promised)


PASSED_ON = [
    (Open(15.0), Opened("s1", 15.0)),
    (Renew((MINE,), 5.0), Renewal(15.0)),
    (End(), None),
    (Enqueue(TICKET, EXCLUSIVE), VIEW),
    (Probe(TICKET, EXCLUSIVE), None),
    (Watch(MINE, (AHEAD,)), False),
    (Check(MINE, (AHEAD,)), Checked(mine=True, present=frozenset())),
    (Withdraw(TICKET), True),
    (Rewrite(MINE, "mark", b"data", 1), 2),
    (List("x", 5, watch=True), Listing(())),
    (Read("~value/x", watch=True), Stored(b"data", 7)),
    (Queues(5), ("x",)),
    (Evict("x", "x/5", 5), True),
]


@pytest.mark.parametrize(("op", "reply"), PASSED_ON, ids=lambda one: type(one).__name__)
def test_the_operation_is_the_request(store: QueueProtocol, op: Any, reply: Any) -> None:
    for context in (CONTEXT, AGAIN):
        asked = feed(store.start(op, context), reply)
        assert asked == [command(op, context)]
        assert asked.result == reply
    with pytest.raises(SessionLost, match="has ended"):
        feed(store.start(op, CONTEXT), SessionLost("it has ended"))


def test_a_store_may_choose_the_id_of_a_session() -> None:
    store = QueueProtocol()
    (opening,) = feed(store.open(Open(15.0), CONTEXT), Opened("s7", 15.0))
    assert (opening.session, store.session_id) == ("", "s7")
    (ending,) = feed(store.end(End(), CONTEXT), None)
    assert ending.session == "s7"


def test_joining_needs_no_other_request_to_watch_once(store: QueueProtocol) -> None:
    feed(store.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), VIEW)
    watched = feed(store.watch(Watch(MINE, (AHEAD,)), CONTEXT))
    assert (watched, watched.result) == ([], True)
    assert len(feed(store.watch(Watch(MINE, (AHEAD,)), CONTEXT), True)) == 1  # it may have notified since


def test_joining_watches_only_whom_the_rule_names(store: QueueProtocol) -> None:
    feed(store.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), VIEW)
    assert len(feed(store.watch(Watch(MINE, (NEAR,)), CONTEXT), True)) == 1


def test_one_that_moves_up_to_a_target_of_which_it_is_notified_writes_nothing(store: QueueProtocol) -> None:
    feed(store.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), VIEW)
    look = Look(MINE, EXCLUSIVE, (NEAR, AHEAD))
    asked = feed(store.look(look, CONTEXT), VIEW)
    assert (asked, asked.result) == ([command(look, promised=True)], VIEW)
    assert feed(store.look(look, CONTEXT), VIEW) == [command(look)]


@pytest.mark.parametrize("op", [Look(MINE, EXCLUSIVE, ()), Withdraw(TICKET, MINE)], ids=["look", "withdraw"])
def test_what_joining_watched_is_forgotten_by_a_look_and_a_withdrawal(store: QueueProtocol, op: Any) -> None:
    feed(store.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), VIEW)
    feed(store.start(op, CONTEXT), VIEW)
    assert len(feed(store.watch(Watch(MINE, (AHEAD,)), CONTEXT), True)) == 1
    assert feed(store.look(Look(MINE, EXCLUSIVE, (AHEAD,)), CONTEXT), VIEW)[0].promised is False


def test_a_contender_that_was_deleted_by_the_first_try_was_there(store: QueueProtocol) -> None:
    for op in (Withdraw(TICKET, MINE), Evict("x", "x/5", 5)):
        assert feed(store.start(op, CONTEXT), False).result is False
        assert feed(store.start(op, AGAIN), False).result is True


def test_a_write_is_asked_with_its_receipt_and_settled_by_the_receipt_alone(store: QueueProtocol) -> None:
    write, stored = Write("~value/x", b"data", 1, guards=(Guard(MINE),)), Stored(b"data", 7)
    asked = feed(store.start(write, CONTEXT), Exchanged(True, 7, b"1", stored))
    assert asked == [command(Put(Exchange(write, 0, b"1")))]
    assert asked.result == Written(done=True, stored=stored)
    late = Write("~value/x", None, 2, 7)
    refused, settled = Exchanged(False, 7, b"1", Stored(b"new", 8)), Exchanged(True, 9, b"")
    asked = feed(store.start(late, AGAIN), refused, settled)
    assert asked == [command(Put(Exchange(late, 7, *how)), AGAIN) for how in ((b"2",), (b"", True))]
    assert asked.result == Written(done=False, stored=Stored(b"new", 8))
    asked = feed(store.start(Settle(late), CONTEXT), Exchanged(True, 10, b""))
    assert (asked, asked.result) == ([command(Put(Exchange(late, 9, b"", True)))], False)


@pytest.mark.parametrize("settles", [False, True])
def test_a_write_fits_if_all_is_as_expected_and_a_settlement_if_the_receipt_is(settles: bool) -> None:
    put = Put(Exchange(Write("~value/x", b"", 1, 7), 3, b"1", settles))
    assert put.fits(3, 7, guarded=True)
    assert not put.fits(4, 7, guarded=True)
    assert put.fits(3, 8, guarded=True) is settles
    assert put.fits(3, 7, guarded=False) is settles
    assert Put(Exchange(Write("~value/x", b"", 1), 3, b"1", settles)).fits(3, 8, guarded=True)


def test_those_of_the_own_session_are_not_watched() -> None:
    own = Contender("x/6", "id-2", "W", "s1")
    assert watched_on_joining(EXCLUSIVE, (NEAR, AHEAD), "s1") == ((AHEAD,), (NEAR,))
    assert watched_on_joining(EXCLUSIVE, (own, AHEAD), "s1") == ((AHEAD,), ())
    assert watched_on_joining(EXCLUSIVE, (own,), "s1") == ((), ())


def test_kinds_and_references() -> None:
    assert [kind_of(Ticket("x", kind, "i")) for kind in ("lock", "R", "S2.10")] == ["W", "R", "S2.10"]
    for queue in ("a%2Fb", "~semaphore/a%2Fb", "~value/x"):
        assert target_of(ref_of(queue, 7)) == (queue, 7)
        assert is_queue(queue)
        assert not is_queue(ref_of(queue, 7))
