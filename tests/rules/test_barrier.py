"""The rule of barriers: what a record says, and what a party does by it."""

from __future__ import annotations

from itertools import product

import pytest

from recipes._contract.contenders import Contender
from recipes._rules.barrier import (
    GONE,
    LEAVING,
    PARTY,
    PASSED,
    TIMED_OUT,
    Behind,
    Decides,
    GivenUp,
    Missing,
    Named,
    Outcome,
    Record,
    Waits,
    come,
    decide,
    give_up,
    inside,
    named,
    pack,
    unpack,
)
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.holding import granted
from recipes._rules.registry import rule_of

NOBODY: frozenset[str] = frozenset()
RECORDS = [
    Record(1, 1),
    Record(10_000, 987),
    Record(3, 9, (Outcome(8, PASSED, ("a", "", "c")),)),
    Record(
        2, 9, (Outcome(3, GONE, ("", "b")), Outcome(5, TIMED_OUT, ("a",)), Outcome(8, PASSED, ("c", "d")))
    ),
    Record(2, 10**18 - 1),
]


def party(name: str, generation: int | str = 5, **fields: str) -> Contender:
    return Contender(name, name, PARTY.kind, f"session of {name}", data=f"{generation}".encode(), **fields)


def parties(names: str, generation: int = 5) -> tuple[Contender, ...]:
    return tuple(party(name, generation) for name in names)


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_what_was_written_is_read(record: Record) -> None:
    assert unpack(pack(record)) == record


def test_a_record_is_text() -> None:
    assert pack(RECORDS[2]) == b"3 9\n8 passed a,,c"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"3",
        b"3 x",
        b"3 4 5",
        b"3 4\n",
        b"3 4\n3 passed",
        b"\xff 4",
        b"3 4\nx passed a",
        b"0 4",
        b"2 -5",
        b"2 1" + b"0" * 18,
        b"2 " + b"5" * 5000,
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever
        unpack(data)


def test_a_party_blocks_nobody_and_is_blocked_by_nobody() -> None:
    assert rule_of(PARTY.kind) is PARTY
    for length in range(4):
        for kinds in product(("B", "W", "R"), repeat=length):
            ahead = tuple(Contender(f"{place}", kind=kind) for place, kind in enumerate(kinds))
            assert PARTY.blockers(ahead) == PARTY.targets(ahead) == ()
    assert granted(parties("abc")) == [True, True, True]
    assert PARTY.mode != EXCLUSIVE.mode


def test_the_first_that_comes_begins_the_first_generation() -> None:
    assert come(None, 3, (), GivenUp()) == Record(3, 1)


def test_one_that_comes_later_finds_the_generation_that_gathers() -> None:
    record = Record(3, 5)
    assert come(record, 3, parties("ab"), GivenUp()) == record


def test_another_number_of_parties_counts_once_nothing_stands() -> None:
    record = Record(3, 5, (Outcome(4, PASSED, ("a", "b", "c")),))
    assert come(record, 2, parties("c", 4), GivenUp()) is None
    assert come(record, 2, (), GivenUp()) == Record(2, 6)


@pytest.mark.parametrize("left", [{"a"}, {"session of a"}])
def test_one_that_its_client_gave_up_breaks_the_generation_in_which_it_stands(left: set[str]) -> None:
    record = Record(3, 5)
    given_up = GivenUp(frozenset(left))
    assert come(record, 3, parties("ab"), given_up) == Record(3, 6, (Outcome(5, GONE, ("a", "b")),))
    decided = Record(3, 5, (Outcome(4, GONE, ("a",)),))
    assert come(decided, 3, parties("a", 4), given_up) == decided
    assert come(record, 3, parties("b"), given_up) == record


def test_one_that_its_client_gave_up_on_its_way_to_the_generation_that_gathers_breaks_it() -> None:
    record = Record(3, 5, (Outcome(4, PASSED, ("c", "d", "e")),))
    came_late = (*parties("a", 4), *parties("c", 4), *parties("b"))
    broken = Record(3, 6, (Outcome(4, PASSED, ("c", "", "")), Outcome(5, GONE, ("b", "a"))))
    assert come(record, 3, came_late, GivenUp(frozenset("a"))) == broken
    assert come(broken, 3, came_late, GivenUp(frozenset("a"))) == broken, "one generation is enough"
    assert come(record, 3, came_late, GivenUp(frozenset("c"))) == record


def test_one_that_its_client_gave_up_and_that_may_come_to_stand_yet_breaks_its_generation() -> None:
    record = Record(3, 5)
    given_up = GivenUp(frozenset({"a"}), frozenset({4, 5}))
    assert come(record, 3, parties("b"), given_up) == Record(3, 6, (Outcome(5, GONE, ("b",)),))
    assert come(record, 3, (), given_up) == Record(3, 6)
    assert come(Record(3, 6), 3, parties("b", 6), given_up) == Record(3, 6)


def test_a_party_waits_until_as_many_stand() -> None:
    record = Record(3, 5)
    assert decide(record, parties("ab"), "a", NOBODY, over=False) == Waits(frozenset("ab"))
    passed = Decides(Record(3, 6, (Outcome(5, PASSED, ("a", "b", "c")),)))
    for me in "abcd":
        assert decide(record, parties("abcd"), me, NOBODY, over=False) == passed
        assert decide(record, parties("abcd"), me, frozenset("ax"), over=True) == passed


def test_only_parties_that_say_that_they_are_of_the_generation_count() -> None:
    record = Record(2, 5, (Outcome(4, PASSED, ("c",)),))
    others = (
        party("b", 4),
        party("c", 5),
        party("d", "x"),
        party("e", ""),
        Contender("f", "f", "W", data=b"5"),
        party("g", "5" * 5000),
        party("h", -5),
    )
    assert decide(record, (party("a"), *others), "a", NOBODY, over=False) == Waits(frozenset("a"))


def test_one_that_was_seen_and_is_gone_breaks_it() -> None:
    broken = Decides(Record(3, 6, (Outcome(5, GONE, ("a",)),)))
    assert decide(Record(3, 5), parties("a"), "a", frozenset("ab"), over=False) == broken
    assert decide(Record(3, 5), parties("a"), "a", frozenset("ab"), over=True) == broken
    assert give_up(Record(3, 5), parties("a")) == broken.record


def test_one_whose_time_is_over_breaks_it() -> None:
    broken = Decides(Record(3, 6, (Outcome(5, TIMED_OUT, ("a", "b")),)))
    assert decide(Record(3, 5), parties("ab"), "b", frozenset("ab"), over=True) == broken


@pytest.mark.parametrize("word", [PASSED, TIMED_OUT, GONE])
@pytest.mark.parametrize("over", [False, True])
def test_what_was_decided_for_a_party_counts_before_all_else(word: str, over: bool) -> None:
    outcome = Outcome(3, word, ("x", "a"))
    record = Record(2, 5, (Outcome(2, PASSED, ("y",)), outcome))
    assert named(record, "z") is None
    for standing in ((), parties("ab")):
        assert decide(record, standing, "a", frozenset("q"), over=over) == Named(outcome, 1)


def test_one_without_which_it_was_decided_is_behind() -> None:
    assert decide(Record(2, 6), parties("ab", 5), "a", NOBODY, over=False) == Behind()


def test_one_that_does_not_stand_is_missing() -> None:
    assert decide(Record(2, 5), parties("b"), "a", NOBODY, over=False) == Missing()


def test_outcomes_are_kept_while_one_that_they_name_stands_at_the_same_places() -> None:
    record = Record(2, 5, (Outcome(3, PASSED, ("x", "y")), Outcome(4, PASSED, ("c", "d"))))
    standing = (*parties("d", 4), *parties("ab"))
    step = decide(record, standing, "a", NOBODY, over=False)
    assert step == Decides(Record(2, 6, (Outcome(4, PASSED, ("", "d")), Outcome(5, PASSED, ("a", "b")))))


def test_an_outcome_for_nobody_is_not_written() -> None:
    assert give_up(Record(2, 5), ()) == Record(2, 6)


def test_those_inside_are_those_that_entered_together_and_do_not_leave() -> None:
    standing = (party("a"), party("b", mark=LEAVING), party("c", 6))
    assert inside(("a", "b", ""), standing) == 1
    assert inside(("b",), standing) == inside((), standing) == 0
