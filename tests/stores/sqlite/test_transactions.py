"""What requests do to the tables, one transaction after the other, with the time in the test's hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recipes._contract.connection import Mailbox
from recipes._contract.rule import Order
from recipes._contract.wakeups import Event
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores.sqlite.layout import Target
from recipes.stores.sqlite.requests import (
    Ask,
    Demote,
    Evict,
    Finish,
    Join,
    List,
    ListQueues,
    NoSession,
    Present,
    Remove,
    See,
    Seen,
    Standing,
    Start,
    Touch,
    Watched,
)
from recipes.stores.sqlite.schema import EPOCH, connect, transaction
from recipes.stores.sqlite.transactions import carry_out, writes
from recipes.stores.sqlite.work import Work

READER = Order("R", exclusive_only=True)


class Box:
    def post(self, event: Event) -> None:
        raise AssertionError("a transaction tells nobody")


BOX = Box()


class File:
    """A file, a clock, and processes that live or have died."""

    def __init__(self, path: Path) -> None:
        self.db = connect(str(path), "label", lambda db: False)
        self.now = 100.0
        self.died: set[str] = set()
        self.listening: list[Target] = []
        self.work: Work | None = None

    def do(self, request: Ask[Any]) -> Any:
        with transaction(self.db):
            self.work = Work(
                self.db, self.now, lambda sessions: [s for s in set(sessions) if s in self.died], self.listen
            )
            return carry_out(request, self.work)

    def listen(self, mailbox: Mailbox, target: Target) -> None:
        self.listening.append(target)

    def start(self, *sessions: str, ttl_s: float = 10.0) -> None:
        for session in sessions:
            self.do(Start(session, ttl_s))

    def join(self, session: str, id_: str = "", **options: Any) -> Seen:
        order = options.pop("order", EXCLUSIVE)
        kind = options.pop("kind", "W")
        seen: Seen = self.do(Join(session, "x", kind, id_ or f"id-{session}", order, **options))
        return seen

    def told(self) -> dict[str, list[str]]:
        assert self.work is not None
        return {session: [ref.rpartition("/")[0] for ref in refs] for session, refs in self.work.gone.items()}

    def standing(self) -> list[str]:
        return [s for (s,) in self.db.execute("SELECT session FROM contender ORDER BY token").fetchall()]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    one = File(tmp_path / "locks.db")
    yield one
    one.db.close()


def refs(seen: Seen) -> list[str]:
    return [contender.session for contender in seen.ahead]


def test_tokens_rise_whatever_is_deleted(file: File) -> None:
    file.start("a")
    tokens = []
    for number in range(3):
        own = file.join("a", f"id-{number}").own
        assert own is not None
        tokens.append(own)
        assert file.do(Remove("a", "x", f"id-{number}", own))
    assert tokens == [EPOCH + 1, EPOCH + 2, EPOCH + 3]


def test_who_joins_sees_the_nearest_ahead_and_watches_the_second(file: File) -> None:
    file.start(*"abcd")
    assert file.join("a") == Seen(EPOCH + 1)
    b = file.join("b", mailbox=BOX)
    assert (refs(b), b.complete, b.position) == (["a"], True, 1)
    assert b.armed == (f"x/{EPOCH + 1}",)
    assert b.known == (f"x/{EPOCH + 1}",) * 2  # now, and later
    assert file.listening == [("x", EPOCH + 1)]
    c = file.join("c", mailbox=BOX)
    assert (refs(c), c.complete, c.position, c.armed) == (["b", "a"], True, 2, (f"x/{EPOCH + 1}",))
    d = file.join("d", mailbox=BOX)
    assert (refs(d), d.complete, d.position, d.armed) == (["c", "b"], False, 3, (f"x/{EPOCH + 2}",))


def test_the_nearest_waiter_is_told_first_and_each_once(file: File) -> None:
    file.start(*"acb")
    own = file.join("a").own
    file.join("c", mailbox=BOX)
    file.join("b", mailbox=BOX)
    assert own is not None
    assert file.do(Remove("a", "x", "id-a", own))
    assert list(file.told().items()) == [("c", ["x"]), ("b", ["x"])]
    assert file.db.execute("SELECT COUNT(*) FROM watch WHERE token = ?", (own,)).fetchone() == (0,)
    assert not file.do(Remove("a", "x", "id-a", own))


def test_who_waits_again_is_told_in_the_turn_of_its_first(file: File) -> None:
    file.start(*"abc")
    own = file.join("a").own
    for session in "bc":
        file.join(session, f"id-{session}", mailbox=BOX)
    last = file.join("b", "id-again").own
    assert own is not None
    assert last is not None
    file.do(Present("b", (("x", own),), ("x", last), BOX))
    file.do(Remove("a", "x", "id-a", own))
    assert list(file.told()) == ["b", "c"]


def test_who_steps_up_finds_written_that_it_is_told(file: File) -> None:
    file.start(*"abc")
    first, middle = file.join("a").own, file.join("b", mailbox=BOX).own
    assert first is not None
    assert middle is not None
    c = file.join("c", mailbox=BOX)
    assert (c.armed, c.known) == ((f"x/{first}",), (f"x/{first}", f"x/{middle}"))
    file.do(Remove("a", "x", "id-a", first))
    assert list(file.told()) == ["b", "c"]
    assert c.own is not None
    up = See("c", "x", c.own, EXCLUSIVE, (("x", middle),), BOX, known=True)
    assert not writes(up)
    file.listening.clear()
    looked: list[list[Target]] = []
    file.db.set_trace_callback(lambda sql: looked.append([*file.listening]) if "SELECT" in sql else None)
    assert refs(file.do(up)) == ["b"]
    assert looked[0] == [("x", middle)]  # what a look does not show is heard
    file.db.set_trace_callback(None)
    assert file.listening == [("x", middle)]
    file.do(Remove("b", "x", "id-b", middle))
    assert list(file.told()) == ["c"]


def test_contenders_of_the_same_session_are_not_watched(file: File) -> None:
    file.start("a")
    file.join("a", "id-1")
    seen = file.join("a", "id-2", mailbox=BOX)
    assert (refs(seen), seen.armed, file.listening) == (["a"], (), [])


def test_joining_again_finds_the_own_row_and_no_other_sessions(file: File) -> None:
    file.start("a", "b")
    own = file.join("a", "id-1").own
    assert file.join("a", "id-1", again=True).own == own
    assert file.join("b", "id-1", again=True).own != own
    assert file.standing() == ["a", "b"]


def test_starting_again_after_a_lost_reply_keeps_what_stands(file: File) -> None:
    file.start("a")
    file.join("a")
    file.now += 9
    file.start("a")
    file.now += 9
    assert file.do(Touch("a", (("x", EPOCH + 1),))) == (10.0, frozenset({EPOCH + 1}))


def test_nobody_removes_what_is_anothers(file: File) -> None:
    file.start("a", "b")
    own = file.join("a").own
    assert not file.do(Remove("b", "x", "id-a", own))
    assert not file.do(Remove("a", "y", "id-a", own))
    assert file.standing() == ["a"]


def test_queues_are_apart(file: File) -> None:
    file.start(*"abcd")
    for session in "abc":
        file.join(session)
    for number in range(3):
        seen = file.do(Join("d", "y", "W", f"id-{number}", EXCLUSIVE))
        assert (seen.position, seen.complete) == (number, number < 3)
    assert file.do(See("d", "y", seen.own, EXCLUSIVE, (), BOX)).position == 2
    assert file.do(Join("d", "y", "W", "id-3", EXCLUSIVE)).position == 3
    assert file.join("d").position == 3


def test_a_queue_is_listed_from_its_head(file: File) -> None:
    file.start(*"abc")
    for session in "abc":
        file.join(session, note=f"note-{session}")
    file.do(Join("c", "a", "R", "id", READER))
    rows = file.do(List("a", "x", 2))
    assert [(row[0], row[3], row[5]) for row in rows] == [
        (EPOCH + 1, "a", "note-a"),
        (EPOCH + 2, "b", "note-b"),
    ]
    assert file.do(ListQueues("a", 5)) == ("a", "x")
    assert file.do(ListQueues("a", 1)) == ("a",)


def test_who_joins_only_if_free_leaves_no_trace_if_not(file: File) -> None:
    file.start("a", "b")
    assert file.join("a", only_free=True).own
    assert file.do(Join("b", "x", "W", "id-b", EXCLUSIVE, only_free=True)) is None
    assert file.standing() == ["a"]
    assert file.do(Join("b", "y", "W", "id-b", EXCLUSIVE, only_free=True)) is not None


def test_readers_see_past_readers(file: File) -> None:
    file.start(*"abcd")
    file.join("a", kind="R", order=READER)
    b = file.join("b", kind="R", order=READER)
    assert (refs(b), b.complete, b.position) == ([], True, 0)
    file.join("c")
    d = file.join("d", kind="R", order=READER, mailbox=BOX)
    assert (refs(d), d.position, d.armed) == (["c"], 1, (f"x/{EPOCH + 3}",))


def test_a_session_ends_at_its_time_by_whoever_writes(file: File) -> None:
    file.start("a", ttl_s=5.0)
    file.start("b")
    file.join("a")
    file.join("b", mailbox=BOX)
    file.now += 5
    with pytest.raises(NoSession, match="has expired"):
        file.do(Present("a", (), ("x", EPOCH + 1)))  # a reader sees it too, and leaves it to a writer
    assert file.standing() == ["a", "b"]
    assert file.do(Watched("b", (("x", EPOCH + 1),))) == Standing({("x", EPOCH + 1): "a"}, due=True)
    file.do(Evict("b"))
    assert file.standing() == ["b"]
    assert file.told() == {"b": ["x"]}
    assert file.work is not None
    assert file.work.ended == ["a"]
    with pytest.raises(NoSession):
        file.do(Touch("a", ()))


def test_a_renewal_counts_from_now_and_tells_what_stands(file: File) -> None:
    file.start("a", "b")
    file.join("a")
    file.join("b")
    file.now += 9
    places = (("x", EPOCH + 1), ("x", EPOCH + 2), ("x", EPOCH + 9))
    assert file.do(Touch("a", places)) == (10.0, frozenset({EPOCH + 1}))
    file.now += 9
    assert file.do(Touch("a", ())) == (10.0, frozenset())
    assert file.standing() == ["a"]  # the other was not renewed


def test_a_session_from_a_clock_that_was_set_back_is_over(file: File) -> None:
    file.start("a")
    file.now -= 50  # as after a restart of a machine that cannot say that it was
    file.start("b")
    with pytest.raises(NoSession):
        file.do(Touch("a", ()))


def test_the_end_of_a_session_takes_all_it_had(file: File) -> None:
    file.start("a", "b")
    file.join("a", "id-1")
    file.join("b", mailbox=BOX)
    file.do(Finish("b"))
    file.do(Finish("b"))
    assert file.db.execute("SELECT COUNT(*) FROM watch").fetchone() == (0,)
    assert file.standing() == ["a"]


def test_the_dead_are_ended_by_whom_they_would_block(file: File) -> None:
    file.start(*"abcd")
    for session in "ab":
        file.join(session)
    file.died = {"a", "b"}
    seen = file.join("c", mailbox=BOX)
    assert (seen.ahead, seen.armed) == ((), ())
    file.died.add("c")
    assert file.join("d", only_free=True).own == EPOCH + 4


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
    file.do(Evict("d", ("a",)))
    assert file.standing() == ["c"]
    assert file.work is not None
    assert sorted(file.work.ended) == ["a", "b"]


def test_the_dead_are_ended_by_who_steps_up(file: File) -> None:
    file.start(*"abc")
    for session in "abc":
        own = file.join(session).own
    assert own is not None
    file.died = {"b"}
    target = ("x", EPOCH + 1)
    seen = file.do(See("c", "x", own, EXCLUSIVE, (target, ("x", EPOCH + 2)), BOX))
    assert (refs(seen), file.listening) == (["a"], [target])
    assert file.do(See("c", "x", EPOCH + 1, EXCLUSIVE, (), BOX)) == Seen(None)  # another's place


def test_a_dead_contender_without_a_session_does_not_hold_up_for_ever(file: File) -> None:
    file.start("a", "b")
    file.join("a")
    file.db.execute("DELETE FROM session WHERE id = 'a'")
    assert refs(file.join("b")) == ["a"]  # nothing is known of it
    file.died = {"a"}
    assert refs(file.join("b", "id-2")) == ["b"]


def test_presence_is_asked_with_and_without_watching(file: File) -> None:
    file.start("a", "b")
    file.join("a")
    file.join("b")
    mine, ahead, none = ("x", EPOCH + 2), ("x", EPOCH + 1), ("x", 1)
    reading = Present("b", (ahead, none), mine)
    assert file.do(reading) == frozenset({EPOCH + 1, EPOCH + 2})
    assert file.listening == []
    watching = Present("b", (ahead, none), mine, BOX)
    assert file.do(watching) == frozenset({EPOCH + 1, EPOCH + 2})
    assert file.listening == [ahead]
    assert file.do(Present("a", (), mine, BOX)) == frozenset()  # another's is not mine
    assert [writes(request) for request in (reading, watching, Present("b", (), mine, BOX))] == [
        False,
        True,
        False,
    ]
    assert not writes(Watched("b", ()))


def test_a_downgrade_keeps_place_and_token_and_tells_who_waits(file: File) -> None:
    file.start("a", "b")
    file.join("a")
    file.join("b", mailbox=BOX)
    assert file.do(Demote("a", "x", EPOCH + 1))
    assert file.work is not None
    assert file.work.changed == {"b": [f"x/{EPOCH + 1}"]}
    assert not file.do(Demote("b", "x", EPOCH + 1))
    a, b, none = (("x", EPOCH + number) for number in (1, 2, 3))
    assert file.do(Watched("b", (a, b, none))) == Standing({a: "a", b: "b"}, frozenset({a}))
    assert file.db.execute("SELECT token, downgraded FROM contender ORDER BY token").fetchall() == [
        (EPOCH + 1, 1),
        (EPOCH + 2, 0),
    ]


def test_without_a_token_the_attempt_is_found_by_its_name(file: File) -> None:
    file.start("a", "b")
    file.join("a", "id-1")
    assert not file.do(Remove("b", "x", "id-1"))
    assert file.do(Remove("a", "x", "id-1"))
    assert not file.do(Remove("a", "x", "id-1"))


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
