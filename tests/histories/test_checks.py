"""A checker that cannot fail proves nothing: each fault is planted once, and found."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories.checks import Visit, faults

W1 = Visit(True, 10, asked=0, granted=1, released=3)
R2 = Visit(False, 20, asked=0.5, granted=3.5, released=6)
R3 = Visit(False, 30, asked=2, granted=4, released=5)
W4 = Visit(True, 40, asked=2.5, granted=7, released=9, downgraded=8)
R5 = Visit(False, 50, asked=4, granted=8.5, released=10)
W6 = Visit(True, 60, asked=4.5, granted=11, released=12)
RIGHT = [W1, R2, R3, W4, R5, W6]


def with_(changed: Visit, *others: Visit) -> list[Visit]:
    """The right history, with some visits in place of those of the same token."""
    new = {visit.token: visit for visit in (changed, *others)}
    return [new.get(visit.token, visit) for visit in RIGHT]


def test_a_right_history() -> None:
    assert faults(RIGHT) == []
    assert faults(reversed(RIGHT)) == []
    assert faults([]) == []


@pytest.mark.parametrize(
    ("visits", "found"),
    [
        (with_(replace(W1, released=4)), "a reader beside"),
        (with_(replace(R2, granted=2.9)), "a reader beside"),
        (with_(replace(R3, released=7.1)), "a writer beside"),
        (with_(replace(R2, released=7.1)), "a writer beside"),  # a long reader, and not the nearest
        (with_(replace(W6, granted=9.5)), "a writer beside"),
        (with_(replace(W6, granted=8.9)), "a writer beside"),  # of one that only downgraded
        (with_(replace(R5, granted=7.9)), "a reader beside"),  # before the downgrade
        (with_(replace(W4, downgraded=None)), "a reader beside"),
        (with_(replace(W4, granted=0.1, released=0.2, asked=0, downgraded=None)), "a writer beside"),
        (with_(replace(R3, granted=0.5, released=0.9, asked=0)), "a reader beside"),  # overtook a writer
        ([*RIGHT, replace(R3, asked=3)], "one token for two"),
        (with_(replace(R5, asked=11.5, granted=12, released=13)), "an old token"),
        ([*with_(replace(R3, asked=3.6)), replace(R2, token=35)], "an old token"),
        ([W1, Visit(True, 9, asked=3.5, granted=4, released=5)], "an old token"),
    ],
)
def test_a_fault_is_found(visits: list[Visit], found: str) -> None:
    assert any(found in fault for fault in faults(visits)), faults(visits)


BESIDE = [
    (with_(replace(W1, released=4)), "a reader beside"),
    (with_(replace(W1, released=3.6)), "a reader beside"),
    (with_(replace(R2, granted=2.9)), "a reader beside"),
    (with_(replace(R2, granted=1.1, released=2.9)), "a reader beside"),
    (with_(replace(R2, released=7.1)), "a writer beside"),
    (with_(replace(R3, released=7.1)), "a writer beside"),
    (with_(replace(R3, released=100)), "a writer beside"),
    (with_(replace(W4, granted=5.5)), "a writer beside"),
    (with_(replace(W4, downgraded=None)), "a reader beside"),
    (with_(replace(W4, downgraded=8.6)), "a reader beside"),
    (with_(replace(W4, downgraded=20)), "a reader beside"),
    (with_(replace(W4, released=11.5)), "a writer beside"),  # it only downgraded
    (with_(replace(R5, granted=7.9)), "a reader beside"),  # before the downgrade
    (with_(replace(R5, released=11.1)), "a writer beside"),
    (with_(replace(W6, granted=9.5)), "a writer beside"),
    (with_(replace(W6, granted=8.9)), "a writer beside"),
    (with_(replace(W6, granted=0.9, asked=0, released=12)), "beside another"),
    ([*RIGHT, Visit(True, 70, asked=5, granted=1.5, released=1.6)], "a writer beside"),
    ([*RIGHT, Visit(False, 70, asked=5, granted=11.5, released=11.6)], "a reader beside"),
    ([W1, replace(W1, token=11)], "a writer beside"),
    ([*RIGHT, replace(R3, asked=3)], "one token for two"),
    ([*RIGHT, Visit(True, 60, asked=20, granted=21, released=22)], "one token for two"),
    (with_(replace(R5, asked=11.5, granted=12.5, released=13)), "an old token"),
    ([*with_(replace(R3, asked=3.6)), replace(R2, token=35)], "an old token"),
    ([W1, Visit(True, 9, asked=3.5, granted=4, released=5)], "an old token"),
    ([*RIGHT, Visit(True, 55, asked=13, granted=14, released=15)], "an old token"),
]


@pytest.mark.parametrize(("visits", "found"), BESIDE)
def test_a_fault_is_found_whatever_the_order_of_arrival(visits: list[Visit], found: str) -> None:
    assert len(BESIDE) >= 20
    assert any(found in fault for fault in faults(visits, fifo=False)), faults(visits, fifo=False)


def test_whoever_comes_later_may_be_first_where_order_is_not_promised() -> None:
    overtaken = [W1, Visit(True, 15, asked=0.2, granted=0.3, released=0.9)]
    assert faults(overtaken)
    assert faults(overtaken, fifo=False) == []
    assert faults(RIGHT, fifo=False) == []


def test_a_grant_that_was_never_seen_to_be_held_is_in_nobodys_way() -> None:
    assert faults([W1, replace(W1, token=11, granted=2, released=0)], fifo=False) == []


KINDS = st.lists(st.sampled_from("RWD"), min_size=2, max_size=12)  # D: a writer that downgrades


def played(kinds: Iterable[str], chance: random.Random) -> list[Visit]:
    """What a fair lock would grant to these, all there from the start."""
    visits: list[Visit] = []
    for token, kind in enumerate(kinds, 1):
        free = [one.exclusive_until if kind == "R" else one.released for one in visits]
        granted = max([0.0, *free]) + chance.random() + 0.01
        downgraded = granted + chance.random() if kind == "D" else None
        released = (downgraded or granted) + chance.random() + 0.01
        visits.append(Visit(kind != "R", token, 0.0, granted, released, downgraded))
    return visits


@given(KINDS, st.integers())
def test_what_a_fair_lock_grants_is_right(kinds: list[str], seed: int) -> None:
    for fifo in (True, False):
        assert faults(played(kinds, random.Random(seed)), fifo=fifo) == []


@given(KINDS, st.integers(), st.data())
def test_whoever_is_granted_too_early_is_found(kinds: list[str], seed: int, data: st.DataObject) -> None:
    visits = played(kinds, random.Random(seed))
    late = data.draw(st.integers(1, len(visits) - 1))
    visit = visits[late]
    ends = [one.released if visit.writes else one.exclusive_until for one in visits[:late]]
    if max(ends) > 0:  # somebody was in its way
        visits[late] = replace(visit, granted=max(ends) - 0.001)
        assert faults(visits)
