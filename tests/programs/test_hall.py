"""Readers and writers by the real program, against the definition of the recipe."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes._contract.rule import Nearest, Rule
from recipes._rules.exclusive import EXCLUSIVE, WRITER
from recipes._rules.readwrite import SHARED
from tests.programs.hall import Guest, Hall

RULES = {"R": SHARED, "W": WRITER, "L": EXCLUSIVE}
many = settings(max_examples=300)
STEPS = st.lists(st.tuples(st.sampled_from("RRWL---d"), st.integers(0, 99)), max_size=40)

CHEAP = st.sampled_from([0, 3, 99])


def step(hall: Hall, what: str, which: int) -> list[Guest]:
    """Have somebody come (R, W, L), go (-) or downgrade (d); returns who heard of it."""
    if what in RULES:
        hall.come(RULES[what])
        return []
    able = [one for one in hall.guests.values() if what == "-" or (one.granted and one.rule.kind == "W")]
    if not able:
        return []
    one = able[which % len(able)]
    return hall.go(one) if what == "-" else hall.downgrade(one)


def unfair(hall: Hall) -> list[str]:
    """Return who is granted and not free, or free and not granted."""
    free = list(hall.free())
    return [one.name for one in hall.guests.values() if one.granted != (one in free)]


@many
@given(STEPS, CHEAP)
def test_at_every_step_exactly_those_are_granted_that_hold_by_the_rules(
    steps: list[tuple[str, int]], cheap: int
) -> None:
    """And so nobody waits for an event that it does not watch for: nothing is ever read again in time."""
    hall = Hall(cheap)
    for what, which in steps:
        step(hall, what, which)
        assert unfair(hall) == [], [one.ref for one in hall.queue]


@many
@given(STEPS, CHEAP)
def test_a_release_or_a_downgrade_wakes_no_herd(steps: list[tuple[str, int]], cheap: int) -> None:
    """Beside those whom it grants, at most two others hear of it, and no reader is among them."""
    hall = Hall(cheap)
    for what, which in steps:
        held = {one for one in hall.guests.values() if one.granted}
        heard = step(hall, what, which)
        if what == "-" and held <= set(hall.guests.values()):
            continue  # somebody gave up: whoever watched for it has to watch for another
        waiting = [one for one in heard if not one.granted]
        assert len(waiting) <= 2, [one.name for one in waiting]
        assert not any(one.rule is SHARED for one in waiting)


@given(st.integers(1, 9), st.randoms(), CHEAP)
def test_a_writer_behind_readers_looks_no_more_often_than_there_are_readers(
    readers: int, chance: random.Random, cheap: int
) -> None:
    hall = Hall(cheap)
    crowd = [hall.come(SHARED) for _ in range(readers)]
    writer = hall.come(WRITER)
    chance.shuffle(crowd)
    for guest in crowd:
        assert not writer.granted
        hall.go(guest)
    assert writer.granted
    assert writer.looks <= readers


def test_a_downgrade_grants_the_run_of_readers_behind_it() -> None:
    hall = Hall()
    holder = hall.come(WRITER)
    run = [hall.come(SHARED) for _ in range(3)]
    hall.come(WRITER)
    late = [hall.come(SHARED) for _ in range(3)]
    assert hall.downgrade(holder) == run
    assert all(guest.granted for guest in run)
    assert not any(guest.granted for guest in late)
    assert hall.come(SHARED).granted is False


BROKEN = {
    "a writer sees through readers": Rule("W", lambda ahead: tuple(o for o in ahead if not o.shared)[:1]),
    "a writer takes a downgrade for the end": Rule(
        "W", lambda ahead: () if ahead[:1] and ahead[0].downgraded else ahead[:1]
    ),
    "a reader misses the downgrade": Rule("R", Nearest(), exclusive_only=True, steps_up=False),
    "a reader sees through writers": Rule("R", lambda ahead: (), exclusive_only=True),
    "a reader overtakes a writer that waits": Rule("R", lambda ahead: ahead[1:2], exclusive_only=True),
}
HISTORIES = ["RW", "WW", "WdW", "WRd", "WWR-", "RRRWW---", "WRWR--d"]


@pytest.mark.parametrize("rule", BROKEN.values(), ids=BROKEN)
def test_a_broken_order_is_found(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above stand on: a short history shows each of these."""
    monkeypatch.setitem(RULES, rule.kind, rule)
    assert any(shows(history) for history in HISTORIES)
    monkeypatch.undo()
    assert not any(shows(history) for history in HISTORIES)


def shows(history: str) -> bool:
    hall = Hall()
    return any([step(hall, what, 0), unfair(hall)][1] for what in history)
