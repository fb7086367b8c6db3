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
from recipes._contract.protocol import Turn
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost
from recipes.stores._kit.queue import (
    Command,
    QueueProtocol,
    is_queue,
    kind_of,
    ref_of,
    target_of,
    watched_on_joining,
)
from tests.stores.stepping import AGAIN, MAILBOX, TURN, feed

SPOT = Spot("x", "lock", "id-1")
MINE = Place(SPOT, "x/7", 7)
NEAR = Contender("x/6", "id-2", "W", "third")
AHEAD = Contender("x/5", "id-0", "W", "other")
VIEW = View(MINE, (NEAR, AHEAD), complete=True, position=2)


@pytest.fixture
def store() -> QueueProtocol:
    return QueueProtocol("s1")


def command(op: Any, turn: Turn = TURN, *, promised: bool = False) -> Command:
    return Command(op, "s1", MAILBOX, turn.again, promised)


PASSED_ON = [
    (Open(15.0), Opened("s1", 15.0)),
    (Renew((MINE,), 5.0), Renewal(15.0)),
    (End(), None),
    (Enqueue(SPOT, EXCLUSIVE), VIEW),
    (Probe(SPOT, EXCLUSIVE), None),
    (Watch(MINE, (AHEAD,)), False),
    (Check(MINE, (AHEAD,)), Checked(mine=True, present=frozenset())),
    (Withdraw(SPOT), True),
    (Rewrite(MINE, "mark", b"data", 1), 2),
    (List("x", 5, watch=True), Listing(())),
    (Queues(5), ("x",)),
    (Evict("x", "x/5", 5), True),
]


@pytest.mark.parametrize(("op", "reply"), PASSED_ON, ids=lambda one: type(one).__name__)
def test_the_operation_is_the_request(store: QueueProtocol, op: Any, reply: Any) -> None:
    for turn in (TURN, AGAIN):
        asked = feed(store.start(op, turn), reply)
        assert asked == [command(op, turn)]
        assert asked.result == reply
    with pytest.raises(SessionLost, match="has ended"):
        feed(store.start(op, TURN), SessionLost("it has ended"))


def test_a_store_may_choose_the_id_of_a_session() -> None:
    store = QueueProtocol()
    (opening,) = feed(store.open(Open(15.0), TURN), Opened("s7", 15.0))
    assert (opening.session, store.session_id) == ("", "s7")
    (ending,) = feed(store.end(End(), TURN), None)
    assert ending.session == "s7"


def test_joining_needs_no_other_request_to_watch_once(store: QueueProtocol) -> None:
    feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), TURN), VIEW)
    watched = feed(store.watch(Watch(MINE, (AHEAD,)), TURN))
    assert (watched, watched.result) == ([], True)
    assert len(feed(store.watch(Watch(MINE, (AHEAD,)), TURN), True)) == 1  # it may have notified since


def test_joining_watches_only_whom_the_rule_names(store: QueueProtocol) -> None:
    feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), TURN), VIEW)
    assert len(feed(store.watch(Watch(MINE, (NEAR,)), TURN), True)) == 1


def test_one_that_moves_up_to_a_target_of_which_it_is_notified_writes_nothing(store: QueueProtocol) -> None:
    feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), TURN), VIEW)
    look = Look(MINE, EXCLUSIVE, (NEAR, AHEAD))
    asked = feed(store.look(look, TURN), VIEW)
    assert (asked, asked.result) == ([command(look, promised=True)], VIEW)
    assert feed(store.look(look, TURN), VIEW) == [command(look)]


@pytest.mark.parametrize("op", [Look(MINE, EXCLUSIVE, ()), Withdraw(SPOT, MINE)], ids=["look", "withdraw"])
def test_what_joining_watched_is_forgotten_by_a_look_and_a_withdrawal(store: QueueProtocol, op: Any) -> None:
    feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), TURN), VIEW)
    feed(store.start(op, TURN), VIEW)
    assert len(feed(store.watch(Watch(MINE, (AHEAD,)), TURN), True)) == 1
    assert feed(store.look(Look(MINE, EXCLUSIVE, (AHEAD,)), TURN), VIEW)[0].promised is False


def test_a_contender_that_was_deleted_by_the_first_try_was_there(store: QueueProtocol) -> None:
    for op in (Withdraw(SPOT, MINE), Evict("x", "x/5", 5)):
        assert feed(store.start(op, TURN), False).result is False
        assert feed(store.start(op, AGAIN), False).result is True


def test_those_of_the_own_session_are_not_watched() -> None:
    own = Contender("x/6", "id-2", "W", "s1")
    assert watched_on_joining(EXCLUSIVE, (NEAR, AHEAD), "s1") == ((AHEAD,), (NEAR,))
    assert watched_on_joining(EXCLUSIVE, (own, AHEAD), "s1") == ((AHEAD,), ())
    assert watched_on_joining(EXCLUSIVE, (own,), "s1") == ((), ())


def test_kinds_and_references() -> None:
    assert [kind_of(Spot("x", kind, "i")) for kind in ("lock", "R", "S2.10")] == ["W", "R", "S2.10"]
    for queue in ("a%2Fb", "~semaphore/a%2Fb"):
        assert target_of(ref_of(queue, 7)) == (queue, 7)
        assert is_queue(queue)
        assert not is_queue(ref_of(queue, 7))
