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
    assert faults(played(kinds, random.Random(seed))) == []


@given(KINDS, st.integers(), st.data())
def test_whoever_is_granted_too_early_is_found(kinds: list[str], seed: int, data: st.DataObject) -> None:
    visits = played(kinds, random.Random(seed))
    late = data.draw(st.integers(1, len(visits) - 1))
    visit = visits[late]
    ends = [one.released if visit.writes else one.exclusive_until for one in visits[:late]]
    if max(ends) > 0:  # somebody was in its way
        visits[late] = replace(visit, granted=max(ends) - 0.001)
        assert faults(visits)
