"""What operations do to the tables, one transaction after the other, with the time in the test's hand."""

from __future__ import annotations

import sqlite3

import pytest

from recipes._contract.contenders import Contender
from recipes._contract.operations import (
    Check,
    Checked,
    End,
    Enqueue,
    Entry,
    Evict,
    List,
    Look,
    Open,
    Probe,
    Queues,
    Read,
    Renew,
    Renewal,
    Rewrite,
    Snapshot,
    Ticket,
    Watch,
    Withdraw,
    Write,
)
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost
from recipes.stores._kit.queue import Command, Put
from recipes.stores._kit.session import Observe, Observed
from recipes.stores.receipts import Exchange
from recipes.stores.sqlite.schema import EPOCH, transaction
from recipes.stores.sqlite.transactions import Sweep, writes
from tests.stores.sqlite.file import BOX, File

READER = Rule("R", exclusive_only=True)


def ahead(snapshot: Snapshot) -> list[str]:
    return [contender.session for contender in snapshot.ahead]


def at(number: int) -> str:
    return f"x/{EPOCH + number}"


def test_tokens_rise_whatever_is_deleted(file: File) -> None:
    file.start("a")
    tokens = []
    for number in range(3):
        mine = file.entry("a", f"id-{number}")
        tokens.append(mine.token)
        assert file.leave("a", mine)
    assert tokens == [EPOCH + 1, EPOCH + 2, EPOCH + 3]


def test_one_that_joins_sees_the_nearest_ahead_and_watches_the_second(file: File) -> None:
    file.start(*"abcd")
    mine = Entry(Ticket("x", "lock", "id-a", "owner-a", b"data"), at(1), EPOCH + 1)
    assert file.join("a") == Snapshot(mine, (), complete=True, position=0, as_of=mine.token)
    b = file.join("b")
    assert b.ahead == (Contender(at(1), "id-a", "W", "a"),)
    assert (b.complete, b.position) == (True, 1)
    assert file.listening == [at(1)]
    assert file.waiting(EPOCH + 1) == ["b"]
    c = file.join("c")
    assert (ahead(c), c.complete, c.position) == (["b", "a"], True, 2)
    assert file.listening == [at(1)] * 2
    assert file.waiting(EPOCH + 2) == ["c"]  # it watches this one next
    d = file.join("d")
    assert (ahead(d), d.complete, d.position) == (["c", "b"], False, 3)
    assert file.listening == [at(1), at(1), at(2)]


def test_the_nearest_waiter_is_told_first_and_each_once(file: File) -> None:
    file.start(*"acb")
    mine = file.entry("a")
    file.join("c")
    file.join("b")
    assert file.leave("a", mine)
    assert list(file.news().items()) == [("c", [at(1)]), ("b", [at(1)])]
    assert file.waiting(mine.token) == []
    assert not file.leave("a", mine)


def test_who_waits_again_is_told_in_the_turn_of_its_first(file: File) -> None:
    file.start(*"abc")
    mine = file.entry("a")
    for session in "bc":
        file.join(session)
    last = file.entry("b", "id-again")
    assert file.do("b", Watch(last, (Contender(mine.ref),)))
    file.leave("a", mine)
    assert list(file.news()) == ["b", "c"]


def test_one_that_moves_up_finds_its_watch_written(file: File) -> None:
    file.start(*"abc")
    first, middle, last = (file.entry(session) for session in "abc")
    file.leave("a", first)
    assert list(file.news()) == ["b", "c"]
    up = Look(last, EXCLUSIVE, (Contender(middle.ref),))
    assert not writes(Command(up, "c", BOX, promised=True))
    file.listening.clear()
    looked: list[list[str]] = []
    file.db.set_trace_callback(lambda sql: looked.append([*file.listening]) if "SELECT" in sql else None)
    assert ahead(file.do("c", up, promised=True)) == ["b"]
    assert looked[0] == [middle.ref]  # what a look does not show is heard
    file.db.set_trace_callback(None)
    assert file.listening == [middle.ref]
    file.leave("b", middle)
    assert list(file.news()) == ["c"]


def test_contenders_of_the_same_session_are_not_watched(file: File) -> None:
    file.start("a")
    file.join("a", "id-1")
    assert (ahead(file.join("a", "id-2")), file.listening) == (["a"], [])
    assert file.waiting(EPOCH + 1) == []


def test_joining_again_finds_the_own_row_and_no_other_sessions(file: File) -> None:
    file.start("a", "b")
    mine = file.entry("a", "id-1")
    assert file.entry("a", "id-1", again=True) == mine
    probed = file.do("a", Probe(mine.ticket, EXCLUSIVE), again=True)
    assert probed == Snapshot(mine, (), complete=True, position=0)
    assert file.entry("b", "id-1", again=True).token != mine.token
    assert file.standing() == ["a", "b"]


def test_starting_again_after_a_lost_reply_keeps_what_stands(file: File) -> None:
    file.start("a")
    mine = file.entry("a")
    file.now += 9
    file.start("a")
    file.now += 9
    assert file.do("a", Renew((mine,), 1.0)) == Renewal(10.0)


def test_nobody_removes_what_is_anothers(file: File) -> None:
    file.start("a", "b")
    mine = file.entry("a")
    assert not file.leave("b", mine)
    assert not file.leave("a", Entry(Ticket("y", "lock", "id-a"), f"y/{mine.token}", mine.token))
    assert file.standing() == ["a"]


def test_queues_are_apart(file: File) -> None:
    file.start(*"abcd")
    for session in "abc":
        file.join(session)
    for number in range(3):
        snapshot = file.join("d", f"id-{number}", queue="y")
        assert (snapshot.position, snapshot.complete) == (number, number < 3)
    assert snapshot.mine is not None
    assert file.do("d", Look(snapshot.mine, EXCLUSIVE, ())).position == 2
    assert file.join("d", "id-3", queue="y").position == 3
    assert file.join("d").position == 3


def test_a_queue_is_listed_from_its_head(file: File) -> None:
    file.start(*"abc")
    for session in "abc":
        file.join(session)
    file.join("c", "id", queue="a", rule=READER)
    assert file.do("a", List("x", 2)).contenders == tuple(
        Contender(at(token), f"id-{one}", "W", one, "", EPOCH + token, f"owner-{one}", b"data")
        for token, one in enumerate("ab", 1)
    )
    assert file.do("a", Queues(5)) == ("a", "x")
    assert file.do("a", Queues(1)) == ("a",)


def test_who_joins_only_if_free_leaves_no_trace_if_not(file: File) -> None:
    file.start("a", "b")
    assert file.do("a", Probe(Ticket("x", "lock", "id-a"), EXCLUSIVE)).mine
    assert file.do("b", Probe(Ticket("x", "lock", "id-b"), EXCLUSIVE)) is None
    assert file.standing() == ["a"]
    assert file.do("b", Probe(Ticket("y", "lock", "id-b"), EXCLUSIVE)) is not None


def test_readers_see_past_readers(file: File) -> None:
    file.start(*"abcd")
    file.join("a", rule=READER)
    b = file.join("b", rule=READER)
    assert (ahead(b), b.complete, b.position) == ([], True, 0)
    file.join("c")
    d = file.join("d", rule=READER)
    assert (ahead(d), d.position, file.listening[-1]) == (["c"], 1, at(3))


def test_a_kind_that_is_not_known_excludes_readers(file: File) -> None:
    file.start(*"abc")
    assert file.join("a", rule=Rule("S2.10")).mine
    b = file.join("b", rule=READER)
    assert [contender.kind for contender in b.ahead] == ["S2.10"]
    for number in range(3):
        file.join("c", f"id-{number}", rule=Rule("Z"))
    assert file.join("b", "id-last", rule=READER).position == 4


def test_a_session_ends_at_its_time_by_whoever_writes(file: File) -> None:
    file.start("a", ttl_s=5.0)
    file.start("b")
    mine = file.entry("a")
    file.join("b")
    file.now += 5
    with pytest.raises(SessionLost, match="has expired"):
        file.do("a", Check(mine))  # one that only reads sees it too, and leaves it to a writer
    assert file.standing() == ["a", "b"]
    assert file.do("b", Observe((at(1),), ())) == Observed(
        frozenset({at(1)}), {}, (), frozenset("a"), due=True
    )
    file.do("b", Sweep())
    assert file.standing() == ["b"]
    assert file.news() == {"b": [at(1)]}
    assert file.work is not None
    assert file.work.ended == ["a"]
    with pytest.raises(SessionLost, match="has ended on the store"):
        file.do("a", Renew((), 1.0))


def test_a_renewal_counts_from_now_and_says_what_is_missing(file: File) -> None:
    file.start("a", "b")
    mine, others = file.entry("a"), file.entry("b")
    gone = Entry(mine.ticket, at(9), EPOCH + 9)
    file.now += 9
    assert file.do("a", Renew((mine, others, gone), 1.0)) == Renewal(10.0, (others, gone))
    file.now += 9
    assert file.do("a", Renew((), 1.0)) == Renewal(10.0)
    assert file.standing() == ["a"]  # the other was not renewed


def test_a_session_from_a_clock_that_was_set_back_is_over(file: File) -> None:
    file.start("a")
    file.now -= 50  # as after a restart of a machine that cannot say that it was
    file.start("b")
    with pytest.raises(SessionLost):
        file.do("a", Renew((), 1.0))


def test_the_end_of_a_session_takes_all_it_had(file: File) -> None:
    file.start("a", "b")
    file.join("a", "id-1")
    file.join("b")
    for queue in "xy":
        file.do("b", List(queue, 1, watch=True))
    file.do("b", End())
    file.do("b", End())
    for table in ("watch", "observer"):
        assert file.db.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)
    assert file.standing() == ["a"]


def test_the_dead_are_ended_by_whom_they_would_block(file: File) -> None:
    file.start(*"abcd")
    for session in "ab":
        file.join(session)
    file.died = {"a", "b"}
    file.listening.clear()
    assert (file.join("c").ahead, file.listening) == ((), [])
    file.died.add("c")
    assert file.do("d", Probe(Ticket("x", "lock", "id-d"), EXCLUSIVE)).mine.token == EPOCH + 4


def test_the_dead_who_block_nobody_are_ended_by_who_comes(file: File) -> None:
    file.start(*"ab")
    file.died = {"a"}
    file.start("c")
    assert file.db.execute("SELECT id FROM session ORDER BY id").fetchall() == [("b",), ("c",)]


def test_where_one_has_died_all_the_dead_are_ended(file: File) -> None:
    """One of them may stand behind the one that was looked at, and be the next that blocks."""
    file.start(*"abcd")
    for session in "abc":
        file.join(session)
    file.died = {"a", "b"}
    file.do("d", Sweep(("a",)))
    assert file.standing() == ["c"]
    assert file.work is not None
    assert sorted(file.work.ended) == ["a", "b"]


def test_the_dead_are_ended_by_who_steps_up(file: File) -> None:
    file.start(*"abc")
    first, middle, last = (file.entry(session) for session in "abc")
    file.died = {"b"}
    file.listening.clear()
    targets = (Contender(first.ref), Contender(middle.ref))
    snapshot = file.do("c", Look(last, EXCLUSIVE, targets))
    assert (ahead(snapshot), file.listening) == (["a"], [first.ref])
    assert file.do("c", Look(first, EXCLUSIVE, ())).mine is None  # another's place


def test_a_dead_contender_without_a_session_does_not_hold_up_for_ever(file: File) -> None:
    file.start("a", "b")
    file.join("a")
    file.db.execute("DELETE FROM session WHERE id = 'a'")
    assert ahead(file.join("b")) == ["a"]  # nothing is known of it
    file.died = {"a"}
    assert ahead(file.join("b", "id-2")) == ["b"]


def test_presence_is_asked_with_and_without_watching(file: File) -> None:
    file.start("a", "b")
    first = file.entry("a")
    mine = file.entry("b")
    targets = (Contender(first.ref), Contender("x/1"))
    file.listening.clear()
    reading, watching = Check(mine, targets, Gone("x/1")), Check(mine, targets)
    for check, listening in ((reading, []), (watching, [first.ref])):
        assert file.do("b", check) == Checked(mine=True, present=frozenset({first.ref}))
        assert file.listening == listening
    assert not file.do("b", Watch(mine, targets))
    assert file.do("b", Watch(mine, targets[:1]))
    assert file.do("a", Check(mine)) == Checked(mine=False, present=frozenset())  # another's is not mine


def test_only_what_writes_waits_for_other_writers(file: File) -> None:
    file.start("a")
    mine = file.entry("a")
    target = (Contender(at(2)),)
    reading = [
        Look(mine, EXCLUSIVE, ()),
        Check(mine),
        Check(mine, target, Gone(at(2))),
        Watch(mine, ()),
        List("x", 1),
        Read("~value/x"),
        Queues(1),
        Observe((), ()),
    ]
    writing = [
        Look(mine, EXCLUSIVE, target),
        Check(mine, target),
        Watch(mine, target),
        List("x", 1, watch=True),
        Read("~value/x", watch=True),
        Put(Exchange(Write("~value/x", b"", 1), 0, b"1")),
        Enqueue(mine.ticket, EXCLUSIVE),
        Probe(mine.ticket, EXCLUSIVE),
        Withdraw(mine.ticket),
        Rewrite(mine, ""),
        Evict("x", mine.ref, mine.token),
        Renew((), 1.0),
        Open(1.0),
        End(),
        Sweep(),
    ]
    assert [op for op in (*reading, *writing) if writes(Command(op, "a", BOX))] == writing
    assert not writes(Command(Look(mine, EXCLUSIVE, target), "a", BOX, promised=True))


def test_a_rewrite_keeps_place_and_token_and_notifies_waiters(file: File) -> None:
    file.start("a", "b")
    mine, others = file.entry("a"), file.entry("b")
    assert file.do("a", Rewrite(mine, "downgraded", b"new")) == 1
    assert file.news(Changed) == {"b": [mine.ref]}
    assert file.do("a", Rewrite(mine, "granted", b"newer", 1)) == 2
    assert file.do("a", Rewrite(mine, "lost", b"", 1)) is None  # it has been rewritten since
    assert file.do("b", Rewrite(mine, "lost", b"")) is None  # another's
    found = file.do("a", List("x", 2)).contenders
    assert [(one.token, one.mark, one.data, one.version) for one in found] == [
        (EPOCH + 1, "granted", b"newer", 2),
        (EPOCH + 2, "", b"data", 0),
    ]
    assert file.do("b", Look(others, EXCLUSIVE, ())).ahead[0].mark == "granted"
    observed = file.do("b", Observe((mine.ref, others.ref, at(3)), ()))
    assert observed == Observed(frozenset({mine.ref, others.ref}), {mine.ref: "granted"}, (), frozenset("ab"))


def test_a_mark_matters_to_some_kinds_only(file: File) -> None:
    file.start("a", "b")
    mine = file.entry("a")
    seen = (Contender(mine.ref),)
    file.do("a", Rewrite(mine, "granted"))
    minding = Entry(Ticket("x", "S1.2", "id", minds_marks=True), at(7), EPOCH + 7)
    plain = Entry(Ticket("x", "lock", "id"), at(8), EPOCH + 8)
    assert not file.do("b", Watch(minding, seen))
    assert file.do("b", Watch(minding, (Contender(mine.ref, mark="granted"),)))
    assert file.do("b", Watch(plain, seen))


def watch_queue(file: File, session: str, queue: str = "x") -> None:
    file.do(session, List(queue, 10, watch=True))


@pytest.mark.parametrize("change", ["join", "leave", "rewrite", "evict", "end", "death", "expiry"])
def test_an_observer_is_notified_of_any_change_once(file: File, change: str) -> None:
    file.start("a", ttl_s=20.0)
    file.start("b", "c", ttl_s=30.0)
    mine = file.entry("a")
    watch_queue(file, "b")
    watch_queue(file, "b", "y")
    watch_queue(file, "c")
    assert file.listening == ["x", "y", "x"]
    file.died = {"a"} if change == "death" else set()
    file.now += 20 if change == "expiry" else 0
    session, op = {
        "join": ("a", Enqueue(Ticket("x", "R", "id-2"), READER)),
        "leave": ("a", Withdraw(mine.ticket, mine)),
        "rewrite": ("a", Rewrite(mine, "granted")),
        "evict": ("b", Evict("x", mine.ref, mine.token)),
        "end": ("a", End()),
        "death": ("b", Sweep(("a",))),
        "expiry": ("b", Sweep()),
    }[change]
    file.do(session, op)
    assert file.news(Changed) == {"b": ["x"], "c": ["x"]}
    file.do("b", Evict("x", mine.ref, mine.token))
    file.do("b", Probe(Ticket("x", "R", "id-3"), READER))
    assert file.news(Changed) == {}


def test_an_observer_finds_what_it_was_not_notified_of(file: File) -> None:
    file.start(*"ab")
    mine = file.entry("a")
    watch_queue(file, "b")
    watch_queue(file, "b", "y")
    observe = Observe((), ("x", "y"))
    assert file.do("b", observe).changed == ()
    file.db.execute("UPDATE contender SET version = 1")
    assert file.do("b", observe).changed == ("x",)
    watch_queue(file, "b")  # another call of the session has not seen it yet
    assert file.news(Changed) == {"b": ["x"]}
    assert file.do("b", observe).changed == ()
    file.do("a", Rewrite(mine, "granted"))
    assert file.do("b", observe).changed == ("x",)  # it was told: the notification may be on its way
    watch_queue(file, "b")
    file.db.execute("DELETE FROM contender")
    file.db.execute("INSERT INTO contender (queue, token, id, kind, session) VALUES ('y', 1, 'i', 'W', 's')")
    found = file.do("b", observe)
    assert (found.changed, found.owners) == (("x", "y"), {"s"})


def test_without_a_token_the_attempt_is_found_by_its_name(file: File) -> None:
    file.start("a", "b")
    ticket = file.entry("a", "id-1").ticket
    assert not file.do("b", Withdraw(ticket))
    assert file.do("a", Withdraw(ticket))
    assert not file.do("a", Withdraw(ticket))


def test_anybody_may_evict_by_the_token(file: File) -> None:
    file.start("a", "b")
    mine = file.entry("a")
    assert not file.do("b", Evict("x", mine.ref, mine.token + 1))
    assert file.do("b", Evict("x", mine.ref, mine.token))
    assert not file.do("b", Evict("x", mine.ref, mine.token))


def test_a_transaction_that_breaks_leaves_no_trace(file: File) -> None:
    def breaking() -> None:
        with transaction(file.db):
            file.db.execute("DELETE FROM machine")
            raise LookupError

    with pytest.raises(LookupError):
        breaking()
    assert file.db.execute("SELECT COUNT(*) FROM machine").fetchone() == (1,)
    with pytest.raises(sqlite3.OperationalError), transaction(file.db):
        file.db.execute("ROLLBACK")
