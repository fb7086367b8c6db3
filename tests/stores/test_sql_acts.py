"""The acts on SQL tables, stepped by hand: which statements are carried out, and in which order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.operations import Entry, Guard, Listing, Snapshot, Stored, Ticket, Write
from recipes._contract.rule import Nearest, Rule
from recipes._contract.wakeups import Changed, Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.readwrite import SHARED
from recipes.errors import SessionLost
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Exchange, Exchanged
from recipes.stores.sql.acts import (
    DAY_US,
    GRAVE_US,
    MANY_IDLE,
    NAMES_AT_ONCE,
    STALE_AT_ONCE,
    Acts,
    Elsewhere,
    Starting,
)
from recipes.stores.sql.requests import Ask, Work
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import OBSERVERS, Tables
from tests.stores.stepping import feed

TICKET = Ticket("x", "lock", "a1", owner="o", data=b"d")
MINE = Entry(TICKET, "x/7", 7)
NOW = 1_000_000
HERE, THERE = "here", "there"
"""Two servers."""
NOTHING = (None, None, HERE)
"""The reply where there is no value."""
WRITE = Write("~value/v", b"new", 1, if_version=3)
DIALECTS = ("postgresql", "mysql")


class Session:
    """The acts of the session `me`, and the statements that they are made of."""

    def __init__(self, dialect: str = "postgresql") -> None:
        self.say = Statements(Tables(), dialect)
        self.acts = Acts(self.say, "app", "recipes_", "me")
        self.work = Work(grace_us=20_000_000)

    def shown(self, rule: Rule = EXCLUSIVE) -> Ask:
        return self.say.shown("app:x", "a1", rule.reach + 2, exclusive_only=rule.exclusive_only)

    def join(self, *replies: Any, ticket: Ticket = TICKET, rule: Rule = EXCLUSIVE, **more: Any) -> Any:
        return feed(self.acts.join(self.work, ticket, rule, **more), *replies)

    def look(self, *replies: Any, rule: Rule = EXCLUSIVE, targets: tuple[Contender, ...] = ()) -> Any:
        return feed(self.acts.look(self.work, MINE, rule, targets), *replies)


@pytest.fixture
def one() -> Session:
    return Session()


def row(token: int, session: str = "other", *, left_us: int | None = 5_000_000, **more: Any) -> list[Any]:
    """Return a contender as the tables show it, and for how much longer its session lives."""
    expires_at = None if left_us is None else NOW + left_us
    fields = {"kind": "W", "id": f"b{token}", "mark": "", "version": 0, **more}
    found = [token, fields["kind"], session, fields["id"], fields["mark"], fields["version"], expires_at, NOW]
    found.append(more.get("server", HERE))
    return found + ([more["owner"], more["data"]] if "owner" in more else [])


OWN = row(7, "me", id="a1")


def nobody(server: str = HERE) -> list[Any]:
    """Return the row where none of some contenders is there."""
    return [*[None] * 7, NOW, server]


def of(asked: Any) -> list[Ask]:
    """Return the statements, one after another."""
    return [ask for asks in asked for ask in asks]


ACTS: dict[str, tuple[Callable[[Session], Any], list[list[Any]]]] = {
    "join": (lambda one: one.acts.join(one.work, TICKET, EXCLUSIVE), [[1, 1, [OWN]]]),
    "look": (lambda one: one.acts.look(one.work, MINE, EXCLUSIVE, ()), [[1], [[OWN]]]),
    "remove": (lambda one: one.acts.remove(one.work, "x", "a1", 7, bury=False), [[1, 0]]),
    "remove, unseen": (lambda one: one.acts.remove(one.work, "x", "a1", None, bury=False), [[1, []]]),
    "expel": (lambda one: one.acts.expel(one.work, "x", 5), [[1, 0]]),
    "rewrite": (lambda one: one.acts.rewrite(one.work, MINE, "m", b"", 0), [[1, 0], [[], []]]),
    "listing": (lambda one: one.acts.listing(one.work, "x", 9, watch=False), [[1], [[]]]),
    "present": (
        lambda one: one.acts.present(one.work, MINE, (Contender("x/5"),), watch=True),
        [[1, 1], [[OWN]]],
    ),
    "put": (
        lambda one: one.acts.put(one.work, Put(Exchange(WRITE, 0, b"1"))),
        [[1, [("me",)], [(9,)], [], []], [[NOTHING]]],
    ),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_writes_first_locks_the_row_of_its_queue(one: Session, act: str) -> None:
    begun, replies = ACTS[act]
    first = of(feed(begun(one), *replies))[0]
    queue = "app:~value/v" if act == "put" else "app:x"
    assert first in (one.say.lock(queue), one.say.draw(queue))


@pytest.mark.parametrize("act", ["remove", "expel", "rewrite"])
def test_what_may_wait_for_a_guard_locks_the_queue_behind_that_on_mysql(act: str) -> None:
    """While it waits others join."""
    one = Session("mysql")
    begun, ((lock, change), *others) = ACTS[act]
    asked = of(feed(begun(one), [change], [lock], *others))
    assert asked.index(one.say.lock("app:x")) == 1


def test_one_that_finds_nobody_joins_in_one_step(one: Session) -> None:
    asked = feed(one.acts.take(one.work, TICKET), [1, 0, [(7,)]])
    drawn, joined, found = of(asked)
    assert (drawn, found) == (one.say.draw("app:x"), one.say.find("app:x", "a1", "me"))
    assert joined.statement is one.say.join_alone("", "", "", None).statement
    assert asked.result == Snapshot(MINE, (), complete=True, position=0, cheap=True)
    assert one.work.news == [Changed("x")]


def test_one_that_finds_somebody_has_not_joined(one: Session) -> None:
    assert feed(one.acts.take(one.work, TICKET), [1, 0, []]).result is None
    assert one.work.news == []


# Sessions.


@pytest.mark.parametrize(("dialect", "channel"), [("postgresql", "recipes_me"), ("mysql", "")])
def test_a_session_has_a_channel_where_the_server_notifies(dialect: str, channel: str) -> None:
    assert Session(dialect).acts.channel == channel


@pytest.mark.parametrize("dialect", DIALECTS)
def test_to_open_begins_a_session_and_tries_whether_it_is_notified(dialect: str) -> None:
    one = Session(dialect)
    asked = feed(one.acts.open(one.work, 15_000_000), [1, []])
    begun = one.say.begin_session("me", 15_000_000)
    assert of(asked) == ([begun, one.say.notify("recipes_me", "open")] if one.say.notifies else [begun])


def test_a_renewal_reads_where_it_stands_in_a_statement_behind_that_which_renews(one: Session) -> None:
    asked = feed(one.acts.renew(one.work), [1], [[("app:x", 7, "a1"), ("app:~value/v", 8, "a2")]])
    assert asked == [(one.say.renew("me"),), (one.say.mine("me"),)]
    assert asked.result == [("x", 7, "a1"), ("~value/v", 8, "a2")]


def test_a_session_that_is_over_is_not_renewed(one: Session) -> None:
    with pytest.raises(SessionLost):
        feed(one.acts.renew(one.work), [0])


DELETED = [("app:x", [7, 9]), ("app:y", [3])]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_to_end_locks_its_queues_in_the_order_of_their_names_and_then_its_own_row(dialect: str) -> None:
    one = Session(dialect)
    places = [("app:y", 3, "a1"), ("app:x", 9, "a2"), ("app:x", 7, "a3")]
    cleared = [[1, 2], [1, 1], [[None]], [[None]]] if one.say.notifies else [[2], [1], [1], [1]]
    asked = feed(one.acts.end(one.work), [places], *cleared, [1, 1, 1])
    locks = [ask for ask in of(asked) if ask in (one.say.lock("app:x"), one.say.lock("app:y"))]
    assert locks == [one.say.lock("app:x"), one.say.lock("app:y")]
    deleted = [of(asked).index(one.say.delete(name, tokens)) for name, tokens in DELETED]
    assert deleted == sorted(deleted)
    if not one.say.notifies:  # a delete may wait for a guard: those that join need not
        assert of(asked).index(locks[0]) > deleted[-1]
    assert of(asked)[-2:] == list(one.say.end_session("me"))
    assert (one.say.notifies and one.say.unwatch("me") in of(asked)) == one.say.notifies
    assert one.work.news == [Gone("x/7"), Gone("x/9"), Changed("x"), Gone("y/3"), Changed("y")]


# To join.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_contender_that_is_alone_stands_and_its_queue_has_changed(dialect: str) -> None:
    one = Session(dialect)
    asked = one.join([1, [(1, 0)] if one.say.notifies else 1, [OWN]])
    given = {"id": "a1", "kind": "W", "mark": "", "owner": "o", "data": b"d"}
    joins = one.say.join("app:x", "me", "recipes_", **given)
    assert of(asked) == [one.say.draw("app:x"), joins, one.shown()]
    assert joins.values.get("tokens_") == ([OBSERVERS] if one.say.notifies else None)
    assert asked.result == Snapshot(MINE, (), complete=True, position=0, cheap=True)
    assert one.work.news == [Changed("x")]


def test_a_contender_that_stood_before_changes_nothing(one: Session) -> None:
    asked = one.join([1, 0, [OWN]])
    assert asked.result.mine == MINE
    assert not one.work.news


def test_the_nearest_ahead_are_watched_but_for_those_of_the_same_session(one: Session) -> None:
    asked = one.join(
        [1, 1, [OWN, row(6, "me"), row(5), row(4)]],
        [[(3,)]],
        [1],
        rule=Rule("W", Nearest(), depth=1),
        arm=2,
    )
    assert asked[-1] == (one.say.watch("app:x", 5, "me"),)
    assert [one.ref for one in asked.result.ahead] == ["x/6", "x/5"]
    assert asked.result.due_s == 5.0


@pytest.mark.parametrize("dialect", ["mysql"])
def test_nobody_is_watched_where_the_server_does_not_notify(dialect: str) -> None:
    one = Session(dialect)
    asked = one.join([1, 1, [OWN, row(5)]], arm=2)
    assert len(asked) == 1


def test_of_many_ahead_the_others_are_counted(one: Session) -> None:
    ahead = [row(token) for token in (6, 5, 4)]
    asked = one.join([1, 0, [OWN, *ahead]], [[(11,)]])
    assert asked[-1] == (one.say.count("app:x", 7, exclusive_only=False),)
    assert (asked.result.complete, asked.result.position) == (False, 11)
    assert [one.ref for one in asked.result.ahead] == ["x/6", "x/5"]


def test_a_reader_is_shown_those_that_exclude_alone(one: Session) -> None:
    reader = Ticket("x", "R", "a1", minds_marks=True)
    asked = one.join(
        [1, 0, [row(7, "me", id="a1", kind="R"), row(5, mark=DOWNGRADED)]], ticket=reader, rule=SHARED
    )
    assert of(asked)[2] == one.shown(SHARED)
    assert of(asked)[2].statement is not one.shown().statement
    assert asked.result.ahead == (Contender("x/5", "b5", "W", "other", DOWNGRADED),)


def test_a_try_that_finds_somebody_is_rolled_back_and_nobody_hears_of_it(one: Session) -> None:
    asked = one.join([1, 1, [OWN, row(5)]], only_free=True)
    assert len(asked) == 1
    assert asked.result == Snapshot(None, (), complete=True, position=0)
    assert one.work.undo
    assert not one.work.news


def test_a_try_that_finds_nobody_stands(one: Session) -> None:
    assert one.join([1, 1, [OWN]], only_free=True).result.mine == MINE
    assert not one.work.undo


def test_a_contender_that_was_withdrawn_does_not_come_to_stand(one: Session) -> None:
    with pytest.raises(SessionLost, match="withdrawn"):
        one.join([1, 0, []], [[("a1",)]])


@pytest.mark.parametrize(
    "rows", [[], [row(7, "me", id="a1", left_us=0)], [row(7, "me", id="a1", left_us=None)]]
)
def test_a_session_that_is_over_does_not_come_to_stand(one: Session, rows: list[Any]) -> None:
    with pytest.raises(SessionLost, match="ended"):
        one.join([1, 0, rows], [[]])


def test_nothing_is_granted_a_while_after_another_server_took_over(one: Session) -> None:
    one.work.starting_until_us = NOW + 2_500_000
    with pytest.raises(Starting) as raised:
        one.join([1, 1, [OWN]])
    assert raised.value.left_us == 2_500_000


@pytest.mark.parametrize("act", ["join", "try", "look", "glance", "listing", "peek"])
def test_what_was_known_of_another_server_does_not_count(one: Session, act: str) -> None:
    """A proxy has led the connection to one that took over: its grace has not been asked for."""
    one.work.server = THERE
    shown = [row(3, owner="", data=b"")]
    steps, replies = {
        "join": (one.acts.join(one.work, TICKET, EXCLUSIVE), [[1, 1, [OWN]]]),
        "try": (one.acts.join(one.work, TICKET, EXCLUSIVE, only_free=True), [[1, 1, [OWN, row(5)]]]),
        "look": (one.acts.look(one.work, MINE, EXCLUSIVE, ()), [[1], [[OWN]]]),
        "glance": (one.acts.glance(one.work, MINE, EXCLUSIVE), [[[OWN]]]),
        "listing": (one.acts.listing(one.work, "x", 9, watch=False), [[1], [shown]]),
        "peek": (one.acts.peek(one.work, "x", 9), [[shown]]),
    }[act]
    with pytest.raises(Elsewhere):
        feed(steps, *replies)


def test_on_another_server_nobody_dies_for_want_of_a_renewal(one: Session) -> None:
    one.work.server = THERE
    with pytest.raises(Elsewhere):
        one.join([1, 0, [OWN, row(6, "dead", left_us=0)]])


def test_one_that_finds_nobody_joins_on_the_server_that_it_knows_alone(one: Session) -> None:
    one.work.server = THERE
    asked = feed(one.acts.take(one.work, TICKET), [1, 0, []])
    assert of(asked)[1].values["server_"] == THERE


def test_what_is_known_from_before_a_clock_was_set_back_does_not_count(one: Session) -> None:
    """Else nothing would be granted until the clock is there again."""
    one.work.starting_until_us = NOW + one.work.grace_us + 1
    with pytest.raises(Elsewhere):
        one.join([1, 1, [OWN]])
    one.work.starting_until_us -= 1
    with pytest.raises(Starting):
        one.join([1, 1, [OWN]])


# The dead.


def test_the_dead_are_killed_for_good_before_any_of_theirs_is_deleted(one: Session) -> None:
    asked = one.join(
        [1, 0, [OWN, row(6, "dead", left_us=0), row(5, "dead", left_us=0), row(4)]],
        [[("dead",)]], [1], [[(5,), (6,)]], [2], [[None]], [[OWN, row(4)]],
    )  # fmt: skip
    assert of(asked)[3:] == [
        one.say.dead(["dead"]),
        one.say.kill(["dead"]),
        one.say.free("app:x", ["dead"]),
        one.say.delete("app:x", [5, 6]),
        one.say.ring("recipes_", "app:x", [5, 6, OBSERVERS], "g"),
        one.shown(),
    ]
    assert [one.ref for one in asked.result.ahead] == ["x/4"]
    assert one.work.news == [Gone("x/5"), Gone("x/6"), Changed("x")]


def test_one_whose_session_is_over_and_is_being_renewed_stands(one: Session) -> None:
    asked = one.join([1, 0, [OWN, row(5, "late", left_us=-1)]], [[]])
    assert of(asked)[3:] == [one.say.dead(["late"])], "time alone deletes nobody"
    assert [one.ref for one in asked.result.ahead] == ["x/5"]
    assert asked.result.due_s == 0.01, "look again soon"


def test_one_that_a_guard_has_locked_stands_although_its_session_is_dead(one: Session) -> None:
    asked = one.join([1, 0, [OWN, row(5, "dead", left_us=-1)]], [[("dead",)]], [1], [[]])
    assert of(asked)[-1] == one.say.free("app:x", ["dead"])
    assert [one.ref for one in asked.result.ahead] == ["x/5"]


def test_one_without_a_session_is_deleted(one: Session) -> None:
    """Its session ended while it joined; no renewal comes any more."""
    asked = one.join([1, 0, [OWN, row(5, "ended", left_us=None)]], [[]], [[(5,)]], [1], [[None]], [[OWN]])
    assert of(asked)[4] == one.say.free("app:x", ["ended"])
    assert asked.result.ahead == ()


# To look.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_to_look_watches_before_it_reads(dialect: str) -> None:
    one = Session(dialect)
    watched = [[1]] if one.say.notifies else []
    asked = one.look([1], *watched, [[OWN, row(5)]], targets=(Contender("x/5"),))
    armed = [one.say.watch("app:x", 5, "me")] if one.say.notifies else []
    assert of(asked) == [one.say.lock("app:x"), *armed, one.shown()]
    assert asked.result.position == 1


@pytest.mark.parametrize(
    "rows", [[], [row(7, "other", id="a1")], [row(7, "me", id="a1", left_us=0)], [row(5)]]
)
def test_a_look_shows_no_entry_that_does_not_stand(one: Session, rows: list[Any]) -> None:
    assert one.look([1], [rows], [[("me", HERE)]]).result.mine is None


GONE: dict[str, tuple[Callable[[Session], Any], list[list[Any]]]] = {
    "look": (lambda one: one.acts.look(one.work, MINE, EXCLUSIVE, ()), [[1], [[]]]),
    "present": (lambda one: one.acts.present(one.work, MINE, (), watch=False), [[[nobody()]]]),
}
"""Acts that do not find the own contender, and what they are shown."""


@pytest.mark.parametrize("act", GONE)
def test_one_that_went_with_its_session_is_told_from_one_that_was_removed(one: Session, act: str) -> None:
    steps, shown = GONE[act]
    with pytest.raises(SessionLost, match="ended"):
        feed(steps(one), *shown, [[(None, HERE)]])
    assert feed(steps(one), *shown, [[("me", HERE)]]).result is not None


@pytest.mark.parametrize("alive", ["me", None])
@pytest.mark.parametrize("act", GONE)
def test_what_another_server_does_not_show_proves_nothing(one: Session, act: str, alive: Any) -> None:
    """A standby that is behind cost a good grant, and a waiter its place."""
    one.work.server = HERE
    steps, shown = GONE[act]
    with pytest.raises(Elsewhere):
        feed(steps(one), *shown, [[(alive, THERE)]])
    if act == "present":
        with pytest.raises(Elsewhere):
            feed(steps(one), [[nobody(THERE)]])


def test_a_glance_reads_without_a_lock(one: Session) -> None:
    asked = feed(one.acts.glance(one.work, MINE, EXCLUSIVE), [[OWN, row(5)]])
    assert of(asked) == [one.shown()]
    assert asked.result.position == 1


def test_a_glance_far_behind_counts_those_ahead(one: Session) -> None:
    """It locked its queue for that once, as often as it looked: those that wanted to leave waited for it."""
    asked = feed(one.acts.glance(one.work, MINE, EXCLUSIVE), [[OWN, row(6), row(5), row(4)]], [[(9,)]])
    assert of(asked) == [one.shown(), one.say.count("app:x", 7, exclusive_only=False)]
    assert (asked.result.position, asked.result.complete) == (9, False)


def test_a_glance_leaves_to_a_look_what_is_more_than_reading(one: Session) -> None:
    assert feed(one.acts.glance(one.work, MINE, EXCLUSIVE), [[OWN, row(5, left_us=0)]]).result is None
    assert feed(one.acts.glance(one.work, MINE, EXCLUSIVE), [[]]).result is None, "a standby may be behind"


@pytest.mark.parametrize("act", ["glance", "look"])
def test_neither_grants_while_the_server_starts(one: Session, act: str) -> None:
    one.work.starting_until_us = NOW + 1
    if act == "look":
        steps, locked = one.acts.look(one.work, MINE, EXCLUSIVE, ()), [[1]]
    else:
        steps, locked = one.acts.glance(one.work, MINE, EXCLUSIVE), []
    with pytest.raises(Starting):
        feed(steps, *locked, [[OWN]])


# Who is there.


def test_present_is_who_stands_as_it_was_seen(one: Session) -> None:
    mine = Entry(Ticket("x", "R", "a1", minds_marks=True), "x/7", 7)
    targets = (Contender("x/5"), Contender("x/4", mark="m"), Contender("x/3"))
    rows = [OWN, row(5, mark=DOWNGRADED), row(4, mark="m")]
    asked = feed(one.acts.present(one.work, mine, targets, watch=False), [rows])
    assert of(asked) == [one.say.some("app:x", [7, 5, 4, 3])]
    assert asked.result == (True, ["x/4"])


def test_a_mark_is_no_matter_to_one_that_does_not_mind(one: Session) -> None:
    rows = [OWN, row(5, mark=DOWNGRADED)]
    asked = feed(one.acts.present(one.work, MINE, (Contender("x/5"),), watch=False), [rows])
    assert asked.result == (True, ["x/5"])


@pytest.mark.parametrize("server", [HERE, THERE])
def test_what_another_server_shows_proves_nothing(one: Session, server: str) -> None:
    """A proxy leads what only reads to a standby, say, which may be behind."""
    one.work.server = HERE
    present = partial(one.acts.present, one.work, MINE, (), watch=False)
    read = partial(one.acts.read, one.work, "~value/v", watch=False)
    own = row(7, "me", id="a1", server=server)
    for steps, rows in ((present(), [own]), (read(), [(b"v", 3, server)]), (read(), [(None, None, server)])):
        with contextlib.nullcontext() if server == HERE else pytest.raises(Elsewhere):
            assert feed(steps, [rows]).result


@pytest.mark.parametrize("rows", [[nobody()], [row(7, "other")], [row(7, "me", left_us=0)]])
def test_the_own_contender_is_not_there_if_it_is_gone_or_over(one: Session, rows: list[Any]) -> None:
    asked = feed(one.acts.present(one.work, MINE, (), watch=False), [rows], [[("me", HERE)]])
    assert of(asked)[1:] == [one.say.lives_here("me")]
    assert asked.result == (False, [])


def test_what_is_watched_is_looked_at_afterwards(one: Session) -> None:
    targets = (Contender("x/5"), Contender("x/4"))
    asked = feed(one.acts.present(one.work, MINE, targets, watch=True), [1, 1, 1], [[OWN]])
    watched = [one.say.watch("app:x", token, "me") for token in (5, 4)]
    assert of(asked) == [one.say.lock("app:x"), *watched, one.say.some("app:x", [7, 5, 4])]


@pytest.mark.parametrize(("dialect", "targets"), [("mysql", (Contender("x/5"),)), ("postgresql", ())])
def test_where_there_is_nothing_to_watch_only_a_read_is_left(dialect: str, targets: Any) -> None:
    one = Session(dialect)
    assert len(of(feed(one.acts.present(one.work, MINE, targets, watch=True), [[OWN]]))) == 1


# To leave.


def test_what_is_removed_is_known_to_those_that_watch_it(one: Session) -> None:
    asked = feed(one.acts.remove(one.work, "x", "a1", 7, bury=False), [1, [(1, 2)]])
    assert of(asked) == [
        one.say.lock("app:x"),
        one.say.remove("app:x", "a1", "me", "recipes_", 7),
    ]
    assert of(asked)[1].values["tokens_"] == [7, OBSERVERS]
    assert asked.result
    assert one.work.news == [Gone("x/7"), Changed("x")]


def test_what_was_gone_is_not_removed_and_can_be_buried(one: Session) -> None:
    asked = feed(one.acts.remove(one.work, "x", "a1", 7, bury=True), [1, 0], [1, []], [1])
    assert of(asked)[-1] == one.say.bury("a1", GRAVE_US)
    assert not asked.result
    assert not one.work.news


def test_what_comes_to_stand_before_the_queue_is_locked_is_removed_too() -> None:
    """By a late copy of its join, after somebody evicted what the first one had made, or it was lost."""
    one = Session("mysql")
    asked = feed(one.acts.remove(one.work, "x", "a1", 7, bury=True), [0], [1], [1, [(9,)]], [1], [1])
    lock, found = one.say.lock("app:x"), one.say.find("app:x", "a1", "me")
    removal, deletion = one.say.remove("app:x", "a1", "me", "recipes_", 7), one.say.delete("app:x", [9])
    assert of(asked) == [removal, lock, lock, found, deletion, one.say.bury("a1", GRAVE_US)]
    assert asked.result


def test_those_that_watch_such_a_copy_are_notified(one: Session) -> None:
    """Of the token that it has: it was the one that its client knew, and they waited for a look by time."""
    asked = feed(
        one.acts.remove(one.work, "x", "a1", 7, bury=True), [1, [(0, 0)]], [1, [(9,)]], [1], [[None]], [1]
    )
    assert one.say.ring("recipes_", "app:x", [9, OBSERVERS], "g") in of(asked)
    assert one.work.news == [Gone("x/9"), Changed("x")]


def test_one_whose_token_is_not_known_is_found_by_its_id(one: Session) -> None:
    asked = feed(one.acts.remove(one.work, "x", "a1", None, bury=True), [1, [(7,)]], [1], [[None]], [1])
    assert of(asked)[1:3] == [one.say.find("app:x", "a1", "me"), one.say.delete("app:x", [7])]
    assert asked.result
    assert one.work.news == [Gone("x/7"), Changed("x")]


def test_to_evict_deletes_what_has_still_this_token(one: Session) -> None:
    asked = feed(one.acts.expel(one.work, "x", 5), [1, 1], [[None]])
    assert of(asked)[:2] == [one.say.lock("app:x"), one.say.delete("app:x", [5])]
    assert asked.result
    assert one.work.news == [Gone("x/5"), Changed("x")]
    assert not feed(one.acts.expel(one.work, "x", 5), [1, 0]).result


# In place.


def test_to_write_in_place_compares_the_version_and_the_session(one: Session) -> None:
    asked = feed(
        one.acts.rewrite(one.work, MINE, "m", b"n", 3), [1, 1], [[("me",)], [(4, "m", b"n")]], [[None]]
    )
    assert of(asked) == [
        one.say.lock("app:x"),
        one.say.rewrite("app:x", "me", token=7, mark="m", data=b"n", version=3),
        one.say.alive("me"),
        one.say.written("app:x", 7, "me"),
        one.say.ring("recipes_", "app:x", [7, OBSERVERS], "c"),
    ]
    assert asked.result == (4, True, True)
    assert one.work.news == [Changed("x/7"), Changed("x")]


@pytest.mark.parametrize(
    ("now", "same"), [((5, "m", b"n"), True), ((5, "m", b"z"), False), ((5, "", b"n"), False)]
)
def test_another_version_is_left_as_it_is(one: Session, now: Any, same: bool) -> None:
    asked = feed(one.acts.rewrite(one.work, MINE, "m", b"n", 3), [1, 0], [[("me",)], [now]])
    assert asked.result == (5, False, same)
    assert not one.work.news
    assert not one.work.undo


@pytest.mark.parametrize(("alive", "found"), [([], [(4, "m", b"")]), ([("me",)], [])], ids=["dead", "gone"])
def test_a_dead_session_writes_nothing_in_place(one: Session, alive: Any, found: Any) -> None:
    asked = feed(one.acts.rewrite(one.work, MINE, "m", b"", 3), [1, 1], [alive, found])
    assert asked.result is None
    assert one.work.undo


# From outside.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_listing_shows_all_of_each_and_no_dead(dialect: str) -> None:
    one = Session(dialect)
    dead = row(3, "dead", left_us=0, owner="", data=b"")
    alive = row(5, mark="m", version=2, owner="o", data=memoryview(b"d"))
    rung = [[None]] if one.say.notifies else []
    watched = [[1]] if one.say.notifies else []
    asked = feed(
        one.acts.listing(one.work, "x", 9, watch=True),
        [1], *watched, [[dead, alive]], [[("dead",)]], [1], [[(3,)]], [1], *rung, [[alive]],
    )  # fmt: skip
    armed = [one.say.watch("app:x", OBSERVERS, "me")] if one.say.notifies else []
    assert of(asked)[: 2 + len(armed)] == [one.say.lock("app:x"), *armed, one.say.head("app:x", 9)]
    shown = Contender("x/5", "b5", "W", "other", "m", 5, "o", b"d", 2)
    assert asked.result == Listing((shown,), 5.0)


def test_while_a_server_takes_over_nobody_is_deleted_for_want_of_a_renewal(one: Session) -> None:
    """The last renewal may be lost; by a row that is gone another would be granted."""
    one.work.starting_until_us = NOW + 2_500_000
    dead = row(3, "dead", left_us=-1, owner="", data=b"")
    asked = feed(one.acts.listing(one.work, "x", 9, watch=False), [1], [[dead]])
    assert of(asked) == [one.say.lock("app:x"), one.say.head("app:x", 9)]
    assert [shown.token for shown in asked.result.contenders] == [3]
    assert asked.result.due_s == 2.5
    with pytest.raises(Starting):
        one.look([1], [[OWN, row(3, "dead", left_us=-1)]])


def test_a_peek_shows_nothing_if_somebody_is_dead(one: Session) -> None:
    alive = row(5, owner="o", data=b"d")
    assert feed(one.acts.peek(one.work, "x", 9), [[alive]]).result.contenders[0].data == b"d"
    assert feed(one.acts.peek(one.work, "x", 9), [[]]).result == Listing(())
    assert feed(one.acts.peek(one.work, "x", 9), [[alive, row(6, left_us=0)]]).result is None


def test_queues_are_those_of_the_own_root(one: Session) -> None:
    asked = feed(one.acts.queues(one.work, 9), [[("app:x",), ("app:~semaphore/y",)]])
    assert of(asked) == [one.say.queues("app:", "app;", 9)]
    assert asked.result == ("x", "~semaphore/y")


# Values.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_value_is_watched_before_it_is_read(dialect: str) -> None:
    one = Session(dialect)
    watched = [[1, 1]] if one.say.notifies else []
    asked = feed(one.acts.read(one.work, "~value/v", watch=True), *watched, [[(b"v", 3, HERE)]])
    key = "app:~value/v"
    armed = [one.say.lock(key), one.say.watch(key, OBSERVERS, "me")] if one.say.notifies else []
    assert of(asked) == [*armed, one.say.read(key)]
    assert asked.result == Stored(b"v", 3)


def test_a_value_that_there_is_not_has_no_version(one: Session) -> None:
    asked = feed(one.acts.read(one.work, "~value/v", watch=False), [[NOTHING]])
    assert asked.result == Stored()


@pytest.mark.parametrize(
    ("data", "written", "stored"),
    [(b"new", "set", Stored(b"new", 9)), (None, "erase", Stored())],
)
def test_a_write_and_its_receipt_are_one_act(one: Session, data: Any, written: str, stored: Stored) -> None:
    put = Put(Exchange(Write("~value/v", data, 1, if_version=3), 6, b"1"))
    asked = feed(
        one.acts.put(one.work, put),
        [1, [("me",)], [(9,)], [(6, b"0")], [(3,)]],
        [1, 1, [("me",)]],
        [[None]],
    )
    key = "app:~value/v"
    value = one.say.set(key, 9, b"new") if written == "set" else one.say.erase(key)
    # The lock of the session's row last: on MySQL a renewal waits for it, and the value may be large.
    assert of(asked)[5:8] == [one.say.say(key, "me", 9, b"1"), value, one.say.stays("me")]
    assert asked.result == Exchanged(True, 9, b"1", stored)
    assert one.work.news == [Changed("~value/v")]


def test_to_settle_writes_the_receipt_alone(one: Session) -> None:
    put = Put(Exchange(WRITE, 0, b"", settles=True))
    asked = feed(one.acts.put(one.work, put), [1, [("me",)], [(9,)], [], [(4,)]], [1, [("me",)]])
    assert of(asked)[5:] == [one.say.say("app:~value/v", "me", 9, b""), one.say.stays("me")]
    assert asked.result == Exchanged(True, 9, b"")
    assert not one.work.news


@pytest.mark.parametrize(
    ("said", "version"), [([(6, b"2")], [(3,)]), ([], [(4,)]), ([], [])], ids=["receipt", "value", "no value"]
)
def test_a_write_that_finds_another_version_writes_nothing(one: Session, said: Any, version: Any) -> None:
    asked = feed(
        one.acts.put(one.work, Put(Exchange(WRITE, 0, b"1"))),
        [1, [("me",)], [(9,)], said, version],
        [[(b"v", 4, HERE)]],
    )
    receipt, text = said[0] if said else (0, b"")
    assert asked.result == Exchanged(False, receipt, text, Stored(b"v", 4))
    assert not one.work.news


@pytest.mark.parametrize("rows", [[[(7, "")], [(8, "")]], [[], [(8, "")]], [[(7, "")], []]])
def test_all_that_guard_a_write_have_to_stand(one: Session, rows: Any) -> None:
    guards = (Guard(MINE), Guard(Entry(Ticket("y", "lock", "a2"), "y/8", 8)))
    put = Put(Exchange(Write("~value/v", b"new", 1, guards=guards), 0, b"1"))
    replies = [[1, 1, [("me",)]], [[None]]] if all(rows) else [[[NOTHING]]]
    asked = feed(one.acts.put(one.work, put), [1, [("me",)], [(9,)], [], []], [rows[0]], [rows[1]], *replies)
    assert of(asked)[5:7] == [one.say.guard("app:x", 7, "me"), one.say.guard("app:y", 8, "me")]
    assert (asked.result.done, asked.result.guarded) == (all(rows), all(rows))


@pytest.mark.parametrize("mark", ["", "downgraded"])
def test_a_guard_that_must_not_change_stands_until_it_is_marked(one: Session, mark: str) -> None:
    put = Put(Exchange(Write("~value/v", b"new", 1, guards=(Guard(MINE, unchanged=True),)), 0, b"1"))
    replies = [[[NOTHING]]] if mark else [[1, 1, [("me",)]], [[None]]]
    asked = feed(one.acts.put(one.work, put), [1, [("me",)], [(9,)], [], []], [[(7, mark)]], *replies)
    assert (asked.result.done, asked.result.guarded) == (not mark, not mark)


def test_a_session_that_is_over_writes_nothing(one: Session) -> None:
    """Its receipts may be deleted: a late copy of its first write would find all as expected."""
    with pytest.raises(SessionLost):
        feed(one.acts.put(one.work, Put(Exchange(WRITE, 0, b"1"))), [1, [], [(9,)], [], [(3,)]])


def test_a_session_that_ends_meanwhile_leaves_no_receipt(one: Session) -> None:
    put = Put(Exchange(Write("~value/v", b"new", 1), 0, b"1"))
    with pytest.raises(SessionLost):
        feed(one.acts.put(one.work, put), [1, [("me",)], [(9,)], [], []], [1, 1, []])
    assert not one.work.news


# What was over long ago.


def test_to_tidy_kills_before_it_deletes_and_locks_in_the_order_of_names(one: Session) -> None:
    asked = feed(
        one.acts.tidy(one.work),
        [[("s1",), ("s2",)]], [[("s1",)]], [1], [[("r:y", 3), ("app:x", 7)]],
        [1, 1], [1, 1], [[None]], [[None]], [1, 1],
        [[("a0",)], []], [1],
    )  # fmt: skip
    assert of(asked) == [
        one.say.stale(STALE_AT_ONCE, DAY_US),
        one.say.dead(["s1", "s2"]),
        one.say.kill(["s1"]),
        one.say.where(["s1"]),
        one.say.lock("app:x"),
        one.say.delete("app:x", [7]),
        one.say.lock("r:y"),
        one.say.delete("r:y", [3]),
        one.say.ring("recipes_", "app:x", [7, OBSERVERS], "g"),
        one.say.ring("recipes_", "r:y", [3, OBSERVERS], "g"),
        *one.say.forget(["s1"]),
        one.say.old_graves(NAMES_AT_ONCE),
        one.say.tidied_to(),
        one.say.dig(["a0"]),
    ]
    assert asked.result is False


def test_sessions_that_somebody_else_tidies_are_left_alone(one: Session) -> None:
    asked = feed(one.acts.tidy(one.work), [[("s1",)]], [[]], [[], []])
    assert of(asked)[-2:] == [one.say.old_graves(NAMES_AT_ONCE), one.say.tidied_to()]


def test_idle_queues_are_dropped_some_at_a_time(one: Session) -> None:
    names = [(f"app:{number:04}",) for number in range(NAMES_AT_ONCE)]
    known = [name for (name,) in names]
    asked = feed(
        one.acts.tidy(one.work), [[]], [[], [("app:",)]], [names], [names[:3]], [names[:2]], [2], [1]
    )
    assert of(asked)[3:] == [
        one.say.names("app:", NAMES_AT_ONCE),
        one.say.idle(known, DAY_US),
        one.say.idle(known[:3], DAY_US),
        one.say.drop_idle(known[:2]),
        one.say.tidy_to(known[-1]),
    ]


def test_a_queue_that_was_used_before_it_was_locked_is_not_dropped(one: Session) -> None:
    asked = feed(one.acts.tidy(one.work), [[]], [[], [("",)]], [[("app:x",)]], [[("app:x",)]], [[]], [1])
    assert of(asked)[-2:] == [one.say.idle(["app:x"], DAY_US), one.say.tidy_to("")]


@pytest.mark.parametrize(
    ("stale", "graves", "idle", "more"),
    [
        (STALE_AT_ONCE, 0, 0, True),
        (STALE_AT_ONCE - 1, 0, 0, False),
        (0, NAMES_AT_ONCE, 0, True),
        (0, NAMES_AT_ONCE - 1, 0, False),
        (0, 0, MANY_IDLE, True),
        (0, 0, MANY_IDLE - 1, False),
    ],
)
def test_there_is_more_to_tidy_where_what_was_read_was_full_of_it(
    one: Session, stale: int, graves: int, idle: int, more: bool
) -> None:
    """Queues are read whether they are idle or not: where few are, the next ones can wait."""
    row = ("app:x",)
    asked = feed(
        one.acts.tidy(one.work),
        *([[row] * stale], [[row] * stale], [1], [[]], [1, 1, 1]) if stale else [[[]]],
        [[row] * graves, [("",)]], *([[1]] if graves else []),
        [[row] * NAMES_AT_ONCE], [[row] * idle], *([[[row]], [1]] if idle else []), [1],
    )  # fmt: skip
    assert asked.result is more


@pytest.mark.parametrize("names", [[], [("app:x",)]])
def test_behind_the_last_queue_it_begins_anew(one: Session, names: list[Any]) -> None:
    idle = [[[]]] if names else []
    asked = feed(one.acts.tidy(one.work), [[]], [[], [("app:w",)]], [names], *idle, [1])
    assert of(asked)[-1] == one.say.tidy_to("")


@pytest.mark.parametrize(("count", "more"), [(3, False), (NAMES_AT_ONCE, True)])
def test_old_receipts_are_dropped_but_of_what_is_under_way(one: Session, count: int, more: bool) -> None:
    """Those of the session grew as long as it lived, and made its end last longer than it may."""
    old = [(f"app:~value/{number}", 5 + number) for number in range(count)]
    asked = feed(one.acts.spend(one.work, ["~value/1", "~value/none"]), [old], [count - 1])
    assert of(asked) == [
        one.say.old_receipts("me", NAMES_AT_ONCE, GRAVE_US),
        one.say.drop_receipts("me", [name for name, _ in old if name != "app:~value/1"], 4 + count),
    ]
    assert asked.result is more


@pytest.mark.parametrize("count", [0, NAMES_AT_ONCE])
def test_where_no_receipt_may_go_none_is_dropped(one: Session, count: int) -> None:
    keys = [f"~value/{number}" for number in range(count)]
    asked = feed(one.acts.spend(one.work, keys), [[(f"app:{key}", 5) for key in keys]])
    assert len(of(asked)) == 1
    assert asked.result is False


# The server.


@pytest.mark.parametrize("there", [True, False], ids=["known", "first"])
def test_the_server_that_is_known_grants_at_once(one: Session, there: bool) -> None:
    row = ("s1", 0, 20_000_000, NOW, HERE)
    replies = [[[row]]] if there else [[[]], [1, [row]]]
    asked = feed(one.acts.enter(one.work, "s1", 20_000_000), *replies)
    noted = [] if there else [one.say.first_life("s1", 20_000_000), one.say.life()]
    assert of(asked) == [one.say.life(), *noted]
    assert asked.result == (0, 20_000_000, HERE)


def test_another_server_grants_after_the_grace_that_was_agreed_about(one: Session) -> None:
    before = ("s1", 0, 20_000_000, NOW, HERE)
    after = ("s2", NOW, 20_000_000, NOW, HERE)
    asked = feed(one.acts.enter(one.work, "s2", 5_000_000), [[before]], [1, [before]], [1, [after]])
    assert of(asked) == [
        one.say.life(),
        one.say.first_life("s2", 5_000_000),
        one.say.life(),
        one.say.next_life("s2"),
        one.say.life(),
    ]
    assert asked.result == (NOW + 20_000_000, 20_000_000, HERE)


def test_what_another_client_has_noted_meanwhile_is_not_noted_again(one: Session) -> None:
    """To note the first locks the row, so of several that enter one notes the next."""
    before, after = ("s1", 0, 20_000_000, NOW, HERE), ("s2", NOW, 20_000_000, NOW, HERE)
    asked = feed(one.acts.enter(one.work, "s2", 20_000_000), [[before]], [1, [after]])
    assert len(of(asked)) == 3
    assert asked.result == (NOW + 20_000_000, 20_000_000, HERE)


def test_what_was_noted_before_a_clock_was_set_back_is_noted_again(one: Session) -> None:
    """So the grace is waited for, and not the day that the clock was ahead."""
    ahead, after = ("s1", NOW + DAY_US, 20_000_000, NOW, HERE), ("s1", NOW, 20_000_000, NOW, HERE)
    asked = feed(one.acts.enter(one.work, "s1", 20_000_000), [[ahead]], [1, [after]])
    assert of(asked) == [one.say.life(), one.say.next_life("s1"), one.say.life()]
    assert asked.result == (NOW + 20_000_000, 20_000_000, HERE)
