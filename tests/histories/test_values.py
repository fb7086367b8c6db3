"""The search refuses what no value and no counter does, and agrees with trying everything."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories.everything import by_trying_everything
from tests.histories.linear import UNKNOWN, Model, Operation, linearizable
from tests.histories.models import Counter, Guarded, Value

VALUE, GUARDED, COUNTER = Value(), Guarded(), Counter(0)
NAMES = {"s": "set", "g": "get", "i": "set_if", "d": "delete", "t": "grant", "+": "add"}
DONE = {"+": True, "-": False, "?": True}
WRITTEN = re.compile(
    r"(?P<what>[sgidt+])(?P<data>[A-Z]?)(?P<first>(?:-?\d+)?)(?:[>=](?P<second>-?\d+))?(?P<done>[-+?]?)"
    r"@(?P<called>[\d.]+)-(?P<returned>[\d.]+|\?)"
)


def history(model: Model, text: str) -> list[Operation]:
    """Read a history.

    Of a value: ``sA`` sets A, ``gA7`` gets A with version 7, ``g`` finds none, ``iB7+`` sets B where
    version 7 is, ``iB7-`` finds another, ``d+`` deletes, ``d7-`` finds that version 7 is not there. Under a
    grant: ``t5`` is granted 5, ``sA5`` sets A under it. Of a counter: ``+2=5`` adds 2 which makes 5, ``g5``
    finds 5, ``i5>7+`` sets 7 where 5 is. ``?`` for an answer: none came. Then from when to when, or ``?`` if
    it was never seen to return.
    """
    found = []
    for one in text.split():
        read = WRITTEN.fullmatch(one)
        assert read is not None, one
        returned = UNKNOWN if read["returned"] == "?" else float(read["returned"])
        value = _of_counter(read) if isinstance(model, Counter) else _of_value(read)
        found.append(Operation(NAMES[read["what"]], value, float(read["called"]), returned))
    return found


def _of_value(read: re.Match[str]) -> object:
    version = int(read["first"]) if read["first"] else None
    match read["what"]:
        case "g":
            return (read["data"], version) if read["data"] else None
        case "s":
            return read["data"] if version is None else (read["data"], version)
        case "i":
            return read["data"], version, DONE[read["done"]]
        case "d":
            return version, DONE[read["done"]]
    return version


def _of_counter(read: re.Match[str]) -> object:
    first, second = int(read["first"]), int(read["second"]) if read["second"] else None
    match read["what"]:
        case "+":
            return first, second
        case "i":
            return second, first, DONE[read["done"]]
    return first


LEGAL = [
    (VALUE, ""),
    (VALUE, "g@0-1 sA@2-3 gA1@4-5 gA1@6-7"),
    (VALUE, "sA@0-1 gA9@2-3 sB@4-5 gB12@6-7"),  # versions rise, by how much is the store's
    (VALUE, "sA@0-9 g@1-2 gA1@3-4"),
    (VALUE, "sA@0-9 sB@0-9 gB1@1-2 gA2@3-4"),  # the later one was written last
    (VALUE, "sA@0-1 gA1@2-3 iB1+@4-5 gB2@6-7"),
    (VALUE, "sA@0-1 gA1@2-3 iB1+@4-9 iC1-@4-9 gB2@10-11"),  # one of two wins
    (VALUE, "iA0+@0-1 iB0-@2-3 gA4@4-5"),  # there must be none
    (VALUE, "sA@0-1 gA1@2-3 d+@4-5 g@6-7 d-@8-9"),
    (VALUE, "sA@0-1 gA1@2-3 d1+@4-5 iB0+@6-7 gB3@8-9 d1-@10-11"),
    (VALUE, "d5-@0-1 iA5-@2-3"),
    (VALUE, "sA@0-? g@1-2 gA1@3-4"),  # a write with no answer that was done later
    (VALUE, "sA@0-? g@1-2 g@3-4"),  # or never
    (VALUE, "sA@0-1 gA1@2-3 iB1?@4-? gA1@5-6 gB2@7-8"),
    (VALUE, "sA@0-1 gA1@2-3 iB1?@4-? iC1+@5-6 gC2@7-8"),  # it was not done, and cannot be any more
    (VALUE, "sA@0-1 gA1@2-3 d?@4-? g@5-6"),
    (VALUE, "sA@0-1 iB1-@2-3 gA2@4-5"),  # version 1 was another's
    (GUARDED, "t1@0-1 sA1@2-3 gA1@4-5 t2@6-7 gA1@8-9 sB2@10-11 gB2@12-13"),
    (GUARDED, "t1@0-1 sA1@2-? t2@3-4 g@5-6 sB2@7-8 gB1@9-10"),  # refused, and nobody heard
    (GUARDED, "t1@0-1 sA1@2-9 t2@3-4 gA1@5-6"),  # done in time, and slow to say so
    (COUNTER, "+1=1@0-1 +1=2@2-3 g2@4-5"),
    (COUNTER, "+1=2@0-5 +1=1@0-5 +1=3@0-5"),
    (COUNTER, "+1@0-? +1=1@1-2 g1@3-4 g2@5-6"),  # with no answer, and done late
    (COUNTER, "+1@0-? +1=1@1-2 g1@3-4"),
    (COUNTER, "+1@0-? +1@0-? +1=3@1-2"),
    (COUNTER, "+-3=-3@0-1 g-3@2-3"),
    (COUNTER, "i0>7+@0-1 i0>8-@2-3 +1=8@4-5"),
    (COUNTER, "i0>7?@0-? g0@1-2 +1=8@3-4"),
]

ILLEGAL = [
    (VALUE, "gA1@0-1"),  # nobody wrote it
    (VALUE, "sA@0-1 g@2-3"),  # lost
    (VALUE, "sA@0-1 sB@2-3 gA1@4-5"),  # stale
    (VALUE, "sA@0-9 gA1@1-2 g@3-4"),  # seen, and then not
    (VALUE, "gA1@0-1 sA@2-3"),  # read before it was written
    (VALUE, "sA@0-1 gA5@2-3 gA6@4-5"),  # a version that changes by itself
    (VALUE, "sA@0-1 gA5@2-3 sB@4-5 gB5@6-7"),  # two writes with one version
    (VALUE, "sA@0-1 gA5@2-3 sB@4-5 gB4@6-7"),  # a version that falls
    (VALUE, "sA@0-1 gA5@2-3 d+@4-5 sB@6-7 gB5@8-9"),  # a version that begins again after a delete
    (VALUE, "sA@0-1 gA5@2-3 iB5+@4-5 iC5+@6-7"),  # both win
    (VALUE, "sA@0-1 gA5@2-3 iB5-@4-5 gA5@6-7"),  # refused though it matched
    (VALUE, "sA@0-1 gA5@2-3 iB5-@4-5 gB6@6-7"),  # refused, and done
    (VALUE, "sA@0-1 gA5@2-3 iB5+@4-5 gA5@6-7"),  # done, and lost
    (VALUE, "sA@0-1 gA5@2-3 iB4+@4-5"),  # at another version
    (VALUE, "sA@0-1 iB0+@2-3"),  # there was one
    (VALUE, "iA0-@0-1 g@2-3"),  # there was none
    (VALUE, "iA0+@0-5 iB0+@0-5"),
    (VALUE, "d+@0-1"),  # nothing to delete
    (VALUE, "sA@0-1 d-@2-3"),  # there was something
    (VALUE, "sA@0-1 d+@2-3 gA1@4-5"),  # deleted, and there
    (VALUE, "sA@0-1 d+@2-3 d+@4-5"),  # deleted twice
    (VALUE, "sA@0-1 gA1@2-3 d2+@4-5"),
    (VALUE, "sA@0-1 gA1@2-3 d1-@4-5"),
    (VALUE, "sA@0-? gA1@1-2 sB@3-4 gB2@5-6 gA3@7-8"),  # with no answer, and done twice
    (VALUE, "sA@0-1 gA1@2-3 iB1?@4-? iC1+@5-6 gB2@7-8"),  # it cannot be done any more
    (VALUE, "sA@0-1 iB1-@2-3 gA1@4-5"),  # version 1 was refused, and is there
    (GUARDED, "t1@0-1 t2@2-3 sA1@4-5"),  # written under an old grant
    (GUARDED, "t1@0-1 sA1@2-9 t2@3-4 g@5-6 gA1@7-8"),  # the write of an old holder lands after the next grant
    (GUARDED, "t1@0-1 sA1@2-? t2@3-4 sB2@5-6 gB2@7-8 gA3@9-10"),  # and so it does though nobody heard
    (GUARDED, "t2@0-1 t1@2-3"),
    (GUARDED, "sA1@0-1 t1@2-3"),  # before the grant
    (GUARDED, "t1@0-1 sA1@2-3 d+@4-5"),  # no operation of it
    (COUNTER, "g1@0-1"),
    (COUNTER, "+1=1@0-1 g0@2-3"),  # lost
    (COUNTER, "+1=2@0-1"),  # doubled
    (COUNTER, "+1=1@0-1 +1=1@2-3"),  # a lost update
    (COUNTER, "+1=1@0-5 +1=1@0-5"),
    (COUNTER, "+1=1@0-1 +1=3@2-3"),  # one that nobody asked for
    (COUNTER, "+1=2@0-1 +1=1@2-3"),  # in the wrong order
    (COUNTER, "+1=1@0-9 g1@1-2 g0@3-4"),  # seen, and then not
    (COUNTER, "g1@0-1 +1=1@2-3"),
    (COUNTER, "+1@0-? g2@1-2"),  # with no answer, and done twice
    (COUNTER, "+1@0-? g1@1-2 g0@3-4"),  # done, and then not
    (COUNTER, "+1@0-? +1=2@1-2 g3@3-4"),
    (COUNTER, "+1@5-? +1=2@0-1"),  # done before it was asked
    (COUNTER, "+2=2@0-1 g1@2-3"),  # half of it
    (COUNTER, "+-1=1@0-1"),
    (COUNTER, "i0>7+@0-1 i0>8+@2-3"),  # both win
    (COUNTER, "i0>7-@0-1 g0@2-3"),  # refused though it matched
    (COUNTER, "i1>7+@0-1"),  # done though it did not
    (COUNTER, "i0>7+@0-1 +1=1@2-3"),
    (COUNTER, "i0>7?@0-? +1=1@1-2 g7@3-4"),  # it cannot be done any more
]


def test_there_are_enough() -> None:
    texts = [(type(model), text) for model, text in ILLEGAL]
    assert len(set(texts)) == len(texts)
    assert sum(model is not COUNTER for model, _ in ILLEGAL) >= 20
    assert sum(model is COUNTER for model, _ in ILLEGAL) >= 20


@pytest.mark.parametrize(("model", "text"), LEGAL)
def test_a_legal_history(model: Model, text: str) -> None:
    assert linearizable(model, history(model, text))
    assert linearizable(model, reversed(history(model, text)))


@pytest.mark.parametrize(("model", "text"), ILLEGAL)
def test_an_illegal_history(model: Model, text: str) -> None:
    assert not linearizable(model, history(model, text))
    assert not linearizable(model, reversed(history(model, text)))


def test_another_start() -> None:
    assert linearizable(Counter(5), history(COUNTER, "g5@0-1 +1=6@2-3"))
    assert not linearizable(Counter(5), history(COUNTER, "+1=1@0-1"))


@st.composite
def operations(draw: st.DrawFn, kinds: list[tuple[str, object]]) -> list[Operation]:
    found = []
    for _ in range(draw(st.integers(1, 5))):
        what, value = draw(st.sampled_from(kinds))
        called = draw(st.integers(0, 8))
        returned = draw(st.one_of(st.just(UNKNOWN), st.integers(called, 9)))
        found.append(Operation(what, value, called, returned))  # type: ignore[arg-type]
    return found


OF_VALUE = [
    *(("get", one) for one in (None, ("A", 1), ("A", 2), ("B", 2))),
    *(("set", data) for data in "AB"),
    *(("set_if", (data, version, done)) for data in "AB" for version in (0, 1) for done in (True, False)),
    *(("delete", (version, done)) for version in (None, 1) for done in (True, False)),
]
OF_COUNTER = [
    *(("add", (1, result)) for result in (1, 2, 3, None)),
    *(("get", number) for number in range(3)),
    *(("set_if", (2, expected, done)) for expected in (0, 1) for done in (True, False)),
]


@settings(max_examples=200, deadline=None)
@given(operations(OF_VALUE))
def test_the_search_agrees_with_trying_everything_on_a_value(drawn: list[Operation]) -> None:
    assert linearizable(VALUE, drawn) == by_trying_everything(VALUE, drawn)


@settings(max_examples=200, deadline=None)
@given(operations(OF_COUNTER))
def test_the_search_agrees_with_trying_everything_on_a_counter(drawn: list[Operation]) -> None:
    assert linearizable(COUNTER, drawn) == by_trying_everything(COUNTER, drawn)


def counted(chance: random.Random, count: int) -> list[Operation]:
    """What a counter does to adds that take effect one after the other, some of them unseen."""
    found, number = [], 0
    for moment in range(count):
        called, returned = moment - 3 * chance.random(), moment + 3 * chance.random()
        step, seen = chance.randint(1, 2), chance.random() < 0.9
        done = seen or chance.random() < 0.5
        number += step * done
        found.append(
            Operation("add", (step, number if seen else None), called, returned if seen else UNKNOWN)
        )
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_long_history_of_a_counter_is_legal_until_one_answer_is_changed(seed: int) -> None:
    right = counted(random.Random(seed), 200)
    assert linearizable(COUNTER, right)
    places = [place for place, one in enumerate(right) if one.returned != UNKNOWN]
    one, other = right[places[10]], right[places[-10]]
    for wrong in (
        [*right, Operation(one.what, one.value, 300, 301)],  # the same number twice
        [*right, Operation("get", other.value[1] - 1, 300, 301)],  # type: ignore[index]
        [first for first in right if first is not one and first.returned != UNKNOWN],  # added, and not asked
    ):
        assert not linearizable(COUNTER, wrong)


def stored(chance: random.Random, count: int) -> list[Operation]:
    """What a value does to reads and writes that take effect one after the other, some of them unseen."""
    found: list[Operation] = []
    data, version, versions = "", 0, itertools.count(1)
    for moment in range(count):
        called, returned = moment - 3 * chance.random(), moment + 3 * chance.random()
        what = chance.choice(("get", "get", "set", "set_if", "delete"))
        seen = what == "get" or chance.random() < 0.9
        value: object
        if what == "get":
            value = (data, version) if version else None
        elif what == "set":
            data, version, value = f"d{moment}", next(versions), f"d{moment}"
        elif what == "set_if":
            asked = version if chance.random() < 0.6 else max(0, version - 1)
            value = (f"d{moment}", asked, asked == version or not seen)
            if asked == version:
                data, version = f"d{moment}", next(versions)
        else:
            value = (None, bool(version) or not seen)
            version = 0
        found.append(Operation(what, value, called, returned if seen else UNKNOWN))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_long_history_of_a_value_is_legal_until_one_answer_is_changed(seed: int) -> None:
    right = stored(random.Random(seed), 200)
    assert linearizable(VALUE, right)
    gets = [one for one in right if one.what == "get" and one.value is not None]
    for one in gets[:3]:
        rest = [other for other in right if other is not one]
        data, version = one.value  # type: ignore[misc]
        assert not linearizable(VALUE, [*rest, Operation("get", (data, version + 1000), *_when(one))])
        assert not linearizable(VALUE, [*rest, Operation("get", ("never written", version), *_when(one))])


def _when(one: Operation) -> tuple[float, float]:
    return one.called, one.returned
