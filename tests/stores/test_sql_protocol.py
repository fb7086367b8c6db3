"""The protocol of SQL databases, stepped by hand: which acts it asks for, and what it makes of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

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
)
from recipes._contract.rule import Nearest, Rule
from recipes._contract.wakeups import Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.permits import permits
from recipes.errors import SessionLost, StoreFull, StoreUnavailable
from recipes.stores.receipts import Exchange, Exchanged
from recipes.stores.sql.acts import NAMES_AT_ONCE, Acts
from recipes.stores.sql.protocol import (
    DEEPEST,
    LONGEST_S,
    MOST_LEFT,
    NEXT_S,
    OBSERVE_S,
    TIDY_EVERY_S,
    TIDY_WITHIN_S,
    SqlProtocol,
)
from recipes.stores.sql.requests import Listen, Transact, Work
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import Tables
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, Asked, feed

TICKET = Ticket("x", "lock", "a1", owner="o", data=b"d")
MINE = Entry(TICKET, "x/7", 7)
AHEAD = Contender("x/5", "b1", "W", "other")
NEXT = Contender("x/4", "b0", "W", "other")
OURS = Contender("x/6", "a0", "W", "me")
ALONE = Snapshot(MINE, (), complete=True, position=0, cheap=True)
BLOCKED = Snapshot(MINE, (AHEAD,), complete=True, position=1, cheap=True, due_s=9.0)
NOBODY = Snapshot(None, (), complete=True, position=0)
CUT = StoreUnavailable("postgresql://h", "cut", unsent=False)
KEY = "~value/v"


@pytest.fixture
def sql() -> SqlProtocol:
    """One session of 15 s."""
    one = SqlProtocol(Acts(Statements(Tables(), "postgresql"), "app", "recipes_", "me"), "me")
    feed(one.open(Open(15), CONTEXT), None, None)
    return one


def act(request: Any) -> tuple[str, dict[str, Any]]:
    """Return which act is to be carried out, and what it is given."""
    assert isinstance(request, Transact)
    if isinstance(request.act, partial):
        return request.act.func.__name__, request.act.keywords
    return request.act.__name__, {}


def acts(asked: list[Any]) -> list[str]:
    """Return the acts, and where it listens."""
    return ["listen" if isinstance(one, Listen) else act(one)[0] for one in asked]


def join(sql: SqlProtocol, *replies: Any, rule: Rule = EXCLUSIVE, context: Any = CONTEXT) -> Any:
    return feed(sql.enqueue(Enqueue(TICKET, rule), context), *replies)


# The session.


def test_a_session_begins_and_tidies_a_little() -> None:
    one = SqlProtocol(Acts(Statements(Tables(), "mysql"), "app", "recipes_", "me"), "me")
    asked = feed(one.open(Open(15), CONTEXT), None, None)
    assert asked.result == Opened("me", 15)
    assert acts(asked) == ["open", "_tidy"]
    assert act(asked[0])[1] == {"ttl_us": 15_000_000}
    assert asked[0].session
    assert asked[0].channel == "", "nobody is notified"
    assert asked[1].behind_s == TIDY_WITHIN_S, (
        "its time runs already, and what hangs there keeps none from it"
    )


def test_the_channel_is_listened_to_from_the_beginning() -> None:
    one = SqlProtocol(Acts(Statements(Tables(), "postgresql"), "app", "recipes_", "me"), "me")
    assert feed(one.open(Open(15), CONTEXT), None, None)[0].channel == "recipes_me"


@pytest.mark.parametrize("error", [CUT, Expired()])
def test_a_session_is_open_also_if_there_is_no_time_to_tidy(error: Exception) -> None:
    one = SqlProtocol(Acts(Statements(Tables(), "mysql"), "app", "recipes_", "me"), "me")
    assert feed(one.open(Open(15), CONTEXT), None, error).result == Opened("me", 15)


def test_an_operator_is_told_once_of_a_driver_that_hears_nothing() -> None:
    acts_of_one = Acts(Statements(Tables(), "postgresql"), "app", "recipes_", "me")
    one = SqlProtocol(acts_of_one, "me", "this driver hears nothing")
    for _ in range(2):
        feed(one.open(Open(15), CONTEXT), None, None)
    assert list(one.noticed()) == ["this driver hears nothing"]


def test_a_renewal_names_what_does_not_stand(sql: SqlProtocol) -> None:
    gone = Entry(Ticket("y", "lock", "a2"), "y/3", 3)
    asked = feed(sql.renew(Renew((MINE, gone), 1.0), CONTEXT), [("x", 7, TICKET.id), ("y", 4, "a3")])
    assert acts(asked) == ["renew"]
    assert asked[0].session, "it waits behind nothing else"
    assert asked.result == Renewal(15, (gone,))


def test_a_renewal_names_what_waits_and_does_not_stand(sql: SqlProtocol) -> None:
    """Nothing else notices, where it waits for what its own client has ahead of it."""
    asked = feed(sql.renew(Renew((), 1.0, waiting=(MINE,)), CONTEXT), [("y", 4, "a3")])
    assert asked.result == Renewal(15, (MINE,))


def renewals(sql: SqlProtocol, times: int) -> list[list[str]]:
    """Return which acts are asked for by each of so many renewals."""
    return [acts(renewed(sql)) for _ in range(times)]


def renewed(sql: SqlProtocol, *replies: Any) -> Any:
    """Renew, with one reply more if it tidies."""
    steps, asked = sql.renew(Renew((), 1.0), CONTEXT), Asked()
    try:
        asked.append(next(steps))
        asked.append(steps.send([]))
        for reply in replies or (None,):
            asked.append(steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply))
    except StopIteration as stop:
        asked.result = stop.value
    return asked


EVERY = round(SqlProtocol.renewals_per_ttl * TIDY_EVERY_S / 15)


def test_a_session_that_lives_on_tidies_now_and_then(sql: SqlProtocol) -> None:
    assert renewals(sql, EVERY - 1) == [["renew"]] * (EVERY - 1)
    asked = renewed(sql)
    assert acts(asked) == ["renew", "_tidy"]
    assert asked[1].behind_s == TIDY_WITHIN_S, "no renewal waits for it"
    assert asked.result == Renewal(15, ())
    assert renewals(sql, EVERY - 1) == [["renew"]] * (EVERY - 1)


@pytest.mark.parametrize("error", [CUT, Expired()])
def test_a_session_is_renewed_also_if_there_is_no_time_to_tidy(sql: SqlProtocol, error: Exception) -> None:
    renewals(sql, EVERY - 1)
    assert renewed(sql, error).result == Renewal(15, ())
    assert renewals(sql, 1) == [["renew"]], "it is not tried again at once"


@pytest.mark.parametrize(("graves", "again"), [(NAMES_AT_ONCE, True), (NAMES_AT_ONCE - 1, False)])
def test_where_there_is_more_to_tidy_the_next_renewal_does(
    sql: SqlProtocol, graves: int, again: bool
) -> None:
    renewals(sql, EVERY - 1)
    run: Any = renewed(sql)[1].act
    feed(run(Work()), [[]], [[("a",)] * graves, []], [graves])
    assert renewals(sql, 2) == [["renew", "_tidy"] if again else ["renew"], ["renew"]]


def test_a_session_that_has_written_values_drops_old_receipts(sql: SqlProtocol) -> None:
    written = Exchanged(True, 9, b"3", Stored(b"d", 9))
    feed(sql.write(Write("~value/v", b"d", 3), CONTEXT), written)
    renewals(sql, EVERY - 1)
    asked = renewed(sql)
    assert acts(asked) == ["renew", "_spend"]
    assert asked[1].behind_s == TIDY_WITHIN_S
    run: Any = asked[1].act
    feed(run(Work()), [[("app:~value/v", 9)] * NAMES_AT_ONCE], [1])
    assert renewals(sql, 2) == [["renew", "_tidy"], ["renew"]], "there is more: it goes on with what is next"
    assert [acts(renewed(sql))[1:] for _ in range(EVERY)][-2:] == [["_spend"], []]


def test_a_session_that_found_much_to_tidy_as_it_began_goes_on_soon() -> None:
    one = SqlProtocol(Acts(Statements(Tables(), "mysql"), "app", "recipes_", "me"), "me")
    run: Any = feed(one.open(Open(15), CONTEXT), None, None)[1].act
    feed(run(Work()), [[]], [[("a",)] * NAMES_AT_ONCE, []], [NAMES_AT_ONCE])
    assert renewals(one, 2) == [["renew", "_tidy"], ["renew"]]


def test_what_is_withdrawn_while_a_renewal_is_under_way_is_not_withdrawn_again(sql: SqlProtocol) -> None:
    """The renewal may have read it just before: to delete it once more locked its queue for nothing."""
    steps = sql.renew(Renew((), 1.0), CONTEXT)
    next(steps)
    feed(sql.withdraw(Withdraw(TICKET, MINE), CONTEXT), True)
    with pytest.raises(StopIteration) as end:
        steps.send([("x", 7, TICKET.id)])
    assert end.value.value == Renewal(15, ())


@pytest.mark.parametrize("answer", [True, CUT, Expired(), StoreFull("postgresql://h", "no space")])
def test_what_was_withdrawn_and_stands_again_is_withdrawn_again(sql: SqlProtocol, answer: Any) -> None:
    """A standby that took over may lack the withdrawal."""
    feed(sql.withdraw(Withdraw(TICKET, MINE), CONTEXT), True)
    asked = feed(sql.renew(Renew((), 1.0), CONTEXT), [("x", 7, TICKET.id)], answer)
    assert acts(asked) == ["renew", "remove"]
    assert asked.result == Renewal(15, ())


def test_of_what_was_withdrawn_the_last_are_known(sql: SqlProtocol) -> None:
    for number in range(MOST_LEFT + 1):
        feed(sql.withdraw(Withdraw(Ticket("x", "lock", f"w{number}"), None), CONTEXT), True)
    asked = feed(sql.renew(Renew((), 1.0), CONTEXT), [("x", 7, "w0"), ("x", 8, "w1")], True)
    assert acts(asked) == ["renew", "remove"]
    assert act(asked[1])[1]["one"] == "w1"


def test_a_session_ends_in_one_act(sql: SqlProtocol) -> None:
    assert acts(feed(sql.end(End(), CONTEXT), None)) == ["end"]


# To join.


def test_a_contender_that_is_alone_needs_nothing_else(sql: SqlProtocol) -> None:
    asked = join(sql, ALONE)
    assert act(asked[0]) == ("join", {"ticket": TICKET, "rule": EXCLUSIVE, "arm": 1})
    assert asked[0].joins
    assert not asked[0].reads
    assert asked.result == ALONE


def test_one_that_waits_is_notified_of_those_that_joining_watched(sql: SqlProtocol) -> None:
    asked = join(sql, BLOCKED, True)
    assert asked[1] == Listen(("x/7",), MAILBOX)
    assert asked.result == BLOCKED
    watched = feed(sql.watch(Watch(MINE, (AHEAD,)), CONTEXT), True)
    assert watched == [Listen(("x/5",), MAILBOX)], "also of what came in between"
    assert watched.result


def test_a_watch_notifies_once(sql: SqlProtocol) -> None:
    join(sql, BLOCKED, True)
    feed(sql.watch(Watch(MINE, (AHEAD,)), CONTEXT), True)
    asked = feed(sql.watch(Watch(MINE, (AHEAD,)), CONTEXT), True, (True, ["x/5"]))
    assert asked[0] == Listen(("x/5",), MAILBOX, afresh=True)
    assert act(asked[1]) == ("present", {"mine": MINE, "targets": (AHEAD,), "watch": True})
    assert asked.result


def test_one_of_the_same_session_is_not_watched_by_joining(sql: SqlProtocol) -> None:
    join(sql, Snapshot(MINE, (OURS,), complete=True, position=1), True)
    asked = feed(sql.watch(Watch(MINE, (OURS,)), CONTEXT), True, (True, []))
    assert acts(asked) == ["listen", "present"]
    assert not asked.result, "it is gone: look again"


@pytest.mark.parametrize(
    ("rule", "arm"),
    [
        (Rule("X", Nearest(DEEPEST), depth=DEEPEST), DEEPEST),
        (Rule("X", Nearest(DEEPEST + 1), depth=DEEPEST + 1), 0),
        (permits(1, DEEPEST + 1), 1),
    ],
    ids=["some", "many", "permits"],
)
def test_joining_watches_a_few(sql: SqlProtocol, rule: Rule, arm: int) -> None:
    assert act(join(sql, ALONE, rule=rule)[0])[1]["arm"] == arm


def test_where_the_server_does_not_notify_one_looks_again_the_later_the_more_are_ahead(
    sql: SqlProtocol,
) -> None:
    for position, again_s in (1, NEXT_S), (5, 5 * NEXT_S), (100_000, LONGEST_S):
        seen = Snapshot(MINE, (AHEAD,), complete=False, position=position, due_s=9.0)
        assert join(sql, seen, False).result.due_s == pytest.approx(again_s)
        assert join(sql, seen, False).result.by_time
    soon = Snapshot(MINE, (AHEAD,), complete=False, position=100_000, due_s=0.5)
    assert join(sql, soon, False).result.due_s == 0.5, "one of them is dead then"


def test_a_session_that_ended_does_not_join(sql: SqlProtocol) -> None:
    with pytest.raises(SessionLost):
        join(sql, SessionLost("ended"))


@pytest.mark.parametrize(
    ("context", "snapshot", "result"),
    [(CONTEXT, ALONE, ALONE), (CONTEXT, NOBODY, None), (AGAIN, NOBODY, NOBODY), (AGAIN, ALONE, ALONE)],
    ids=["free", "taken", "taken, and the first try may land yet", "free again"],
)
def test_a_try_stands_only_if_it_is_free(sql: SqlProtocol, context: Any, snapshot: Any, result: Any) -> None:
    asked = feed(sql.probe(Probe(TICKET, EXCLUSIVE), context), snapshot)
    assert act(asked[0]) == ("join", {"ticket": TICKET, "rule": EXCLUSIVE, "only_free": True})
    assert asked.result == result


# To look.


def test_a_look_at_what_joining_watched_only_reads(sql: SqlProtocol) -> None:
    join(sql, BLOCKED, True)
    asked = feed(sql.look(Look(MINE, EXCLUSIVE, (AHEAD,)), CONTEXT), True, BLOCKED)
    assert asked[0] == Listen(("x/7", "x/5"), MAILBOX, afresh=True)
    assert act(asked[1]) == ("glance", {"mine": MINE, "rule": EXCLUSIVE})
    assert asked[1].reads
    assert asked.result == BLOCKED


def test_a_look_at_others_watches_them(sql: SqlProtocol) -> None:
    join(sql, BLOCKED, True)
    asked = feed(sql.look(Look(MINE, EXCLUSIVE, (NEXT,)), CONTEXT), True, BLOCKED)
    assert act(asked[1]) == ("look", {"mine": MINE, "rule": EXCLUSIVE, "targets": (NEXT,)})
    assert not asked[1].reads


def test_a_look_that_finds_somebody_dead_is_one_that_deletes(sql: SqlProtocol) -> None:
    asked = feed(sql.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), True, None, ALONE)
    assert acts(asked) == ["listen", "glance", "look"]
    assert asked.result == ALONE


def test_where_the_server_does_not_notify_a_look_only_reads_and_is_timed(sql: SqlProtocol) -> None:
    asked = feed(sql.look(Look(MINE, EXCLUSIVE, (AHEAD,)), CONTEXT), False, BLOCKED)
    assert acts(asked) == ["listen", "glance"]
    assert asked.result.due_s == NEXT_S
    assert asked.result.ahead == BLOCKED.ahead


def test_one_that_is_gone_does_not_look_again(sql: SqlProtocol) -> None:
    assert feed(sql.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), False, None, NOBODY).result == NOBODY


def test_to_check_watches_unless_an_event_woke_it(sql: SqlProtocol) -> None:
    asked = feed(sql.check(Check(MINE, (AHEAD,)), CONTEXT), True, (True, ["x/5"]))
    assert acts(asked) == ["listen", "present"]
    assert asked.result == Checked(True, frozenset({"x/5"}))
    woken = feed(sql.check(Check(MINE, (AHEAD,), Gone("x/4")), CONTEXT), (False, []))
    assert act(woken[0]) == ("present", {"mine": MINE, "targets": (AHEAD,), "watch": False})
    assert woken[0].reads
    assert not woken.result.mine


def test_to_check_oneself_is_one_read(sql: SqlProtocol) -> None:
    asked = feed(sql.check(Check(MINE), CONTEXT), (True, []))
    assert acts(asked) == ["present"]
    assert asked[0].reads


# To leave.


def removing(sql: SqlProtocol, op: Withdraw, *replies: Any, context: Any = CONTEXT) -> Any:
    asked = feed(sql.withdraw(op, context), *replies)
    name, given = act(asked[0])
    assert name == "remove"
    return asked.result, given


def test_one_that_stands_is_removed(sql: SqlProtocol) -> None:
    removed, given = removing(sql, Withdraw(TICKET, MINE), True)
    assert removed
    assert given == {"queue": "x", "one": "a1", "token": 7, "bury": False}


def test_what_is_removed_again_may_have_been_removed_before(sql: SqlProtocol) -> None:
    assert removing(sql, Withdraw(TICKET, MINE), False)[0] is False
    assert removing(sql, Withdraw(TICKET, MINE), False, context=AGAIN)[0] is True


def test_one_that_may_land_yet_is_buried(sql: SqlProtocol) -> None:
    assert removing(sql, Withdraw(TICKET), False)[1]["bury"]


def test_one_whose_joining_was_asked_again_is_buried_until_that_is_answered(sql: SqlProtocol) -> None:
    join(sql, ALONE, context=AGAIN)
    with pytest.raises(StoreUnavailable):
        feed(sql.withdraw(Withdraw(TICKET, MINE), CONTEXT), CUT)
    assert removing(sql, Withdraw(TICKET, MINE), True, context=AGAIN)[1]["bury"]
    assert not removing(sql, Withdraw(TICKET, MINE), False)[1]["bury"]


@pytest.mark.parametrize(("context", "removed"), [(CONTEXT, False), (AGAIN, True)])
def test_an_eviction_asked_again_may_have_been_done(sql: SqlProtocol, context: Any, removed: bool) -> None:
    asked = feed(sql.evict(Evict("x", "x/5", 5), context), False)
    assert act(asked[0]) == ("expel", {"queue": "x", "token": 5})
    assert asked.result is removed


# In place.


def rewriting(sql: SqlProtocol, *found: Any, version: int | None = None) -> Any:
    asked = feed(sql.rewrite(Rewrite(MINE, "m", b"n", version), CONTEXT), *found)
    return asked.result, [act(one)[1]["version"] for one in asked]


def test_to_write_in_place_counts_from_what_the_server_said(sql: SqlProtocol) -> None:
    assert rewriting(sql, (1, True, True)) == (1, [0])
    assert rewriting(sql, (2, True, True)) == (2, [1])


def test_a_write_in_place_whose_answer_was_lost_is_not_done_twice(sql: SqlProtocol) -> None:
    assert rewriting(sql, (1, True, True)) == (1, [0])
    with pytest.raises(StoreUnavailable):
        rewriting(sql, CUT)
    assert rewriting(sql, (2, False, True)) == (2, [1]), (
        "it says what it should, at the version that this try would make"
    )


def test_another_version_is_tried_anew_unless_it_says_the_same(sql: SqlProtocol) -> None:
    assert rewriting(sql, (3, False, False), (4, True, True)) == (4, [0, 3])
    with_other_text = rewriting(sql, (6, False, True))
    assert with_other_text == (6, [4]), "an earlier try did it"


def test_with_a_version_of_the_callers_another_is_left_alone(sql: SqlProtocol) -> None:
    assert rewriting(sql, (3, True, True), version=2) == (3, [2])
    assert rewriting(sql, (5, False, True), version=2) == (None, [2])


def test_what_is_gone_is_not_written(sql: SqlProtocol) -> None:
    assert rewriting(sql, None) == (None, [0])


def test_one_that_joins_anew_counts_anew(sql: SqlProtocol) -> None:
    rewriting(sql, (1, True, True))
    removing(sql, Withdraw(TICKET, MINE), True)
    assert rewriting(sql, (1, True, True)) == (1, [0])


# From outside.


def test_a_listing_only_reads(sql: SqlProtocol) -> None:
    asked = feed(sql.listing(List("x", 9), CONTEXT), Listing((AHEAD,), 3.0))
    assert act(asked[0]) == ("peek", {"queue": "x", "most": 9})
    assert asked[0].reads
    assert asked.result == Listing((AHEAD,), 3.0)


def test_a_listing_that_finds_somebody_dead_deletes(sql: SqlProtocol) -> None:
    asked = feed(sql.listing(List("x", 9), CONTEXT), None, Listing(()))
    assert act(asked[1]) == ("listing", {"queue": "x", "most": 9, "watch": False})
    assert asked.result == Listing(())


def test_a_listing_is_watched_before_it_is_read(sql: SqlProtocol) -> None:
    asked = feed(sql.listing(List("x", 9, watch=True), CONTEXT), True, Listing((), None))
    assert asked[0] == Listen(("x",), MAILBOX, afresh=True)
    assert act(asked[1]) == ("listing", {"queue": "x", "most": 9, "watch": True})
    assert asked.result.due_s is None


@pytest.mark.parametrize(("due_s", "again_s"), [(None, OBSERVE_S), (9.0, OBSERVE_S), (0.1, 0.1)])
def test_a_listing_that_nobody_notifies_of_is_read_again(sql: SqlProtocol, due_s: Any, again_s: Any) -> None:
    asked = feed(sql.listing(List("x", 9, watch=True), CONTEXT), False, Listing((AHEAD,), due_s))
    assert acts(asked) == ["listen", "peek"]
    assert asked.result == Listing((AHEAD,), again_s)


def test_queues_are_read(sql: SqlProtocol) -> None:
    asked = feed(sql.queues(Queues(9), CONTEXT), ("x",))
    assert act(asked[0]) == ("queues", {"most": 9})
    assert asked[0].reads
    assert asked.result == ("x",)


# Values.


def test_a_value_is_read_and_where_it_is_watched_in_an_act_that_writes(sql: SqlProtocol) -> None:
    asked = feed(sql.read(Read(KEY), CONTEXT), Stored(b"v", 3))
    assert (act(asked[0]), asked[0].reads) == (("read", {"key": KEY, "watch": False}), True)
    watched = feed(sql.read(Read(KEY, watch=True), CONTEXT), True, Stored(b"v", 3))
    assert watched[0] == Listen((KEY,), MAILBOX, afresh=True)
    assert (act(watched[1]), watched[1].reads) == (("read", {"key": KEY, "watch": True}), False)
    assert watched.result == Stored(b"v", 3)


def test_a_value_that_nobody_notifies_of_is_read_again(sql: SqlProtocol) -> None:
    asked = feed(sql.read(Read(KEY, watch=True), CONTEXT), False, Stored(b"v", 3))
    assert (act(asked[1])[1]["watch"], asked[1].reads) == (False, True)
    assert asked.result == Stored(b"v", 3, OBSERVE_S)


def test_a_write_carries_its_receipt(sql: SqlProtocol) -> None:
    write = Write(KEY, b"new", 1)
    asked = feed(sql.write(write, CONTEXT), Exchanged(True, 9, b"1", Stored(b"new", 9)))
    name, given = act(asked[0])
    assert (name, given["put"].exchange) == ("put", Exchange(write, 0, b"1"))
    assert asked.result.done


def test_a_write_that_was_given_up_is_settled(sql: SqlProtocol) -> None:
    write = Write(KEY, b"new", 1)
    with pytest.raises(StoreUnavailable):
        feed(sql.write(write, CONTEXT), CUT)
    asked = feed(sql.settle(Settle(write), CONTEXT), Exchanged(True, 9, b""))
    assert act(asked[0])[1]["put"].exchange.settles
    assert asked.result is False
