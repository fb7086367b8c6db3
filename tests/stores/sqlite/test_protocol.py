from __future__ import annotations

import pytest

from recipes._contract.contenders import Contender
from recipes._contract.operations import (
    Check,
    Checked,
    End,
    Enqueue,
    Expel,
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
from recipes._contract.rule import Order
from recipes._contract.wakeups import Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost, StoreUnavailable
from recipes.stores.sqlite import requests
from recipes.stores.sqlite.layout import contender_of, kind_of, ref_of, target_of
from recipes.stores.sqlite.protocol import SqliteProtocol
from recipes.stores.sqlite.requests import (
    Demote,
    Finish,
    Join,
    NoSession,
    Present,
    Remove,
    See,
    Seen,
    Start,
    Touch,
)
from tests.stores.stepping import AGAIN, MAILBOX, TURN, feed

SPOT = Spot("x", "lock", "id-1")
MINE = Place(SPOT, "x/7", 7)
AHEAD = Contender("x/5", "id-0", "W", "other")
NEAR = Contender("x/6", "id-2", "W", "third")


@pytest.fixture
def store() -> SqliteProtocol:
    return SqliteProtocol("s1")


def test_a_session_is_a_row_whose_id_was_chosen_before(store: SqliteProtocol) -> None:
    asked = feed(store.open(Open(15.0), TURN), None)
    assert asked == [Start("s1", 15.0)]
    assert asked.result == Opened("s1", 15.0)
    assert feed(store.end(End(), TURN), None) == [Finish("s1")]


def test_a_renewal_is_one_request_for_all_that_is_held(store: SqliteProtocol) -> None:
    gone = Place(Spot("y", "lock", "id-3"), "y/8", 8)
    asked = feed(store.renew(Renew((MINE, gone), 5.0), TURN), (15.0, frozenset({7})))
    assert asked == [Touch("s1", (("x", 7), ("y", 8)))]
    assert asked.result == Renewal(15.0, (gone,))


def test_joining_is_one_request_and_needs_no_other_to_watch(store: SqliteProtocol) -> None:
    seen = Seen(7, (AHEAD,), complete=True, position=1, armed=("x/5",))
    asked = feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), TURN), seen)
    assert asked == [Join("s1", "x", "W", "id-1", EXCLUSIVE, again=False, mailbox=MAILBOX)]
    assert asked.result == View(MINE, (AHEAD,), complete=True, position=1)
    watched = feed(store.watch(Watch(MINE, (AHEAD,)), TURN))
    assert (watched, watched.result) == ([], True)
    again = feed(store.watch(Watch(MINE, (AHEAD,)), TURN), frozenset({5}))  # it may have told since
    assert again == [Present("s1", (("x", 5),), ("x", 7), MAILBOX)]
    assert again.result is True


def test_a_target_that_is_gone_is_not_watched(store: SqliteProtocol) -> None:
    asked = feed(store.watch(Watch(MINE, (NEAR, AHEAD)), TURN), frozenset({5}))
    assert asked.result is False


def test_who_steps_up_to_whom_it_is_told_of_writes_nothing(store: SqliteProtocol) -> None:
    look = Look(MINE, EXCLUSIVE, (NEAR,))
    feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), TURN), Seen(7, (NEAR, AHEAD), known=("x/5", "x/6")))
    (first,) = feed(store.look(look, TURN), Seen(7, (NEAR,)))
    assert (first.known, first.watches) == (True, False)
    (second,) = feed(store.look(look, TURN), Seen(7, (NEAR,)))
    assert (second.known, second.watches) == (False, True)


def test_what_joining_watched_is_forgotten_by_a_look_and_a_withdrawal(store: SqliteProtocol) -> None:
    for op, reply in ((Look(MINE, EXCLUSIVE, ()), Seen(7)), (Withdraw(SPOT, MINE), True)):
        feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), TURN), Seen(7, (AHEAD,), armed=("x/5",)))
        feed(store.start(op, TURN), reply)
        assert len(feed(store.watch(Watch(MINE, (AHEAD,)), TURN), frozenset({5}))) == 1


def test_joining_again_finds_what_stands(store: SqliteProtocol) -> None:
    (join,) = feed(store.enqueue(Enqueue(SPOT, EXCLUSIVE), AGAIN), Seen(7))
    assert join.again


def test_a_probe_says_nobody_or_where_it_stands(store: SqliteProtocol) -> None:
    shared = Order("R", exclusive_only=True)
    spot = Spot("x", "R", "id-1")
    asked = feed(store.probe(Probe(spot, shared), TURN), None)
    assert asked == [Join("s1", "x", "R", "id-1", shared, only_free=True)]
    assert asked.result is None
    asked = feed(store.probe(Probe(spot, shared), AGAIN), Seen(7))
    assert asked[0].again
    assert asked.result == View(Place(spot, "x/7", 7), (), complete=True, position=0)


def test_a_look_watches_and_reads(store: SqliteProtocol) -> None:
    asked = feed(store.look(Look(MINE, EXCLUSIVE, (NEAR,)), TURN), Seen(7, (NEAR,), position=1))
    assert asked == [See("s1", "x", 7, EXCLUSIVE, (("x", 6),), MAILBOX, known=False)]
    assert asked.result == View(MINE, (NEAR,), complete=True, position=1)
    assert feed(store.look(Look(MINE, EXCLUSIVE, ()), TURN), Seen(None)).result.mine is None


def test_a_check_watches_again_unless_an_event_made_me_look(store: SqliteProtocol) -> None:
    asked = feed(store.check(Check(MINE, (NEAR, AHEAD)), TURN), frozenset({7, 6}))
    assert asked == [Present("s1", (("x", 6), ("x", 5)), ("x", 7), MAILBOX)]
    assert asked.result == Checked(mine=True, present=frozenset({"x/6"}))
    asked = feed(store.check(Check(MINE, (NEAR,), Gone("x/6")), TURN), frozenset())
    assert asked == [Present("s1", (("x", 6),), ("x", 7), None)]
    assert asked.result == Checked(mine=False, present=frozenset())


def test_a_withdrawal_that_was_asked_before_was_my_own(store: SqliteProtocol) -> None:
    asked = feed(store.withdraw(Withdraw(SPOT, MINE), TURN), False)
    assert (asked, asked.result) == ([Remove("s1", "x", "id-1", 7)], False)
    asked = feed(store.withdraw(Withdraw(SPOT), AGAIN), False)
    assert (asked, asked.result) == ([Remove("s1", "x", "id-1", None)], True)


def test_an_expulsion_deletes_another_s_row(store: SqliteProtocol) -> None:
    asked = feed(store.expel(Expel("x", "x/5", 5), TURN), False)
    assert (asked, asked.result) == ([requests.Expel("s1", "x", 5)], False)
    assert feed(store.expel(Expel("x", "x/5", 5), AGAIN), False).result is True


def test_a_downgrade_marks_the_own_place(store: SqliteProtocol) -> None:
    asked = feed(store.downgrade(Withdraw(SPOT, MINE), TURN), True)
    assert (asked, asked.result) == ([Demote("s1", "x", 7)], True)


@pytest.mark.parametrize(
    "op",
    [
        Open(15.0),
        Renew((), 5.0),
        End(),
        Enqueue(SPOT, EXCLUSIVE),
        Probe(SPOT, EXCLUSIVE),
        Watch(MINE, (AHEAD,)),
        Look(MINE, EXCLUSIVE, ()),
        Check(MINE),
        Withdraw(SPOT),
    ],
    ids=lambda op: type(op).__name__,
)
def test_what_a_session_that_ended_and_a_lost_answer_mean(store: SqliteProtocol, op: object) -> None:
    with pytest.raises(SessionLost, match="the session has ended on the store"):
        feed(store.start(op, TURN), NoSession())  # type: ignore[arg-type]
    with pytest.raises(SessionLost, match="the file was deleted"):
        feed(store.start(op, TURN), NoSession("the file was deleted"))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        feed(store.start(op, TURN), StoreUnavailable("f", "busy"))  # type: ignore[arg-type]


def test_rows_and_references() -> None:
    assert target_of(ref_of("a%2Fb", 7)) == ("a%2Fb", 7)
    assert kind_of(SPOT) == "W"
    assert kind_of(Spot("x", "R", "i")) == "R"
    assert contender_of("x", (5, "id-0", "W", "other", 0)) == AHEAD
