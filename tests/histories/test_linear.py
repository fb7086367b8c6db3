"""The search refuses what no lock and no register does, and agrees with trying everything."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories.everything import by_trying_everything
from tests.histories.linear import UNKNOWN, Model, Operation, Undecided, linearizable
from tests.histories.models import Lock, ReadWriteLock, Register

NAMES = {"a": "acquire", "w": "write", "r": "read", "d": "downgrade", "x": "release", "u": "update"}
LOCK, RW, REGISTER = Lock(), ReadWriteLock(), Register(0)


def history(text: str) -> list[Operation]:
    """Read ``a1@0-2 x1@3-?``: token 1 acquired between 0 and 2, released at 3 or later, or never."""
    found = []
    for name, value, called, returned in re.findall(r"([awrdxu])([\d>]+)@([\d.]+)-([\d.]+|\?)", text):
        old, _, new = value.partition(">")
        found.append(
            Operation(
                NAMES[name],
                (int(old), int(new)) if new else int(old),
                float(called),
                UNKNOWN if returned == "?" else float(returned),
            )
        )
    assert len(found) == len(text.split())
    return found


LEGAL = [
    (LOCK, ""),
    (LOCK, "a1@0-1 x1@2-3 a2@0-4 x2@5-6"),
    (LOCK, "a1@0-9 x1@1-9 a2@0-9 x2@1-9"),  # all at once
    (LOCK, "a1@0-1 x1@2-? a2@3-4"),  # released, and nobody knows when
    (LOCK, "a1@0-? a2@1-2 x2@3-4"),  # a killed client's acquire that never happened
    (LOCK, "a1@0-? x1@1-? a2@1-2 x2@3-4"),  # or did
    (LOCK, "a2@0-1 x2@2-3 a1@0-0.5 x1@0.6-1.5"),
    (RW, "r1@0-1 r2@0-1 x1@2-3 x2@2-3 w3@0-4 x3@5-6"),
    (RW, "w1@0-1 d1@2-3 r2@0-4 x1@5-6 x2@5-6 w3@0-7"),
    (RW, "w1@0-1 d1@2-? r2@0-4 x1@5-6"),  # the reader was let in by a downgrade that nobody confirmed
    (RW, "r2@0-1 r1@0-1.5 x1@2-3 x2@2-3 w3@4-5"),  # readers in any order
    (RW, "w1@0-1 x1@2-3 r3@0-4 r2@0-5 x2@6-7 x3@6-7"),
    (REGISTER, "w1@0-1 r1@2-3 w2@2-4 r1@3-5 r2@4-6"),
    (REGISTER, "r1@0-2 w1@1-3"),
    (REGISTER, "w1@0-? r0@1-2 r1@3-4"),
    (REGISTER, "w1@0-? r0@1-2 r0@3-4"),
    (REGISTER, "u0>1@0-5 u1>2@0-5 u2>3@0-5 r3@6-7"),
    (REGISTER, "u0>1@0-1 u1>2@2-? u1>2@3-4 r2@5-6"),
]

ILLEGAL = [
    (LOCK, "a1@0-1 a2@2-3"),  # two hold
    (LOCK, "a1@0-1 a2@2-3 x1@4-5 x2@4-5"),  # the second before the first was through
    (LOCK, "a1@0-1 x1@2-3 x1@4-5"),  # released twice
    (LOCK, "x1@0-1"),  # never acquired
    (LOCK, "a1@0-1 x2@2-3"),  # somebody else's
    (LOCK, "a2@0-1 x2@2-3 a1@4-5"),  # an old token
    (LOCK, "a1@0-1 x1@2-3 a1@4-5"),  # a token twice
    (LOCK, "x1@0-1 a1@2-3"),  # released before it was acquired
    (LOCK, "a1@0-1 x1@2-? a2@1.5-1.8"),  # granted before the release was even called
    (LOCK, "a1@0-1 a2@0-1"),
    (LOCK, "a1@0-1 x1@2-3 a2@1-4 a3@1-4"),
    (LOCK, "a1@0-1 x1@5-? a2@2-3 x2@3-4"),
    (LOCK, "a1@0-2 x1@5-6 a2@3-4 x2@7-8"),  # two overlap a little
    (LOCK, "a1@0-1 x1@8-9 a2@2-3 x2@4-5"),  # one within the other
    (LOCK, "a1@0-1 x1@6-7 a2@2-? x2@4-5"),  # within, by an acquire that nobody saw return
    (LOCK, "a1@0-1 a2@2-3 x2@4-5 a3@6-7 x3@8-9"),  # the first never leaves
    (LOCK, "a1@0-1 x1@2-3 a3@4-5 x3@6-7 a2@8-9"),  # an old token after a newer one
    (LOCK, "a3@0-1 x3@2-? a2@4-5"),
    (LOCK, "a1@0-1 x1@2-3 a2@4-5 x1@6-7 x2@8-9"),  # a former holder releases again
    (LOCK, "a1@0-? x1@2-3 a2@2.5-4 a3@5-6"),  # two, after one that ended well
    (LOCK, "r1@0-1"),  # no operation of a lock
    (RW, "w1@0-1 r2@2-3"),  # a reader beside a writer
    (RW, "r1@0-1 w2@2-3"),  # a writer beside a reader
    (RW, "w1@0-1 w2@2-3"),
    (RW, "w1@0-1 r2@1.5-1.8 d1@2-3"),  # before the downgrade
    (RW, "w1@0-1 d1@2-3 w2@4-5"),  # a writer beside one that downgraded
    (RW, "w1@0-1 d1@2-3 x1@4-5 x1@6-7"),
    (RW, "r1@0-1 d1@2-3"),  # a reader cannot downgrade
    (RW, "w1@0-1 d1@2-3 d1@4-5"),
    (RW, "w2@0-1 x2@2-3 r1@4-5"),  # a reader with a token older than a writer's
    (RW, "r2@0-1 x2@2-3 w1@4-5"),
    (RW, "r1@0-1 r2@0-1 x1@2-3 w3@2-4 x2@5-6"),  # one reader is still there
    (RW, "r1@0-1 r1@2-3"),
    (RW, "r1@0-1 x2@2-3"),
    (RW, "r1@0-1 x1@6-7 w2@2-3 x2@4-5"),  # a writer within a reader
    (RW, "w1@0-1 x1@6-7 r2@2-3 x2@4-5"),  # a reader within a writer
    (RW, "r1@0-1 r2@0-1 w3@2-3 x1@4-5 x2@4-5"),  # two readers still there
    (RW, "w1@0-1 d1@5-6 r2@2-3 x2@7-8"),  # a reader long before the downgrade
    (RW, "w1@0-1 d1@2-3 r2@2-4 x1@5-6 w3@5-7"),  # a writer beside the reader that a downgrade let in
    (RW, "w1@0-1 x1@2-3 d1@4-5"),  # downgraded after it left
    (RW, "w1@0-1 d1@2-? w2@4-5"),  # whether or not it downgraded
    (RW, "r1@0-1 x1@2-3 w1@4-5"),  # a token twice
    (REGISTER, "r1@0-1"),  # nobody wrote it
    (REGISTER, "w1@0-1 r0@2-3"),  # a stale read
    (REGISTER, "w1@0-1 w2@2-3 r1@4-5"),
    (REGISTER, "w1@0-9 r1@1-2 r0@3-4"),  # seen, and then not
    (REGISTER, "r1@0-1 w1@2-3"),  # read before it was written
    (REGISTER, "w1@0-? r1@1-2 r0@3-4"),
    (REGISTER, "u0>1@0-1 u0>1@2-3"),  # a lost update
    (REGISTER, "u0>1@0-5 u0>1@0-5"),
    (REGISTER, "u0>1@0-1 u1>2@2-3 r1@4-5"),
    (REGISTER, "u0>1@0-1 u2>3@2-3"),
    (REGISTER, "w1@0-4 w2@0-4 r1@5-6 r2@7-8 r1@9-10"),
    (REGISTER, "w1@0-1 w2@2-? r2@3-4 r1@5-6"),  # an unseen write that was seen, and then not
    (REGISTER, "w1@0-1 r1@2-3 w1@2-? r0@4-5"),
    (REGISTER, "w1@0-3 r0@4-5"),
    (REGISTER, "w1@0-9 w2@0-9 r1@1-2 r2@3-4 r1@5-6"),  # back and forth, with one write of each
    (REGISTER, "u0>1@0-1 u1>2@2-? r2@3-4 r1@5-6"),
    (REGISTER, "u0>1@0-1 u0>2@0-? r2@2-3"),  # from a value that was overwritten
    (REGISTER, "u1>2@0-1 u0>1@2-3"),  # in the wrong order
    (REGISTER, "u0>1@0-1 w5@2-3 u1>2@4-5"),  # an update of what somebody overwrote
    (REGISTER, "d1@0-1"),
]


def test_there_are_enough() -> None:
    assert len(set(ILLEGAL)) == len(ILLEGAL)
    for model in (LOCK, RW, REGISTER):
        assert sum(one is model for one, _ in ILLEGAL) >= 20


@pytest.mark.parametrize(("model", "text"), LEGAL)
def test_a_legal_history(model: Model, text: str) -> None:
    assert linearizable(model, history(text))
    assert linearizable(model, reversed(history(text)))


@pytest.mark.parametrize(("model", "text"), ILLEGAL)
def test_an_illegal_history(model: Model, text: str) -> None:
    assert not linearizable(model, history(text))
    assert not linearizable(model, reversed(history(text)))


def test_too_many_ways_are_not_taken_for_an_answer() -> None:
    crowd = [Operation("write", value, 0, 10) for value in range(12)]
    with pytest.raises(Undecided, match="13 operations"):
        linearizable(REGISTER, [*crowd, Operation("read", 99, 11, 12)], limit=500)


def test_a_long_history_takes_no_time() -> None:
    turns = range(1, 1500)
    grants = [Operation("acquire", token, 0, token) for token in turns]  # all wait from the start
    assert linearizable(
        LOCK, grants + [Operation("release", token, token + 0.2, token + 0.3) for token in turns]
    )


@st.composite
def operations(draw: st.DrawFn, names: list[tuple[str, object]]) -> list[Operation]:
    found = []
    for _ in range(draw(st.integers(1, 5))):
        what, value = draw(st.sampled_from(names))
        called = draw(st.integers(0, 8))
        returned = draw(st.one_of(st.just(UNKNOWN), st.integers(called, 9)))
        found.append(Operation(what, value, called, returned))  # type: ignore[arg-type]
    return found


OF_LOCK = [(what, token) for what in ("acquire", "release") for token in (1, 2, 3)]
OF_RW = [(what, token) for what in ("write", "read", "downgrade", "release") for token in (1, 2)]
OF_REGISTER = [("read", 0), ("read", 1), ("write", 1), ("write", 2), ("update", (0, 1)), ("update", (1, 2))]


@settings(max_examples=100, deadline=None)
@given(operations(OF_LOCK))
def test_the_search_agrees_with_trying_everything_on_a_lock(drawn: list[Operation]) -> None:
    assert linearizable(LOCK, drawn) == by_trying_everything(LOCK, drawn)


@settings(max_examples=100, deadline=None)
@given(operations(OF_RW))
def test_the_search_agrees_with_trying_everything_on_a_read_write_lock(drawn: list[Operation]) -> None:
    assert linearizable(RW, drawn) == by_trying_everything(RW, drawn)


@settings(max_examples=100, deadline=None)
@given(operations(OF_REGISTER))
def test_the_search_agrees_with_trying_everything_on_a_register(drawn: list[Operation]) -> None:
    assert linearizable(REGISTER, drawn) == by_trying_everything(REGISTER, drawn)


def played(kinds: list[str], gaps: list[float]) -> list[Operation]:
    """What a read-write lock does that lets one in after the other, each waiting since the start."""
    return list(_turns(kinds, itertools.cycle(gaps)))


def _turns(kinds: list[str], gaps: Iterator[float]) -> Iterator[Operation]:
    now = 0.0
    for token, kind in enumerate(kinds, 1):
        now += next(gaps)
        yield Operation("read" if kind == "R" else "write", token, 0.0, now)
        if kind == "D":
            yield Operation("downgrade", token, now, now + next(gaps))
            now += 10
        yield Operation("release", token, now + 1, now + 1 + next(gaps))
        now += 2


GAPS = st.lists(st.floats(0.01, 0.9), min_size=3, max_size=7)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("WRD"), min_size=2, max_size=9), GAPS)
def test_what_a_fair_lock_does_is_legal(kinds: list[str], gaps: list[float]) -> None:
    assert linearizable(RW, played(kinds, gaps))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("WRD"), min_size=2, max_size=9), GAPS, st.data())
def test_a_legal_history_that_was_tampered_with_is_refused(
    kinds: list[str], gaps: list[float], data: st.DataObject
) -> None:
    good = played(kinds, gaps)
    end = max(one.returned for one in good)
    token = data.draw(st.integers(1, len(kinds)))
    (released,) = [one for one in good if one.what == "release" and one.value == token]
    rest = [one for one in good if one is not released]
    how = data.draw(st.sampled_from(["twice", "a stranger's", "a writer in the middle", "late"]))
    if how == "twice":
        bad = [*good, Operation("release", token, end + 1, end + 2)]
    elif how == "a stranger's":
        bad = [*rest, Operation("release", 99, released.called, released.returned)]
    elif how == "late" and token < len(kinds) and "W" in kinds[token:]:
        bad = [*rest, Operation("release", token, end + 1, end + 2)]  # while a later writer held
    else:
        (granted,) = [one for one in good if one.value == token and one.what in ("read", "write")]
        bad = [*good, Operation("write", 99, granted.returned, released.called - 0.1)]
        bad += [Operation("release", 99, end + 1, end + 2)]
    assert not linearizable(RW, bad)
